#!/usr/bin/ruby
# frozen_string_literal: true

# Sidekiq under load: a process with five threads on three weighted queues, bulk pushes, retries, scheduled jobs, jobs
# that end in the dead set. With E2E_RELIABLE=1 its fetch is that of gitlab-sidekiq-fetcher.
#
# Sidekiq's own fetch takes a job off its list and has it in memory only, so a crash of the server loses those whose
# reply, retry or move from the schedule was under way: one for each thread and the poller at most. This driver pushes
# them again. The reliable fetch keeps them in a list of the process, which it gives back when the process is dead; with it
# there is still the poller, which takes a job out of the schedule or the retries before it pushes it. So with it only what the poller had
# under way when its connection broke may be lost, and the driver holds it to that.

require_relative "ledger"
require_relative "sidekiq_app"
require "sidekiq/api"

# Load is the jobs that were pushed and what became of them.
class Load
  THREADS = 5
  QUEUES = %w[high default low].freeze
  RETRIES = 3
  STALL_SECONDS = 10 # without progress after a crash, after which the operator steps in
  STEPS = 3 # that the operator takes at most
  CLOCK_SECONDS = 0.05 # by which a retry is told before it is due

  def initialize
    @random = Random.new(Ledger::SEED)
    @told = [] # by the workers, of their poller and of the retries
    @outcomes = Ledger::Outcomes.new { |event| @told << event }
    @jobs = {} # by task
    @dying = []
    @steps = 0
    start_worker
  end

  def run
    push_all
    await_end
    Ledger.stop(@worker)
    check_end
    Ledger.finish
  end

  private

  # start_worker starts a process and returns when it is ready.
  def start_worker
    before = processes
    queues = QUEUES.zip([3, 2, 1]).flat_map { |name, weight| ["--queue", "#{name},#{weight}"] }
    @worker = Ledger.start({}, "sidekiq", "--require", "#{Ledger::FOLDER}/sidekiq_app.rb", "--concurrency",
                           THREADS.to_s, *queues, outcomes: @outcomes)
    Ledger.wait_for("the process has a heartbeat") { (processes - before).any? }
  end

  def processes = Sidekiq::ProcessSet.new(false).map { |process| process["identity"] }

  def push_all
    while @jobs.size < Ledger::TASKS
      case @random.rand(100)
      when 0...50 then push(job)
      when 50...65 then push(job(failures: @random.rand(1..3)))
      when 65...80 then push(job(delay: @random.rand(0.1..1.5)))
      when 80...90 then push(job(failures: RETRIES + 1))
      else bulk(Array.new(10) { job })
      end
    end
  end

  def job(failures: 0, delay: nil)
    task = "sidekiq-#{@jobs.size}"
    item = { "class" => "Work", "queue" => QUEUES.sample(random: @random), "args" => [task, failures],
             "jid" => task, "retry" => RETRIES }
    item["at"] = Time.now.to_f + delay if delay
    @jobs[task] = item
  end

  def push(item)
    Ledger.persistently(*App::BROKEN) { Sidekiq::Client.push(item) unless known?(item["jid"]) }
    told(item)
  end

  def bulk(items)
    queue = items.first["queue"]
    items.each { |item| item["queue"] = queue }
    Ledger.persistently(*App::BROKEN) do
      missing = items.reject { |item| known?(item["jid"]) }
      Sidekiq::Client.push_bulk("class" => "Work", "queue" => queue, "retry" => RETRIES,
                                "args" => missing.map { |item| item["args"] })
    end
    items.each { |item| told(item) }
  end

  def told(item)
    task, failures = item["args"]
    @dying << task if failures > RETRIES
    # A crash may take an attempt before it says so: it is counted by Sidekiq, and not by us.
    Ledger.enqueued(task, dies: failures > RETRIES, fails: Ledger::KILL ? nil : failures)
  end

  # known? says whether a push whose reply was lost went through.
  def known?(task)
    @outcomes.done?(task) || (Ledger::KILL && (waiting + dead).include?(task))
  end

  # waiting lists the tasks in all places where Sidekiq keeps jobs that it will work on. A job may move while they are read: from
  # a process to the retries, from there to its queue, and to a process again, so what processes hold is read first and last.
  def waiting
    places = [Sidekiq::RetrySet.new, Sidekiq::ScheduledSet.new] + QUEUES.map { |name| Sidekiq::Queue.new(name) }
    held | places.flat_map { |place| place.map { |entry| entry.args.first } } | held
  end

  # held lists the tasks that processes with the reliable fetch have taken.
  def held
    Sidekiq.redis do |redis|
      redis.scan_each(match: "working:*").flat_map { |key| redis.lrange(key, 0, -1) }
    end.map { |text| JSON.parse(text)["args"].first }
  end

  def dead = Sidekiq::DeadSet.new.map { |entry| entry.args.first }

  # outstanding lists the tasks that have not ended, and those that will be worked on again.
  def outstanding
    gone = dead
    waiting | @jobs.keys.reject { |task| @dying.include?(task) ? gone.include?(task) : @outcomes.done?(task) }
  end

  # await_end waits until nothing is outstanding. After a crash it recovers what was lost when nothing moves.
  def await_end
    before = nil
    since = Ledger.now
    until (left = Ledger.persistently(*App::BROKEN) { outstanding }).empty?
      now = [left, @outcomes.count]
      if now != before
        before = now
        since = Ledger.now
      elsif Ledger.now - since > Ledger::PATIENCE_SECONDS
        raise "nothing moves, and these are left: #{left}"
      elsif Ledger::KILL && Ledger.now - since > STALL_SECONDS && @steps < STEPS
        @steps += 1
        lost = left - waiting
        App::RELIABLE && (@steps == 1 || lost.empty?) ? replace_worker : push_lost(lost)
        since = Ledger.now
      end
      sleep 0.1
    end
  end

  def push_lost(lost)
    most = THREADS + 1
    raise "#{lost} are lost; at most #{most} can have been on their way" if lost.size > most

    lost.each do |task|
      cause = App::RELIABLE ? cause_of(task) : "its thread or the poller"
      Ledger.note("pushed #{task} again, which was on its way: #{cause}")
      Sidekiq::Client.push(@jobs[task].except("at"))
    end
  end

  # cause_of finds what the poller had under way that explains the loss of a task. It explains no other one.
  def cause_of(task)
    due = [@jobs[task]["at"], *@told.select { |event| event["event"] == "waits" && event["id"] == task }.map { |event| event["at"] }].compact.max
    cause = @told.find { |event| event["event"] == "taken" && event["id"] == task } ||
            @told.find { |event| event["event"] == "asked" && due&.between?(event["since"] - CLOCK_SECONDS, event["before"]) }
    raise "#{task} is lost, which was due at #{due}, and no poll explains it; told: #{@told.last(20)}" unless cause

    @told.delete(cause)
    cause
  end

  # replace_worker has a new process find the jobs of the old one, at once and not when its heartbeat is too old.
  def replace_worker
    Ledger.note("replaced the worker")
    Ledger.stop(@worker)
    Sidekiq.redis { |redis| redis.scan_each(match: "reliable-fetcher-*").each { |key| redis.del(key) } }
    start_worker
  end

  def check_end
    Ledger.equal(dead.uniq.sort, @dying.sort)
    Ledger.equal(waiting, [])
    # A crash may be the last error of a dead job.
    messages = Sidekiq::DeadSet.new.map { |entry| entry["error_message"] }
    Ledger.assert(Ledger::KILL || messages.all? { |message| message.include?("meant to fail") }, messages)
    stats = Sidekiq::Stats.new
    Ledger.equal([stats.enqueued, stats.retry_size, stats.scheduled_size], [0, 0, 0])
    # The counters are written every few seconds and once more at the end; a crash may take some.
    Ledger.assert(Ledger::KILL || stats.processed >= @jobs.size, "#{stats.processed} of #{@jobs.size} processed")
    @dying.each { |task| Ledger.dead(task) }
  end
end

Load.new.run

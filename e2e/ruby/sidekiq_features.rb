#!/usr/bin/ruby
# frozen_string_literal: true

# Sidekiq's features, each as its documentation shows it, and those of its plugins; one check is one task.

require_relative "ledger"
require_relative "sidekiq_app"
require "sidekiq/api"
require "sidekiq/cli"
require "sidekiq-cron"
require "sidekiq/web"
require "rack/mock"

# with_worker runs a Sidekiq process around a block and gives it the id of the process.
def with_worker(*options, reliable: false)
  before = Sidekiq::ProcessSet.new(false).map { |process| process["identity"] }
  pid = Ledger.start({ "E2E_RELIABLE" => reliable ? "1" : "0" }, "sidekiq",
                     "--require", "#{Ledger::FOLDER}/sidekiq_app.rb", "--concurrency", "3", "--timeout", "1", *options)
  Ledger.wait_for("the process has a heartbeat") do
    (Sidekiq::ProcessSet.new(false).map { |process| process["identity"] } - before).any?
  end
  yield pid
ensure
  Ledger.stop(pid) if pid && !gone?(pid)
end

def gone?(pid)
  Process.wait(pid, Process::WNOHANG)
rescue Errno::ECHILD
  true
end

def redis(&block) = Sidekiq.redis(&block)

# emptied runs a block on a database that is empty before and after it.
def emptied
  redis(&:flushdb)
  yield
  redis(&:flushdb)
end

Ledger.check("version") do
  # sidekiq compares the server's version before it starts
  info = Sidekiq.redis_info
  Ledger.assert(Gem::Version.new(info["redis_version"]) >= Gem::Version.new("4.0.0"), info["redis_version"])
  %w[connected_clients uptime_in_days used_memory_human used_memory_peak_human].each do |field|
    Ledger.assert(info.key?(field), "INFO #{field}") # what its web interface shows
  end
  Ledger.equal(info["maxmemory_policy"], "noeviction")
end

Ledger.check("queues_and_bulk") do
  emptied do
    Note.perform_async("order", "first")
    ids = Note.perform_bulk(Array.new(2500) { |i| ["order", i] }, batch_size: 1000)
    queue = Sidekiq::Queue.new
    Ledger.equal([ids.size, queue.size, Sidekiq::Queue.all.map(&:name)], [2500, 2501, ["default"]])
    Ledger.assert(queue.latency >= 0 && queue.find_job(ids[1700]).args == ["order", 1700])
    Ledger.equal(queue.find_job(ids[3]).delete, true)
    with_worker { Ledger.wait_for("all are done") { redis { |r| r.llen("order") } == 2500 } }
    Ledger.equal(redis { |r| r.lrange("order", 0, -1) }.size, 2500)
    Note.set(queue: "other").perform_async("order", "x")
    Ledger.equal(Sidekiq::Queue.all.map(&:name), %w[default other])
    Ledger.equal([Sidekiq::Queue.new("other").clear, Sidekiq::Queue.new("other").size], [[1, true], 0])
  end
end

Ledger.check("strict_order") do
  emptied do
    2.times { |i| %w[low default high].each { |name| Note.set(queue: name).perform_async("order", "#{name}-#{i}") } }
    with_worker("--concurrency", "1", "-q", "high", "-q", "default", "-q", "low") do
      Ledger.wait_for("all are done") { redis { |r| r.llen("order") } == 6 }
    end
    Ledger.equal(redis { |r| r.lrange("order", 0, -1) }, %w[high-0 high-1 default-0 default-1 low-0 low-1])
  end
end

Ledger.check("schedule") do
  emptied do
    ids = [Note.perform_in(3600, "order", "later"), Note.perform_in(7200, "order", "much later")]
    set = Sidekiq::ScheduledSet.new
    Ledger.equal([set.size, set.map(&:jid)], [2, ids.reverse]) # the last comes first
    Ledger.equal(set.scan("much").map(&:jid), [ids[1]])
    entry = set.find_job(ids[0])
    Ledger.assert((3500..3600).cover?(entry.at - Time.now))
    entry.reschedule(Time.now + 10_000)
    Ledger.equal(set.map(&:jid), ids)
    entry = set.find_job(ids[1])
    entry.add_to_queue
    Ledger.equal([set.size, Sidekiq::Queue.new.map(&:jid)], [1, [ids[1]]])
    Note.perform_in(0.5, "order", "soon")
    with_worker { Ledger.wait_for("both are done") { redis { |r| r.llen("order") } == 2 } }
    Ledger.equal([set.fetch(set.first.score).size, set.first.delete, set.size], [1, true, 0])
  end
end

Ledger.check("retries_and_the_dead") do
  emptied do
    failing = Sidekiq::Client.push("class" => "Hold", "args" => [], "retry" => 25) # misses its argument
    once = Sidekiq::Client.push("class" => "Hold", "args" => [1, 2], "retry" => 0)
    never = Sidekiq::Client.push("class" => "Hold", "args" => [1, 2], "retry" => false)
    dead = Sidekiq::DeadSet.new
    with_worker do
      Ledger.wait_for("two have died") { dead.map(&:jid).sort == [failing, once].sort }
    end
    Ledger.equal([dead.find_job(failing)["retry_count"], dead.find_job(never)], [25, nil])
    Ledger.equal(dead.find_job(failing)["error_class"], "ArgumentError")
    dead.find_job(once).retry
    Ledger.equal([dead.size, Sidekiq::Queue.new.map(&:jid)], [1, [once]])
    Sidekiq::Queue.new.first.delete
    retries = Sidekiq::RetrySet.new
    retries.schedule(Time.now + 1000, { "class" => "Note", "args" => %w[order a], "jid" => "a", "retry" => true })
    retries.schedule(Time.now + 2000, { "class" => "Note", "args" => %w[order b], "jid" => "b", "retry" => true })
    retries.first.kill
    Ledger.equal([retries.map(&:jid), dead.map(&:jid).sort], [["a"], ["b", failing].sort]) # the last comes first
    retries.retry_all
    Ledger.equal([retries.size, Sidekiq::Queue.new.map(&:jid)], [0, ["a"]])
    dead.clear
    Ledger.equal(dead.size, 0)
  end
end

Ledger.check("heartbeat_and_stats") do
  emptied do
    with_worker do
      Hold.perform_async("go")
      Ledger.wait_for("the job runs") { redis { |r| r.llen("started") } == 1 }
      process = Sidekiq::ProcessSet.new.first
      Ledger.equal([process["concurrency"], process["queues"], process.stopping?], [3, ["default"], false])
      Ledger.wait_for("the heartbeat tells of the job") { Sidekiq::Workers.new.size == 1 }
      _, _, work = Sidekiq::Workers.new.first
      Ledger.equal([work["queue"], work["payload"].then { |it| it.is_a?(String) ? JSON.parse(it) : it }["args"]],
                   ["default", ["go"]])
      redis { |r| r.set("go", 1) }
      Ledger.wait_for("the job has ended") { redis { |r| r.llen("ended") } == 1 }
      process.quiet!
      Ledger.wait_for("the process is quiet") { Sidekiq::ProcessSet.new.first.stopping? }
      Note.perform_async("order", "waits")
      process.stop!
      Ledger.wait_for("the process has ended") { Sidekiq::ProcessSet.new.size.zero? }
    end
    stats = Sidekiq::Stats.new
    Ledger.equal([stats.processed, stats.failed, stats.enqueued, stats.processes_size], [1, 0, 1, 0])
    Ledger.equal(stats.queues, { "default" => 1 })
    Ledger.equal(Sidekiq::Stats::History.new(2).processed.values, [1, 0])
    stats.reset
    Ledger.equal(Sidekiq::Stats.new.processed, 0)
  end
end

Ledger.check("shutdown_gives_jobs_back") do
  # The time is longer than that for which idle threads wait for a job: one that still did would take it, and die.
  emptied do
    with_worker("--timeout", "4") do |pid|
      id = Hold.perform_async("never")
      Ledger.wait_for("the job runs") { redis { |r| r.llen("started") } == 1 }
      Ledger.stop(pid)
      Ledger.equal(Sidekiq::Queue.new.map(&:jid), [id])
    end
  end
end

Ledger.check("at_most_once") do
  # A process that is killed takes along what it works on, and its heartbeat stops.
  emptied do
    with_worker do |pid|
      Hold.perform_async("never")
      Ledger.wait_for("the job runs") { redis { |r| r.llen("started") } == 1 }
      Ledger.stop(pid, signal: "KILL")
      Ledger.equal(Sidekiq::Queue.new.size, 0)
      identity = redis { |r| r.smembers("processes") }.first
      Ledger.assert(redis { |r| r.ttl(identity) }.between?(1, 60))
      redis { |r| r.del(identity) } # as its time to live would, after a minute
      Ledger.equal(Sidekiq::ProcessSet.new.size, 0)
      Ledger.equal(redis { |r| r.exists?("processes") }, false)
    end
  end
end

Ledger.check("reliable_fetch") do
  # With gitlab-sidekiq-fetcher another process takes over what a killed one had.
  emptied do
    id = nil
    with_worker(reliable: true) do |pid|
      id = Hold.perform_async("go")
      Ledger.wait_for("the job runs") { redis { |r| r.llen("started") } == 1 }
      Ledger.equal(redis { |r| r.keys("working:queue:default:*").size }, 1)
      Ledger.stop(pid, signal: "KILL")
    end
    redis { |r| r.set("go", 1) && r.del(*r.keys("reliable-fetcher-*")) } # as their times to live would
    with_worker(reliable: true) do
      Ledger.wait_for("the job has ended") { redis { |r| r.llen("ended") } == 1 }
      Ledger.wait_for("it is acknowledged") { redis { |r| r.keys("working:*").empty? } }
    end
    Ledger.assert(id && Sidekiq::Queue.new.size.zero?)
  end
end

Ledger.check("web") do
  emptied do
    Note.set(queue: "shown").perform_async("order", "waits")
    Note.perform_in(3600, "order", "later")
    Sidekiq::DeadSet.new.kill(JSON.generate("class" => "Note", "args" => [], "jid" => "buried", "queue" => "shown"))
    page = lambda do |path|
      status, _, body = Sidekiq::Web.new.call(
        Rack::MockRequest.env_for(path, "rack.session" => { csrf: SecureRandom.base64(32) })
      )
      Ledger.equal(status, 200)
      body.each.to_a.join
    end
    { "/" => "Dashboard", "/busy" => "Process", "/queues" => "shown", "/queues/shown" => "waits",
      "/scheduled" => "later", "/retries" => "Retries", "/morgue" => "buried" }.each do |path, text|
      Ledger.assert(page.call(path).include?(text), "#{path} shows #{text}")
    end
    stats = JSON.parse(page.call("/stats"))
    Ledger.equal(stats["sidekiq"].values_at("enqueued", "scheduled", "dead"), [1, 1, 1])
    Ledger.equal(stats["redis"]["redis_version"], Sidekiq.redis_info["redis_version"])
  end
end

Ledger.check("cron") do
  emptied do
    job = Sidekiq::Cron::Job.new(name: "noting", cron: "*/1 * * * *", class: "Note", args: %w[order tick])
    Ledger.assert(job.save, "the job is saved")
    Ledger.equal([Sidekiq::Cron::Job.count, Sidekiq::Cron::Job.find("noting").status], [1, "enabled"])
    Ledger.assert(job.should_enque?(Time.now.utc + 70), "the job is due in a minute")
    job.enque!
    Ledger.equal(Sidekiq::Queue.new.first.args, %w[order tick])
    Sidekiq::Cron::Job.find("noting").disable!
    Ledger.equal(Sidekiq::Cron::Job.find("noting").status, "disabled")
    Ledger.assert(Sidekiq::Cron::Job.destroy("noting"), "the job is destroyed")
    Ledger.equal(Sidekiq::Cron::Job.count, 0)
  end
end

Ledger.run_checks

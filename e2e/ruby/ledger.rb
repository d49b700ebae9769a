# frozen_string_literal: true

require "json"
require "timeout"

# Ledger is what every Ruby driver shares: its environment, the events on standard output, and named checks.
#
# A driver tells the harness what it did, one JSON object per line. Its worker processes write theirs to a pipe, whose
# descriptor they find in E2E_EVENTS, so that the driver knows what they did before it passes it on; their standard
# output is the log, standard error.
module Ledger
  HOST = ENV.fetch("CODEQ_HOST")
  PORT = Integer(ENV.fetch("CODEQ_PORT"))
  TASKS = Integer(ENV.fetch("E2E_TASKS", "100"))
  SEED = Integer(ENV.fetch("E2E_SEED", "1"))
  KILL = ENV["E2E_KILL"] == "1"
  PATIENCE_SECONDS = 90 # within which a killed server is back, or a condition holds
  FOLDER = __dir__

  EVENTS = ENV.key?("E2E_EVENTS") ? IO.for_fd(Integer(ENV["E2E_EVENTS"]), autoclose: false) : $stdout.dup
  EVENTS.sync = true

  # Outcomes holds the tasks that workers have told to be done. What they tell besides, which is not for the ledger, it hands to
  # a block.
  class Outcomes
    TASKS = %w[done failed].freeze

    def initialize(&aside)
      @mutex = Mutex.new
      @done = {}
      @count = 0
      @aside = aside
    end

    def pass_on(line)
      event = JSON.parse(line)
      return @mutex.synchronize { @aside&.call(event) } unless TASKS.include?(event["event"])

      EVENTS.write(line)
      @mutex.synchronize do
        @count += 1
        @done[event["id"]] = true if event["event"] == "done"
      end
    end

    # count is how many events there were.
    def count = @mutex.synchronize { @count }

    def done?(task)
      @mutex.synchronize { @done.key?(task) }
    end
  end

  module_function

  def emit(**event)
    EVENTS.write("#{JSON.generate(event)}\n") # one write(2), so that lines of threads do not mix
  end

  def enqueued(task, dies: false, fails: nil)
    emit(event: "enqueued", id: task, dies: dies, **(fails ? { fails: fails } : {}))
  end

  def done(task) = emit(event: "done", id: task)
  def failed(task, attempt) = emit(event: "failed", id: task, attempt: attempt)
  def dead(task) = emit(event: "dead", id: task)
  def note(text) = emit(event: "note", text: text)
  def finish = emit(event: "end")
  def log(text) = $stderr.puts(text)

  # wait_for polls a condition that nothing tells of, and returns its first true value.
  def wait_for(what, seconds: PATIENCE_SECONDS)
    deadline = now + seconds
    while now < deadline
      value = yield
      return value if value

      sleep 0.05
    end
    raise "gave up after #{seconds} s waiting until #{what}"
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # persistently repeats what may meet a server that is being restarted. Only for what may be done twice.
  def persistently(*errors)
    deadline = now + PATIENCE_SECONDS
    begin
      yield
    rescue *errors => e
      raise if now > deadline

      log("again: #{e.class} #{e.message}")
      sleep 0.1
      retry
    end
  end

  # start starts a worker process and returns its id. A thread passes on its events; it ends with the process.
  def start(environment, *command, outcomes: Outcomes.new)
    reader, writer = IO.pipe
    pid = Process.spawn({ "E2E_EVENTS" => "3", **environment }, *command, 3 => writer, out: :err, in: File::NULL)
    writer.close
    Thread.new { reader.each_line { |line| outcomes.pass_on(line) } }
    pid
  end

  # stop asks a worker to finish what it does, or kills it, and waits for it.
  def stop(pid, signal: "TERM")
    Process.kill(signal, pid)
    Timeout.timeout(PATIENCE_SECONDS) { Process.wait(pid) }
  end

  CHECKS = {}

  # check registers a check of a feature driver; it is one task of the ledger, done if it returns.
  def check(name, &block)
    CHECKS[name] = block
  end

  def assert(condition, what = "assertion")
    raise "#{what} failed" unless condition
  end

  def equal(got, wanted)
    raise "got #{got.inspect}, want #{wanted.inspect}" unless got == wanted
  end

  def raises(*errors)
    begin
      yield
    rescue *errors => e
      return e
    end
    raise "none of #{errors} was raised"
  end

  # run_checks runs all checks, or those named on the command line, and exits with 1 if one failed.
  def run_checks
    broken = CHECKS.count do |name, block|
      next if ARGV.any? && !ARGV.include?(name)

      enqueued(name)
      block.call
      done(name)
      false
    rescue StandardError => e
      log("--- #{name}\n#{e.full_message(highlight: false)}")
      true
    end
    finish
    exit(broken.zero?)
  end
end

# frozen_string_literal: true

require "sidekiq"
require "sidekiq-reliable-fetch"
require_relative "ledger"

# The jobs of the Sidekiq drivers and how their workers are set up. `sidekiq --require` loads it.
module App
  DATABASE = 6
  REDIS = { url: "redis://#{Ledger::HOST}:#{Ledger::PORT}/#{DATABASE}" }.freeze
  RELIABLE = ENV["E2E_RELIABLE"] == "1"

  # What a broken connection raises. redis-rb passes on what connect(2) says to a server that ends at this moment.
  BROKEN = [Redis::BaseConnectionError, SystemCallError].freeze

  # Prompt makes retries due at once, where Sidekiq waits for 15 seconds before the first, and tells when.
  module Prompt
    def delay_for(worker, *)
      Ledger.emit(event: "waits", id: worker.jid, at: Time.now.to_f)
      0
    end
  end

  # Poll tells what the poller had under way when its connection broke. It takes a job out of the schedule or the retries with a script and
  # pushes it with another command. The job is lost when the server ends after the first one and the poller did not read its
  # reply ("asked": it took one that was due between the last time that none was and the time it asked for), or when the push
  # fails ("taken").
  module Poll
    def enqueue_jobs(*)
      @under_way = nil
      super
    end

    def zpopbyscore(conn, keys:, argv:)
      now = argv.first.to_f
      @since ||= Hash.new(0)
      @under_way = { event: "asked", since: @since[keys.first], before: now }
      Thread.current[:unanswered] = -> { Ledger.emit(**@under_way) if @under_way }
      job = super
      @since[keys.first] = now unless job
      @under_way = job && { event: "taken", id: Sidekiq.load_json(job)["jid"] }
      job
    end
  end

  # Unanswered has a thread tell of a command that was sent and not answered; redis-rb may send it again.
  module Unanswered
    def ensure_connected
      super do
        yield
      rescue *BROKEN
        Thread.current[:unanswered]&.call
        raise
      end
    end
  end

  # Attempt tells a job how often it was tried.
  class Attempt
    def call(worker, job, _queue)
      worker.attempt = job["retry_count"] ? job["retry_count"] + 2 : 1 if worker.respond_to?(:attempt=)
      yield
    end
  end
end

Sidekiq.configure_client do |config|
  config.redis = App::REDIS
  config.logger = Sidekiq::Logger.new($stderr)
end
Sidekiq.configure_server do |config|
  config.redis = App::REDIS
  config.options[:poll_interval_average] = 0.3
  config.server_middleware { |chain| chain.add(App::Attempt) }
  Sidekiq::ReliableFetch.setup_reliable_fetch!(config) if App::RELIABLE
  require "sidekiq/job_retry"
  Sidekiq::JobRetry.prepend(App::Prompt)
  require "sidekiq/scheduled"
  Sidekiq::Scheduled::Enq.prepend(App::Poll)
  Redis::Client.prepend(App::Unanswered)
end

# Work fails so many times and is done after that.
class Work
  include Sidekiq::Worker

  sidekiq_options retry: 5
  attr_accessor :attempt

  def perform(task, failures = 0)
    if attempt <= failures
      Ledger.failed(task, attempt)
      raise "attempt #{attempt} of #{task} is meant to fail"
    end
    Ledger.done(task)
  end
end

# Note writes down, in the order of execution, which job ran.
class Note
  include Sidekiq::Worker

  def perform(key, value)
    Sidekiq.redis { |redis| redis.rpush(key, value) }
  end
end

# Hold runs until it is told to stop.
class Hold
  include Sidekiq::Worker

  def perform(key)
    Sidekiq.redis { |redis| redis.rpush("started", key) }
    sleep 0.05 until Sidekiq.redis { |redis| redis.exists?(key) }
    Sidekiq.redis { |redis| redis.rpush("ended", key) }
  end
end

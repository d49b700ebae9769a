# frozen_string_literal: true

require "sidekiq"
require "sidekiq-reliable-fetch"
require_relative "ledger"

# The jobs of the Sidekiq drivers and how their workers are set up. `sidekiq --require` loads it.
module App
  DATABASE = 6
  REDIS = { url: "redis://#{Ledger::HOST}:#{Ledger::PORT}/#{DATABASE}" }.freeze
  RELIABLE = ENV["E2E_RELIABLE"] == "1"

  # Prompt makes retries due at once; Sidekiq waits for 15 seconds before the first.
  module Prompt
    def delay_for(*)
      0
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

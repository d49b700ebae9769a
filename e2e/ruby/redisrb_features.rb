#!/usr/bin/ruby
# frozen_string_literal: true

# redis-rb's features, each as its documentation shows it; one check is one task.

require "redis"
require "securerandom"
require_relative "ledger"

DATABASE = 10

def connect(**options) = Redis.new(host: Ledger::HOST, port: Ledger::PORT, db: DATABASE, **options)

REDIS = connect
REDIS.flushdb
OTHER = connect(db: DATABASE + 1)
OTHER.flushdb

# in_background makes a call with a connection of its own and returns the thread when the server has it waiting.
def in_background
  before = REDIS.info("clients")["blocked_clients"].to_i
  thread = Thread.new { yield connect(timeout: Ledger::PATIENCE_SECONDS) }
  Ledger.wait_for("the client waits") { REDIS.info("clients")["blocked_clients"].to_i > before }
  thread
end

Ledger.check("pipelines") do
  replies = REDIS.pipelined do |pipe|
    pipe.set("pipe", 1)
    pipe.incrby("pipe", 41)
    pipe.mapped_hmset("pipe:hash", "a" => 1, "b" => 2)
    pipe.hgetall("pipe:hash")
  end
  Ledger.equal(replies, ["OK", 42, "OK", { "a" => "1", "b" => "2" }])
  future = nil
  REDIS.pipelined { |pipe| future = pipe.get("pipe") }
  Ledger.equal(future.value, "42")
  Ledger.equal(REDIS.pipelined { |pipe| 5000.times { |i| pipe.rpush("pipe:list", i) } }.last, 5000)
  error = Ledger.raises(Redis::CommandError) { REDIS.pipelined { |pipe| pipe.lpush("pipe", 1) } }
  Ledger.assert(error.message.start_with?("WRONGTYPE"), error.message)
end

Ledger.check("transactions") do
  replies = REDIS.multi do |tx|
    tx.set("tx", 1)
    tx.incr("tx")
  end
  Ledger.equal(replies, ["OK", 2])
  changed = REDIS.watch("tx") do
    connect.set("tx", 10)
    REDIS.multi { |tx| tx.set("tx", 3) }
  end
  Ledger.equal([changed, REDIS.get("tx")], [nil, "10"])
  Ledger.equal(REDIS.watch("tx") { REDIS.multi { |tx| tx.set("tx", 3) } }, ["OK"])
  REDIS.watch("tx") { REDIS.unwatch }
  Ledger.raises(Redis::CommandError) { REDIS.multi { |tx| tx.call([:nosuchcommand]) } }
  Ledger.equal(REDIS.get("tx"), "3")
  sums = Array.new(4) do
    Thread.new do
      mine = connect
      25.times do
        loop do
          break if mine.watch("tx:sum") do
            value = mine.get("tx:sum").to_i
            mine.multi { |tx| tx.set("tx:sum", value + 1) }
          end
        end
      end
    end
  end
  sums.each(&:join)
  Ledger.equal(REDIS.get("tx:sum"), "100")
end

Ledger.check("scripts") do
  REDIS.script(:flush)
  sha = REDIS.script(:load, "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}")
  Ledger.equal(REDIS.evalsha(sha, keys: ["scripted"], argv: ["x"]), ["scripted", "x", 1])
  Ledger.equal(REDIS.script(:exists, [sha, "f" * 40]), [true, false])
  error = Ledger.raises(Redis::CommandError) { REDIS.evalsha("f" * 40) }
  Ledger.assert(error.message.start_with?("NOSCRIPT"), error.message)
  error = Ledger.raises(Redis::CommandError) { REDIS.eval("return redis.error_reply('MINE went wrong')") }
  Ledger.equal(error.message, "MINE went wrong")
  Ledger.equal(REDIS.eval("return cjson.encode({a = {1, 2}})"), '{"a":[1,2]}')
  Ledger.equal(REDIS.eval("return cmsgpack.unpack(cmsgpack.pack({1, 'b'}))"), [1, "b"])
end

Ledger.check("publish_subscribe") do
  got = Queue.new
  listener = Thread.new do
    mine = connect
    mine.subscribe("news", "more") do |on|
      on.subscribe { |channel, count| got << [:subscribe, channel, count] }
      on.unsubscribe { |channel, count| got << [:unsubscribe, channel, count] }
      on.message do |channel, message|
        got << [:message, channel, message]
        mine.unsubscribe if message == "stop"
      end
    end
    got << mine.ping
  end
  Ledger.equal([got.pop, got.pop], [[:subscribe, "news", 1], [:subscribe, "more", 2]])
  Ledger.equal(REDIS.publish("news", "hello"), 1)
  Ledger.equal(got.pop, [:message, "news", "hello"])
  Ledger.equal(REDIS.pubsub(:numsub, "news"), ["news", 1])
  REDIS.publish("more", "stop")
  Ledger.equal(got.pop, [:message, "more", "stop"])
  Ledger.equal([got.pop, got.pop].map(&:last), [1, 0])
  Ledger.equal(got.pop, "PONG") # the connection is an ordinary one again
  listener.join
  heard = []
  mine = connect
  mine.psubscribe("cou*") do |on|
    on.psubscribe { REDIS.pipelined { |pipe| 100.times { |i| pipe.publish("counted", i) } } }
    on.pmessage do |_, _, message|
      heard << message.to_i
      mine.punsubscribe if heard.size == 100
    end
  end
  Ledger.equal(heard, (0...100).to_a)
end

Ledger.check("blocking_pops") do
  [
    [->(r) { r.blpop("wait:a", "wait:b", timeout: 30) }, -> { REDIS.rpush("wait:b", "x") }, %w[wait:b x]],
    [->(r) { r.brpop("wait:a", timeout: 30) }, -> { REDIS.rpush("wait:a", "y") }, %w[wait:a y]],
    [->(r) { r.brpoplpush("wait:a", "wait:c", timeout: 30) }, -> { REDIS.rpush("wait:a", "z") }, "z"],
    [->(r) { r.blmove("wait:a", "wait:c", "LEFT", "RIGHT", timeout: 30) }, -> { REDIS.rpush("wait:a", "w") }, "w"],
    [->(r) { r.bzpopmin("wait:z", timeout: 30) }, -> { REDIS.zadd("wait:z", 1.5, "m") }, ["wait:z", "m", 1.5]]
  ].each do |call, push, expected|
    waiting = in_background(&call)
    push.call
    Ledger.equal(waiting.value, expected)
  end
  Ledger.equal(REDIS.blpop("wait:none", timeout: 0.05), nil)
  Ledger.equal(REDIS.lrange("wait:c", 0, -1), %w[z w])
end

Ledger.check("scans") do
  REDIS.pipelined do |pipe|
    1000.times do |i|
      pipe.set("scan:#{i}", i)
      pipe.hset("scan:hash", "f#{i}", i)
      pipe.sadd("scan:set", i)
      pipe.zadd("scan:zset", i, "m#{i}")
    end
  end
  Ledger.equal(REDIS.scan_each(match: "scan:[0-9]*", count: 50).to_a.uniq.size, 1000)
  Ledger.equal(REDIS.scan_each(match: "scan:*", type: "zset").to_a, ["scan:zset"])
  Ledger.equal(REDIS.hscan_each("scan:hash").to_h.size, 1000)
  Ledger.equal(REDIS.sscan_each("scan:set", match: "1*").to_a.uniq.size, 111)
  Ledger.equal(REDIS.zscan_each("scan:zset").to_h["m17"], 17.0)
end

Ledger.check("collections") do
  REDIS.mset("a", 1, "b", 2)
  Ledger.equal(REDIS.mapped_mget("a", "b", "none"), { "a" => "1", "b" => "2", "none" => nil })
  Ledger.equal(REDIS.set("a", 5, nx: true), false)
  Ledger.equal(REDIS.set("a", 6, get: true, ex: 100), "1")
  Ledger.equal(REDIS.getex("a", persist: true), "6")
  Ledger.equal(REDIS.incrbyfloat("a", 0.5), 6.5)
  REDIS.hset("hash", { "x" => 1, "y" => 2 })
  Ledger.equal(REDIS.mapped_hmget("hash", "x", "z"), { "x" => "1", "z" => nil })
  Ledger.equal(REDIS.zadd("zset", [[1, "a"], [2, "b"], [3, "c"]]), 3)
  Ledger.equal(REDIS.zrange("zset", 0, -1, with_scores: true), [["a", 1.0], ["b", 2.0], ["c", 3.0]])
  Ledger.equal(REDIS.zrangebyscore("zset", "(1", "+inf", limit: [0, 1]), ["b"])
  Ledger.equal(REDIS.zadd("zset", 1, "a", incr: true), 2.0)
  Ledger.equal(REDIS.zpopmax("zset"), ["c", 3.0])
  Ledger.equal([REDIS.sadd?("set", 1), REDIS.sadd?("set", 1)], [true, false])
  Ledger.equal(REDIS.smismember("set", 1, 2), [true, false])
  Ledger.equal(REDIS.lmove("none", "other", "LEFT", "RIGHT"), nil)
  Ledger.equal([REDIS.rpush("list", %w[a b c]), REDIS.lrem("list", 0, "b"), REDIS.lpop("list", 2)], [3, 1, %w[a c]])
  REDIS.geoadd("geo", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")
  Ledger.equal(REDIS.georadius("geo", 15, 37, 100, "km", sort: "ASC"), ["Catania"])
  Ledger.equal(REDIS.pfadd("hll", %w[a b c]) && REDIS.pfcount("hll"), 3)
  Ledger.equal(REDIS.sort("set", order: "desc alpha"), ["1"])
  Ledger.equal([REDIS.setbit("bits", 7, 1), REDIS.bitcount("bits")], [0, 1])
end

Ledger.check("streams") do
  ids = Array.new(10) { |i| REDIS.xadd("stream", { "n" => i }) }
  Ledger.equal(REDIS.xrange("stream", ids[2], ids[3]).to_h[ids[3]], { "n" => "3" })
  REDIS.xgroup(:create, "stream", "group", "0")
  taken = REDIS.xreadgroup("group", "alice", "stream", ">", count: 5)
  Ledger.equal(taken["stream"].map(&:first), ids[0, 5])
  Ledger.equal(REDIS.xack("stream", "group", *ids[0, 3]), 3)
  Ledger.equal(REDIS.xpending("stream", "group")["size"], 2)
  Ledger.equal(REDIS.xclaim("stream", "group", "bob", 0, ids[3]).to_h, { ids[3] => { "n" => "3" } })
  Ledger.equal(REDIS.xautoclaim("stream", "group", "carol", 0, "0-0")["entries"].size, 2)
  waiting = in_background { |redis| redis.xread("stream", "$", block: 30_000) }
  last = REDIS.xadd("stream", { "n" => "new" }, maxlen: 5)
  Ledger.equal(waiting.value, { "stream" => [[last, { "n" => "new" }]] })
  Ledger.equal([REDIS.xlen("stream"), REDIS.xinfo(:stream, "stream")["last-generated-id"]], [5, last])
end

Ledger.check("administration") do
  Ledger.equal(REDIS.ping("hello"), "hello")
  info = REDIS.info
  Ledger.assert(info["redis_version"].split(".").map(&:to_i).first >= 6)
  Ledger.assert(REDIS.info(:commandstats)["ping"]["calls"].to_i.positive?)
  REDIS.client(:setname, "e2e")
  Ledger.equal(REDIS.client(:getname), "e2e")
  Ledger.assert(REDIS.client(:list).any? { |entry| entry["name"] == "e2e" && entry["db"] == DATABASE.to_s })
  before = REDIS.config(:get, "slowlog-log-slower-than")
  REDIS.config(:set, "slowlog-log-slower-than", 0)
  REDIS.set("slow", 1)
  REDIS.config(:set, *before.first)
  Ledger.assert(REDIS.slowlog(:get).any? { |entry| entry[3] == %w[set slow 1] })
  Ledger.equal(REDIS.object(:encoding, "slow"), "int")
  dump = REDIS.dump("slow")
  Ledger.equal([REDIS.restore("copy", 0, dump), REDIS.get("copy")], ["OK", "1"])
  Ledger.equal([REDIS.move("copy", DATABASE + 1), REDIS.exists?("copy")], [true, false])
  Ledger.assert(REDIS.time.is_a?(Array) && REDIS.dbsize.positive?)
  by_url = Redis.new(url: "redis://#{Ledger::HOST}:#{Ledger::PORT}/#{DATABASE + 1}")
  Ledger.equal([by_url.get("copy"), OTHER.get("copy")], %w[1 1])
end

Ledger.check("large_values") do
  value = SecureRandom.bytes(8 << 20)
  REDIS.set("large", value)
  Ledger.assert(REDIS.get("large").b == value, "the value came back")
  REDIS.del("large")
end

Ledger.check("reconnect") do
  mine = connect(reconnect_attempts: 3)
  id = mine.call([:client, :id])
  REDIS.client(:kill, "id", id)
  Ledger.equal(mine.ping, "PONG")
  Ledger.assert(mine.call([:client, :id]) != id, "the connection is another")
  mine.without_reconnect { Ledger.equal(mine.ping, "PONG") }
end

at_exit { [REDIS, OTHER].each(&:flushdb) }
Ledger.run_checks

#!/usr/bin/python3
"""redis-py's features, each as its documentation shows it; one check is one task."""

import threading
import uuid

import redis
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, ResponseError, WatchError

import ledger
from ledger import check

DATABASE = 9


def connect(**options):
    return redis.Redis(ledger.HOST, ledger.PORT, db=DATABASE, **options)


def raises(error, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except error as raised:
        return str(raised)
    raise AssertionError(f"{call} raised no {error}")


def in_background(call):
    """Runs a call in a thread and gives a function that waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def result():
        thread.join(ledger.PATIENCE_SECONDS)
        return results[0]

    return result


def blocked_clients(client):
    return client.info("clients")["blocked_clients"]


@check
def pipelines(client):
    with client.pipeline(transaction=True) as pipe:
        replies = pipe.set("pipe", 1).incrby("pipe", 41).lpush("pipe", "x").get("pipe").execute(raise_on_error=False)
    assert replies[:2] == [True, 42] and isinstance(replies[2], ResponseError) and replies[3] == b"42", replies
    with client.pipeline(transaction=False) as pipe:
        for i in range(2000):
            pipe.rpush("pipe:list", i)
        assert pipe.execute() == list(range(1, 2001))
    with client.pipeline() as pipe:
        pipe.set("pipe", 1).execute_command("NOSUCHCOMMAND")
        pipe.set("pipe", 2)
        raises(ResponseError, pipe.execute)
    assert client.get("pipe") == b"42"
    with client.pipeline() as pipe:
        pipe.lpush("pipe", "x")
        assert "Command # 1 (LPUSH pipe x) of pipeline caused error" in raises(ResponseError, pipe.execute)
    assert client.lrange("pipe:list", -2, -1) == [b"1998", b"1999"]


@check
def watch(client):
    client.set("watched", 1)
    with client.pipeline() as pipe:
        pipe.watch("watched")
        value = int(pipe.get("watched"))
        client.set("watched", 5)
        pipe.multi()
        pipe.set("watched", value + 1)
        raises(WatchError, pipe.execute)
    assert client.get("watched") == b"5"

    def increment(pipe):
        pipe.multi()
        pipe.incr("watched:sum")

    def many():
        mine = connect()
        for _ in range(50):
            mine.transaction(increment, "watched:sum")
        return True

    waits = [in_background(many) for _ in range(4)]
    assert all(wait() for wait in waits)
    assert client.get("watched:sum") == b"200"
    # A key that expires under WATCH, and one that was there with a deadline behind it.
    client.set("watched:ttl", 1, px=40)
    with client.pipeline() as pipe:
        pipe.watch("watched:ttl")
        ledger.wait_for(lambda: not client.exists("watched:ttl"), "the key expires")
        pipe.multi()
        pipe.set("watched", 6)
        raises(WatchError, pipe.execute)


@check
def scripts(client):
    client.script_flush()
    multiply = client.register_script("return redis.call('GET', KEYS[1]) * ARGV[1]")
    client.set("factor", 6)
    assert multiply(keys=["factor"], args=[7]) == 42
    client.script_flush("ASYNC")
    raises(NoScriptError, client.evalsha, multiply.sha, 1, "factor", 7)
    assert multiply(keys=["factor"], args=[8]) == 48  # loads itself again
    with client.pipeline() as pipe:
        multiply(keys=["factor"], args=[2], client=pipe)
        assert pipe.get("factor").execute() == [12, b"6"]
    assert client.script_exists(multiply.sha, "f" * 40) == [True, False]
    nested = client.eval("return {1, 'two', {3, redis.status_reply('FOUR')}, 5.9, true, false, nil, 8}", 0)
    assert nested == [1, b"two", [3, b"FOUR"], 5, 1, None], nested
    error = raises(ResponseError, client.eval, "return redis.error_reply('MINE is an error')", 0)
    assert error == "MINE is an error", error
    error = raises(ResponseError, client.eval, "return redis.call('LPUSH', KEYS[1], 1)", 1, "factor")
    assert "WRONGTYPE" in error, error
    assert client.eval_ro("return redis.call('GET', KEYS[1])", 1, "factor") == b"6"


@check
def functions(client):
    code = """#!lua name=e2e
redis.register_function('bump', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)
redis.register_function{function_name='peek', flags={'no-writes'},
    callback=function(keys) return redis.call('GET', keys[1]) end}"""
    client.function_flush()
    assert client.function_load(code) == b"e2e"
    assert client.fcall("bump", 1, "bumped", 5) == 5
    assert client.fcall_ro("peek", 1, "bumped") == b"5"
    raises(ResponseError, client.fcall_ro, "bump", 1, "bumped", 1)
    library = client.function_list("e2e", withcode=True)[0]
    assert library[library.index(b"library_code") + 1] == code.encode()
    dump = client.function_dump()
    client.function_delete("e2e")
    raises(ResponseError, client.fcall, "bump", 1, "bumped", 1)
    assert client.function_restore(dump) and client.fcall("bump", 1, "bumped", 1) == 6
    assert client.function_stats()
    client.function_flush()


@check
def publish_subscribe(client):
    pubsub = client.pubsub()
    pubsub.subscribe("news")
    pubsub.psubscribe("new*")
    subscribed = [pubsub.get_message(timeout=5) for _ in range(2)]
    assert [(message["type"], message["data"]) for message in subscribed] == [("subscribe", 1), ("psubscribe", 2)]
    assert client.publish("news", "hello") == 2
    received = [pubsub.get_message(timeout=5) for _ in range(2)]
    assert [message["type"] for message in received] == ["message", "pmessage"], received
    assert client.pubsub_numsub("news", "other") == [(b"news", 1), (b"other", 0)]
    assert client.pubsub_channels("n*") == [b"news"] and client.pubsub_numpat() >= 1
    pubsub.ping("still there")
    assert pubsub.get_message(timeout=5) == {"type": "pong", "pattern": None, "channel": None, "data": b"still there"}
    pubsub.unsubscribe()
    pubsub.punsubscribe()
    left = [pubsub.get_message(timeout=5) for _ in range(2)]
    assert [(message["type"], message["data"]) for message in left] == [("unsubscribe", 1), ("punsubscribe", 0)], left

    heard = []
    complete = threading.Event()

    def hear(message):
        heard.append(int(message["data"]))
        if len(heard) == 500:
            complete.set()

    pubsub.subscribe(counted=hear)
    thread = pubsub.run_in_thread(sleep_time=0.01)
    ledger.wait_for(lambda: client.pubsub_numsub("counted")[0][1] == 1, "the thread listens")
    with client.pipeline(transaction=False) as pipe:
        for i in range(500):
            pipe.publish("counted", i)
        pipe.execute()
    assert complete.wait(ledger.PATIENCE_SECONDS)
    thread.stop()
    thread.join()
    assert heard == list(range(500))


@check
def keyspace_notifications(client):
    before = client.config_get("notify-keyspace-events")["notify-keyspace-events"]
    client.config_set("notify-keyspace-events", "KEA")
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.psubscribe(f"__keyspace@{DATABASE}__:noted*")
    ledger.wait_for(lambda: client.pubsub_numpat() > 0, "the pattern is known")
    client.set("noted", 1, px=50)
    events = []

    def heard():
        message = pubsub.get_message(timeout=0.2)
        if message:
            events.append(message["data"])
        return events == [b"set", b"expire", b"expired"]

    ledger.wait_for(heard, "all events came")
    pubsub.close()
    client.config_set("notify-keyspace-events", before)


@check
def blocking_pops(client):
    for blocking, push, expected in (
        (lambda c: c.blpop(["wait:a", "wait:b"], 30), lambda: client.rpush("wait:b", "x"), (b"wait:b", b"x")),
        (lambda c: c.brpop("wait:a", 30), lambda: client.rpush("wait:a", "y"), (b"wait:a", b"y")),
        (lambda c: c.blmove("wait:a", "wait:c", 30, "LEFT", "RIGHT"), lambda: client.rpush("wait:a", "z"), b"z"),
        (lambda c: c.brpoplpush("wait:a", "wait:c", 30), lambda: client.rpush("wait:a", "w"), b"w"),
        (lambda c: c.blmpop(30, 2, "wait:a", "wait:b", direction="LEFT", count=2), lambda: client.rpush("wait:b", 1, 2),
         [b"wait:b", [b"1", b"2"]]),
        (lambda c: c.bzpopmin("wait:z", 30), lambda: client.zadd("wait:z", {"m": 1.5}), (b"wait:z", b"m", 1.5)),
        (lambda c: c.bzpopmax("wait:z", 30), lambda: client.zadd("wait:z", {"m": 1, "n": 2}), (b"wait:z", b"n", 2.0)),
    ):
        before = blocked_clients(client)
        result = in_background(lambda: blocking(connect()))
        ledger.wait_for(lambda: blocked_clients(client) > before, "the client waits")
        push()
        got = result()
        assert got == expected, (got, expected)
    assert client.blpop("wait:none", 0.05) is None
    assert client.lrange("wait:c", 0, -1) == [b"w", b"z"]


@check
def fair_queue(client):
    """Twenty waiting clients are served in the order in which they came."""
    order = []
    waits = []
    for i in range(20):
        before = blocked_clients(client)
        mine = connect()
        waits.append(in_background(lambda i=i, mine=mine: (i, mine.blpop("fair", 30)[1])))
        ledger.wait_for(lambda: blocked_clients(client) > before, "the client waits")
    client.rpush("fair", *range(20))
    order = [wait() for wait in waits]
    assert order == [(i, str(i).encode()) for i in range(20)], order


@check
def scans(client):
    with client.pipeline(transaction=False) as pipe:
        for i in range(3000):
            pipe.set(f"scan:{i}", i)
            pipe.hset("scan:hash", f"f{i}", i)
            pipe.sadd("scan:set", i)
            pipe.zadd("scan:zset", {f"m{i}": i})
        pipe.execute()
    assert len(set(client.scan_iter("scan:[0-9]*", count=100))) == 3000
    assert len(set(client.scan_iter("scan:*", _type="hash"))) == 1
    assert len(dict(client.hscan_iter("scan:hash"))) == 3000
    assert len(set(client.sscan_iter("scan:set", match="1*"))) == 1111
    assert dict(client.zscan_iter("scan:zset"))[b"m17"] == 17.0
    for key in client.scan_iter("scan:*"):
        client.delete(key)
    assert not client.keys("scan:*")


@check
def locks(client):
    lock = client.lock("lock", timeout=30)
    assert lock.acquire(blocking=False) and lock.owned() and lock.locked()
    other = client.lock("lock", timeout=30)
    assert not other.acquire(blocking=False) and not other.owned()
    raises(LockError, other.release)
    assert lock.extend(60) and client.pttl("lock") > 60_000
    assert lock.extend(10, replace_ttl=True) and client.pttl("lock") <= 10_000
    assert lock.reacquire() and client.pttl("lock") > 10_000
    client.set("lock", "stolen")
    raises(LockNotOwnedError, lock.release)
    client.delete("lock")
    client.set("locked:count", 0)

    def many():
        mine = connect()
        for _ in range(20):
            with mine.lock("lock:many", timeout=30, sleep=0.002, blocking_timeout=60):
                mine.set("locked:count", int(mine.get("locked:count")) + 1)
        return True

    waits = [in_background(many) for _ in range(5)]
    assert all(wait() for wait in waits)
    assert client.get("locked:count") == b"100" and not client.exists("lock:many")


@check
def streams(client):
    ids = [client.xadd("stream", {"n": i}) for i in range(100)]
    assert client.xlen("stream") == 100 and client.xrange("stream", ids[3], ids[4])[1] == (ids[4], {b"n": b"4"})
    assert client.xgroup_create("stream", "group", id="0")
    raises(ResponseError, client.xgroup_create, "stream", "group")
    taken = client.xreadgroup("group", "alice", {"stream": ">"}, count=60)[0][1]
    assert [identity for identity, _ in taken] == ids[:60]
    assert client.xack("stream", "group", *ids[:50]) == 50
    pending = client.xpending("stream", "group")
    assert pending == {"pending": 10, "min": ids[50], "max": ids[59],
                       "consumers": [{"name": b"alice", "pending": 10}]}, pending
    ranged = client.xpending_range("stream", "group", "-", "+", 2, consumername="alice")
    assert [(entry["message_id"], entry["times_delivered"]) for entry in ranged] == [(ids[50], 1), (ids[51], 1)]
    claimed = client.xclaim("stream", "group", "bob", 0, ids[50:52])
    assert [identity for identity, _ in claimed] == ids[50:52]
    automatic = client.xautoclaim("stream", "group", "carol", 0, start_id=ids[52], count=3)
    assert automatic[0] == ids[55] and [identity for identity, _ in automatic[1]] == ids[52:55], automatic
    before = blocked_clients(client)
    new = in_background(lambda: connect().xread({"stream": "$"}, block=30_000))
    ledger.wait_for(lambda: blocked_clients(client) > before, "the client waits")
    last = client.xadd("stream", {"n": "new"})
    assert new() == [[b"stream", [(last, {b"n": b"new"})]]]
    assert client.xtrim("stream", maxlen=10, approximate=False) == 91
    info = client.xinfo_stream("stream")
    assert (info["length"], info["groups"], info["last-generated-id"]) == (10, 1, last), info
    groups = client.xinfo_groups("stream")
    assert groups[0]["consumers"] == 3 and groups[0]["pending"] == 10, groups
    assert {consumer["name"] for consumer in client.xinfo_consumers("stream", "group")} == {b"alice", b"bob", b"carol"}
    assert client.xgroup_delconsumer("stream", "group", "alice") == 5 and client.xgroup_destroy("stream", "group")


@check
def collections(client):
    client.hset("hash", mapping={"a": 1, "b": "two", "c": 1.5})
    assert client.hgetall("hash") == {b"a": b"1", b"b": b"two", b"c": b"1.5"}
    assert client.hincrbyfloat("hash", "c", 0.25) == 1.75 and client.hmget("hash", "a", "x") == [b"1", None]
    client.zadd("zset", {"a": 1, "b": 2, "c": 3})
    assert client.zrange("zset", 0, -1, withscores=True) == [(b"a", 1.0), (b"b", 2.0), (b"c", 3.0)]
    assert client.zadd("zset", {"a": 5}, gt=True, ch=True) == 1 and client.zrevrank("zset", "a") == 0
    assert client.zrange("zset", 0, 2, byscore=True, offset=0, num=1) == [b"b"]
    assert client.zpopmin("zset") == [(b"b", 2.0)] and client.zmscore("zset", ["a", "x"]) == [5.0, None]
    assert client.zadd("zset", {"a": 1}, incr=True) == 6.0
    client.sadd("set", 1, 2, 3)
    client.sadd("set:2", 2, 3, 4)
    assert client.sinter("set", "set:2") == {b"2", b"3"} and client.sintercard(2, ["set", "set:2"]) == 2
    client.geoadd("geo", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"))
    assert client.geosearch("geo", longitude=15, latitude=37, radius=100, unit="km") == [b"Catania"]
    assert client.pfadd("hll", *range(100)) and 95 <= client.pfcount("hll") <= 105
    client.rpush("list", "a", "b", "a", "c")
    assert client.lpos("list", "a", count=0) == [0, 2]
    assert client.lmpop(1, "list", direction="RIGHT") == [b"list", [b"c"]]
    assert client.sort("set", desc=True) == [b"3", b"2", b"1"]
    assert client.bitfield("bits").set("u8", 0, 200).incrby("u8", 0, 100).execute() == [0, 44]
    client.set("text", "ohmytext")
    client.set("text:2", "mynewtext")
    lcs = client.lcs("text", "text:2", idx=True, withmatchlen=True)
    assert lcs == [b"matches", [[[4, 7], [5, 8], 4], [[2, 3], [0, 1], 2]], b"len", 6], lcs


@check
def expiry(client):
    client.set("brief", 1, ex=100)
    assert 0 < client.ttl("brief") <= 100 and client.expire("brief", 200, gt=True)
    assert not client.expire("brief", 50, gt=True) and client.expiretime("brief") > 1_600_000_000
    assert client.getex("brief", persist=True) == b"1" and client.ttl("brief") == -1
    assert client.set("brief", 2, keepttl=True, get=True) == b"1" and client.getdel("brief") == b"2"
    client.psetex("brief", 20, "x")
    ledger.wait_for(lambda: client.get("brief") is None, "the key expires")


@check
def administration(client):
    assert client.ping() and client.echo("hi") == b"hi"
    assert client.client_setname("e2e") and client.client_getname() == "e2e"
    mine = client.client_info()
    assert mine["name"] == "e2e" and mine["db"] == DATABASE
    assert any(entry["name"] == "e2e" for entry in client.client_list())
    client.set("here", 1)
    info = client.info()
    assert tuple(map(int, info["redis_version"].split("."))) >= (6, 2, 0)
    assert info[f"db{DATABASE}"]["keys"] == client.dbsize()
    assert client.info("commandstats")["cmdstat_ping"]["calls"] >= 1
    assert client.command_count() > 200 and client.command()["get"]["arity"] == 2
    assert client.command_getkeys("MSET", "a", 1, "b", 2) == ["a", "b"]
    client.slowlog_reset()
    before = client.config_get("slowlog-log-slower-than")["slowlog-log-slower-than"]
    client.config_set("slowlog-log-slower-than", 0)
    client.set("slow", 1)
    client.config_set("slowlog-log-slower-than", before)
    assert any(entry["command"] == b"SET slow 1" for entry in client.slowlog_get())
    assert client.memory_usage("slow") > 0 and client.memory_stats()["keys.count"] > 0
    assert client.object("encoding", "slow") == b"int" and isinstance(client.time()[0], int)
    assert client.acl_whoami() == "default" and client.acl_getuser("default")["enabled"]
    dump = client.dump("slow")
    assert client.restore("slow:copy", 0, dump) and client.get("slow:copy") == b"1"
    assert client.copy("slow", "slow:copy", replace=True) and client.role()[0] == b"master"
    assert client.lastsave() and client.swapdb(14, 15)


@check
def monitor(client):
    with connect().monitor() as watched:
        client.set("monitored", 'a "quoted"\n value')
        for command in watched.listen():
            if command["command"].startswith("SET monitored"):
                assert command["db"] == DATABASE and command["client_type"] == "tcp", command
                break


@check
def large_values(client):
    value = uuid.uuid4().bytes * (8 << 16)  # 8 MiB
    client.set("large", value)
    assert client.get("large") == value and client.strlen("large") == len(value)
    client.rpush("large:list", *[b"x" * 1000] * 20_000)
    assert client.llen("large:list") == 20_000
    client.unlink("large", "large:list")


@check
def connection_options(client):
    text = connect(decode_responses=True, client_name="text", health_check_interval=1, socket_keepalive=True)
    text.set("text", "grüße")
    assert text.get("text") == "grüße" and text.client_getname() == "text"
    pool = redis.BlockingConnectionPool.from_url(f"redis://{ledger.HOST}:{ledger.PORT}/{DATABASE}", max_connections=2)
    pooled = redis.Redis(connection_pool=pool)
    waits = [in_background(lambda: [pooled.incr("pooled") for _ in range(50)]) for _ in range(6)]
    for wait in waits:
        wait()
    assert pooled.get("pooled") == b"300"
    single = connect(single_connection_client=True, retry_on_error=[redis.ConnectionError])
    identity = single.client_id()
    assert client.client_kill_filter(_id=identity) == 1
    assert single.ping() and single.client_id() != identity  # a broken connection is made anew


def main():
    client = connect()
    ledger.run_checks(clean=client.flushdb, client=client)


if __name__ == "__main__":
    main()

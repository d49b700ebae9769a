package tests

import (
	"strings"
	"testing"

	"codeq/internal/peer"
)

// lookups are calls on keys of every type, a string s, a list l, a hash h, a set t, a sorted set z and a stream x with a group
// g, and on keys that are not there, n1 and n2.
func lookups() []string {
	return []string{
		"GET s", "GET n1", "MGET s n1 s s n2", "STRLEN s", "GETRANGE s 0 1", "SUBSTR s 0 1", "LCS s n1", "LCS s s", "GETBIT s 1", "BITCOUNT s", "BITPOS s 1",
		"BITFIELD_RO s GET u8 0", "EXISTS s n1 s", "TOUCH s n1", "TYPE s", "TYPE n1", "TTL s", "PTTL n1", "EXPIRETIME s", "OBJECT ENCODING s",
		"OBJECT ENCODING n1", "OBJECT REFCOUNT s", "MEMORY USAGE s", "MEMORY USAGE n1", "DUMP s", "DUMP h", "DUMP n1", "GET h", "LLEN s",
		"LLEN l", "LRANGE l 0 -1", "LINDEX l 0", "LPOS l a", "LLEN n1", "HGET h f", "HMGET h f nof", "HGETALL h", "HLEN h", "HKEYS h",
		"HVALS h", "HEXISTS h f", "HSTRLEN h f", "HRANDFIELD h", "HRANDFIELD h 2", "HSCAN h 0", "HSCAN n1 0", "HGET n1 f", "HLEN n1", "SCARD t",
		"SISMEMBER t a", "SMISMEMBER t a b", "SMEMBERS t", "SRANDMEMBER t", "SRANDMEMBER t 2", "SSCAN t 0", "SINTER t t", "SINTER t n1", "SINTER n1 t",
		"SUNION t n1 t", "SDIFF t n1", "SDIFF n1 t", "SINTERCARD 2 t t", "SINTERCARD 2 n1 t", "ZCARD z", "ZSCORE z a", "ZMSCORE z a b", "ZRANK z a", "ZREVRANK z a",
		"ZRANGE z 0 -1", "ZRANGE z 0 5 BYSCORE", "ZRANGEBYLEX z - +", "ZRANGEBYSCORE z 0 1", "ZCOUNT z 0 1", "ZLEXCOUNT z - +", "ZSCAN z 0", "ZRANDMEMBER z",
		"ZRANDMEMBER z 2", "ZUNION 2 z n1", "ZINTER 2 z t", "ZINTER 2 n1 z", "ZDIFF 2 z n1", "ZDIFF 2 n1 z", "ZINTERCARD 2 z z", "ZSCORE n1 a", "XLEN x", "XRANGE x - +",
		"XREVRANGE x + -", "XREAD STREAMS x n1 0 0", "XINFO STREAM x", "XINFO STREAM x FULL", "XINFO GROUPS x", "XINFO CONSUMERS x g", "XPENDING x g",
		"XPENDING n1 g", "XLEN n1", "PFCOUNT p", "PFCOUNT p n1", "PFCOUNT n1", "GEOPOS z a", "GEODIST z a b", "GEOHASH z a",
		"GEOSEARCH geo FROMLONLAT 13 38 BYRADIUS 200 km", "GEORADIUS_RO geo 13 38 200 km", "GEORADIUSBYMEMBER_RO geo m 200 km", "GEOSEARCH n1 FROMMEMBER m BYRADIUS 200 km",
		"SORT l ALPHA", "SORT_RO l BY w_* GET o_* GET #", "SORT l BY w_* GET h->f", "SORT n1", "DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY",
		"WATCH s n1", "UNWATCH", "OBJECT FREQ n1", "OBJECT IDLETIME s",
		// These write as well.
		"SET s 1", "SET s 1 GET", "SET n1 1 XX GET", "GETSET s 1", "GETEX s", "GETEX n1", "GETDEL n1", "SETNX s 1", "INCR s", "APPEND s 1", "SETRANGE s 0 1", "EXPIRE n1 1",
		"PERSIST s", "DEL n1", "UNLINK n1", "RENAMENX s l", "COPY s c", "COPY n1 c", "COPY s c REPLACE", "LPUSH l a", "LPOP n1", "LSET l 0 a", "LREM l 0 q",
		"RPOPLPUSH n1 l", "LMOVE l l LEFT LEFT", "HSET h f 1", "HINCRBY h f 1", "HDEL h q", "SADD t a", "SREM t q", "SPOP n1", "SMOVE n1 t a",
		"SINTERSTORE d t t", "SUNIONSTORE d t n1", "SDIFFSTORE d n1 t", "ZADD z 1 a", "ZINCRBY z 0 a", "ZREM z q", "ZPOPMIN n1", "ZUNIONSTORE d 2 z n1",
		"ZINTERSTORE d 2 z z", "ZDIFFSTORE d 2 z n1", "ZRANGESTORE d z 0 -1", "ZRANGESTORE d n1 0 -1", "BITOP AND d s s", "BITOP NOT d n1", "BITFIELD s GET u8 0",
		"BITFIELD s SET u8 0 49", "SETBIT s 1 0", "PFADD p a", "PFMERGE p2 p n1", "GEOADD geo 13 38 m", "GEOSEARCHSTORE d geo FROMLONLAT 13 38 BYRADIUS 200 km",
		"GEORADIUS geo 13 38 200 km", "GEORADIUS geo 13 38 200 km STORE d", "SORT l ALPHA STORE d", "XADD x 9-* f v", "XTRIM x MAXLEN 100",
		"XDEL x 1-1", "XACK x g 1-1", "XCLAIM x g c 0 2-1", "XAUTOCLAIM x g c 0 0", "XSETID x 99-0",
		"XGROUP CREATECONSUMER x g c2", "XGROUP SETID x g 0", "BLPOP l 1", "LMPOP 2 n1 l LEFT", "ZMPOP 2 n1 z MAX", "RESTORE n1 0 x", "EVAL return(redis.call('get','s')) 0",
		"DEBUG OBJECT s",
	}
}

// TestLookupsAsRedis compares what each call adds to keyspace_hits and keyspace_misses.
func TestLookupsAsRedis(t *testing.T) {
	redis, codeq := debuggable(t)
	reference, subject := redis.DialForTest(t), codeq.DialForTest(t)
	counted := func(c *peer.Conn, call string) string {
		t.Helper()
		for _, words := range [][]string{{"CONFIG", "RESETSTAT"}, strings.Split(call, " ")} {
			if _, err := c.Do(words...); err != nil {
				t.Fatal(err)
			}
		}
		reply, err := c.Call("INFO", "stats")
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.SplitSeq(reply.Str, "\r\n") {
			if strings.HasPrefix(line, "keyspace_") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, " ")
	}
	for _, setup := range []string{
		"SET s abc", "RPUSH l a b c", "HSET h f 1 e 2", "SADD t a b c", "ZADD z 1 a 2 b", "XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0",
		"PFADD p a", "GEOADD geo 13.3 38.1 m", "SET w_a 1", "SET o_a x",
	} {
		counted(reference, setup)
		counted(subject, setup)
	}
	for _, call := range lookups() {
		want, got := counted(reference, call), counted(subject, call)
		if want == "" || got != want {
			t.Errorf("%s: %s; Redis: %s", call, got, want)
		}
	}
}

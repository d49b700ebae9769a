package tests

import (
	"strconv"
	"strings"
)

// largeFamily has values of some thousand elements, so that blocks, windows and indexes are crossed, and Redis' encodings.
func largeFamily() family {
	list, hash, set, ints, zset, stream := oneOf(largeKeys()[0:2]...), oneOf(largeKeys()[2]), oneOf(largeKeys()[3:5]...), oneOf(largeKeys()[5]),
		oneOf(largeKeys()[6:8]...), oneOf(largeKeys()[8])
	element, index, number := largeElement, largeNumber(-2000, 2000), largeNumber(0, 2000)
	some := func(g *gen) []string { return g.several(element) }
	pairs := func(g *gen) []string { return g.several(seq(element, element)) }
	scored := func(g *gen) []string { return g.several(seq(number, element)) }
	count := oneOf("1", "2", "50", "300")
	rows := []row{
		{name: "RPUSH", weight: 4, args: seq(list, some), equal: exact},
		{name: "LPUSH", weight: 4, args: seq(list, some), equal: exact},
		{name: "LRANGE", weight: 2, args: seq(list, index, index), equal: exact},
		{name: "LINDEX", weight: 2, args: seq(list, index), equal: exact},
		{name: "LSET", weight: 2, args: seq(list, index, element), equal: exact},
		{name: "LREM", weight: 3, args: seq(list, oneOf("0", "1", "-2"), element), equal: exact},
		{name: "LINSERT", weight: 2, args: seq(list, oneOf("BEFORE", "AFTER"), element, element), equal: exact},
		{name: "LPOS", weight: 2, args: seq(list, element, oneOf("RANK 1", "RANK -2", "COUNT 3", "MAXLEN 500 RANK -1")), equal: exact},
		{name: "LTRIM", weight: 2, args: seq(list, oneOf("0", "5", "90"), oneOf("-1", "-5", "-90")), equal: exact},
		{name: "LPOP", weight: 2, args: seq(list, count), equal: exact},
		{name: "RPOP", weight: 2, args: seq(list, count), equal: exact},
		{name: "HSET", weight: 4, args: seq(hash, pairs), equal: exact},
		{name: "HDEL", weight: 2, args: seq(hash, some), equal: exact},
		{name: "SADD", weight: 4, args: seq(set, some), equal: exact},
		{name: "SADD", weight: 4, args: seq(ints, func(g *gen) []string { return g.several(number) }), equal: exact},
		{name: "SREM", weight: 2, args: seq(set, some), equal: exact},
		{name: "SINTER", weight: 1, args: seq(set, set), equal: unordered},
		{name: "SDIFFSTORE", weight: 1, args: seq(set, set, ints), equal: exact},
		{name: "SUNIONSTORE", weight: 1, args: seq(set, set, ints), equal: exact},
		{name: "SORT", weight: 1, args: seq(ints, oneOf("LIMIT 5 50", "DESC")), equal: exact},
		{name: "SCARD", weight: 1, args: set, equal: exact},
	}
	rows = append(rows, largeZSetRows(zset, ints, some, scored, element, index, number, count)...)
	return family{name: "large", bound: true, rows: append(rows, largeStreamRows(stream)...)}
}

func largeZSetRows(zset, ints, some, scored, element, index, number, count argsOf) []row {
	return []row{
		{name: "ZADD", weight: 8, args: seq(zset, oneOf("", "", "GT", "LT", "NX", "XX CH"), scored), equal: exact},
		{name: "ZREM", weight: 2, args: seq(zset, some), equal: exact},
		{name: "ZINCRBY", weight: 2, args: seq(zset, number, element), equal: exact, fixed: true},
		{name: "ZRANK", weight: 2, args: seq(zset, element), equal: exact},
		{name: "ZREVRANK", weight: 2, args: seq(zset, element), equal: exact},
		{name: "ZCOUNT", weight: 2, args: seq(zset, number, number), equal: exact},
		{name: "ZRANGE", weight: 3, args: seq(zset, index, index, oneOf("", "REV", "WITHSCORES")), equal: exact},
		{name: "ZRANGEBYSCORE", weight: 2, args: seq(zset, number, number, oneOf("", "WITHSCORES", "LIMIT 5 50")), equal: exact},
		{name: "ZREVRANGEBYSCORE", weight: 2, args: seq(zset, number, number, oneOf("", "LIMIT 100 50")), equal: exact},
		{name: "ZREMRANGEBYRANK", weight: 1, args: seq(zset, index, index), equal: exact},
		{name: "ZREMRANGEBYSCORE", weight: 1, args: seq(zset, number, number), equal: exact},
		{name: "ZPOPMIN", weight: 1, args: seq(zset, count), equal: exact},
		{name: "ZPOPMAX", weight: 1, args: seq(zset, count), equal: exact},
		{name: "ZUNIONSTORE", weight: 1, args: seq(zset, oneOf("2"), zset, ints, oneOf("AGGREGATE MAX")), equal: exact},
		{name: "ZDIFFSTORE", weight: 1, args: seq(zset, oneOf("2"), zset, zset), equal: exact},
		{name: "ZINTER", weight: 1, args: seq(oneOf("2"), zset, zset, oneOf("WITHSCORES")), equal: exact},
	}
}

// largeStreamRows has a stream whose ids grow as a rule: those that do not are errors.
func largeStreamRows(stream argsOf) []row {
	id, top := largeNumber(1, 3000), largeNumber(3000, 3010)
	ids := func(g *gen) []string { return g.several(id) }
	count, group := oneOf("1", "20", "300"), oneOf("g1")
	return []row{
		{name: "XADD", weight: 12, args: seq(stream, id, value, value), equal: exact, fixed: true},
		{name: "XADD", weight: 12, args: seq(stream, oneOf("MAXLEN 2000", "MAXLEN 500", "MINID 100"), func(g *gen) []string { return []string{top(g)[0] + "-*"} },
			value, value), equal: exact, fixed: true},
		{name: "XDEL", weight: 3, args: seq(stream, ids), equal: exact},
		{name: "XRANGE", weight: 2, args: seq(stream, id, oneOf("+"), oneOf("COUNT"), count), equal: exact},
		{name: "XREVRANGE", weight: 2, args: seq(stream, oneOf("+"), id, oneOf("COUNT"), count), equal: exact},
		{name: "XTRIM", weight: 1, args: seq(stream, oneOf("MINID"), id), equal: exact},
		{name: "XGROUP CREATE", weight: 2, args: seq(stream, group, oneOf("0")), equal: exact},
		{name: "XREADGROUP", weight: 5, args: seq(oneOf("GROUP"), group, oneOf("c1", "c2"), oneOf("COUNT"), count, oneOf("STREAMS"), stream, oneOf(">")), equal: exact, fixed: true},
		{name: "XACK", weight: 3, args: seq(stream, group, ids), equal: exact},
		{name: "XAUTOCLAIM", weight: 2, args: seq(stream, group, oneOf("c2", "c3"), oneOf("0"), id, oneOf("COUNT"), count), equal: exact, fixed: true},
		{name: "XPENDING", weight: 2, args: seq(stream, group), equal: exact},
		{name: "XINFO GROUPS", weight: 2, args: stream, equal: exact},
		{name: "DEL", weight: 1, args: oneOf(largeKeys()...), equal: exact},
	}
}

// largeKeys are two lists, a hash, two sets, one of integers, two sorted sets and a stream.
func largeKeys() []string { return []string{"L1", "L2", "H1", "S1", "S2", "I1", "Z1", "Z2", "T1"} }

// several repeats a part some times, or hundreds of times.
func (g *gen) several(part argsOf) []string {
	n := 1 + g.rng.IntN(3)
	if g.chance(20) {
		n = 1 + g.rng.IntN(400)
	}
	return many(n, n, part)(g)
}

// largeElement draws one of thousands of elements, now and then a long one.
func largeElement(g *gen) []string {
	if g.chance(2) {
		return []string{strings.Repeat("x", 1+g.rng.IntN(5000))}
	}
	return []string{"e" + strconv.Itoa(g.rng.IntN(3000))}
}

func largeNumber(low, high int) argsOf {
	return func(g *gen) []string { return []string{strconv.Itoa(low + g.rng.IntN(high-low))} }
}

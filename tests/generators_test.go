package tests

import (
	"crypto/sha1"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// What TestDifferential may send is declared here, one table for each family of commands. To cover a new command, add a
// row: its name, how often it comes, its arguments, how its replies are compared. A command that is random or has a
// cursor names a duel of its own instead.

// family is a group of commands that prefer the same keys, so that they often meet a value of their own type; a
// quarter of the time they take any plain key, so that types collide.
type family struct {
	name string
	keys []string
	rows []row
	// bound keeps the commands to the family's own keys.
	bound bool
}

// row is one command.
type row struct {
	name   string
	weight int
	args   argsOf
	equal  comparator
	// fixed keeps junk out of the arguments, for commands that a random number would make run for ever or expire
	// a key at a moment that two servers cannot share. Wrong arity stays possible.
	fixed bool
	// alone is how the command is compared when one exchange is not enough. Such a command is not sent in MULTI.
	alone func(d *duel, s int, r *row, args []string) error
}

// gen draws arguments.
type gen struct {
	rng  *rand.Rand
	keys []string // what the present family prefers
	// bound says that it takes no others.
	bound bool
}

// argsOf draws some arguments.
type argsOf func(g *gen) []string

func (g *gen) pick(from []string) string { return from[g.rng.IntN(len(from))] }

func (g *gen) chance(percent int) bool { return g.rng.IntN(100) < percent }

// pools of arguments.

// plainKeys take values of all types. Those with a tag and those of the queue lie on shards of their own.
func plainKeys() []string {
	return []string{"l1", "l2", "h1", "h2", "s1", "s2", "z1", "z2", "n1", "n2", "t1", "t2", "", "k\r\n\x00\xff",
		"{a}l", "{a}s", "{b}s", "{b}z", "{c}n", pendingKey, renderKey}
}

// Lists of the queue; the static supplier of the tests puts each on a shard of its own.
const (
	pendingKey = "codeq:q:generate_master:pending:0"
	renderKey  = "codeq:q:render:acme:pending:0"
)

// retentionKey is a sorted set by unix seconds, of which the server removes what is past.
const retentionKey = "codeq:tasks:ttl"

// boundKeys hold only what one family puts there: the partitioned keys take one type, ranges by name mean something
// only where all scores are the same, and long strings would be too much for LCS.
func boundKeys() []string {
	return append([]string{"codeq:tasks", "codeq:results", retentionKey, "x1", "x2", "g1", "g2", "p1", "p2",
		"b1", "b2", "{a}b"}, largeKeys()...)
}

func allKeys() []string { return append(plainKeys(), boundKeys()...) }

func values() []string {
	return []string{"a", "b", "c", "1", "2", "3", "-1", "10", "1.5", "", "x\r\n\x00y", strings.Repeat("long", 40),
		"9223372036854775807", " 1", "01", "3.0", "nan"}
}

func integers() []string {
	return []string{"0", "1", "2", "3", "-1", "-2", "-3", "5", "100", "-100", "-0"}
}

func scores() []string {
	return []string{"0", "1", "2", "3", "-1", "1.5", "2.25", "0.1", "1e3", "-inf", "+inf", "inf", "1e17", "3.0",
		"12345678901234567890", "0.30000000000000004"}
}

// addends are what may be added to a number with a fraction, exact in binary and not.
func addends() []string {
	return []string{"0", "1", "-1", "1.5", "0.1", "-0.1", "0.2", "3.0", "1e2", "5e-3", "1e17", "0.30000000000000004",
		"-1e-5", "inf", "1e400", " 1", "0x10", "1e"}
}

// junk is what no command expects. It has no number that would make a key expire within a test, and no -0, which as a
// score has two forms in Redis.
func junk() []string {
	return []string{"", "abc", "1.5", "1e3", "nan", "inf", "+5", " 7", "007", "0x1A", "9223372036854775807",
		"9223372036854775808", "-9223372036854775808", "18446744073709551616", "(1", "[a", "*", "NX", "\x00", "LIMIT"}
}

// combinators.
func none(*gen) []string { return nil }

func key(g *gen) []string {
	if g.bound || g.chance(75) {
		return []string{g.pick(g.keys)}
	}
	return []string{g.pick(plainKeys())}
}

// expiring is for deadlines, which a partitioned key has in fragments: see docs/compatibility.md.
func expiring(g *gen) []string { return []string{g.pick(append(plainKeys(), "x1", "x2"))} }

// anyKey is for commands that leave the type and the scores of a key as they are, or remove it.
func anyKey(g *gen) []string { return []string{g.pick(allKeys())} }

func value(g *gen) []string   { return []string{g.pick(values())} }
func integer(g *gen) []string { return []string{g.pick(integers())} }
func score(g *gen) []string   { return []string{g.pick(scores())} }
func addend(g *gen) []string  { return []string{g.pick(addends())} }

// counted takes some keys with their number before them, which is now and then wrong.
func counted(g *gen) []string {
	n := 1 + g.rng.IntN(3)
	number := strconv.Itoa(n)
	if g.chance(8) {
		number = g.pick([]string{"0", "-1", "abc", "99", ""})
	}
	return append([]string{number}, many(n, n, key)(g)...)
}

// oneOf takes one of the words; a word with spaces becomes several arguments.
func oneOf(words ...string) argsOf {
	return func(g *gen) []string { return strings.Fields(g.pick(words)) }
}

// seq takes the arguments of each in turn.
func seq(parts ...argsOf) argsOf {
	return func(g *gen) []string {
		var out []string
		for _, part := range parts {
			out = append(out, part(g)...)
		}
		return out
	}
}

// maybe takes the arguments in so many of a hundred cases.
func maybe(percent int, part argsOf) argsOf {
	return func(g *gen) []string {
		if g.chance(percent) {
			return part(g)
		}
		return nil
	}
}

// many repeats the part, low to high times.
func many(low, high int, part argsOf) argsOf {
	return func(g *gen) []string {
		var out []string
		for range low + g.rng.IntN(high-low+1) {
			out = append(out, part(g)...)
		}
		return out
	}
}

// random case, as users write commands.
func (g *gen) recase(name string) string {
	switch g.rng.IntN(10) {
	case 0:
		return strings.ToLower(name)
	case 1:
		return name[:1] + strings.ToLower(name[1:])
	}
	return name
}

// draw makes a command of the row: sometimes too short, too long or with junk in the place of an argument.
func (g *gen) draw(f *family, r *row) []string {
	g.keys, g.bound = f.keys, f.bound
	args := append([]string{g.recase(strings.Fields(r.name)[0])}, strings.Fields(r.name)[1:]...)
	args = append(args, r.args(g)...)
	switch fault := g.rng.IntN(100); {
	case fault < 3 && len(args) > 1:
		args = args[:len(args)-1]
	case fault < 5 && !r.fixed:
		args = append(args, g.pick(junk()))
	case fault < 9 && len(args) > 1 && !r.fixed:
		args[1+g.rng.IntN(len(args)-1)] = g.pick(junk())
	}
	return args
}

// times far enough from now in both directions that both servers agree on what has expired.
var (
	seconds   = oneOf("1000", "5000", "100000", "0", "-1", "-1000", "abc", "", "9223372036854775807", "1.5")
	millis    = oneOf("1000000", "5000000", "0", "-1", "abc", "9223372036854775807")
	unixSecs  = oneOf("4102444800", "1", "0", "-5", "abc", "9223372036854775807")
	unixMs    = oneOf("4102444800000", "1", "0", "x")
	condition = maybe(30, oneOf("NX", "XX", "GT", "LT", "nx", "BAD", "NX XX", "GT LT", "XX GT"))
	// Whether a time from now is later than another depends on the millisecond, so GT and LT go with fixed times only.
	existence = maybe(30, oneOf("NX", "XX", "xx", "BAD", "NX XX", "GT LT", "NX GT"))
	limit     = maybe(30, oneOf("LIMIT 0 2", "LIMIT 1 1", "LIMIT 0 -1", "LIMIT -1 2", "LIMIT 0", "LIMIT a b", "limit 2 5"))
	bound     = oneOf("-inf", "+inf", "0", "1", "2", "(1", "(2.25", "1.5", "(", "abc", "[a", "nan", "3")
	count     = maybe(40, oneOf("COUNT 1", "COUNT 2", "count 10", "COUNT 0", "COUNT -1", "COUNT x", "COUNT", "BAD 1"))
	// timeout lets a command wait for a moment at most: nobody else is there to add something.
	timeout   = oneOf("0.001", "0.001", "0.001", "0.001", "1e-3", "-1", "x", "nan", "inf", "1e400", "", " 1")
	withScore = maybe(40, oneOf("WITHSCORES", "withscores", "WITHSCORE"))
	patterns  = oneOf("*", "l*", "?1", "[ls]*", "[^l]1", `\l1`, "*1", "h[12]", "[a-", "**", "l1")
)

// families is the first command set.
func families() []family {
	return []family{
		serverFamily(), keysFamily(), stringsFamily(), listsFamily(), hashesFamily(), setsFamily(), zsetsFamily(),
		namesFamily(), transactionsFamily(), scriptsFamily(), functionsFamily(), sortFamily(), dumpFamily(), streamsFamily(),
		bitmapsFamily(), longStringsFamily(), hyperLogLogFamily(), growingHyperLogLogFamily(), geoFamily(), algebraFamily(),
		largeFamily(),
		partitioned(hashesFamily(), "codeq:tasks", "codeq:results", "h1"),
		partitioned(retentionFamily(), retentionKey),
	}
}

// partitioned sends a family's commands to keys that are spread over the shards, and to one plain key for those that
// take two. They come half as often as on plain keys.
func partitioned(f family, keys ...string) family {
	rows := slices.Clone(f.rows)
	for i := range rows {
		rows[i].weight = (rows[i].weight + 1) / 2
	}
	return family{name: "partitioned " + f.name, keys: keys, rows: rows, bound: true}
}

// unknownCommand is what no server knows.
const unknownCommand = "NOSUCH"

func serverFamily() family {
	return family{name: "server", keys: plainKeys(), rows: []row{
		{name: "PING", weight: 2, args: maybe(50, value), equal: exact},
		{name: "ECHO", weight: 2, args: value, equal: exact},
		{name: "SELECT", weight: 4, args: oneOf("0", "0", "0", "1", "2", "16", "-1", "x", "0x1"), equal: exact},
		{name: "DBSIZE", weight: 3, args: none, equal: exact},
		{name: "PUBLISH", weight: 1, args: seq(value, value), equal: exact},
		{name: "SPUBLISH", weight: 1, args: seq(value, value), equal: exact},
		{name: "WAIT", weight: 1, args: seq(oneOf("0", "-1", "x"), oneOf("0", "1", "-1", "x")), equal: exact, fixed: true},
		{name: "FLUSHDB", weight: 1, args: maybe(50, oneOf("ASYNC", "SYNC", "NOW")), equal: exact},
		{name: "FLUSHALL", weight: 1, args: maybe(50, oneOf("async", "sync", "x y")), equal: exact},
		{name: unknownCommand, weight: 1, args: many(0, 3, value), equal: exact},
	}}
}

func keysFamily() family {
	return family{name: "keys", keys: plainKeys(), rows: []row{
		{name: "DEL", weight: 8, args: many(1, 3, anyKey), equal: exact},
		{name: "UNLINK", weight: 3, args: many(1, 3, anyKey), equal: exact},
		{name: "EXISTS", weight: 3, args: many(1, 3, anyKey), equal: exact},
		{name: "TYPE", weight: 4, args: anyKey, equal: exact},
		{name: "KEYS", weight: 3, args: patterns, equal: unordered},
		{name: "SCAN", weight: 4, args: seq(oneOf("0", "0", "0", "0", "abc", "-1"), scanOptions, maybe(20,
			oneOf("TYPE string", "TYPE hash", "TYPE nosuch", "TYPE"))), alone: aloneScan},
		{name: "RENAME", weight: 5, args: seq(key, key), equal: exact},
		{name: "EXPIRE", weight: 5, args: seq(expiring, seconds, existence), equal: exact, fixed: true},
		{name: "PEXPIRE", weight: 3, args: seq(expiring, millis, existence), equal: exact, fixed: true},
		{name: "EXPIREAT", weight: 3, args: seq(expiring, unixSecs, condition), equal: exact, fixed: true},
		{name: "PEXPIREAT", weight: 3, args: seq(expiring, unixMs, condition), equal: exact, fixed: true},
		{name: "TOUCH", weight: 2, args: many(1, 3, anyKey), equal: exact},
		{name: "RANDOMKEY", weight: 2, args: none, alone: aloneRandomKey},
		{name: "RENAMENX", weight: 4, args: seq(key, key), equal: exact},
		{name: "TTL", weight: 4, args: anyKey, equal: within(2)},
		{name: "PTTL", weight: 4, args: anyKey, equal: within(2000)},
		{name: "EXPIRETIME", weight: 3, args: anyKey, equal: within(2)},
		{name: "PEXPIRETIME", weight: 3, args: anyKey, equal: within(2000)},
		{name: "PERSIST", weight: 3, args: anyKey, equal: exact},
	}}
}

var scanOptions = seq(maybe(40, oneOf("MATCH *", "MATCH l*", "match [a-c]", "MATCH")),
	maybe(40, oneOf("COUNT 1", "COUNT 3", "count 1000", "COUNT 0", "COUNT -1", "COUNT x", "BAD 1")))

func stringsFamily() family {
	setOption := oneOf("NX", "XX", "GET", "KEEPTTL", "EX 1000", "PX 1000000", "EXAT 4102444800", "PXAT 4102444800000",
		"EX 0", "EX", "PX abc", "NX XX", "EX 1000 PX 1000000", "KEEPTTL EX 1000", "nx get", "BAD")
	getOption := oneOf("PERSIST", "persist", "EX 1000", "PX 1000000", "EXAT 4102444800", "PXAT 4102444800000", "EXAT 1",
		"PXAT 1", "EX 0", "PX -1", "EX", "EX abc", "EX 9223372036854775807", "KEEPTTL", "BAD")
	return family{name: "strings", keys: []string{"n1", "n2", "{c}n", "l1"}, rows: []row{
		{name: "GET", weight: 8, args: key, equal: exact},
		{name: "SET", weight: 12, args: seq(key, value, maybe(40, many(1, 2, setOption))), equal: exact, fixed: true},
		{name: "SETEX", weight: 3, args: seq(key, seconds, value), equal: exact, fixed: true},
		{name: "SETNX", weight: 3, args: seq(key, value), equal: exact},
		{name: "MGET", weight: 3, args: many(1, 4, key), equal: exact},
		{name: "MSET", weight: 3, args: many(1, 3, seq(key, value)), equal: exact},
		{name: "INCR", weight: 6, args: key, equal: exact},
		{name: "INCRBY", weight: 4, args: seq(key, integer), equal: exact},
		{name: "DECR", weight: 4, args: key, equal: exact},
		{name: "DECRBY", weight: 2, args: seq(key, integer), equal: exact},
		{name: "INCRBYFLOAT", weight: 5, args: seq(key, addend), equal: exact},
		{name: "PSETEX", weight: 2, args: seq(key, millis, value), equal: exact, fixed: true},
		{name: "GETSET", weight: 3, args: seq(key, value), equal: exact},
		{name: "GETDEL", weight: 3, args: key, equal: exact},
		{name: "GETEX", weight: 5, args: seq(key, maybe(60, many(1, 2, getOption))), equal: exact, fixed: true},
		{name: "APPEND", weight: 4, args: seq(key, value), equal: exact},
		{name: "STRLEN", weight: 3, args: key, equal: exact},
		{name: "GETRANGE", weight: 4, args: seq(key, integer, integer), equal: exact},
		{name: "SUBSTR", weight: 1, args: seq(key, integer, integer), equal: exact},
		{name: "SETRANGE", weight: 4, args: seq(key, integer, value), equal: exact},
		{name: "MSETNX", weight: 3, args: many(1, 2, seq(key, value)), equal: exact},
	}}
}

func listsFamily() family {
	end := oneOf("LEFT", "RIGHT", "left", "MIDDLE")
	posOption := oneOf("RANK 1", "RANK 2", "RANK -1", "RANK -2", "RANK 0", "COUNT 0", "COUNT 2", "COUNT -1", "MAXLEN 0",
		"MAXLEN 3", "MAXLEN -1", "rank x", "COUNT", "BAD 1")
	return family{name: "lists", keys: []string{"l1", "l2", "{a}l", pendingKey, renderKey}, rows: []row{
		{name: "LPUSH", weight: 12, args: seq(key, many(1, 4, value)), equal: exact},
		{name: "RPUSH", weight: 12, args: seq(key, many(1, 4, value)), equal: exact},
		{name: "LPOP", weight: 6, args: seq(key, maybe(30, integer)), equal: exact},
		{name: "RPOP", weight: 6, args: seq(key, maybe(30, integer)), equal: exact},
		{name: "LLEN", weight: 3, args: key, equal: exact},
		{name: "LRANGE", weight: 6, args: seq(key, integer, integer), equal: exact},
		{name: "LINDEX", weight: 4, args: seq(key, integer), equal: exact},
		{name: "LREM", weight: 6, args: seq(key, integer, value), equal: exact},
		{name: "LPUSHX", weight: 3, args: seq(key, many(1, 3, value)), equal: exact},
		{name: "RPUSHX", weight: 3, args: seq(key, many(1, 3, value)), equal: exact},
		{name: "LSET", weight: 5, args: seq(key, integer, value), equal: exact},
		{name: "LINSERT", weight: 5, args: seq(key, oneOf("BEFORE", "AFTER", "after", "BAD"), value, value), equal: exact},
		{name: "LTRIM", weight: 3, args: seq(key, integer, integer), equal: exact},
		{name: "LPOS", weight: 5, args: seq(key, value, many(0, 3, posOption)), equal: exact},
		{name: "LMPOP", weight: 5, args: seq(counted, end, count), equal: exact},
		{name: "RPOPLPUSH", weight: 4, args: seq(key, key), equal: exact},
		{name: "LMOVE", weight: 5, args: seq(key, key, end, end), equal: exact},
		{name: "BLPOP", weight: 3, args: seq(many(1, 3, key), timeout), equal: exact, fixed: true},
		{name: "BRPOP", weight: 3, args: seq(many(1, 3, key), timeout), equal: exact, fixed: true},
		{name: "BLMPOP", weight: 3, args: seq(timeout, counted, end, count), equal: exact, fixed: true},
		{name: "BLMOVE", weight: 3, args: seq(key, key, end, end, timeout), equal: exact, fixed: true},
		{name: "BRPOPLPUSH", weight: 2, args: seq(key, key, timeout), equal: exact, fixed: true},
	}}
}

func hashesFamily() family {
	return family{name: "hashes", keys: []string{"h1", "h2"}, rows: []row{
		{name: "HSET", weight: 12, args: seq(key, many(1, 3, seq(value, value))), equal: exact},
		{name: "HGET", weight: 4, args: seq(key, value), equal: exact},
		{name: "HMGET", weight: 4, args: seq(key, many(1, 4, value)), equal: exact},
		{name: "HDEL", weight: 5, args: seq(key, many(1, 3, value)), equal: exact},
		{name: "HEXISTS", weight: 3, args: seq(key, value), equal: exact},
		{name: "HLEN", weight: 3, args: key, equal: exact},
		{name: "HGETALL", weight: 5, args: key, equal: pairs},
		{name: "HINCRBY", weight: 5, args: seq(key, value, integer), equal: exact},
		{name: "HMSET", weight: 3, args: seq(key, many(1, 3, seq(value, value))), equal: exact},
		{name: "HSETNX", weight: 4, args: seq(key, value, value), equal: exact},
		{name: "HKEYS", weight: 3, args: key, equal: unordered},
		{name: "HVALS", weight: 3, args: key, equal: unordered},
		{name: "HSTRLEN", weight: 3, args: seq(key, value), equal: exact},
		{name: "HINCRBYFLOAT", weight: 5, args: seq(key, value, addend), equal: exact},
		{name: "HSCAN", weight: 4, args: seq(key, oneOf("0", "0", "0", "x"), scanOptions), alone: aloneScan},
	}}
}

func setsFamily() family {
	return family{name: "sets", keys: []string{"s1", "s2", "{a}s", "{b}s"}, rows: []row{
		{name: "SADD", weight: 14, args: seq(key, many(1, 4, value)), equal: exact},
		{name: "SREM", weight: 5, args: seq(key, many(1, 3, value)), equal: exact},
		{name: "SCARD", weight: 3, args: key, equal: exact},
		{name: "SISMEMBER", weight: 4, args: seq(key, value), equal: exact},
		{name: "SMEMBERS", weight: 5, args: key, equal: unordered},
		{name: "SMISMEMBER", weight: 3, args: seq(key, many(1, 4, value)), equal: exact},
		{name: "SMOVE", weight: 5, args: seq(key, key, value), equal: exact},
		{name: "SINTER", weight: 4, args: many(1, 3, key), equal: unordered},
		{name: "SUNION", weight: 4, args: many(1, 3, key), equal: unordered},
		{name: "SDIFF", weight: 4, args: many(1, 3, key), equal: unordered},
		{name: "SINTERSTORE", weight: 3, args: many(2, 4, key), equal: exact},
		{name: "SUNIONSTORE", weight: 3, args: many(2, 4, key), equal: exact},
		{name: "SDIFFSTORE", weight: 3, args: many(2, 4, key), equal: exact},
		{name: "SINTERCARD", weight: 4, args: seq(counted, maybe(50,
			oneOf("LIMIT 0", "LIMIT 1", "limit 2", "LIMIT -1", "LIMIT x", "LIMIT", "BAD 1"))), equal: exact},
		{name: "SSCAN", weight: 3, args: seq(key, oneOf("0", "0", "0", "x"), scanOptions), alone: aloneScan},
		{name: "SRANDMEMBER", weight: 5, args: seq(key, maybe(60, integer), maybe(3, value)), fixed: true, alone: aloneRandom},
		{name: "SPOP", weight: 5, args: seq(key, maybe(50, integer)), fixed: true, alone: alonePop},
	}}
}

func zsetsFamily() family { return sortedSets(score, bound, false) }

// retentionFamily keeps to scores that are times to come, and to such as stay so when they are added to one another.
func retentionFamily() family {
	return sortedSets(
		oneOf("4102444800", "4102444801", "4102444801.5", "4102444802", "5e9", "9007199254740992", "1e17", "inf"),
		oneOf("-inf", "+inf", "4102444801", "(4102444801", "(4102444801.5", "4102444802", "9e9", "(5e9", "0", "abc"), true)
}

// sortedSets has the commands on sorted sets with the scores and bounds; fixed keeps others away.
func sortedSets(score, bound argsOf, fixed bool) family {
	addOption := maybe(40, oneOf("NX", "XX", "GT", "LT", "CH", "INCR", "NX GT", "XX CH", "GT LT", "xx incr", "NX INCR"))
	// BYLEX is in namesFamily: on members of different scores it means nothing.
	rangeOption := maybe(50, oneOf("REV", "BYSCORE", "BYSCORE REV", "BYSCORE LIMIT 0 2", "LIMIT 0 1",
		"WITHSCORES", "REV WITHSCORES", "BYLEX WITHSCORES", "BAD"))
	numeric := oneOf("0", "-1", "1", "2", "-inf", "+inf", "(1", "[a")
	lex := oneOf("-", "+", "[a", "(b", "[c", "0", "-1", "1", "2", "-inf", "+inf", "(1")
	return family{name: "zsets", keys: []string{"z1", "z2", "{b}z"}, rows: []row{
		{name: "ZADD", weight: 16, args: seq(key, addOption, many(1, 3, seq(score, value))), equal: exact, fixed: fixed},
		{name: "ZREM", weight: 5, args: seq(key, many(1, 3, value)), equal: exact},
		{name: "ZCARD", weight: 3, args: key, equal: exact},
		{name: "ZSCORE", weight: 4, args: seq(key, value), equal: exact},
		{name: "ZMSCORE", weight: 4, args: seq(key, many(1, 3, value)), equal: exact},
		{name: "ZRANGE", weight: 8, args: seq(key, lex, lex, rangeOption), equal: exact},
		{name: "ZRANGEBYSCORE", weight: 6, args: seq(key, bound, bound, withScore, limit), equal: exact},
		{name: "ZREMRANGEBYSCORE", weight: 4, args: seq(key, bound, bound), equal: exact},
		{name: "ZCOUNT", weight: 4, args: seq(key, bound, bound), equal: exact},
		{name: "ZINCRBY", weight: 5, args: seq(key, score, value), equal: exact, fixed: fixed},
		{name: "ZPOPMIN", weight: 5, args: seq(key, maybe(40, integer)), equal: exact},
		{name: "ZPOPMAX", weight: 4, args: seq(key, maybe(40, integer)), equal: exact},
		{name: "ZMPOP", weight: 4, args: seq(counted, oneOf("MIN", "MAX", "max", "MIDDLE"), count), equal: exact},
		{name: "BZPOPMIN", weight: 2, args: seq(many(1, 3, key), timeout), equal: exact, fixed: true},
		{name: "BZPOPMAX", weight: 2, args: seq(many(1, 3, key), timeout), equal: exact, fixed: true},
		{name: "BZMPOP", weight: 2, args: seq(timeout, counted, oneOf("MIN", "MAX", "max", "MIDDLE"), count), equal: exact, fixed: true},
		{name: "ZRANK", weight: 4, args: seq(key, value), equal: exact},
		{name: "ZREVRANK", weight: 4, args: seq(key, value), equal: exact},
		{name: "ZREVRANGE", weight: 4, args: seq(key, integer, integer, withScore), equal: exact},
		{name: "ZREVRANGEBYSCORE", weight: 4, args: seq(key, bound, bound, withScore, limit), equal: exact},
		{name: "ZREMRANGEBYRANK", weight: 3, args: seq(key, integer, integer), equal: exact},
		{name: "ZRANGESTORE", weight: 5, args: seq(key, key, numeric, numeric, rangeOption), equal: exact},
		{name: "ZSCAN", weight: 3, args: seq(key, oneOf("0", "0", "0", "x"), scanOptions), alone: aloneScan},
	}}
}

// namesFamily has the ranges by name, on sorted sets whose members all have one score.
func namesFamily() family {
	name := oneOf("-", "+", "-", "+", "[a", "(a", "[b", "(b", "[c", "[1", "(1", "[3", "(x", "[", "(", "a", "0")
	option := maybe(40, oneOf("REV", "LIMIT 0 2", "LIMIT 1 1", "LIMIT 0 -1", "LIMIT -1 2", "REV LIMIT 1 2", "WITHSCORES"))
	same := func(g *gen) []string { return []string{"0", g.pick(values())} }
	return family{name: "names", keys: []string{"x1", "x2"}, bound: true, rows: []row{
		{name: "ZADD", weight: 8, args: seq(key, many(1, 5, same)), equal: exact, fixed: true},
		{name: "ZRANGEBYLEX", weight: 5, args: seq(key, name, name, limit), equal: exact},
		{name: "ZREVRANGEBYLEX", weight: 5, args: seq(key, name, name, limit), equal: exact},
		{name: "ZLEXCOUNT", weight: 4, args: seq(key, name, name), equal: exact},
		{name: "ZREMRANGEBYLEX", weight: 4, args: seq(key, name, name), equal: exact},
		{name: "ZRANGE", weight: 4, args: seq(key, name, name, oneOf("BYLEX"), option), equal: exact},
		{name: "ZRANGESTORE", weight: 4, args: seq(key, key, name, name, oneOf("bylex"), option), equal: exact},
		{name: "ZREM", weight: 2, args: seq(key, many(1, 2, value)), equal: exact},
		{name: "ZPOPMAX", weight: 1, args: seq(key, maybe(40, integer)), equal: exact},
	}}
}

func transactionsFamily() family {
	return family{name: "transactions", keys: plainKeys(), rows: []row{
		{name: "MULTI", weight: 12, args: none, equal: exact},
		{name: "EXEC", weight: 3, args: none, equal: exact},
		{name: "DISCARD", weight: 2, args: none, equal: exact},
		{name: "WATCH", weight: 8, args: many(1, 2, anyKey), equal: exact},
		{name: "UNWATCH", weight: 2, args: none, equal: exact},
	}}
}

func scriptsFamily() family {
	script := func(g *gen) []string { return []string{g.pick(scripts())} }
	digest := func(g *gen) []string {
		sum := sha1.Sum([]byte(g.pick(scripts())))
		text := hex.EncodeToString(sum[:])
		switch g.rng.IntN(8) {
		case 0:
			text = strings.ToUpper(text)
		case 1:
			text = "nosuch"
		}
		return []string{text}
	}
	rest := func(g *gen) []string {
		if g.chance(5) {
			return []string{g.pick([]string{"-1", "abc", "99", ""}), "l1"}
		}
		n := 1 + g.rng.IntN(2)
		return append([]string{strconv.Itoa(n)}, seq(many(n, n, key), many(0, 3, value))(g)...)
	}
	return family{name: "scripts", keys: []string{"l1", "h1", "s1", "z1", "n1"}, rows: []row{
		{name: "EVAL", weight: 25, args: seq(script, rest), equal: compiled, fixed: true},
		{name: "EVALSHA", weight: 12, args: seq(digest, rest), equal: compiled, fixed: true},
		{name: "EVAL_RO", weight: 6, args: seq(script, rest), equal: compiled, fixed: true},
		{name: "EVALSHA_RO", weight: 4, args: seq(digest, rest), equal: compiled, fixed: true},
		{name: "SCRIPT LOAD", weight: 4, args: script, equal: compiled},
		{name: "SCRIPT EXISTS", weight: 3, args: many(1, 3, digest), equal: exact},
		{name: "SCRIPT FLUSH", weight: 1, args: maybe(50, oneOf("ASYNC", "SYNC", "BAD")), equal: exact},
	}}
}

// scripts is what EVAL runs. No script returns what has no order, and none ends by its own time.
func scripts() []string {
	return []string{
		`return redis.call('GET', KEYS[1])`,
		`return redis.call('SET', KEYS[1], ARGV[1] or 'x')`,
		`return redis.call('INCR', KEYS[1])`,
		`return redis.pcall('INCR', KEYS[1])`,
		`return {redis.call('RPUSH', KEYS[1], 1, 2), redis.call('LPOP', KEYS[1]), redis.call('LLEN', KEYS[1])}`,
		`local r = redis.pcall('LLEN', KEYS[1]) if type(r) == 'table' then return r.err end return r`,
		// A script that fails after a write is not among these: see "scripts" in docs/compatibility.md.
		`redis.call('SET', KEYS[1], 'whole') return redis.pcall('LPUSH', KEYS[1], 'x')`,
		`return redis.call('TYPE', KEYS[1]).ok`,
		`return {1, 2.9, -2.9, 'x', true, false, 3}`,
		`return {1, nil, 3}`,
		`return {}`,
		`return redis.error_reply('MY error')`,
		`return redis.error_reply('PLAIN')`,
		`return redis.status_reply('FINE')`,
		`return {err = 'TABLE err'}`,
		`return nosuch`,
		`error('boom')`,
		`return error({err = 'MY thrown'})`,
		`return 'syntax`,
		`return tostring(1/3) .. ' ' .. tostring(1e15) .. ' ' .. tostring(1e14) .. ' ' .. 10 / 2`,
		`return redis.call('ZADD', KEYS[1], 0.1 + 0.2, 'm')`,
		`return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')`,
		`return redis.call('NOSUCH', KEYS[1])`,
		`return redis.call('GET')`,
		`return redis.sha1hex(ARGV[1] or '')`,
		`local m = redis.call('SMEMBERS', KEYS[1]) table.sort(m) return m`,
		`return redis.call('SELECT', 1)`,
		`return redis.call('MULTI')`,
		`return #KEYS .. ':' .. #ARGV`,
		`return tonumber(ARGV[1] or '7')`,
		`redis.setresp(3) return redis.call('ZSCORE', KEYS[1], ARGV[1] or 'a')`,
		`return redis.call('EXPIRE', KEYS[1], 1000)`,
		`return redis.call('RENAME', KEYS[1], KEYS[2] or KEYS[1])`,
	}
}

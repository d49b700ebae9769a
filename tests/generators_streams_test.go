package tests

import (
	"fmt"
	"regexp"
	"strconv"

	"codeq/internal/peer"
)

// streamsFamily has the commands on streams. Ids are few and small, so that they collide; those that the server chooses
// depend on its clock, and have a duel of their own.
func streamsFamily() family {
	id := streamID()
	newID := oneOf("1-1", "1-2", "2-1", "2-2", "3-1", "3-2", "3-3", "4-1", "5-3", "1-*", "2-*", "3-*", "4-*", "5-*", "0-*", "2", "3", "0", "-", "+")
	limit := maybe(30, oneOf("LIMIT 0", "LIMIT 1", "LIMIT 3", "limit 1000", "LIMIT -1", "LIMIT x"))
	trim := oneOf("MAXLEN 0", "MAXLEN 2", "MAXLEN = 3", "maxlen 5", "MAXLEN -1", "MAXLEN x", "MINID 2", "MINID = 2-2", "minid 3-*", "MINID -",
		"MAXLEN 5 MINID 2", "MINID (2")
	// Redis trims whole nodes, and deleted entries keep their place in one: by id, only what trims all or nothing is the same.
	loose := seq(oneOf("MAXLEN ~ 0", "MAXLEN ~ 2", "MAXLEN ~ 5", "MINID ~ 0-1", "MINID ~ 9"), limit)
	count, edge := streamCount(), streamEdge()
	read := oneOf("0", "0", "1-1", "2-2", "3", "$", "9-9", "x", "18446744073709551615-18446744073709551615")
	added := maybe(30, oneOf("ENTRIESADDED 5", "ENTRIESADDED 20", "entriesadded -1", "ENTRIESADDED x", "ENTRIESADDED"))
	deleted := maybe(30, oneOf("MAXDELETEDID 0-0", "MAXDELETEDID 1-1", "MAXDELETEDID 2", "MAXDELETEDID x", "BAD"))
	full := oneOf("FULL", "full", "FULL COUNT 1", "FULL COUNT 0", "FULL COUNT -1", "FULL COUNT x", "FULL COUNT", "BAD")
	return family{name: "streams", keys: []string{"t1", "t1", "t2", "t2", "{a}s"}, rows: append([]row{
		{name: "XADD", weight: 40, args: seq(key, maybe(5, oneOf("NOMKSTREAM")), newID, many(1, 2, seq(value, value))), equal: exact, fixed: true},
		{name: "XADD", weight: 6, args: seq(key, oneOf("NOMKSTREAM", "nomkstream", "LIMIT 1", "BAD"), newID, value, value), equal: exact, fixed: true},
		{name: "XADD", weight: 6, args: seq(key, trim, newID, value, value), equal: exact, fixed: true},
		{name: "XADD", weight: 3, args: seq(key, loose, newID, value, value), equal: exact, fixed: true},
		{name: "XADD", weight: 3, args: seq(oneOf("nosuch"), oneOf("*"), value, value), fixed: true, alone: aloneAutoID},
		{name: "XLEN", weight: 3, args: key, equal: exact},
		{name: "XRANGE", weight: 8, args: seq(key, edge, edge, count), equal: exact},
		{name: "XREVRANGE", weight: 6, args: seq(key, edge, edge, count), equal: exact},
		{name: "XDEL", weight: 8, args: seq(key, many(1, 3, id)), equal: exact},
		{name: "XTRIM", weight: 4, args: seq(key, trim), equal: exact},
		{name: "XTRIM", weight: 3, args: seq(key, loose), equal: exact, fixed: true},
		{name: "XSETID", weight: 5, args: seq(key, id, added, deleted), equal: exact, fixed: true},
		{name: "XREAD", weight: 8, args: seq(count, streamBlock(), oneOf("STREAMS", "streams"), streamList(read)), equal: exact, fixed: true},
		{name: "XREAD", weight: 1, args: seq(oneOf("GROUP g1 c1", "NOACK", "BAD", "STREAMS", "COUNT"), oneOf("STREAMS"), streamList(read)),
			equal: exact, fixed: true},
		{name: "XINFO STREAM", weight: 6, args: key, equal: exact},
		{name: "XINFO STREAM", weight: 6, args: seq(key, full), equal: withTimes, fixed: true},
		{name: "DEL", weight: 3, args: key, equal: exact},
		{name: "RENAME", weight: 2, args: seq(key, key), equal: exact},
		{name: "TYPE", weight: 1, args: key, equal: exact},
	}, groupRows()...)}
}

// groupRows has the commands on consumer groups.
func groupRows() []row {
	id, edge, count := streamID(), streamEdge(), streamCount()
	group := oneOf("g1", "g1", "g1", "g2", "g2", "g3")
	consumer := oneOf("c1", "c1", "c2", "c2", "c3")
	// Minutes of idle time, so that two servers agree on what has been idle for long.
	idle := oneOf("0", "0", "0", "0", "-5", "600000", "x")
	longIdle := maybe(20, oneOf("IDLE 0", "IDLE 600000", "idle -1", "IDLE x", "IDLE"))
	read := oneOf(">", ">", ">", ">", "0", "0", "1-1", "2-2", "$", "x")
	entriesRead := maybe(40, oneOf("ENTRIESREAD 0", "ENTRIESREAD 1", "ENTRIESREAD 3", "ENTRIESREAD -1", "ENTRIESREAD -2", "entriesread x", "ENTRIESREAD"))
	claimOption := oneOf("FORCE", "JUSTID", "force", "IDLE 0", "IDLE 100000", "IDLE -1", "IDLE x", "TIME 1000000", "TIME 99999999999999",
		"RETRYCOUNT 5", "RETRYCOUNT -1", "RETRYCOUNT x", "LASTID 2-2", "LASTID x", "BAD")
	return []row{
		{name: "XREADGROUP", weight: 30, args: seq(oneOf("GROUP", "group"), group, consumer, count, streamBlock(), maybe(15, oneOf("NOACK", "noack")),
			oneOf("STREAMS"), streamList(read)), equal: exact, fixed: true},
		{name: "XREADGROUP", weight: 1, args: seq(count, oneOf("NOACK", "BAD", "GROUP g1"), oneOf("STREAMS"), streamList(read)), equal: exact, fixed: true},
		{name: "XACK", weight: 8, args: seq(key, group, many(1, 3, id)), equal: exact},
		{name: "XPENDING", weight: 5, args: seq(key, group), equal: exact, fixed: true},
		{name: "XPENDING", weight: 8, args: seq(key, group, longIdle, edge, edge, oneOf("10", "10", "1", "0", "-1", "x"), maybe(50, consumer),
			maybe(3, value)), equal: withIdle, fixed: true},
		{name: "XCLAIM", weight: 10, args: seq(key, group, consumer, idle, many(1, 3, id), many(0, 2, claimOption)), equal: exact, fixed: true},
		{name: "XAUTOCLAIM", weight: 6, args: seq(key, group, consumer, idle, edge, maybe(60, oneOf("COUNT 1", "COUNT 2", "count 10", "COUNT 0",
			"COUNT x", "COUNT")), maybe(30, oneOf("JUSTID", "justid", "BAD"))), equal: exact, fixed: true},
		{name: "XGROUP CREATE", weight: 14, args: seq(key, group, oneOf("0", "0", "$", "2-1", "9-9", "-", "+", "x"),
			maybe(50, oneOf("MKSTREAM", "mkstream", "BAD")), entriesRead), equal: exact, fixed: true},
		{name: "XGROUP CREATECONSUMER", weight: 3, args: seq(key, group, consumer), equal: exact},
		{name: "XGROUP DELCONSUMER", weight: 3, args: seq(key, group, consumer), equal: exact},
		{name: "XGROUP DESTROY", weight: 3, args: seq(key, group), equal: exact},
		{name: "XGROUP SETID", weight: 5, args: seq(key, group, oneOf("0", "$", "1-2", "2-1", "9-9", "-", "+", "x"), entriesRead), equal: exact, fixed: true},
		{name: "XGROUP", weight: 2, args: seq(oneOf("destroy", "Destroy"), key, group), equal: exact},
		{name: "XGROUP", weight: 1, args: seq(oneOf("BAD", "CREATE", "destroy"), many(0, 3, key)), equal: exact, fixed: true},
		{name: "XINFO GROUPS", weight: 6, args: key, equal: exact},
		{name: "XINFO CONSUMERS", weight: 5, args: seq(key, group), equal: withIdle, fixed: true},
	}
}

// What the commands on streams have in common.

func streamID() argsOf {
	return oneOf("0", "1", "2", "0-1", "1-1", "1-2", "1-3", "2-1", "2-2", "2-3", "3-1", "3-2", "3-3", "4-1", "5-3", "9-9", "0-0", "1-1-1")
}

func streamEdge() argsOf {
	return oneOf("-", "+", "-", "+", "0", "1", "2-1", "(1-1", "(2", "(2-2", "3", "5-3", "(-", "(0-0",
		"(18446744073709551615-18446744073709551615", "x")
}

func streamCount() argsOf {
	return maybe(40, oneOf("COUNT 1", "COUNT 2", "count 10", "COUNT 0", "COUNT -1", "COUNT x", "COUNT"))
}

// streamBlock waits for a millisecond at most: nobody else is there to add something.
func streamBlock() argsOf {
	return maybe(5, oneOf("BLOCK 1", "block 1", "BLOCK x", "BLOCK -1", "BLOCK 1.5"))
}

// streamList takes keys and then an id for each, now and then one too few.
func streamList(id argsOf) argsOf {
	return func(g *gen) []string {
		switch g.rng.IntN(10) {
		case 0:
			return seq(key, key, id, id)(g)
		case 1:
			return seq(key, key, id)(g)
		}
		return seq(key, id)(g)
	}
}

// idleTolerance is by how much times in ms may differ, for the servers are not asked at the same moment.
const idleTolerance = 60_000

// longAgo is a time in unix ms that is before every test.
const longAgo = 1_600_000_000_000

// withTimes is exact but for integers that are a time of this test.
func withTimes(a, b peer.Reply) bool { return exact(timeless(a), timeless(b)) }

// withIdle is withTimes, with idle times too: an integer behind the word idle, or the third of the four things that XPENDING
// tells of an entry.
func withIdle(a, b peer.Reply) bool { return exact(idleless(timeless(a)), idleless(timeless(b))) }

// timeless puts a word in the place of each integer that is a time.
func timeless(r peer.Reply) peer.Reply {
	if n, err := strconv.ParseInt(r.Str, 10, 64); r.Kind == ':' && err == nil && n > longAgo {
		r.Str = "time"
	}
	return mapped(r, timeless)
}

// idleless puts a word in the place of idle times that are plausible, for no test takes an hour.
func idleless(r peer.Reply) peer.Reply {
	r = mapped(r, idleless)
	for i := range r.Elems {
		behind := i > 0 && r.Elems[i-1].Str == "idle"
		third := i == 2 && len(r.Elems) == 4 && r.Elems[3].Kind == ':'
		n, err := strconv.ParseInt(r.Elems[i].Str, 10, 64)
		switch {
		case !behind && !third || r.Elems[i].Kind != ':' || err != nil:
		case n < idleTolerance:
			r.Elems[i].Str = "short"
		default: // given by a client, as IDLE or TIME
			r.Elems[i].Str = fmt.Sprintf("about %d minutes", (n+30_000)/60_000)
		}
	}
	return r
}

// mapped applies fn to every element.
func mapped(r peer.Reply, fn func(peer.Reply) peer.Reply) peer.Reply {
	if len(r.Elems) > 0 {
		elems := make([]peer.Reply, len(r.Elems))
		for i := range elems {
			elems[i] = fn(r.Elems[i])
		}
		r.Elems = elems
	}
	return r
}

var autoID = regexp.MustCompile(`^\$\d+\r\n(\d{13})-\d+\r\n$`)

// aloneAutoID wants an id of the present time from both sides, and removes the stream.
func aloneAutoID(d *duel, s int, r *row, args []string) error {
	raw, err := d.exchange(s, r, args)
	if err != nil {
		return err
	}
	if raw[0][0] == '$' {
		var ms [2]int
		for i := range raw {
			match := autoID.FindSubmatch(raw[i])
			if match == nil {
				return d.differ(fmt.Sprintf("%q: not an id of this time", args), args, raw[0], raw[1])
			}
			ms[i], _ = strconv.Atoi(string(match[1])) // digits
		}
		if max(ms[0]-ms[1], ms[1]-ms[0]) > idleTolerance {
			return d.differ(fmt.Sprintf("%q: ids of another time", args), args, raw[0], raw[1])
		}
	} else if string(raw[0]) != string(raw[1]) {
		return d.differ(fmt.Sprintf("%q", args), args, raw[0], raw[1])
	}
	_, err = d.exchange(s, r, []string{"DEL", args[min(1, len(args)-1)]})
	return err
}

// streamContent describes a stream with its groups.
func streamContent(c *peer.Conn, key string) ([]string, error) {
	reply, err := c.Call("XINFO", "STREAM", key, "FULL", "COUNT", "0")
	return []string{text([]peer.Reply{timeless(reply)})}, err
}

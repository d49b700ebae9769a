package commands

import (
	"fmt"
	"slices"
	"testing"

	"codeq/internal/peer"
)

func TestSetsLikeRedis(t *testing.T) { bothProtocols(t, setsScript) }

const setsScript = `
	SET str x
	SADD s a b c a
	SADD s a d
	SADD str a
	SREM s d none
	SREM str a
	SREM none a
	SCARD s
	SCARD none
	SCARD str
	SISMEMBER s a
	SISMEMBER s none
	SISMEMBER none a
	SISMEMBER str a
	SMISMEMBER s a none b
	SMISMEMBER none a
	SMISMEMBER str a
	SMEMBERS s
	SMEMBERS none
	SMEMBERS str
	SRANDMEMBER s x
	SRANDMEMBER s 1 2
	SRANDMEMBER s x 2
	SRANDMEMBER s -9223372036854775808
	SRANDMEMBER s 9223372036854775808
	SRANDMEMBER s 0
	SRANDMEMBER none
	SRANDMEMBER none 5
	SRANDMEMBER none -5
	SRANDMEMBER str
	SRANDMEMBER str 0
	SRANDMEMBER str x
	SADD single m
	SRANDMEMBER single
	SRANDMEMBER single 9223372036854775807
	SRANDMEMBER single -3
	SPOP s x
	SPOP s -1
	SPOP s 1 2
	SPOP s x 2
	SPOP s 0
	SPOP none
	SPOP none 3
	SPOP str
	SPOP str x
	SPOP str 1
	SPOP single
	EXISTS single
	SADD single m
	SPOP single 9223372036854775807
	EXISTS single
	SMOVE none str a
	SMOVE s str a
	SMOVE str s a
	SMOVE s s a
	SMOVE s s none
	SMOVE s t none
	SMOVE s t a
	SMEMBERS t
	SMOVE t s a
	EXISTS t
	SADD u b c d
	SADD v c d e
	SINTER s u v
	SINTER s s
	SINTER s none u
	SINTER none str
	SINTER str none
	SINTERCARD 2 s u
	SINTERCARD 2 s u LIMIT 1
	SINTERCARD 2 s u LIMIT 0
	SINTERCARD 2 s u LIMIT 5 LIMIT 1
	SINTERCARD 0 s
	SINTERCARD x s
	SINTERCARD 3 s u
	SINTERCARD 1 s LIMIT
	SINTERCARD 1 s LIMIT -1
	SINTERCARD 1 s LIMIT x
	SINTERCARD 1 s nonsense 1
	SINTERCARD 2 none str
	SUNION s u v
	SUNION s
	SUNION none
	SUNION none str
	SDIFF s u
	SDIFF s s
	SDIFF none s
	SDIFF s none
	SDIFF none str
	SINTERSTORE d s u
	SMEMBERS d
	SINTERSTORE d s none
	EXISTS d
	SUNIONSTORE d s u v
	SMEMBERS d
	SDIFFSTORE d d v
	SMEMBERS d
	SUNIONSTORE d d s
	SMEMBERS d
	SINTERSTORE d d d
	SMEMBERS d
	SDIFFSTORE d none str
	EXISTS d
	SDIFFSTORE d none
	EXISTS d
	SUNIONSTORE str s u
	SMEMBERS str
	SSCAN s 0
	SSCAN s 0 MATCH b*
	SSCAN s 0 TYPE set
	SSCAN none 0 nonsense
	SSCAN s x
	SADD part:s a b c d e
	SMEMBERS part:s
	SCARD part:s
	SINTER part:s u
	SDIFF part:s u
	SUNIONSTORE part:s2 part:s v
	SMEMBERS part:s2
	SMOVE part:s part:s2 a
	SSCAN part:s 0
	SREM part:s a b c d e
	EXISTS part:s`

// TestRandomMembers checks what is random: distinct or not, from the set, and removed or not.
func TestRandomMembers(t *testing.T) {
	const size = 2000
	for _, key := range []string{"plain", "part:s"} {
		w := newTwin(t, 2)
		add := []string{"SADD", key}
		for i := range size {
			add = append(add, fmt.Sprintf("member:%d", i))
		}
		w.codeq(add...)
		for _, c := range []struct {
			command, count string
			want           int
			distinct       bool
		}{
			{"SRANDMEMBER", "5", 5, true}, {"SRANDMEMBER", "1900", 1900, true}, {"SRANDMEMBER", "5000", size, true},
			{"SRANDMEMBER", "-3000", 3000, false}, {"SPOP", "7", 7, true}, {"SPOP", "1500", 1500, true},
		} {
			before := members(t, w.codeq("SMEMBERS", key))
			drawn := members(t, w.codeq(c.command, key, c.count))
			if len(drawn) != c.want {
				t.Errorf("%s %s %s gave %d members, want %d", c.command, key, c.count, len(drawn), c.want)
			}
			unique := slices.Compact(slices.Clone(drawn))
			if (len(unique) == len(drawn)) != c.distinct {
				t.Errorf("%s %s %s gave %d members, %d distinct", c.command, key, c.count, len(drawn), len(unique))
			}
			for _, m := range unique {
				if _, ok := slices.BinarySearch(before, m); !ok {
					t.Errorf("%s %s gave %q, which is not a member", c.command, key, m)
				}
			}
			left := len(before)
			if c.command == "SPOP" {
				left -= c.want
			}
			if after := members(t, w.codeq("SMEMBERS", key)); len(after) != left {
				t.Errorf("%s %s %s left %d members, want %d", c.command, key, c.count, len(after), left)
			}
		}
	}
}

// TestRandomMembersEndAtTheLimit asks for more members than any reply can hold.
func TestRandomMembersEndAtTheLimit(t *testing.T) {
	w := newTwin(t, 2)
	w.codeq("SADD", "s", "member")
	w.out.SetLimit(64 << 10)
	w.codeq("SRANDMEMBER", "s", "-9223372036854775807")
	if !w.out.Overflowed() {
		t.Error("the reply fitted")
	}
}

// members parses a reply and sorts its elements.
func members(t *testing.T, raw string) []string {
	t.Helper()
	reply, err := peer.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	list := reply.Strings()
	slices.Sort(list)
	return list
}

// TestScansMeetEverything iterates over collections that are too large for one call.
func TestScansMeetEverything(t *testing.T) {
	const size = 1500
	w := newTwin(t, 2)
	for _, c := range []struct {
		add, scan, key string
		stride         int
		args           func(i int) []string
	}{
		{"HSET", "HSCAN", "h", 2, func(i int) []string { return []string{fmt.Sprint("e", i), "v"} }},
		{"HSET", "HSCAN", "part:h", 2, func(i int) []string { return []string{fmt.Sprint("e", i), "v"} }},
		{"SADD", "SSCAN", "s", 1, func(i int) []string { return []string{fmt.Sprint("e", i)} }},
		{"SADD", "SSCAN", "part:s", 1, func(i int) []string { return []string{fmt.Sprint("e", i)} }},
		{"ZADD", "ZSCAN", "z", 2, func(i int) []string { return []string{fmt.Sprint(i), fmt.Sprint("e", i)} }},
		{"ZADD", "ZSCAN", "part:z", 2, func(i int) []string { return []string{fmt.Sprint(i), fmt.Sprint("e", i)} }},
	} {
		add := []string{c.add, c.key}
		for i := range size {
			add = append(add, c.args(i)...)
		}
		w.codeq(add...)
		met := make(map[string]bool)
		calls, cursor := 0, "0"
		for calls == 0 || cursor != "0" {
			reply, err := peer.Parse([]byte(w.codeq(c.scan, c.key, cursor, "COUNT", "50")))
			if err != nil || len(reply.Elems) != 2 || calls > size {
				t.Fatalf("%s %s %s: %v, %v", c.scan, c.key, cursor, reply, err)
			}
			for element := range slices.Chunk(reply.Elems[1].Strings(), c.stride) {
				met[element[0]] = true
			}
			cursor = reply.Elems[0].Str
			calls++
		}
		if len(met) != size || calls < 2 {
			t.Errorf("%s %s met %d of %d elements in %d calls", c.scan, c.key, len(met), size, calls)
		}
	}
}

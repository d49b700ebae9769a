package tests

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"codeq/internal/peer"
)

// algebraFamily has the operations over several sorted sets and sets, and random fields and members. What is stored has
// no negative weights: minus zero has two forms in Redis.
func algebraFamily() family {
	sum := oneOf("1", "2", "0.5", "3", "1e3", "inf", "x")
	any := oneOf("1", "-1", "0", "2.5", "-inf", "0.1", "nan")
	option := func(weight argsOf) argsOf {
		return func(g *gen) []string {
			return maybe(60, many(1, 2, func(g *gen) []string {
				if g.chance(50) {
					return seq(oneOf("WEIGHTS", "weights"), many(1, 3, weight))(g)
				}
				return oneOf("AGGREGATE MIN", "AGGREGATE MAX", "aggregate sum", "AGGREGATE AVG", "AGGREGATE", "BAD")(g)
			}))(g)
		}
	}
	// weighted has as many weights as keys.
	weighted := func(weight argsOf) argsOf {
		return func(g *gen) []string {
			n := 1 + g.rng.IntN(3)
			return seq(many(1, 1, func(*gen) []string { return []string{strconv.Itoa(n)} }), many(n, n, key), oneOf("WEIGHTS"),
				many(n, n, weight), maybe(40, oneOf("AGGREGATE MIN", "AGGREGATE MAX", "AGGREGATE SUM")))(g)
		}
	}
	limit := maybe(50, oneOf("LIMIT 0", "LIMIT 1", "limit 2", "LIMIT -1", "LIMIT x", "LIMIT", "BAD 1"))
	draw := maybe(70, seq(integer, maybe(50, oneOf("WITHSCORES", "WITHVALUES", "withscores", "withvalues", "BAD"))))
	return family{name: "algebra of sorted sets", keys: []string{"z1", "z2", "{b}z", "s1", "s2"}, rows: []row{
		{name: "ZUNION", weight: 4, args: seq(counted, option(any), withScore), equal: exact},
		{name: "ZUNION", weight: 3, args: seq(weighted(any), withScore), equal: exact},
		{name: "ZINTER", weight: 4, args: seq(counted, option(any), withScore), equal: exact},
		{name: "ZINTER", weight: 3, args: seq(weighted(any), withScore), equal: exact},
		{name: "ZDIFF", weight: 4, args: seq(counted, maybe(5, option(any)), withScore), equal: exact},
		{name: "ZUNIONSTORE", weight: 3, args: seq(key, counted, option(sum)), equal: exact, fixed: true},
		{name: "ZUNIONSTORE", weight: 2, args: seq(key, weighted(sum)), equal: exact, fixed: true},
		{name: "ZINTERSTORE", weight: 3, args: seq(key, counted, option(sum)), equal: exact, fixed: true},
		{name: "ZINTERSTORE", weight: 2, args: seq(key, weighted(sum)), equal: exact, fixed: true},
		{name: "ZDIFFSTORE", weight: 3, args: seq(key, counted), equal: exact},
		{name: "ZINTERCARD", weight: 4, args: seq(counted, limit), equal: exact},
		{name: "ZRANDMEMBER", weight: 5, args: seq(oneOf("z1", "z2", "{b}z", "h1"), draw), fixed: true, alone: aloneDraw("ZRANGE", "0", "-1", "WITHSCORES")},
		{name: "HRANDFIELD", weight: 5, args: seq(oneOf("h1", "h2", "z1"), draw), fixed: true, alone: aloneDraw("HGETALL")},
	}}
}

// aloneDraw compares a command that picks elements of a collection with their values: as many, in the same form, all from
// the collection, and all different unless the count was negative. The rest of the arguments reads the collection.
func aloneDraw(read string, arguments ...string) func(d *duel, s int, r *row, args []string) error {
	return func(d *duel, s int, r *row, args []string) error {
		raw, err := d.exchange(s, r, args)
		if err != nil {
			return err
		}
		wrong := func(why string) error {
			return d.differ(fmt.Sprintf("%q: %s", args, why), args, raw[0], raw[1])
		}
		a, errA := peer.Parse(raw[0])
		b, errB := peer.Parse(raw[1])
		switch {
		case errA != nil || errB != nil || a.Kind != b.Kind || a.Null != b.Null || len(a.Elems) != len(b.Elems):
			return wrong("another kind or number")
		case a.Null || a.Kind != '*' && a.Kind != '$':
			if !bytes.Equal(raw[0], raw[1]) {
				return wrong("not the same")
			}
			return nil
		}
		repeats := len(args) > 2 && strings.HasPrefix(args[2], "-")
		for i, reply := range []peer.Reply{a, b} {
			admin := d.sides[i].admin
			if _, err := admin.Call("SELECT", strconv.Itoa(d.sessions[s].db)); err != nil {
				return err
			}
			all, err := admin.Call(append([]string{read, args[1]}, arguments...)...)
			if err != nil {
				return err
			}
			if why := drawnFrom(flatten(reply), all.Strings(), len(args) > 3, repeats); why != "" {
				return wrong(d.sides[i].name + " gave " + why)
			}
		}
		return nil
	}
}

// flatten lists the names and values that a draw replied: one name, an array, or one of pairs.
func flatten(reply peer.Reply) (flat []string) {
	if reply.Kind != '*' {
		return []string{reply.Str}
	}
	for _, e := range reply.Elems {
		flat = append(flat, flatten(e)...)
	}
	return flat
}

// drawnFrom says what is wrong with elements that were drawn from pairs of names and values.
func drawnFrom(drawn, pairs []string, withValues, repeats bool) string {
	values := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	seen := map[string]bool{}
	for i := 0; i < len(drawn); i++ {
		name := drawn[i]
		value, ok := values[name]
		if !ok || seen[name] && !repeats {
			return fmt.Sprintf("%q, which is not there or came twice", name)
		}
		seen[name] = true
		if withValues {
			if i++; i == len(drawn) || drawn[i] != value {
				return fmt.Sprintf("%q with another value", name)
			}
		}
	}
	return ""
}

package tests

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"codeq/internal/peer"
)

// geoFamily has geographic indexes at keys of their own, where no two members are at the same place: the order of equal
// distances follows Redis' sort.
func geoFamily() family {
	longitude := func(g *gen) []string { return degrees(g, 180, 13) }
	latitude := func(g *gen) []string { return degrees(g, 85, 52) }
	place := seq(longitude, latitude)
	member := func(g *gen) []string { return []string{"m" + strconv.Itoa(g.rng.IntN(30))} }
	unit := oneOf("m", "km", "KM", "ft", "mi", "km", "km", "yd")
	length := oneOf("0", "1", "10", "100", "1000", "5000", "20000", "100000", "-1", "x")
	around := func(g *gen) []string {
		from := seq(oneOf("FROMLONLAT"), place)
		if g.chance(40) {
			from = seq(oneOf("FROMMEMBER", "frommember"), member)
		}
		shape := seq(oneOf("BYRADIUS", "byradius"), length, unit)
		if g.chance(40) {
			shape = seq(oneOf("BYBOX"), length, length, unit)
		}
		if g.chance(20) {
			from, shape = shape, from
		}
		return seq(maybe(95, from), maybe(95, shape), maybe(3, from))(g)
	}
	count := maybe(40, oneOf("COUNT 1", "COUNT 3", "COUNT 3 ANY", "COUNT 2 ANY", "ANY COUNT 5", "ANY", "COUNT 0", "COUNT"))
	order := maybe(40, oneOf("ASC", "DESC", "desc"))
	with := maybe(50, many(1, 3, oneOf("WITHDIST", "WITHCOORD", "WITHHASH", "withdist")))
	options := seq(order, count, with, maybe(2, oneOf("BAD")))
	circle := seq(length, unit, options)
	store := maybe(30, seq(oneOf("STORE", "store"), key))
	return family{name: "geo", keys: []string{"g1", "g2"}, bound: true, rows: []row{
		{name: "GEOADD", weight: 12, args: seq(key, maybe(30, oneOf("NX", "XX", "CH", "ch xx", "NX XX")), many(1, 4, seq(place, member))), equal: exact, fixed: true},
		{name: "GEODIST", weight: 4, args: seq(key, member, member, maybe(60, unit)), equal: nearly},
		{name: "GEOHASH", weight: 3, args: seq(key, many(0, 3, member)), equal: exact},
		{name: "GEOPOS", weight: 3, args: seq(key, many(0, 3, member)), equal: exact},
		{name: "GEOSEARCH", weight: 12, args: seq(key, around, options), equal: nearly},
		{name: "GEOSEARCHSTORE", weight: 4, args: seq(key, key, around, options), equal: exact},
		{name: "GEOSEARCHSTORE", weight: 3, args: seq(key, key, around, options, oneOf("STOREDIST")), alone: aloneStoreDist(1)},
		{name: "GEORADIUS", weight: 4, args: seq(key, place, circle, store), equal: nearly},
		{name: "GEORADIUS", weight: 2, args: seq(key, place, length, unit, order, oneOf("STOREDIST"), key), alone: aloneStoreDist(-1)},
		{name: "GEORADIUS_RO", weight: 3, args: seq(key, place, circle, maybe(5, store)), equal: nearly},
		{name: "GEORADIUSBYMEMBER", weight: 4, args: seq(key, member, circle, store), equal: nearly},
		{name: "GEORADIUSBYMEMBER_RO", weight: 3, args: seq(key, member, circle), equal: nearly},
		{name: "ZREM", weight: 2, args: seq(key, many(1, 3, member)), equal: exact, fixed: true},
	}}
}

// degrees draws a coordinate: anywhere, or near a center.
func degrees(g *gen, most, center float64) []string {
	x := (2*g.rng.Float64() - 1) * most
	if g.chance(60) {
		x = center + g.rng.NormFloat64()
	}
	if g.chance(2) {
		return []string{g.pick([]string{"x", "200", "-181", "inf", ""})}
	}
	return []string{strconv.FormatFloat(x, 'f', 9, 64)}
}

// nearly is exact but for the last digit of a distance: the sines of two languages differ in the last bits, and now and then
// a rounding lies between.
func nearly(a, b peer.Reply) bool {
	if a.Kind != b.Kind || a.Null != b.Null || len(a.Elems) != len(b.Elems) {
		return false
	}
	for i := range a.Elems {
		if !nearly(a.Elems[i], b.Elems[i]) {
			return false
		}
	}
	return a.Str == b.Str || isDistance(a.Str) && isDistance(b.Str) && apart(a.Str, b.Str) < 0.00015
}

// isDistance tells of a number with four digits behind the point.
func isDistance(s string) bool {
	point := strings.IndexByte(s, '.')
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && point >= 0 && len(s)-point == len(".0000")
}

func apart(a, b string) float64 {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return math.Inf(1)
	}
	return math.Abs(x - y)
}

// aloneStoreDist compares a command that stores distances, which may differ in their last bits, and then removes them. The
// destination is the argument of the given number, counted from the end if negative.
func aloneStoreDist(destination int) func(d *duel, s int, r *row, args []string) error {
	return func(d *duel, s int, r *row, args []string) error {
		raw, err := d.exchange(s, r, args)
		if err != nil {
			return err
		}
		if !bytes.Equal(raw[0], raw[1]) {
			return d.differ(fmt.Sprintf("%q", args), args, raw[0], raw[1])
		}
		if raw[0][0] != ':' {
			return nil
		}
		key := args[(destination+len(args))%len(args)]
		var stored [2]peer.Reply
		for i, side := range d.sides {
			if _, err := side.admin.Call("SELECT", strconv.Itoa(d.sessions[s].db)); err != nil {
				return err
			}
			if stored[i], err = side.admin.Call("ZRANGE", key, "0", "-1", "WITHSCORES"); err != nil {
				return err
			}
			if _, err := side.admin.Call("DEL", key); err != nil {
				return err
			}
		}
		same := len(stored[0].Elems) == len(stored[1].Elems)
		for i := 0; same && i < len(stored[0].Elems); i++ {
			a, b := stored[0].Elems[i].Str, stored[1].Elems[i].Str
			same = a == b || i%2 == 1 && apart(a, b) < 1e-6
		}
		if !same {
			return d.differ(fmt.Sprintf("what %q stored", args), args, fmt.Appendf(nil, "%q", stored[0].Strings()),
				fmt.Appendf(nil, "%q", stored[1].Strings()))
		}
		return nil
	}
}

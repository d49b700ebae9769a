package tests

import "strconv"

// hyperLogLogFamily has HyperLogLogs at keys that other values come to, too. The values themselves are compared byte for
// byte, by GET and with the state.
func hyperLogLogFamily() family {
	return family{name: "hyperloglogs", keys: []string{"n1", "n2", "{c}n", "p1"}, rows: append(hyperLogLogRows(value), debugRows()...)}
}

// debugRows have a key that nobody watches: Redis changes the representation behind the back of WATCH.
func debugRows() []row {
	debugged := oneOf("pd")
	return []row{
		{name: "PFADD", weight: 2, args: seq(debugged, many(0, 3, value)), equal: exact, fixed: true},
		{name: "PFDEBUG GETREG", weight: 1, args: debugged, equal: exact, fixed: true},
		{name: "PFDEBUG TODENSE", weight: 1, args: debugged, equal: exact, fixed: true},
		{name: "GETDEL", weight: 1, args: debugged, equal: exact, fixed: true},
	}
}

// growingHyperLogLogFamily has HyperLogLogs that are left alone and grow large.
func growingHyperLogLogFamily() family {
	few := func(g *gen) []string { return []string{strconv.Itoa(g.rng.IntN(20_000))} }
	return family{name: "growing hyperloglogs", keys: []string{"p1", "p2"}, bound: true, rows: hyperLogLogRows(many(0, 300, few))}
}

func hyperLogLogRows(elements argsOf) []row {
	return []row{
		{name: "PFADD", weight: 5, args: seq(key, many(0, 3, elements)), equal: exact},
		{name: "PFCOUNT", weight: 3, args: many(1, 3, key), equal: exact},
		{name: "PFMERGE", weight: 2, args: many(1, 4, key), equal: exact},
		{name: "PFDEBUG ENCODING", weight: 1, args: key, equal: exact},
		{name: "PFDEBUG DECODE", weight: 1, args: key, equal: exact},
	}
}

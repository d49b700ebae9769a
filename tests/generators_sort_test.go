package tests

// sortFamily has SORT on the keys of all families that it takes, with patterns that find some of the plain keys. What Redis
// leaves open is left out: the order of a set that is not sorted, and that of elements whose texts by BY are equal. A plain
// key may hold a set, so where the order has to be kept those that never do take their place.
func sortFamily() family {
	numeric := oneOf("BY n*", "BY h*->a", "BY h*->1", "BY nosuch*", "BY l*", "BY *", "by *->b", "BY n*->")
	kept := oneOf("BY nosort", "BY #", "BY nosort BY n*")
	get := maybe(40, many(1, 3, oneOf("GET n*", "GET #", "GET h*->a", "GET h*->c", "get *", "GET nostar", "GET l*", "GET n*->", "GET")))
	order := maybe(50, oneOf("ASC", "DESC", "desc", "DESC ASC"))
	window := maybe(30, oneOf("LIMIT 0 2", "LIMIT 1 1", "LIMIT 1 -1", "LIMIT -3 2", "LIMIT 5 10", "LIMIT 0 0", "LIMIT 1 9223372036854775807",
		"limit 0 x", "LIMIT 1", "LIMIT 0 1 LIMIT 1 2"))
	alpha := maybe(50, oneOf("ALPHA", "alpha"))
	store := maybe(40, seq(oneOf("STORE", "store"), key))
	sorted := oneOf("x1", "x2", retentionKey)
	return family{name: "sort", keys: []string{"l1", "s1", "z1", "s2", "{a}l", "{b}s", "{b}z", renderKey}, rows: []row{
		{name: "SORT", weight: 12, args: seq(key, order, alpha, get, window, store), equal: untilNUL, fixed: true},
		{name: "SORT", weight: 6, args: seq(key, numeric, order, get, window, store), equal: exact, fixed: true},
		{name: "SORT", weight: 6, args: seq(sorted, maybe(80, kept), order, alpha, get, window, store), equal: untilNUL, fixed: true},
		{name: "SORT", weight: 6, args: seq(key, kept, order, alpha), equal: unordered, fixed: true},
		{name: "SORT", weight: 4, args: seq(key, kept, order, alpha, oneOf("STORE"), key), equal: exact, fixed: true},
		{name: "SORT", weight: 1, args: seq(key, oneOf("BY", "ASC BY", "DESC BY")), equal: exact, fixed: true},
		{name: "SORT_RO", weight: 5, args: seq(key, order, alpha, get, window, maybe(10, seq(oneOf("STORE"), key))), equal: untilNUL, fixed: true},
		{name: "RPUSH", weight: 4, args: seq(key, many(1, 4, oneOf("1", "2", "3", "10", "-1", "1.5"))), equal: exact},
		{name: "SADD", weight: 4, args: seq(oneOf("s1", "s2", "{b}s"), many(1, 4, oneOf("1", "2", "3", "10", "-1", "1.5"))), equal: exact},
		{name: "SET", weight: 4, args: seq(oneOf("n1", "n2"), oneOf("1", "5", "-2", "0.5", "x")), equal: exact},
		{name: "HSET", weight: 3, args: seq(oneOf("h1", "h2"), oneOf("a", "1", "c"), oneOf("1", "7", "-3", "z")), equal: exact},
		{name: "EVAL", weight: 3, args: seq(oneOf("return{redis.call('SORT',KEYS[1],'BY','nosort')}"), oneOf("1"), oneOf("s1", "s2", "l1")),
			equal: untilNUL, fixed: true},
	}}
}

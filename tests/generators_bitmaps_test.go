package tests

import "strings"

// bitmapsFamily has the commands on the bits of strings, and LCS. No offset is so large that a string would take much memory.
func bitmapsFamily() family {
	offset := oneOf("0", "1", "2", "7", "8", "9", "15", "63", "64", "65", "100", "127", "1000", "-1", "x", "4294967296")
	unit := maybe(60, oneOf("BIT", "bit", "BYTE", "byte", "BAD"))
	position := oneOf("0", "1", "2", "3", "5", "8", "13", "100", "-1", "-2", "-5", "-9", "-100", "x")
	encoding := oneOf("u1", "u2", "u3", "u7", "u8", "u13", "u16", "u31", "u32", "u63", "i1", "i2", "i5", "i8", "i16", "i33", "i63", "i64",
		"u64", "i65", "u0", "x8")
	place := oneOf("0", "1", "3", "7", "8", "17", "100", "#0", "#1", "#2", "#5", "-1", "#", "x")
	operand := oneOf("0", "1", "-1", "2", "100", "-100", "255", "256", "-129", "65535", "4294967296", "9223372036854775807",
		"-4611686018427387904", "x")
	lowest := oneOf("-9223372036854775808") // which a SET … SAT in Redis takes for too large
	read := seq(oneOf("GET", "get"), encoding, place)
	change := func(g *gen) []string {
		if g.chance(5) {
			return seq(oneOf("INCRBY"), encoding, place, lowest)(g)
		}
		return seq(oneOf("SET", "INCRBY", "incrby", "set"), encoding, place, operand)(g)
	}
	write := seq(maybe(40, oneOf("OVERFLOW WRAP", "OVERFLOW SAT", "overflow sat", "OVERFLOW BAD", "OVERFLOW")), change)
	// What fails may make a string longer in Redis, behind the back of WATCH, so its key is one that nobody watches.
	unwatched := oneOf("nf")
	return family{name: "bitmaps", keys: []string{"n1", "n2", "{c}n", "l1"}, rows: []row{
		{name: "SETBIT", weight: 8, args: seq(key, offset, oneOf("0", "1", "1", "2", "x")), equal: exact},
		{name: "GETBIT", weight: 4, args: seq(key, offset), equal: exact},
		{name: "BITCOUNT", weight: 5, args: seq(key, maybe(70, seq(position, position, unit))), equal: exact},
		{name: "BITPOS", weight: 6, args: seq(key, oneOf("0", "1", "2"), maybe(70, seq(position, maybe(70, seq(position, unit))))), equal: exact},
		{name: "BITOP", weight: 5, args: seq(oneOf("AND", "OR", "XOR", "and", "BAD"), key, many(1, 4, key)), equal: exact},
		{name: "BITOP", weight: 2, args: seq(oneOf("NOT", "not"), key, many(1, 2, key)), equal: exact},
		{name: "BITFIELD", weight: 4, args: seq(key, many(0, 3, read), many(0, 3, write), maybe(30, read)), equal: exact, fixed: true},
		{name: "BITFIELD", weight: 4, args: seq(unwatched, many(0, 1, read), oneOf("OVERFLOW FAIL", "overflow fail"), many(1, 4, change)), equal: exact, fixed: true},
		{name: "GETDEL", weight: 1, args: unwatched, equal: exact, fixed: true},
		{name: "BITFIELD_RO", weight: 3, args: seq(key, many(0, 3, read), maybe(10, write)), equal: exact},
		{name: "LCS", weight: 5, args: seq(key, key, many(0, 3, oneOf("LEN", "IDX", "idx", "WITHMATCHLEN", "MINMATCHLEN 2",
			"MINMATCHLEN -1", "MINMATCHLEN", "BAD"))), equal: exact},
	}}
}

// longStringsFamily has the commands that read and change parts of strings, on strings around and beyond the length from which
// codeq keeps them in chunks: 16 KiB, in chunks of 4 KiB.
func longStringsFamily() family {
	text := oneOf("x", "short", strings.Repeat("0123456789", 300), strings.Repeat("\xff", 4096), strings.Repeat("ab", 8191),
		strings.Repeat("abcd", 4097), strings.Repeat("\x00", 9000))
	at := oneOf("0", "1", "4095", "4096", "16383", "16384", "16385", "20479", "20480", "30000", "100000", "-1", "-4096", "-20000", "x")
	bit := oneOf("0", "7", "32767", "32768", "131071", "131072", "163839", "240000", "800000", "-1")
	unit := maybe(60, oneOf("BIT", "BYTE"))
	field := oneOf("u8 #4095", "u8 #4096", "i64 32740", "u63 131050", "i33 163830", "u1 240000", "i16 #50000", "u7 0")
	write := seq(maybe(30, oneOf("OVERFLOW SAT", "OVERFLOW FAIL")), oneOf("SET", "INCRBY"), field, oneOf("1", "-1", "255", "65535"))
	return family{name: "long strings", keys: []string{"b1", "b2", "{a}b"}, bound: true, rows: []row{
		{name: "SET", weight: 3, args: seq(key, text, maybe(20, oneOf("KEEPTTL", "EX 1000", "GET", "XX"))), equal: exact, fixed: true},
		{name: "APPEND", weight: 6, args: seq(key, text), equal: exact},
		{name: "SETRANGE", weight: 6, args: seq(key, at, text), equal: exact, fixed: true},
		{name: "SETBIT", weight: 6, args: seq(key, bit, oneOf("0", "1")), equal: exact, fixed: true},
		{name: "BITFIELD", weight: 5, args: seq(key, many(0, 2, seq(oneOf("GET"), field)), many(0, 3, write)), equal: exact, fixed: true},
		{name: "GET", weight: 2, args: key, equal: exact},
		{name: "MGET", weight: 1, args: many(1, 3, key), equal: exact},
		{name: "GETRANGE", weight: 6, args: seq(key, at, at), equal: exact},
		{name: "GETBIT", weight: 4, args: seq(key, bit), equal: exact},
		{name: "BITCOUNT", weight: 5, args: seq(key, maybe(70, seq(at, at, unit))), equal: exact},
		{name: "BITPOS", weight: 6, args: seq(key, oneOf("0", "1"), maybe(70, seq(at, maybe(70, seq(at, unit))))), equal: exact},
		{name: "BITOP", weight: 3, args: seq(oneOf("AND", "OR", "XOR"), key, many(1, 3, key)), equal: exact},
		{name: "BITOP", weight: 1, args: seq(oneOf("NOT"), key, key), equal: exact},
		{name: "STRLEN", weight: 2, args: key, equal: exact},
		{name: "INCR", weight: 1, args: key, equal: exact},
		{name: "INCRBYFLOAT", weight: 1, args: seq(key, addend), equal: exact},
		{name: "PFADD", weight: 1, args: seq(key, value), equal: exact},
		{name: "GETSET", weight: 1, args: seq(key, text), equal: exact},
		{name: "GETDEL", weight: 2, args: key, equal: exact},
		{name: "DEL", weight: 1, args: key, equal: exact},
		{name: "EXPIRE", weight: 2, args: seq(key, seconds), equal: exact, fixed: true},
		{name: "PERSIST", weight: 1, args: key, equal: exact},
		{name: "RENAME", weight: 3, args: seq(key, key), equal: exact},
		{name: "COPY", weight: 3, args: seq(key, key, maybe(60, oneOf("REPLACE"))), equal: exact},
	}}
}

package tests

import (
	"fmt"
	"slices"
	"strconv"

	"codeq/internal/peer"
)

// dumpFamily has the commands that carry whole values to other keys and databases.
func dumpFamily() family {
	database := oneOf("0", "1", "2", "1", "2", "16", "-1", "x", "99999999999")
	ttl := oneOf("0", "0", "0", "1000000", "-1", "x", "9223372036854775807")
	at := oneOf("4102444800000", "1", "0", "9223372036854775807")
	option := oneOf("REPLACE", "replace", "IDLETIME 5", "IDLETIME -1", "IDLETIME x", "IDLETIME", "FREQ 5", "FREQ 255",
		"FREQ 256", "FREQ 1 IDLETIME 1", "IDLETIME 1 FREQ 1", "FREQ 1 FREQ 2", "BAD")
	return family{name: "dump", keys: plainKeys(), rows: []row{
		{name: "COPY", weight: 8, args: seq(key, key, maybe(40, seq(oneOf("DB", "db"), database)),
			maybe(50, oneOf("REPLACE", "replace", "BAD", "DB"))), equal: exact},
		{name: "MOVE", weight: 6, args: seq(anyKey, database), equal: exact},
		{name: "SWAPDB", weight: 2, args: seq(database, database), equal: exact},
		{name: "DUMP", weight: 6, args: anyKey, alone: aloneDump},
		{name: "RESTORE", weight: 5, args: seq(key, ttl, payload, maybe(70, option)), equal: exact, fixed: true},
		{name: "RESTORE", weight: 2, args: seq(key, at, payload, oneOf("ABSTTL", "absttl"), maybe(70, option)), equal: exact,
			fixed: true},
		{name: "RESTORE-ASKING", weight: 1, args: seq(key, ttl, payload, oneOf("REPLACE")), equal: exact, fixed: true},
	}}
}

// payload takes a dump: a string, a list, a hash, a set, a sorted set, or one that was damaged.
func payload(g *gen) []string {
	return []string{g.pick([]string{
		"\x00\x03abc\n\x00\xd9\xac0=Ar\xa2\xe2",
		"\x12\x01\x02\x0f\x0f\x00\x00\x00\x03\x00\x81a\x02\x81b\x02\x01\x01\xff\n\x00\xe0\x1b\xabJG\xceY\"",
		"\x10\r\r\x00\x00\x00\x02\x00\x81f\x02\x81v\x02\xff\n\x00 \xf1=D#T\b\x9d",
		"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00\x03\x00\n\x00\xa5\x02\\\xe2mnM\x1b",
		"\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x831.5\x04\x81b\x02\x02\x01\xff\n\x00\xfa\x02\xb4%\xaf\x18\x87c",
		"\x00\x03abd\n\x00\xd9\xac0=Ar\xa2\xe2", "\x00\x03ab", "",
	})}
}

// aloneDump wants from each side a dump that the other restores to the value that it has itself. The bytes may differ,
// since Redis' depend on how the value came about; a string's do not.
func aloneDump(d *duel, s int, r *row, args []string) error {
	raw, err := d.exchange(s, r, args)
	if err != nil {
		return err
	}
	if raw[0][0] != '$' || raw[1][0] != '$' || raw[0][1] == '-' || raw[1][1] == '-' {
		if !slices.Equal(raw[0], raw[1]) {
			return d.differ(fmt.Sprintf("%q", args), args, raw[0], raw[1])
		}
		return nil
	}
	var has, restored [2]string
	for i, side := range d.sides {
		dump, err := peer.Parse(raw[1-i])
		if err != nil {
			return err
		}
		if dump.Str[0] == 0 && !slices.Equal(raw[0], raw[1]) {
			return d.differ(fmt.Sprintf("%q", args), args, raw[0], raw[1])
		}
		if has[i], restored[i], err = restoreBeside(side.admin, d.sessions[s].db, args[1], dump.Str); err != nil {
			return d.differ(fmt.Sprintf("%q, restored on %s: %v", args, side.name, err), args, raw[0], raw[1])
		}
	}
	if has[0] != restored[0] || has[1] != restored[1] {
		return d.differ(fmt.Sprintf("%q, restored by the other side", args), args, []byte(restored[0]), []byte(restored[1]))
	}
	return nil
}

// restoreBeside restores a dump under a name of its own, and describes the value at the key and the restored one.
func restoreBeside(c *peer.Conn, db int, key, dump string) (has, restored string, err error) {
	const beside = "restored"
	if _, err := c.Call("SELECT", strconv.Itoa(db)); err != nil {
		return "", "", err
	}
	if _, err := c.Call("RESTORE", beside, "0", dump); err != nil {
		return "", "", err
	}
	var texts [2]string
	for i, name := range []string{key, beside} {
		kind, err := c.Call("TYPE", name)
		if err != nil {
			return "", "", err
		}
		content, err := contentOf(c, kind.Str, name)
		if err != nil {
			return "", "", err
		}
		texts[i] = fmt.Sprintf("%s %q", kind.Str, content)
	}
	_, err = c.Call("DEL", beside)
	return texts[0], texts[1], err
}

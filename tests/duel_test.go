package tests

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// scanLimit is the most calls that one scan of a test's few keys may take.
const scanLimit = 10000

// aloneScan runs a scan to its end on both sides and compares the sets of what it gave; a key or field may come
// twice.
func aloneScan(d *duel, s int, r *row, args []string) error {
	raw, err := d.exchange(s, r, args)
	if err != nil {
		return err
	}
	if raw[0][0] != '*' || raw[1][0] != '*' {
		if !bytes.Equal(raw[0], raw[1]) {
			return d.differ(fmt.Sprintf("%q", args), args, raw[0], raw[1])
		}
		return nil
	}
	cursor, size := 1, 1
	switch strings.ToUpper(args[0]) {
	case "HSCAN", "ZSCAN":
		cursor, size = 2, 2
	case "SSCAN":
		cursor = 2
	}
	if args[cursor] != "0" {
		return nil // accepted on both sides; where such a cursor begins is each server's own matter
	}
	var found [2][]string
	for i, side := range d.sides {
		if found[i], err = scanOn(side.conns[s], slices.Clone(args), cursor, size, raw[i]); err != nil {
			return d.differ(fmt.Sprintf("%q on %s: %v", args, side.name, err), args, raw[0], raw[1])
		}
	}
	if !slices.Equal(found[0], found[1]) {
		return d.differ(fmt.Sprintf("%q, run to its end", args), args,
			fmt.Appendf(nil, "%q", found[0]), fmt.Appendf(nil, "%q", found[1]))
	}
	return nil
}

// scanOn goes on with a scan from its first reply; it returns the sorted groups of elements, each once.
func scanOn(c *peer.Conn, args []string, cursor, size int, raw []byte) ([]string, error) {
	var found []string
	for range scanLimit {
		reply, err := peer.Parse(raw)
		if err != nil {
			return nil, err
		}
		if len(reply.Elems) != 2 || len(reply.Elems[1].Elems)%size != 0 {
			return nil, fmt.Errorf("not a scan's reply: %q", raw)
		}
		if strings.EqualFold(args[0], "ZSCAN") {
			unifyScores(reply.Elems[1].Elems)
		}
		found = append(found, groups(reply.Elems[1].Elems, size)...)
		args[cursor] = reply.Elems[0].Str
		if args[cursor] == "0" {
			slices.Sort(found)
			return slices.Compact(found), nil
		}
		if raw, err = c.Do(args...); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the scan did not end after %d calls", scanLimit)
}

// unifyScores writes every score in one form: in ZSCAN alone Redis' form depends on how it stores the sorted set.
func unifyScores(pairs []peer.Reply) {
	for i := 1; i < len(pairs); i += 2 {
		if score, err := strconv.ParseFloat(pairs[i].Str, 64); err == nil {
			pairs[i].Str = strconv.FormatFloat(score, 'g', -1, 64)
		}
	}
}

// members asks a side's admin connection for a set; empty for a key of another type.
func (d *duel) members(side *side, db int, key string) ([]string, error) {
	if _, err := side.admin.Call("SELECT", strconv.Itoa(db)); err != nil {
		return nil, err
	}
	reply, err := side.admin.Call("SMEMBERS", key)
	if err != nil && reply.Kind != '-' {
		return nil, err
	}
	return reply.Strings(), nil
}

// aloneRandom compares a command that picks members without taking them: as many, of the same kind, all from the
// set, and all different unless the count was negative.
func aloneRandom(d *duel, s int, r *row, args []string) error {
	raw, err := d.exchange(s, r, args)
	if err != nil {
		return err
	}
	_, err = d.random(s, args, raw, nil)
	return err
}

// aloneRandomKey wants a key that exists from each side, or from both none.
func aloneRandomKey(d *duel, s int, r *row, args []string) error {
	raw, err := d.exchange(s, r, args)
	if err != nil {
		return err
	}
	wrong := func(why string) error {
		return d.differ(fmt.Sprintf("%q: %s", args, why), args, raw[0], raw[1])
	}
	for i, side := range d.sides {
		reply, err := peer.Parse(raw[i])
		if err != nil {
			return wrong(err.Error())
		}
		if reply.Kind != '$' || reply.Null {
			if !bytes.Equal(raw[0], raw[1]) {
				return wrong("not the same")
			}
			return nil
		}
		found, err := side.admin.Call("SELECT", strconv.Itoa(d.sessions[s].db))
		if err == nil {
			found, err = side.admin.Call("EXISTS", reply.Str)
		}
		if err != nil {
			return err
		}
		if found.Str != "1" {
			return wrong(side.name + " gave a key that it does not have")
		}
	}
	return nil
}

// alonePop compares a command that takes random members, then makes the second server give up what the first gave.
func alonePop(d *duel, s int, r *row, args []string) error {
	var before [2][]string
	var err error
	for i, side := range d.sides {
		if len(args) > 1 {
			if before[i], err = d.members(side, d.sessions[s].db, args[1]); err != nil {
				return err
			}
		}
	}
	raw, err := d.exchange(s, r, args)
	if err != nil {
		return err
	}
	taken, err := d.random(s, args, raw, &before)
	if err != nil || len(taken[0]) == 0 {
		return err
	}
	// First put back, then take: in between the set is never empty, so it keeps its time to live.
	for _, command := range [][]string{append([]string{"SADD", args[1]}, taken[1]...),
		append([]string{"SREM", args[1]}, taken[0]...)} {
		if len(taken[0]) == len(before[0]) {
			break // both took everything
		}
		if _, err := d.sides[1].admin.Call(command...); err != nil {
			return err
		}
	}
	return nil
}

// random checks random replies of both sides and returns what each picked. before is what the sets held; nil: what
// they hold now.
func (d *duel) random(s int, args []string, raw [2][]byte, before *[2][]string) (picked [2][]string, err error) {
	wrong := func(why string) error {
		return d.differ(fmt.Sprintf("%q: %s", args, why), args, raw[0], raw[1])
	}
	var replies [2]peer.Reply
	for i := range raw {
		if replies[i], err = peer.Parse(raw[i]); err != nil {
			return picked, wrong(err.Error())
		}
	}
	a, b := replies[0], replies[1]
	if a.Kind != b.Kind || a.Null != b.Null || len(a.Elems) != len(b.Elems) {
		return picked, wrong("another kind or number")
	}
	if a.Null || !strings.ContainsRune("$*~", rune(a.Kind)) {
		if !exact(a, b) {
			return picked, wrong("not the same")
		}
		return picked, nil
	}
	repeats := len(args) > 2 && strings.HasPrefix(args[2], "-")
	for i, side := range d.sides {
		picked[i] = replies[i].Strings()
		if replies[i].Kind == '$' {
			picked[i] = []string{replies[i].Str}
		}
		set := []string(nil)
		if before != nil {
			set = before[i]
		} else if set, err = d.members(side, d.sessions[s].db, args[1]); err != nil {
			return picked, err
		}
		seen := map[string]bool{}
		for _, member := range picked[i] {
			if !slices.Contains(set, member) || seen[member] && !repeats {
				return picked, wrong(fmt.Sprintf("%s gave %q, which is not in the set or came twice", side.name, member))
			}
			seen[member] = true
		}
	}
	return picked, nil
}

// compareState compares all keys of all databases: type, content, and whether they expire.
func (d *duel) compareState() error {
	for db := range duelDatabases {
		var dumps [2]map[string]string
		for i, side := range d.sides {
			var err error
			if dumps[i], err = dump(side.admin, db); err != nil {
				return fmt.Errorf("state of %s: %w", side.name, err)
			}
		}
		for _, key := range allKeys() {
			if a, b := dumps[0][key], dumps[1][key]; a != b {
				return d.differ(fmt.Sprintf("state of key %q in database %d", key, db), []string{key}, []byte(a), []byte(b))
			}
		}
		if a, b := len(dumps[0]), len(dumps[1]); a != b {
			return d.differ(fmt.Sprintf("database %d", db), nil,
				fmt.Appendf(nil, "%d keys: %v", a, dumps[0]), fmt.Appendf(nil, "%d keys: %v", b, dumps[1]))
		}
	}
	return nil
}

// dump describes every key of a database.
func dump(c *peer.Conn, db int) (map[string]string, error) {
	if _, err := c.Call("SELECT", strconv.Itoa(db)); err != nil {
		return nil, err
	}
	keys, err := c.Call("KEYS", "*")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, key := range keys.Strings() {
		kind, err := c.Call("TYPE", key)
		if err != nil {
			return nil, err
		}
		ttl, err := c.Call("PTTL", key)
		if err != nil {
			return nil, err
		}
		content, err := contentOf(c, kind.Str, key)
		if err != nil {
			return nil, err
		}
		out[key] = fmt.Sprintf("%s expires=%v %q", kind.Str, ttl.Str != "-1", content)
	}
	return out, nil
}

// contentOf reads a whole value, in an order that is the same everywhere.
func contentOf(c *peer.Conn, kind, key string) ([]string, error) {
	command, size := []string(nil), 0
	switch kind {
	case "string":
		reply, err := c.Call("GET", key)
		return []string{reply.Str}, err
	case "stream":
		return streamContent(c, key)
	case "list":
		command = []string{"LRANGE", key, "0", "-1"}
	case "zset":
		command = []string{"ZRANGE", key, "0", "-1", "WITHSCORES"}
	case "hash":
		command, size = []string{"HGETALL", key}, 2
	case "set":
		command, size = []string{"SMEMBERS", key}, 1
	default:
		return nil, fmt.Errorf("key %q has type %q", key, kind)
	}
	reply, err := c.Call(command...)
	if err != nil || size == 0 {
		return reply.Strings(), err
	}
	return groups(reply.Elems, size), nil
}

// TestDifferentialFindsFaults proves the duel: whatever one side is given that the other is not must be found.
func TestDifferentialFindsFaults(t *testing.T) {
	a := peer.ForTest(t, peer.Options{Kind: peer.Redis})
	b := peer.ForTest(t, peer.Options{Kind: peer.Redis})
	for _, fault := range [][]string{
		{"RPUSH", "l2", "extra"}, {"EXPIRE", "n1", "1000"}, {"SADD", "s1", "extra"}, {"SET", "unseen key", "x"},
	} {
		d := newDuel(t, 1, 2, a, b)
		for _, side := range d.sides {
			if _, err := side.admin.Call("SET", "n1", "x"); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.compareState(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.sides[1].admin.Call("SELECT", "0"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.sides[1].admin.Call(fault...); err != nil {
			t.Fatal(err)
		}
		var found *difference
		if err := d.compareState(); !errors.As(err, &found) {
			t.Errorf("%q in the state: %v", fault, err)
		}
	}
	d := newDuel(t, 1, 2, a, b)
	if _, err := d.sides[1].admin.Call("ACL", "SETUSER", "default", "-incr"); err != nil {
		t.Fatal(err)
	}
	var found *difference
	if err := d.run(duelCheck - 1); !errors.As(err, &found) || len(found.context) == 0 {
		t.Errorf("a server without INCR: %v", err)
	}
}

package commands

import (
	"math"
	"slices"
	"strconv"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Hashes. For a new command add an entry to the table and, in the same order, its handler.

func hashCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "hset", Syntax: "HSET key field value [field value ...]",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(1) for each field",
			Summary:  "Sets fields of a hash and counts those that are new.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Update)},
			Elements: spec.ElementsFrom(2, 2)}, Run: hset},
		{Command: spec.Command{Name: "hmset", Syntax: "HMSET key field value [field value ...]",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(N) with N the number of fields",
			Summary:  "Sets fields of a hash and replies OK.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Update)},
			Elements: spec.ElementsFrom(2, 2),
			DocFlags: spec.Deprecated, DeprecatedSince: "4.0.0", ReplacedBy: "`HSET` with multiple field-value pairs"}, Run: hmset},
		{Command: spec.Command{Name: "hsetnx", Syntax: "HSETNX key field value",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(1)",
			Summary:  "Sets a field of a hash unless it exists.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Insert)},
			Elements: spec.ElementAt(2)}, Run: hsetnx},
		{Command: spec.Command{Name: "hget", Syntax: "HGET key field",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(1)",
			Summary:  "Returns the value of a field of a hash.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementAt(2)}, Run: hget},
		{Command: spec.Command{Name: "hmget", Syntax: "HMGET key field [field ...]",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(N) with N the number of fields asked for",
			Summary:  "Returns the values of the given fields of a hash, null for those that do not exist.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementsFrom(2, 1)}, Run: hmget},
		{Command: spec.Command{Name: "hdel", Syntax: "HDEL key field [field ...]",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(N) with N the number of fields to remove",
			Summary:  "Removes fields from a hash, and the hash with its last field.",
			Flags:    spec.Write | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Delete)},
			Elements: spec.ElementsFrom(2, 1)}, Run: hdel},
		{Command: spec.Command{Name: "hexists", Syntax: "HEXISTS key field",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(1)",
			Summary:  "Tells whether a hash has a field.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO)},
			Elements: spec.ElementAt(2)}, Run: hexists},
		{Command: spec.Command{Name: "hlen", Syntax: "HLEN key",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(1)",
			Summary: "Counts the fields of a hash.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: hlen},
		{Command: spec.Command{Name: "hstrlen", Syntax: "HSTRLEN key field",
			Group: spec.Hash, Since: "3.2.0", Complexity: "O(1)",
			Summary:  "Returns the length in bytes of the value of a field of a hash.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO)},
			Elements: spec.ElementAt(2)}, Run: hstrlen},
		{Command: spec.Command{Name: "hgetall", Syntax: "HGETALL key",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(N) with N the size of the hash",
			Summary: "Returns all fields of a hash and their values.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: hgetall},
		{Command: spec.Command{Name: "hkeys", Syntax: "HKEYS key",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(N) with N the size of the hash",
			Summary: "Returns the names of all fields of a hash.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: hkeys},
		{Command: spec.Command{Name: "hvals", Syntax: "HVALS key",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(N) with N the size of the hash",
			Summary: "Returns the values of all fields of a hash.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: hvals},
		{Command: spec.Command{Name: "hincrby", Syntax: "HINCRBY key field increment",
			Group: spec.Hash, Since: "2.0.0", Complexity: "O(1)",
			Summary:  "Adds an integer to the integer in a field of a hash; a field that does not exist counts as 0.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)},
			Elements: spec.ElementAt(2)}, Run: hincrby},
		{Command: spec.Command{Name: "hincrbyfloat", Syntax: "HINCRBYFLOAT key field increment:double",
			Group: spec.Hash, Since: "2.6.0", Complexity: "O(1)",
			Differs:  "Adds with a mantissa of 64 bits, which is x86's long double, on every machine.",
			Summary:  "Adds a floating-point number to the number in a field of a hash; a field that does not exist counts as 0.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)},
			Elements: spec.ElementAt(2)}, Run: hincrbyfloat},
		{Command: spec.Command{Name: "hscan", Syntax: "HSCAN key cursor [MATCH pattern] [COUNT count]",
			Group: spec.Hash, Since: "2.8.0", Complexity: "O(1) for each call, O(N) for the whole iteration with N the size of the hash",
			Differs: "Returns up to 512 fields in one call, whatever their size.",
			Summary: "Iterates over the fields of a hash and their values, a few with each call.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: hscan},
	}
}

// HSET key field value [field value ...]
func hset(c *Call) error {
	created, err := setFields(c)
	if err != nil {
		return err
	}
	c.Out.Int(created)
	return nil
}

// HMSET key field value [field value ...]
func hmset(c *Call) error {
	if _, err := setFields(c); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

// setFields sets the call's fields and counts the new ones.
func setFields(c *Call) (created int64, err error) {
	pairs := c.args(1).all()
	if len(pairs)%2 != 0 {
		return 0, resp.ErrWrongArgs(c.cmd.Name)
	}
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return 0, err
	}
	for pair := range slices.Chunk(pairs, 2) {
		isNew, err := h.Set(pair[0], pair[1])
		if err != nil {
			return 0, err
		}
		if isNew {
			created++
		}
	}
	c.notify(shard.NoteHash, "hset", c.key())
	return created, nil
}

// HSETNX key field value
func hsetnx(c *Call) error {
	a := c.args(1)
	field, val := a.bytes(), a.bytes()
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	_, exists, err := h.Get(field)
	if err != nil {
		return err
	}
	if exists {
		c.Out.Int(0)
		return nil
	}
	c.Out.Int(1)
	_, err = h.Set(field, val)
	c.notify(shard.NoteHash, "hset", c.key())
	return err
}

// HGET key field
func hget(c *Call) error {
	val, ok, err := getField(c)
	if err != nil {
		return err
	}
	c.replyString(val, ok)
	return nil
}

// getField reads the field that the call's second argument names.
func getField(c *Call) (val []byte, ok bool, err error) {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return nil, false, err
	}
	return h.Get(c.args(1).bytes())
}

// HMGET key field [field ...]
func hmget(c *Call) error {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	fields := c.args(1).all()
	c.Out.Array(len(fields))
	for _, field := range fields {
		val, ok, err := h.Get(field)
		if err != nil {
			return err
		}
		c.replyString(val, ok)
	}
	return nil
}

// HDEL key field [field ...]
func hdel(c *Call) error {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	return removeElements(c, h.Delete, shard.NoteHash, "hdel")
}

// removeElements removes every argument behind the key, replies how many were there, and notes the event if any was.
func removeElements(c *Call, remove func(element []byte) (bool, error), class shard.NoteClass, event string) error {
	n, err := countElements(c, remove)
	if err != nil || n == 0 {
		return err
	}
	return noteRemoval(c.DB(), class, event, c.key())
}

// countElements runs fn with every argument behind the key and replies how often it returned true.
func countElements(c *Call, fn func(element []byte) (bool, error)) (n int64, err error) {
	for _, element := range c.args(1).all() {
		counts, err := fn(element)
		if err != nil {
			return 0, err
		}
		if counts {
			n++
		}
	}
	c.Out.Int(n)
	return n, nil
}

// HEXISTS key field
func hexists(c *Call) error {
	_, ok, err := getField(c)
	if err != nil {
		return err
	}
	c.Out.Int(oneIf(ok))
	return nil
}

// oneIf is the integer that Redis says yes or no with, in RESP3 too.
func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// HLEN key
func hlen(c *Call) error {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	n, err := h.Len()
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// HSTRLEN key field
func hstrlen(c *Call) error {
	val, _, err := getField(c)
	if err != nil {
		return err
	}
	c.Out.Int(int64(len(val)))
	return nil
}

// HGETALL key
func hgetall(c *Call) error {
	return eachField(c, (*resp.Writer).Map, func(field, val []byte) {
		c.Out.Bulk(field)
		c.Out.Bulk(val)
	})
}

// HKEYS key
func hkeys(c *Call) error {
	return eachField(c, (*resp.Writer).Array, func(field, _ []byte) { c.Out.Bulk(field) })
}

// HVALS key
func hvals(c *Call) error {
	return eachField(c, (*resp.Writer).Array, func(_, val []byte) { c.Out.Bulk(val) })
}

// eachField begins the reply for all fields of the hash and writes each of them.
func eachField(c *Call, begin func(*resp.Writer, int), write func(field, val []byte)) error {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	n, err := h.Len()
	if err != nil {
		return err
	}
	begin(c.Out, int(n))
	return h.Each(func(field, val []byte) bool {
		write(field, val)
		return true
	})
}

// HINCRBY key field increment
func hincrby(c *Call) error {
	a := c.args(1)
	field, increment := a.bytes(), a.integer()
	if err := a.done(); err != nil {
		return err
	}
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	val, exists, err := h.Get(field)
	if err != nil {
		return err
	}
	var n int64
	if exists {
		if n, exists = parseInt(val); !exists {
			return resp.ErrHashNotInteger
		}
	}
	if increment > 0 && n > math.MaxInt64-increment || increment < 0 && n < math.MinInt64-increment {
		return resp.ErrOverflow
	}
	n += increment
	c.Out.Int(n)
	_, err = h.Set(field, strconv.AppendInt(nil, n, 10))
	c.notify(shard.NoteHash, "hincrby", c.key())
	return err
}

// HINCRBYFLOAT key field increment
func hincrbyfloat(c *Call) error {
	a := c.args(1)
	field := a.bytes()
	increment, ok := parseLongDouble(a.bytes())
	switch {
	case !ok:
		return resp.ErrNotFloat
	case increment.IsInf():
		return resp.ErrNaNOrInfinity
	}
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	val, exists, err := h.Get(field)
	if err != nil {
		return err
	}
	if !exists {
		val = []byte("0")
	}
	n, ok := parseLongDouble(val)
	if !ok {
		return resp.ErrHashNotFloat
	}
	sum, err := addLongDouble(n, increment)
	if err != nil {
		return err
	}
	c.Out.Bulk(sum)
	_, err = h.Set(field, sum)
	c.notify(shard.NoteHash, "hincrbyfloat", c.key())
	return err
}

// HSCAN key cursor [MATCH pattern] [COUNT count]
func hscan(c *Call) error {
	h, err := c.DB().Hash(c.key())
	return scanCollection(c, h.Len, err, func(s *scanCall) (next uint64, err error) {
		return h.Scan(s.cursor, s.count, func(field, val []byte) {
			if s.matches(field) {
				s.bulk(field)
				s.bulk(val)
			}
		})
	})
}

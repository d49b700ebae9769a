package commands

import (
	"bytes"
	"math"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// The commands on keys of any type, Redis' generic group. A new one needs an entry in the table and a handler below it,
// in the table's order.

func keyCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "del", Syntax: "DEL key [key ...]",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(N) where N is the number of keys",
			Summary: "Removes keys and returns how many there were.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RM|spec.Delete)},
			Hints:   []string{"request_policy:multi_shard", "response_policy:agg_sum"}}, Run: del},
		{Command: spec.Command{Name: "unlink", Syntax: "UNLINK key [key ...]",
			Group: spec.Generic, Since: "4.0.0", Complexity: "O(1) for each key",
			Summary: "Removes keys and returns how many there were.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RM|spec.Delete)},
			Hints:   []string{"request_policy:multi_shard", "response_policy:agg_sum"}}, Run: del},
		{Command: spec.Command{Name: "exists", Syntax: "EXISTS key [key ...]",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(N) where N is the number of keys",
			Summary: "Counts the keys that exist; one that is named twice counts twice.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO)},
			Hints:   []string{"request_policy:multi_shard", "response_policy:agg_sum"}}, Run: exists},
		{Command: spec.Command{Name: "touch", Syntax: "TOUCH key [key ...]",
			Group: spec.Generic, Since: "3.2.1", Complexity: "O(N) where N is the number of keys",
			Summary: "Counts the keys that exist and marks them as used.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO)},
			Hints:   []string{"request_policy:multi_shard", "response_policy:agg_sum"}}, Run: exists},
		{Command: spec.Command{Name: "type", Syntax: "TYPE key",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the type of the value at a key.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: typeOf},
		{Command: spec.Command{Name: "keys", Syntax: "KEYS pattern",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(N) where N is the number of keys in the database",
			Summary: "Returns all keys whose names match a pattern.",
			Flags:   spec.ReadOnly, ACL: spec.CatDangerous | spec.CatKeyspace,
			Hints: []string{"request_policy:all_shards", "nondeterministic_output_order"}}, Run: keys, Scope: scopeAll},
		{Command: spec.Command{Name: "scan", Syntax: "SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]",
			Group: spec.Generic, Since: "2.8.0", Complexity: "O(1) for each call, O(N) for a whole iteration over N keys",
			Summary: "Goes through the keys of the database, some with each call.",
			Flags:   spec.ReadOnly,
			Hints:   []string{"nondeterministic_output", "request_policy:special"}}, Run: scan},
		{Command: spec.Command{Name: "randomkey", Syntax: "RANDOMKEY",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns some key of the database.",
			Flags:   spec.ReadOnly,
			Hints:   []string{"request_policy:all_shards", "nondeterministic_output"}}, Run: randomkey, Scope: scopeAll},
		{Command: spec.Command{Name: "rename", Syntax: "RENAME key newkey",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1), O(N) with N the size of the value between keys on different shards",
			Differs: "Between keys on different shards the value is copied, in a time that grows with its size (seconds for a million elements), and may have 512 MiB. A partitioned key takes its own type only, and no deadline.",
			Summary: "Gives a key another name and overwrites what has that name.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete), spec.KeyAt(2, spec.OW|spec.Update)}}, Run: rename(false)},
		{Command: spec.Command{Name: "renamenx", Syntax: "RENAMENX key newkey",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1), O(N) with N the size of the value between keys on different shards",
			Differs: "Between keys on different shards the value is copied, in a time that grows with its size (seconds for a million elements), and may have 512 MiB. A partitioned key takes its own type only, and no deadline.",
			Summary: "Gives a key another name unless something has that name already.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete), spec.KeyAt(2, spec.OW|spec.Insert)}}, Run: rename(true)},
		{Command: spec.Command{Name: "expire", Syntax: "EXPIRE key seconds [NX | XX | GT | LT]",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1)",
			Differs: "Refused for a partitioned key, but for a time that has passed.",
			Summary: "Lets a key expire after some seconds.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: expire(unitSeconds, relative)},
		{Command: spec.Command{Name: "pexpire", Syntax: "PEXPIRE key milliseconds [NX | XX | GT | LT]",
			Group: spec.Generic, Since: "2.6.0", Complexity: "O(1)",
			Differs: "Refused for a partitioned key, but for a time that has passed.",
			Summary: "Lets a key expire after some milliseconds.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: expire(unitMilliseconds, relative)},
		{Command: spec.Command{Name: "expireat", Syntax: "EXPIREAT key unix-time-seconds [NX | XX | GT | LT]",
			Group: spec.Generic, Since: "1.2.0", Complexity: "O(1)",
			Differs: "Refused for a partitioned key, but for a time that has passed.",
			Summary: "Lets a key expire at a Unix time in seconds.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: expire(unitSeconds, absolute)},
		{Command: spec.Command{Name: "pexpireat", Syntax: "PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]",
			Group: spec.Generic, Since: "2.6.0", Complexity: "O(1)",
			Differs: "Refused for a partitioned key, but for a time that has passed.",
			Summary: "Lets a key expire at a Unix time in milliseconds.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: expire(unitMilliseconds, absolute)},
		{Command: spec.Command{Name: "ttl", Syntax: "TTL key",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns in how many seconds a key expires, -1 for never, -2 if it does not exist.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: deadlineIn(unitSeconds, relative)},
		{Command: spec.Command{Name: "pttl", Syntax: "PTTL key",
			Group: spec.Generic, Since: "2.6.0", Complexity: "O(1)",
			Summary: "Returns in how many milliseconds a key expires, -1 for never, -2 if it does not exist.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: deadlineIn(unitMilliseconds, relative)},
		{Command: spec.Command{Name: "expiretime", Syntax: "EXPIRETIME key",
			Group: spec.Generic, Since: "7.0.0", Complexity: "O(1)",
			Summary: "Returns the Unix time in seconds at which a key expires, -1 for never, -2 if it does not exist.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: deadlineIn(unitSeconds, absolute)},
		{Command: spec.Command{Name: "pexpiretime", Syntax: "PEXPIRETIME key",
			Group: spec.Generic, Since: "7.0.0", Complexity: "O(1)",
			Summary: "Returns the Unix time in milliseconds at which a key expires, -1 for never, -2 if it does not exist.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: deadlineIn(unitMilliseconds, absolute)},
		{Command: spec.Command{Name: "persist", Syntax: "PERSIST key",
			Group: spec.Generic, Since: "2.2.0", Complexity: "O(1)",
			Summary: "Removes the expiry of a key.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: persist},
	}
}

// Units of the times that clients give and ask for, in ms.
const (
	unitMilliseconds int64 = 1
	unitSeconds      int64 = 1000
)

// timeBase is what such a time counts from.
type timeBase bool

const (
	relative timeBase = false // the transaction's time
	absolute timeBase = true  // 1970
)

func (b timeBase) ms(db shard.DB) int64 {
	if b == absolute {
		return 0
	}
	return db.Now()
}

// DEL key [key ...]
// UNLINK key [key ...]
func del(c *Call) error {
	return countKeys(c, func(db shard.DB, key []byte) (bool, error) {
		ok, err := db.Delete(key)
		c.notifyIf(ok && err == nil, shard.NoteGeneric, eventDel, key)
		return ok, err
	})
}

// EXISTS key [key ...]
// TOUCH key [key ...]
func exists(c *Call) error { return countKeys(c, shard.DB.Exists) }

// countKeys replies for how many of the call's keys it holds.
func countKeys(c *Call, holds func(shard.DB, []byte) (bool, error)) error {
	var n int64
	for _, key := range c.args(0).all() {
		ok, err := holds(c.DB(), key)
		if err != nil {
			return err
		}
		if ok {
			n++
		}
	}
	c.Out.Int(n)
	return nil
}

// TYPE key
func typeOf(c *Call) error {
	kind, err := c.DB().Type(c.key())
	if err != nil {
		return err
	}
	c.Out.Status(kind.String())
	return nil
}

// KEYS pattern
func keys(c *Call) error {
	pattern := c.args(0).bytes()
	all := string(pattern) == "*"
	var found gathered
	err := c.DB().Keys(func(key []byte, _ shard.Kind) {
		if all || globMatch(pattern, key) {
			found.bulk(key)
		}
	})
	if err != nil {
		return err
	}
	found.reply(c.Out)
	return nil
}

// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
func scan(c *Call) error {
	a := c.args(0)
	s := &scanCall{cursor: a.cursor()}
	if err := s.options(a, true); err != nil {
		return err
	}
	next, err := c.DB().Scan(s.cursor, s.count, func(key []byte, kind shard.Kind) {
		if s.matches(key) && s.hasType(kind) {
			s.bulk(key)
		}
	})
	if err != nil {
		return err
	}
	s.reply(c.Out, next)
	return nil
}

// RANDOMKEY
func randomkey(c *Call) error {
	key, ok, err := c.DB().RandomKey()
	if err != nil {
		return err
	}
	c.replyString(key, ok)
	return nil
}

// RENAME key newkey
// RENAMENX key newkey
func rename(onlyNew bool) Handler {
	return func(c *Call) error {
		db, src, dst := c.DB(), c.key(), c.args(1).bytes()
		found, err := db.Exists(src)
		if err != nil {
			return err
		}
		if !found {
			return resp.ErrNoSuchKey
		}
		taken := onlyNew
		if onlyNew {
			if taken, err = db.Exists(dst); err != nil {
				return err
			}
		}
		if !taken && !bytes.Equal(src, dst) {
			if err := db.Rename(src, dst); err != nil {
				return err
			}
			c.notify(shard.NoteGeneric, "rename_from", src)
			c.notify(shard.NoteGeneric, "rename_to", dst)
		}
		if onlyNew {
			c.Out.Int(oneIf(!taken))
		} else {
			c.Out.OK()
		}
		return nil
	}
}

// expireCondition are the options of EXPIRE: when it changes a deadline.
type expireCondition struct{ nx, xx, gt, lt bool }

// parseExpireCondition reads the options to the end.
func parseExpireCondition(a *arguments) (expireCondition, error) {
	var o expireCondition
	for a.more() {
		switch {
		case a.token("NX"):
			o.nx = true
		case a.token("XX"):
			o.xx = true
		case a.token("GT"):
			o.gt = true
		case a.token("LT"):
			o.lt = true
		default:
			a.fail(resp.ErrUnsupportedOption(a.bytes()))
		}
	}
	switch {
	case a.err != nil:
	case o.nx && (o.xx || o.gt || o.lt):
		a.fail(resp.ErrExpireNXAndOthers)
	case o.gt && o.lt:
		a.fail(resp.ErrExpireGTAndLT)
	}
	return o, a.done()
}

// allows tells whether the deadline now, 0 for none, may become the new one. No deadline is later than any.
func (o expireCondition) allows(now, next int64) bool {
	switch {
	case o.nx && now != 0,
		o.xx && now == 0,
		o.gt && (now == 0 || next <= now),
		o.lt && now != 0 && next >= now:
		return false
	}
	return true
}

// EXPIRE key seconds [NX | XX | GT | LT]
// PEXPIRE key milliseconds [NX | XX | GT | LT]
// EXPIREAT key unix-time-seconds [NX | XX | GT | LT]
// PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]
func expire(unit int64, from timeBase) Handler {
	return func(c *Call) error {
		a := c.args(1)
		arg := a.bytes()
		condition, err := parseExpireCondition(a)
		if err != nil {
			return err
		}
		n, ok := parseInt(arg)
		if !ok {
			return resp.ErrNotInteger
		}
		db := c.DB()
		base := from.ms(db)
		if n < math.MinInt64/unit || n > math.MaxInt64/unit || n*unit > math.MaxInt64-base {
			return resp.ErrInvalidExpire(c.cmd.Name)
		}
		changed, err := setDeadline(db, c.key(), base+n*unit, condition)
		if err != nil {
			return err
		}
		c.Out.Int(oneIf(changed))
		return nil
	}
}

// setDeadline lets the key expire and tells whether it was there and the condition allowed it. A time that has passed,
// which may be 1970 or earlier, removes the key.
func setDeadline(db shard.DB, key []byte, atMs int64, condition expireCondition) (bool, error) {
	now, ok, err := db.ExpireAt(key)
	if err != nil || !ok || !condition.allows(now, atMs) {
		return false, err
	}
	if atMs <= db.Now() {
		db.Note(shard.NoteGeneric, eventDel, key)
		return db.Delete(key)
	}
	db.Note(shard.NoteGeneric, "expire", key)
	return db.SetExpireAt(key, atMs)
}

// TTL key
// PTTL key
// EXPIRETIME key
// PEXPIRETIME key
func deadlineIn(unit int64, from timeBase) Handler {
	return func(c *Call) error {
		atMs, ok, err := c.DB().ExpireAt(c.key())
		switch {
		case err != nil:
			return err
		case !ok:
			c.Out.Int(-2)
		case atMs == 0:
			c.Out.Int(-1)
		default:
			left := max(atMs-from.ms(c.DB()), 0)
			n := left / unit
			if left%unit*2 >= unit {
				n++ // the nearest second, as Redis does
			}
			c.Out.Int(n)
		}
		return nil
	}
}

// PERSIST key
func persist(c *Call) error {
	atMs, ok, err := c.DB().ExpireAt(c.key())
	if err != nil {
		return err
	}
	if !ok || atMs == 0 {
		c.Out.Int(0)
		return nil
	}
	if _, err := c.DB().SetExpireAt(c.key(), 0); err != nil {
		return err
	}
	c.notify(shard.NoteGeneric, "persist", c.key())
	c.Out.Int(1)
	return nil
}

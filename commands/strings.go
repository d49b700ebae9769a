package commands

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strconv"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// The commands on strings. A new one needs an entry in the table and a handler below it, in the table's order. What needs
// the whole of a string gets and sets it; what reads or changes a part goes through shard.String, since the whole may be long.

func stringCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "get", Syntax: "GET key",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the string at a key.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: get},
		{Command: spec.Command{Name: "set", Syntax: "SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Puts a string at a key, whatever was there, on a condition or with an expiry if asked for.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update | spec.VariableFlags)}, GetKeys: spec.SetKeys}, Run: set},
		{Command: spec.Command{Name: "setex", Syntax: "SETEX key seconds value",
			Group: spec.String, Since: "2.0.0", Complexity: "O(1)",
			Summary: "Puts a string at a key and lets it expire after some seconds.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update)}}, Run: setExpiring(expiry{word: "EX", unit: unitSeconds})},
		{Command: spec.Command{Name: "psetex", Syntax: "PSETEX key milliseconds value",
			Group: spec.String, Since: "2.6.0", Complexity: "O(1)",
			Summary: "Puts a string at a key and lets it expire after some milliseconds.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update)}}, Run: setExpiring(expiry{word: "PX", unit: unitMilliseconds})},
		{Command: spec.Command{Name: "setnx", Syntax: "SETNX key value",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Puts a string at a key unless there is a value already.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Insert)}}, Run: setnx},
		{Command: spec.Command{Name: "getset", Syntax: "GETSET key value",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary:  "Puts a string at a key and returns the one that was there.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`SET` with the `!GET` argument"}, Run: getset, Reads: true},
		{Command: spec.Command{Name: "getdel", Syntax: "GETDEL key",
			Group: spec.String, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Returns the string at a key and removes the key.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete)}}, Run: getdel, Reads: true},
		{Command: spec.Command{Name: "getex", Syntax: "GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
			Group: spec.String, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Returns the string at a key and sets or removes its expiry.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: getex, Reads: true},
		{Command: spec.Command{Name: "append", Syntax: "APPEND key value",
			Group: spec.String, Since: "2.0.0", Complexity: "O(N) where N is the length of the value",
			Summary: "Appends to the string at a key, which is created if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}}, Run: appendTo},
		{Command: spec.Command{Name: "strlen", Syntax: "STRLEN key",
			Group: spec.String, Since: "2.2.0", Complexity: "O(1)",
			Summary: "Returns the length of the string at a key in bytes.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: strlen},
		{Command: spec.Command{Name: "getrange", Syntax: "GETRANGE key start end",
			Group: spec.String, Since: "2.4.0", Complexity: "O(N) where N is the length of the part",
			Summary: "Returns a part of the string at a key.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: getrange},
		{Command: spec.Command{Name: "substr", Syntax: "SUBSTR key start end",
			Group: spec.String, Since: "1.0.0", Complexity: "O(N) where N is the length of the part",
			Summary:  "Returns a part of the string at a key.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "2.0.0", ReplacedBy: "`GETRANGE`"}, Run: getrange},
		{Command: spec.Command{Name: "setrange", Syntax: "SETRANGE key offset value",
			Group: spec.String, Since: "2.2.0", Complexity: "O(N) where N is the length of the value",
			Summary: "Overwrites a part of the string at a key, which grows as far as needed.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: setrange},
		{Command: spec.Command{Name: "mget", Syntax: "MGET key [key ...]",
			Group: spec.String, Since: "1.0.0", Complexity: "O(N) where N is the number of keys",
			Summary: "Returns the strings at several keys.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO|spec.Access)},
			Hints:   []string{"request_policy:multi_shard"}}, Run: mget},
		{Command: spec.Command{Name: "mset", Syntax: "MSET key value [key value ...]",
			Group: spec.String, Since: "1.0.1", Complexity: "O(N) where N is the number of keys",
			Summary: "Puts strings at several keys.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{{Flags: spec.OW | spec.Update, Begin: spec.Index(1), Find: spec.Range(-1, 2, 0)}},
			Hints:   []string{"request_policy:multi_shard", "response_policy:all_succeeded"}}, Run: mset},
		{Command: spec.Command{Name: "msetnx", Syntax: "MSETNX key value [key value ...]",
			Group: spec.String, Since: "1.0.1", Complexity: "O(N) where N is the number of keys",
			Summary: "Puts strings at several keys unless one of them has a value already.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{{Flags: spec.OW | spec.Insert, Begin: spec.Index(1), Find: spec.Range(-1, 2, 0)}},
			Hints:   []string{"request_policy:multi_shard", "response_policy:agg_min"}}, Run: msetnx},
		{Command: spec.Command{Name: "incr", Syntax: "INCR key",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Adds one to the integer at a key, which counts from zero if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: stepBy(1)},
		{Command: spec.Command{Name: "decr", Syntax: "DECR key",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Subtracts one from the integer at a key, which counts from zero if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: stepBy(-1)},
		{Command: spec.Command{Name: "incrby", Syntax: "INCRBY key increment",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Adds to the integer at a key, which counts from zero if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: incrby},
		{Command: spec.Command{Name: "decrby", Syntax: "DECRBY key decrement",
			Group: spec.String, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Subtracts from the integer at a key, which counts from zero if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: decrby},
		{Command: spec.Command{Name: "incrbyfloat", Syntax: "INCRBYFLOAT key increment:double",
			Group: spec.String, Since: "2.6.0", Complexity: "O(1)",
			Differs: "Adds with a mantissa of 64 bits, which is x86's long double, on every machine.",
			Summary: "Adds to the floating-point number at a key, which counts from zero if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: incrbyfloat},
	}
}

// maxStringBytes is the length of the longest string, which is Redis' default for proto-max-bulk-len.
const maxStringBytes = 512 << 20

// expiry is an option that says when a string expires. Its zero value is none.
type expiry struct {
	word     string
	unit     int64 // ms
	absolute bool
	arg      []byte
}

func (e *expiry) given() bool { return e.word != "" }

// option takes an expiry option if one comes next. A second one must have the same word, and replaces the first.
func (e *expiry) option(a *arguments) bool {
	for _, kind := range [...]expiry{
		{word: "EX", unit: unitSeconds},
		{word: "PX", unit: unitMilliseconds},
		{word: "EXAT", unit: unitSeconds, absolute: true},
		{word: "PXAT", unit: unitMilliseconds, absolute: true},
	} {
		if (!e.given() || e.word == kind.word) && a.token(kind.word) {
			*e = kind
			e.arg = a.bytes()
			return true
		}
	}
	return false
}

// deadline is the option in unix ms, 0 for none. A time that has passed is one, but not one before 1970.
func (e *expiry) deadline(c *Call) (atMs int64, err error) {
	if !e.given() {
		return 0, nil
	}
	n, ok := parseInt(e.arg)
	if !ok {
		return 0, resp.ErrNotInteger
	}
	base := c.DB().Now()
	if e.absolute {
		base = 0
	}
	if n <= 0 || n > (math.MaxInt64-base)/e.unit {
		return 0, resp.ErrInvalidExpire(c.cmd.Name)
	}
	return base + n*e.unit, nil
}

// replyString writes a string, or null when there is none.
func (c *Call) replyString(val []byte, ok bool) {
	if !ok {
		c.Out.Null()
		return
	}
	c.Out.Bulk(val)
}

// replyText writes the string, or null when there is none.
func (c *Call) replyText(t shard.String) error {
	if !t.Exists() {
		c.Out.Null()
		return nil
	}
	return t.Read(c.Out.BulkRoom(int(t.Len())), 0)
}

// putKeepingTTL puts a string at the key and leaves the key's deadline as it is.
func putKeepingTTL(db shard.DB, key, val []byte) error {
	atMs, _, err := db.ExpireAt(key)
	if err != nil {
		return err
	}
	return db.Set(key, val, atMs)
}

// GET key
func get(c *Call) error {
	t, err := c.DB().StringOf(c.key())
	if err != nil {
		return err
	}
	return c.replyText(t)
}

// setOptions are what may stand behind SET's value.
type setOptions struct {
	nx, xx, get, keepTTL bool
	expiry               expiry
}

func (o *setOptions) parse(a *arguments) error {
	for a.more() {
		switch {
		case !o.xx && a.token("NX"):
			o.nx = true
		case !o.nx && a.token("XX"):
			o.xx = true
		case a.token("GET"):
			o.get = true
		case !o.expiry.given() && a.token("KEEPTTL"):
			o.keepTTL = true
		case !o.keepTTL && o.expiry.option(a):
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	return a.done()
}

// SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]
func set(c *Call) error {
	a := c.args(1)
	val := a.bytes()
	var o setOptions
	if err := o.parse(a); err != nil {
		return err
	}
	atMs, err := o.expiry.deadline(c)
	if err != nil {
		return err
	}
	db, key := c.DB(), c.key()
	if o.get {
		c.tx.CountLookups(true)
		old, err := db.StringOf(key)
		if err == nil {
			err = c.replyText(old)
		}
		if err != nil {
			return err
		}
	}
	if o.nx || o.xx {
		exists, err := db.Exists(key)
		if err != nil {
			return err
		}
		if exists == o.nx {
			if !o.get {
				c.Out.Null()
			}
			return nil
		}
	}
	if o.keepTTL {
		err = putKeepingTTL(db, key, val)
	} else {
		err = db.Set(key, val, atMs)
	}
	if err != nil {
		return err
	}
	c.noteSet(atMs)
	if !o.get {
		c.Out.OK()
	}
	return nil
}

// noteSet notes that the call's key was set, with the deadline unless it is 0. One that has passed is met at once.
func (c *Call) noteSet(atMs int64) {
	c.notify(shard.NoteString, "set", c.key())
	if atMs != 0 {
		c.notify(shard.NoteGeneric, "expire", c.key())
		c.notifyIf(atMs <= c.DB().Now(), shard.NoteExpired, "expired", c.key())
	}
}

// SETEX key seconds value
// PSETEX key milliseconds value
func setExpiring(option expiry) Handler {
	return func(c *Call) error {
		a := c.args(1)
		e := option
		e.arg = a.bytes()
		val := a.bytes()
		atMs, err := e.deadline(c)
		if err != nil {
			return err
		}
		if err := c.DB().Set(c.key(), val, atMs); err != nil {
			return err
		}
		c.noteSet(atMs)
		c.Out.OK()
		return nil
	}
}

// SETNX key value
func setnx(c *Call) error {
	val := c.args(1).bytes()
	exists, err := c.DB().Exists(c.key())
	if err != nil {
		return err
	}
	if exists {
		c.Out.Int(0)
		return nil
	}
	if err := c.DB().Set(c.key(), val, 0); err != nil {
		return err
	}
	c.notify(shard.NoteString, "set", c.key())
	c.Out.Int(1)
	return nil
}

// GETSET key value
func getset(c *Call) error {
	val := c.args(1).bytes()
	old, err := c.DB().StringOf(c.key())
	if err == nil {
		err = c.replyText(old)
	}
	if err != nil {
		return err
	}
	err = c.DB().Set(c.key(), val, 0)
	c.notify(shard.NoteString, "set", c.key())
	return err
}

// GETDEL key
func getdel(c *Call) error {
	t, err := c.DB().StringOf(c.key())
	if err == nil {
		err = c.replyText(t)
	}
	if err != nil || !t.Exists() {
		return err
	}
	_, err = c.DB().Delete(c.key())
	c.notify(shard.NoteGeneric, eventDel, c.key())
	return err
}

// GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]
func getex(c *Call) error {
	a := c.args(1)
	var e expiry
	persist := false
	for a.more() {
		switch {
		case !e.given() && a.token("PERSIST"):
			persist = true
		case !persist && e.option(a):
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if err := a.done(); err != nil {
		return err
	}
	t, err := c.DB().StringOf(c.key())
	if err == nil {
		err = c.replyText(t)
	}
	if err != nil || !t.Exists() || !persist && !e.given() {
		return err
	}
	atMs, err := e.deadline(c)
	if err != nil {
		return err
	}
	before, _, err := c.DB().ExpireAt(c.key())
	if err != nil {
		return err
	}
	switch {
	case persist:
		c.notifyIf(before != 0, shard.NoteGeneric, "persist", c.key())
	case atMs <= c.DB().Now():
		c.notify(shard.NoteGeneric, eventDel, c.key())
	default:
		c.notify(shard.NoteGeneric, "expire", c.key())
	}
	_, err = c.DB().SetExpireAt(c.key(), atMs)
	return err
}

// APPEND key value
func appendTo(c *Call) error {
	tail := c.args(1).bytes()
	t, err := c.DB().StringOf(c.key())
	if err != nil {
		return err
	}
	if t.Len() > maxStringBytes-int64(len(tail)) {
		return resp.ErrStringTooLong
	}
	if err := t.Write(t.Len(), tail); err != nil {
		return err
	}
	c.notify(shard.NoteString, "append", c.key())
	c.Out.Int(t.Len())
	return nil
}

// STRLEN key
func strlen(c *Call) error {
	t, err := c.DB().StringOf(c.key())
	if err != nil {
		return err
	}
	c.Out.Int(t.Len())
	return nil
}

// GETRANGE key start end
// SUBSTR key start end
func getrange(c *Call) error {
	a := c.args(1)
	start, end := a.integer(), a.integer()
	if err := a.done(); err != nil {
		return err
	}
	t, err := c.DB().StringOf(c.key())
	if err != nil {
		return err
	}
	first, last := substring(t.Len(), start, end)
	return t.Read(c.Out.BulkRoom(int(max(last-first+1, 0))), first)
}

// substring is the first and the last byte of start … end, both inclusive, in a string of n bytes. Negative ones count from
// its end. Unlike in a list, an end before the first byte means the first byte. Of nothing the last is before the first.
func substring(n, start, end int64) (first, last int64) {
	if start < 0 && end < 0 && start > end {
		return 0, -1
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	return start, min(end, n-1)
}

// SETRANGE key offset value
func setrange(c *Call) error {
	a := c.args(1)
	offset, part := a.integer(), a.bytes()
	if err := a.done(); err != nil {
		return err
	}
	if offset < 0 {
		return resp.ErrOffsetOutOfRange
	}
	t, err := c.DB().StringOf(c.key())
	if err != nil {
		return err
	}
	if len(part) == 0 {
		c.Out.Int(t.Len())
		return nil
	}
	if offset > maxStringBytes-int64(len(part)) {
		return resp.ErrStringTooLong
	}
	if err := t.Write(offset, part); err != nil {
		return err
	}
	c.notify(shard.NoteString, "setrange", c.key())
	c.Out.Int(t.Len())
	return nil
}

// MGET key [key ...]
func mget(c *Call) error {
	keys := c.args(0).all()
	c.Out.Array(len(keys))
	for _, key := range keys {
		t, err := c.DB().StringOf(key)
		switch {
		case err == nil:
			err = c.replyText(t)
		case errors.Is(err, shard.ErrWrongType):
			c.Out.Null()
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MSET key value [key value ...]
func mset(c *Call) error {
	pairs := c.args(0).all()
	if len(pairs)%2 != 0 {
		return resp.ErrWrongArgs(c.cmd.Name)
	}
	if err := setPairs(c.DB(), pairs); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

// setPairs sets all pairs or, where one of the keys can't hold a string, none.
func setPairs(db shard.DB, pairs [][]byte) error {
	for rest := pairs; len(rest) > 0; rest = rest[2:] {
		if err := db.CanHold(rest[0], shard.KindString); err != nil {
			return err
		}
	}
	for ; len(pairs) > 0; pairs = pairs[2:] {
		if err := db.Set(pairs[0], pairs[1], 0); err != nil {
			return err
		}
		db.Note(shard.NoteString, "set", pairs[0])
	}
	return nil
}

// MSETNX key value [key value ...]
func msetnx(c *Call) error {
	pairs := c.args(0).all()
	if len(pairs)%2 != 0 {
		return resp.ErrWrongArgs(c.cmd.Name)
	}
	for rest := pairs; len(rest) > 0; rest = rest[2:] {
		exists, err := c.DB().Exists(rest[0])
		if err != nil {
			return err
		}
		if exists {
			c.Out.Int(0)
			return nil
		}
	}
	if err := setPairs(c.DB(), pairs); err != nil {
		return err
	}
	c.Out.Int(1)
	return nil
}

// INCR key
// DECR key
func stepBy(by int64) Handler {
	return func(c *Call) error { return increment(c, by) }
}

// INCRBY key increment
func incrby(c *Call) error {
	a := c.args(1)
	by := a.integer()
	if err := a.done(); err != nil {
		return err
	}
	return increment(c, by)
}

// DECRBY key decrement
func decrby(c *Call) error {
	a := c.args(1)
	by := a.integer()
	if err := a.done(); err != nil {
		return err
	}
	if by == math.MinInt64 {
		return resp.ErrDecrementOverflow
	}
	return increment(c, -by)
}

// numberText reads the string at the call's key as the text of a number of at most so many bytes. Of a longer string it
// reads one byte more, which makes it none.
func (c *Call) numberText(longest int64) (text []byte, ok bool, err error) {
	t, err := c.DB().StringOf(c.key())
	if err != nil {
		return nil, false, err
	}
	text, err = t.Part(0, longest)
	return text, t.Exists(), err
}

// increment adds to the integer at the call's key.
func increment(c *Call, by int64) error {
	val, ok, err := c.numberText(maxIntegerText)
	if err != nil {
		return err
	}
	var n int64
	if ok {
		if n, ok = parseInt(val); !ok {
			return resp.ErrNotInteger
		}
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return resp.ErrOverflow
	}
	n += by
	var digits [20]byte
	if err := putKeepingTTL(c.DB(), c.key(), strconv.AppendInt(digits[:0], n, 10)); err != nil {
		return err
	}
	c.notify(shard.NoteString, "incrby", c.key())
	c.Out.Int(n)
	return nil
}

// INCRBYFLOAT key increment
func incrbyfloat(c *Call) error {
	val, ok, err := c.numberText(maxLongDoubleText)
	if err != nil {
		return err
	}
	if !ok {
		val = []byte("0")
	}
	n, valid := parseLongDouble(val)
	by, byValid := parseLongDouble(c.args(1).bytes())
	if !valid || !byValid {
		return resp.ErrNotFloat
	}
	sum, err := addLongDouble(n, by)
	if err != nil {
		return err
	}
	if err := putKeepingTTL(c.DB(), c.key(), sum); err != nil {
		return err
	}
	c.notify(shard.NoteString, "incrbyfloat", c.key())
	c.Out.Bulk(sum)
	return nil
}

// Redis adds in C's long double, which on x86-64 is the 80-bit format of the x87: a mantissa of 64 bits and exponents of
// 15. A big.Float of 64 bits rounds as it does; only its range is larger and has to be cut. So INCRBYFLOAT and HINCRBYFLOAT
// answer as a Redis on x86-64, to the last digit.
const (
	longDoubleBits        = 64
	longDoubleMaxExponent = 16384  // of the largest number, for a mantissa in [0.5, 1)
	longDoubleMinExponent = -16445 // of the smallest that is not rounded to zero
	longDoubleDigits      = 17     // behind the point, where Redis cuts
	maxLongDoubleText     = 5 * 1024
	exactBits             = 1024 // more than a number in use has, so that it is rounded to a long double only once
)

// parseLongDouble reads a number as C's strtold does, without blanks around it. NaN is refused, and so is what is too
// large or too close to zero.
func parseLongDouble(text []byte) (*big.Float, bool) {
	if len(text) == 0 || len(text) >= maxLongDoubleText {
		return nil, false
	}
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	digits := bytes.ToLower(text)
	if string(digits) == "inf" || string(digits) == "infinity" {
		return new(big.Float).SetInf(negative), true
	}
	base, alphabet := 10, "0123456789.e+-"
	if bytes.HasPrefix(digits, []byte("0x")) {
		base, alphabet = 0, "0123456789abcdefxp.+-"
	}
	foreign := bytes.Trim(digits, alphabet) // not empty if there is a byte of another alphabet anywhere
	if len(digits) == 0 || digits[0] == '+' || digits[0] == '-' || len(foreign) > 0 {
		return nil, false
	}
	x, _, err := big.ParseFloat(string(digits), base, exactBits, big.ToNearestEven)
	if err != nil {
		return nil, false
	}
	x.SetPrec(longDoubleBits)
	if exponent := x.MantExp(nil); exponent > longDoubleMaxExponent || exponent < longDoubleMinExponent {
		return nil, false
	}
	if negative {
		x.Neg(x)
	}
	return x, true
}

// addLongDouble returns the sum as Redis stores it: without an exponent, with at most 17 digits behind the point.
func addLongDouble(x, y *big.Float) ([]byte, error) {
	if x.IsInf() || y.IsInf() {
		return nil, resp.ErrIncrementNaN
	}
	sum := new(big.Float).SetPrec(longDoubleBits).Add(x, y)
	if sum.MantExp(nil) > longDoubleMaxExponent {
		return nil, resp.ErrIncrementNaN
	}
	text := sum.Append(nil, 'f', longDoubleDigits)
	text = bytes.TrimRight(text, "0")
	text = bytes.TrimSuffix(text, []byte("."))
	if string(text) == "-0" {
		return []byte("0"), nil
	}
	return text, nil
}

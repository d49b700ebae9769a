package commands

import (
	"time"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// The commands that wait for a list or a sorted set to take something from. What they take, and how it is replied, is an
// attempt that they share with those that don't wait; see lists.go and zsets.go.

func blockingCommands() []Command {
	popped := spec.RW | spec.Access | spec.Delete
	keysBeforeTimeout := spec.Keys{{Flags: popped, Begin: spec.Index(1), Find: spec.Range(-2, 1, 0)}}
	moved := spec.Keys{spec.FirstKey(popped), spec.KeyAt(2, spec.RW|spec.Insert)}
	return []Command{
		{Command: spec.Command{Name: "blpop", Syntax: "BLPOP key [key ...] timeout",
			Group: spec.List, Since: "2.0.0", Complexity: "O(N) where N is the number of keys",
			Summary: "Takes an element from the head of the first list that has one, and waits for it if none has.",
			Flags:   spec.Write | spec.NoScript | spec.Blocking, Keys: keysBeforeTimeout}, Run: bpop(shard.Head)},
		{Command: spec.Command{Name: "brpop", Syntax: "BRPOP key [key ...] timeout",
			Group: spec.List, Since: "2.0.0", Complexity: "O(N) where N is the number of keys",
			Summary: "Takes an element from the tail of the first list that has one, and waits for it if none has.",
			Flags:   spec.Write | spec.NoScript | spec.Blocking, Keys: keysBeforeTimeout}, Run: bpop(shard.Tail)},
		{Command: spec.Command{Name: "brpoplpush", Syntax: "BRPOPLPUSH source destination timeout",
			Group: spec.List, Since: "2.2.0", Complexity: "O(1)",
			Summary:  "Moves the last element of a list to the head of another, and waits for it if there is none.",
			Flags:    spec.Write | spec.DenyOOM | spec.NoScript | spec.Blocking,
			Keys:     moved,
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`BLMOVE` with the `RIGHT` and `LEFT` arguments"}, Run: brpoplpush, Moves: true},
		{Command: spec.Command{Name: "blmove", Syntax: "BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
			Group: spec.List, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Moves an element from one end of a list to an end of another, and waits for it if there is none.",
			Flags:   spec.Write | spec.DenyOOM | spec.NoScript | spec.Blocking,
			Keys:    moved}, Run: blmove, Moves: true},
		{Command: spec.Command{Name: "blmpop", Syntax: "BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
			Group: spec.List, Since: "7.0.0", Complexity: "O(N+M) where N is the number of keys and M the number of elements returned",
			Summary: "Takes elements from one end of the first list that has any, and waits for them if none has.",
			Flags:   spec.Write | spec.Blocking,
			Keys:    spec.Keys{spec.CountedKeys(2, popped)}}, Run: blmpop},
		{Command: spec.Command{Name: "bzpopmin", Syntax: "BZPOPMIN key [key ...] timeout",
			Group: spec.SortedSet, Since: "5.0.0", Complexity: "O(log(N)) where N is the size of the sorted set",
			Summary: "Takes the member of the lowest score from the first sorted set that has one, and waits for it if none has.",
			Flags:   spec.Write | spec.NoScript | spec.Blocking | spec.Fast, Keys: keysBeforeTimeout}, Run: bzpop(false)},
		{Command: spec.Command{Name: "bzpopmax", Syntax: "BZPOPMAX key [key ...] timeout",
			Group: spec.SortedSet, Since: "5.0.0", Complexity: "O(log(N)) where N is the size of the sorted set",
			Summary: "Takes the member of the highest score from the first sorted set that has one, and waits for it if none has.",
			Flags:   spec.Write | spec.NoScript | spec.Blocking | spec.Fast, Keys: keysBeforeTimeout}, Run: bzpop(true)},
		{Command: spec.Command{Name: "bzmpop", Syntax: "BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
			Group: spec.SortedSet, Since: "7.0.0",
			Complexity: "O(K)+O(M*log(N)) where K is the number of keys, N the size of the sorted set and M the number of members returned",
			Summary:    "Takes members from one end of the first sorted set that has any, and waits for them if none has.",
			Flags:      spec.Write | spec.Blocking,
			Keys:       spec.Keys{spec.CountedKeys(2, popped)}}, Run: bzmpop},
	}
}

// keysAndTimeout takes keys, of which the arity guarantees one, and the timeout behind them.
func (a *arguments) keysAndTimeout() (b blocking) {
	b.keys = a.take(len(a.rest) - 1)
	b.timeout = a.timeout()
	b.nothing = replyNullArray
	return b
}

// BLPOP key [key ...] timeout
// BRPOP key [key ...] timeout
func bpop(end shard.End) Handler {
	try := func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error) {
		list, n, err := listOf(db, key)
		if n == 0 || err != nil {
			return false, err
		}
		val, _, err := list.Pop(end)
		if err != nil {
			return false, err
		}
		out.Array(2)
		out.Bulk(key)
		out.Bulk(val)
		return true, noteRemoval(db, shard.NoteList, popEvent(end), key)
	}
	return func(c *Call) error {
		a := c.args(0)
		b := a.keysAndTimeout()
		if a.err != nil {
			return a.err
		}
		b.kind, b.try = shard.KindList, try
		return c.block(b)
	}
}

// BRPOPLPUSH source destination timeout
func brpoplpush(c *Call) error {
	return blockMove(c, c.args(1), func(*arguments) (from, to shard.End) { return shard.Tail, shard.Head })
}

// BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout
func blmove(c *Call) error {
	return blockMove(c, c.args(1), func(a *arguments) (from, to shard.End) { return a.end(), a.end() })
}

func blockMove(c *Call, a *arguments, ends func(*arguments) (from, to shard.End)) error {
	dst := a.bytes()
	from, to := ends(a)
	b := blocking{kind: shard.KindList, keys: c.Args[1:2], timeout: a.timeout(), try: moveTo(dst, from, to), nothing: replyNullArray}
	if err := a.done(); err != nil {
		return err
	}
	if c.script || c.exec {
		b.nothing = replyNull
	}
	return c.block(b)
}

// BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]
func blmpop(c *Call) error {
	p := parseListPop(c.args(1))
	wait, err := c.args(0).timeoutBehind(p.err)
	if err != nil {
		return err
	}
	return c.block(blocking{kind: shard.KindList, keys: p.keys, timeout: wait, try: popList(p.end, p.count), nothing: replyNullArray})
}

// BZPOPMIN key [key ...] timeout, BZPOPMAX key [key ...] timeout
func bzpop(highest bool) Handler {
	try := func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error) {
		z, n, err := zsetOf(db, key)
		if n == 0 || err != nil {
			return false, err
		}
		out.Array(3)
		out.Bulk(key)
		return true, popScored(out, db, key, z, 1, highest, false)
	}
	return func(c *Call) error {
		a := c.args(0)
		b := a.keysAndTimeout()
		if a.err != nil {
			return a.err
		}
		b.kind, b.try = shard.KindZSet, try
		return c.block(b)
	}
}

// BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]
func bzmpop(c *Call) error {
	p := parseZmpop(c.args(1))
	wait, err := c.args(0).timeoutBehind(p.err)
	if err != nil {
		return err
	}
	return c.block(blocking{kind: shard.KindZSet, keys: p.keys, timeout: wait, try: popZSet(p.highest, p.count), nothing: replyNullArray})
}

// timeoutBehind takes a timeout that stands first and is looked at last: an error of the other arguments comes before its own.
func (a *arguments) timeoutBehind(others error) (time.Duration, error) {
	if others != nil {
		return 0, others
	}
	wait := a.timeout()
	return wait, a.err
}

package commands

import (
	"bytes"
	"math"
	"slices"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// The commands on lists that do not block. A new one needs an entry in the table and a handler below it, in the table's
// order; what works at one end of the list takes the end as an argument.

func listCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "lpush", Syntax: "LPUSH key element [element ...]",
			Group: spec.List, Since: "1.0.0", Complexity: "O(1) for each element",
			Summary: "Adds elements to the head of a list, which is created if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}, Elements: spec.ElementsFrom(2, 1)}, Run: push(shard.Head)},
		{Command: spec.Command{Name: "rpush", Syntax: "RPUSH key element [element ...]",
			Group: spec.List, Since: "1.0.0", Complexity: "O(1) for each element",
			Summary: "Adds elements to the tail of a list, which is created if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}, Elements: spec.ElementsFrom(2, 1)}, Run: push(shard.Tail)},
		{Command: spec.Command{Name: "lpushx", Syntax: "LPUSHX key element [element ...]",
			Group: spec.List, Since: "2.2.0", Complexity: "O(1) for each element",
			Summary: "Adds elements to the head of a list if it exists.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}, Elements: spec.ElementsFrom(2, 1)}, Run: pushExisting(shard.Head)},
		{Command: spec.Command{Name: "rpushx", Syntax: "RPUSHX key element [element ...]",
			Group: spec.List, Since: "2.2.0", Complexity: "O(1) for each element",
			Summary: "Adds elements to the tail of a list if it exists.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}, Elements: spec.ElementsFrom(2, 1)}, Run: pushExisting(shard.Tail)},
		{Command: spec.Command{Name: "lpop", Syntax: "LPOP key [count]",
			Group: spec.List, Since: "1.0.0", Complexity: "O(N) where N is the number of elements returned",
			Summary: "Takes elements from the head of a list.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete)}}, Run: pop(shard.Head)},
		{Command: spec.Command{Name: "rpop", Syntax: "RPOP key [count]",
			Group: spec.List, Since: "1.0.0", Complexity: "O(N) where N is the number of elements returned",
			Summary: "Takes elements from the tail of a list.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete)}}, Run: pop(shard.Tail)},
		{Command: spec.Command{Name: "llen", Syntax: "LLEN key",
			Group: spec.List, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the length of a list.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: llen},
		{Command: spec.Command{Name: "lrange", Syntax: "LRANGE key start stop",
			Group: spec.List, Since: "1.0.0", Complexity: "O(S+N) where S is the distance of the start from the head, N the number of elements returned",
			Summary: "Returns the elements of a list between two positions.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: lrange},
		{Command: spec.Command{Name: "lindex", Syntax: "LINDEX key index",
			Group: spec.List, Since: "1.0.0", Complexity: "O(N) where N is the distance from the nearer end, if elements were removed from the middle; O(1) otherwise",
			Summary: "Returns the element of a list at a position.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: lindex},
		{Command: spec.Command{Name: "lset", Syntax: "LSET key index element",
			Group: spec.List, Since: "1.0.0", Complexity: "O(N) where N is the distance from the nearer end, if elements were removed from the middle; O(1) otherwise",
			Summary: "Replaces the element of a list at a position.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: lset},
		{Command: spec.Command{Name: "lrem", Syntax: "LREM key count element",
			Group: spec.List, Since: "1.0.0", Complexity: "O(N+M) where N is the length of the part that is searched, M the number of elements removed",
			Summary: "Removes elements of a value from a list, from either end.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)}, Elements: spec.ElementAt(3)}, Run: lrem},
		{Command: spec.Command{Name: "linsert", Syntax: "LINSERT key <BEFORE | AFTER> pivot element",
			Group: spec.List, Since: "2.2.0", Complexity: "O(N) where N is the length of the list",
			Summary: "Inserts an element before or after the first one of a value.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}}, Run: linsert},
		{Command: spec.Command{Name: "ltrim", Syntax: "LTRIM key start stop",
			Group: spec.List, Since: "1.0.0", Complexity: "O(N) where N is the number of elements removed",
			Summary: "Removes the elements of a list that are not between two positions.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)}}, Run: ltrim},
		{Command: spec.Command{Name: "lpos", Syntax: "LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
			Group: spec.List, Since: "6.0.6", Complexity: "O(N) where N is the number of elements that are compared",
			Summary: "Returns the positions of elements of a value.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: lpos},
		{Command: spec.Command{Name: "rpoplpush", Syntax: "RPOPLPUSH source destination",
			Group: spec.List, Since: "1.2.0", Complexity: "O(1)",
			Summary:  "Takes the element at the tail of a list and adds it to the head of another.",
			Flags:    spec.Write | spec.DenyOOM,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete), spec.KeyAt(2, spec.RW|spec.Insert)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`LMOVE` with the `RIGHT` and `LEFT` arguments"}, Run: rpoplpush, Moves: true},
		{Command: spec.Command{Name: "lmove", Syntax: "LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>",
			Group: spec.List, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Takes an element from one end of a list and adds it to one end of another.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete), spec.KeyAt(2, spec.RW|spec.Insert)}}, Run: lmove, Moves: true},
		{Command: spec.Command{Name: "lmpop", Syntax: "LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
			Group: spec.List, Since: "7.0.0", Complexity: "O(N+M) where N is the number of keys, M the number of elements returned",
			Summary: "Takes elements from the first of several lists that is not empty.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RW|spec.Access|spec.Delete)}}, Run: lmpop},
	}
}

// LPUSH key element [element ...]
// RPUSH key element [element ...]
func push(end shard.End) Handler {
	return func(c *Call) error {
		list, err := c.DB().List(c.key())
		if err != nil {
			return err
		}
		return pushAll(c, list, end)
	}
}

// pushAll adds the call's elements and replies with the new length.
func pushAll(c *Call, list shard.List, end shard.End) error {
	for _, val := range c.args(1).all() {
		if err := list.Push(end, val); err != nil {
			return err
		}
	}
	c.notify(shard.NoteList, pushEvent(end), c.key())
	return replyLength(c, list)
}

// pushEvent and popEvent are the events of adding and taking elements at an end.
func pushEvent(end shard.End) string {
	if end == shard.Head {
		return "lpush"
	}
	return "rpush"
}

func popEvent(end shard.End) string {
	if end == shard.Head {
		return "lpop"
	}
	return "rpop"
}

func replyLength(c *Call, list shard.List) error {
	n, err := list.Len()
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// openList opens the list at the call's key and returns its length too.
func openList(c *Call) (list shard.List, n int64, err error) {
	if list, err = c.DB().List(c.key()); err != nil {
		return list, 0, err
	}
	n, err = list.Len()
	return list, n, err
}

// LPUSHX key element [element ...]
// RPUSHX key element [element ...]
func pushExisting(end shard.End) Handler {
	return func(c *Call) error {
		list, n, err := openList(c)
		if err != nil {
			return err
		}
		if n == 0 {
			c.Out.Int(0)
			return nil
		}
		return pushAll(c, list, end)
	}
}

// LPOP key [count]
// RPOP key [count]
func pop(end shard.End) Handler {
	return func(c *Call) error {
		count, given, err := c.args(1).optionalCount((*arguments).positiveCount)
		if err == resp.ErrSyntax { // more words than the count, which LPOP has its own error for
			return resp.ErrWrongArgs(c.cmd.Name)
		}
		if err != nil {
			return err
		}
		list, n, err := openList(c)
		switch {
		case err != nil:
			return err
		case n == 0 && given:
			c.Out.NullArray()
			return nil
		case given:
			return popElements(c.Out, c.DB(), c.key(), list, end, min(count, n))
		}
		val, ok, err := list.Pop(end)
		if err != nil {
			return err
		}
		c.replyString(val, ok)
		if !ok {
			return nil
		}
		return noteRemoval(c.DB(), shard.NoteList, popEvent(end), c.key())
	}
}

// popElements takes n elements, which must be there, from the list at the key and replies with them.
func popElements(out *resp.Writer, db shard.DB, key []byte, list shard.List, end shard.End, n int64) error {
	out.Array(int(n))
	for range n {
		val, _, err := list.Pop(end)
		if err != nil {
			return err
		}
		out.Bulk(val)
	}
	if n == 0 {
		return nil
	}
	return noteRemoval(db, shard.NoteList, popEvent(end), key)
}

// LLEN key
func llen(c *Call) error {
	list, err := c.DB().List(c.key())
	if err != nil {
		return err
	}
	return replyLength(c, list)
}

// between turns two positions, which may count from the tail, into 0 <= start <= stop < n. ok is false when nothing
// lies between them.
func between(start, stop, n int64) (from, to int64, ok bool) {
	if start < 0 {
		start = max(start+n, 0)
	}
	if stop < 0 {
		stop += n
	}
	stop = min(stop, n-1)
	return start, stop, start <= stop
}

// LRANGE key start stop
func lrange(c *Call) error {
	a := c.args(1)
	start, stop := a.integer(), a.integer()
	if err := a.done(); err != nil {
		return err
	}
	list, n, err := openList(c)
	if err != nil {
		return err
	}
	start, stop, ok := between(start, stop, n)
	if !ok {
		c.Out.Array(0)
		return nil
	}
	c.Out.Array(int(stop - start + 1))
	return list.Range(start, stop, c.Out.Bulk)
}

// LINDEX key index
func lindex(c *Call) error {
	list, n, err := openList(c)
	if err != nil {
		return err
	}
	if n == 0 {
		c.Out.Null()
		return nil
	}
	a := c.args(1)
	i := a.integer()
	if err := a.done(); err != nil {
		return err
	}
	val, ok, err := list.Index(i)
	if err != nil {
		return err
	}
	c.replyString(val, ok)
	return nil
}

// LSET key index element
func lset(c *Call) error {
	list, n, err := openList(c)
	if err != nil {
		return err
	}
	if n == 0 {
		return resp.ErrNoSuchKey
	}
	a := c.args(1)
	i, val := a.integer(), a.bytes()
	if err := a.done(); err != nil {
		return err
	}
	ok, err := list.Set(i, val)
	if err != nil {
		return err
	}
	if !ok {
		return resp.ErrIndexOutOfRange
	}
	c.notify(shard.NoteList, "lset", c.key())
	c.Out.OK()
	return nil
}

// LREM key count element
func lrem(c *Call) error {
	a := c.args(1)
	count, val := a.integer(), a.bytes()
	if err := a.done(); err != nil {
		return err
	}
	list, err := c.DB().List(c.key())
	if err != nil {
		return err
	}
	// The smallest integer has no opposite; the next one means all from the tail just as well.
	removed, err := list.Remove(max(count, -math.MaxInt64), val)
	if err != nil {
		return err
	}
	c.Out.Int(removed)
	if removed == 0 {
		return nil
	}
	return noteRemoval(c.DB(), shard.NoteList, "lrem", c.key())
}

// LINSERT key <BEFORE | AFTER> pivot element
func linsert(c *Call) error {
	a := c.args(1)
	before := a.token("BEFORE")
	if !before && !a.token("AFTER") {
		return resp.ErrSyntax
	}
	pivot, val := a.bytes(), a.bytes()
	list, n, err := openList(c)
	if err != nil {
		return err
	}
	if n == 0 {
		c.Out.Int(0)
		return nil
	}
	ok, err := list.Insert(before, pivot, val)
	if err != nil {
		return err
	}
	if !ok {
		c.Out.Int(-1)
		return nil
	}
	c.notify(shard.NoteList, "linsert", c.key())
	return replyLength(c, list)
}

// LTRIM key start stop
func ltrim(c *Call) error {
	a := c.args(1)
	start, stop := a.integer(), a.integer()
	if err := a.done(); err != nil {
		return err
	}
	list, n, err := openList(c)
	if err != nil {
		return err
	}
	if start, stop, ok := between(start, stop, n); ok {
		err = list.Trim(start, stop)
	} else {
		_, err = c.DB().Delete(c.key())
	}
	if err != nil {
		return err
	}
	c.Out.OK()
	if n == 0 {
		return nil
	}
	return noteRemoval(c.DB(), shard.NoteList, "ltrim", c.key())
}

// listSearch is what LPOS looks for.
type listSearch struct {
	element []byte
	rank    int64 // the first match to return; negative: from the tail
	count   int64 // how many matches to return, 0 for all
	maxLen  int64 // how many elements to compare, 0 for all
}

// The numbers of elements that a search reads at a time. They double, so that a search that goes far does not walk to
// its place again and again, and one that ends soon has not read much.
const (
	firstSearchChunk = 64
	lastSearchChunk  = 1 << 16
)

// parse reads LPOS' options to the end. many tells whether COUNT was among them.
func (s *listSearch) parse(a *arguments) (many bool, err error) {
	s.rank, s.count = 1, 1
	for a.more() {
		switch {
		case a.token("RANK"):
			if s.rank = a.integer(); s.rank == 0 {
				a.fail(resp.ErrRankZero)
			}
		case a.token("COUNT"):
			many = true
			s.count = a.atLeast(0, resp.ErrCountNegative)
		case a.token("MAXLEN"):
			s.maxLen = a.atLeast(0, resp.ErrMaxLenNegative)
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	return many, a.done()
}

// run returns the positions that match in a list of n elements, in the order in which they are met.
func (s *listSearch) run(list shard.List, n int64) (positions []int64, err error) {
	limit, skip := n, s.rank
	if s.maxLen > 0 {
		limit = min(n, s.maxLen)
	}
	if skip == math.MinInt64 {
		skip = -1 // as in Redis, where it overflows
	}
	fromTail := skip < 0
	if fromTail {
		skip = -skip
	}
	chunk := int64(firstSearchChunk)
	for done := int64(0); done < limit; chunk = min(2*chunk, lastSearchChunk) {
		size := min(chunk, limit-done)
		start := done
		if fromTail {
			start = n - done - size
		}
		hits, err := s.matches(list, start, size)
		if err != nil {
			return nil, err
		}
		if fromTail {
			slices.Reverse(hits)
		}
		skipped := min(skip-1, int64(len(hits)))
		skip -= skipped
		positions = append(positions, hits[skipped:]...)
		if s.count > 0 && int64(len(positions)) >= s.count {
			return positions[:s.count], nil
		}
		done += size
	}
	return positions, nil
}

// matches returns the positions that match among the size elements from start on.
func (s *listSearch) matches(list shard.List, start, size int64) (hits []int64, err error) {
	at := start
	err = list.Range(start, start+size-1, func(val []byte) {
		if bytes.Equal(val, s.element) {
			hits = append(hits, at)
		}
		at++
	})
	return hits, err
}

// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
func lpos(c *Call) error {
	a := c.args(1)
	s := listSearch{element: a.bytes()}
	many, err := s.parse(a)
	if err != nil {
		return err
	}
	list, n, err := openList(c)
	if err != nil {
		return err
	}
	positions, err := s.run(list, n)
	if err != nil {
		return err
	}
	switch {
	case many:
		c.Out.Array(len(positions))
		for _, at := range positions {
			c.Out.Int(at)
		}
	case len(positions) == 0:
		c.Out.Null()
	default:
		c.Out.Int(positions[0])
	}
	return nil
}

// RPOPLPUSH source destination
func rpoplpush(c *Call) error {
	return move(c, c.args(1).bytes(), shard.Tail, shard.Head)
}

// LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>
func lmove(c *Call) error {
	a := c.args(1)
	dst, from, to := a.bytes(), a.end(), a.end()
	if err := a.done(); err != nil {
		return err
	}
	return move(c, dst, from, to)
}

// end takes the word for one end of a list.
func (a *arguments) end() shard.End {
	if a.token("LEFT") {
		return shard.Head
	}
	if !a.token("RIGHT") {
		a.fail(resp.ErrSyntax)
	}
	return shard.Tail
}

// move takes an element from the list at the call's key to the one at dst, which may be the same.
func move(c *Call, dst []byte, from, to shard.End) error {
	moved, err := moveTo(dst, from, to)(c.Out, c.DB(), c.key())
	if err == nil && !moved {
		c.Out.Null()
	}
	return err
}

// moveTo is the attempt to move an element to dst.
func moveTo(dst []byte, from, to shard.End) attempt {
	return func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error) {
		source, n, err := listOf(db, key)
		if n == 0 || err != nil {
			return false, err
		}
		destination, err := db.List(dst)
		if err != nil {
			return false, err
		}
		if n == 1 && bytes.Equal(key, dst) {
			// Taking the only element would remove the key, and its deadline with it. It counts as a change all the same.
			val, _, err := source.Index(0)
			if err != nil {
				return false, err
			}
			out.Bulk(val)
			db.Note(shard.NoteList, pushEvent(to), key)
			db.Note(shard.NoteList, popEvent(from), key)
			_, err = source.Set(0, val)
			return true, err
		}
		val, _, err := source.Pop(from)
		if err != nil {
			return false, err
		}
		out.Bulk(val)
		if err := destination.Push(to, val); err != nil {
			return false, err
		}
		db.Note(shard.NoteList, pushEvent(to), dst)
		return true, noteRemoval(db, shard.NoteList, popEvent(from), key)
	}
}

// listOf is the list at a key and its length.
func listOf(db shard.DB, key []byte) (shard.List, int64, error) {
	list, err := db.List(key)
	if err != nil {
		return list, 0, err
	}
	n, err := list.Len()
	return list, n, err
}

// LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]
func lmpop(c *Call) error {
	p := parseListPop(c.args(0))
	if p.err != nil {
		return p.err
	}
	return c.firstOf(p.keys, popList(p.end, p.count))
}

// listPop is what LMPOP and BLMPOP ask for.
type listPop struct {
	keys  [][]byte
	end   shard.End
	count int64
	err   error
}

func parseListPop(a *arguments) listPop {
	p := listPop{count: 1}
	p.keys = a.take(int(a.atLeast(1, resp.ErrNumKeysNotPositive)))
	p.end = a.end()
	if a.token("COUNT") {
		p.count = a.atLeast(1, resp.ErrCountNotPositive)
	}
	p.err = a.done()
	return p
}

// popList is the attempt to take up to count elements, with the key and them for a reply.
func popList(end shard.End, count int64) attempt {
	return func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error) {
		list, n, err := listOf(db, key)
		if n == 0 || err != nil {
			return false, err
		}
		out.Array(2)
		out.Bulk(key)
		return true, popElements(out, db, key, list, end, min(count, n))
	}
}

// firstOf replies with what the attempt gets from the first key that has something, or a null array.
func (c *Call) firstOf(keys [][]byte, try attempt) error {
	for _, key := range keys {
		if served, err := try(c.Out, c.DB(), key); served || err != nil {
			return err
		}
	}
	c.Out.NullArray()
	return nil
}

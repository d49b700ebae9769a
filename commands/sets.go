package commands

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Sets. For a new command add an entry to the table and, in the same order, its handler. A new operation over several
// sets is a setAlgebra, which gives the command that replies and the one that stores.

func setCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "sadd", Syntax: "SADD key member [member ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(1) for each member",
			Summary:  "Adds members to a set and counts those that are new.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Insert)},
			Elements: spec.ElementsFrom(2, 1)}, Run: sadd},
		{Command: spec.Command{Name: "srem", Syntax: "SREM key member [member ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N) with N the number of members to remove",
			Summary:  "Removes members from a set, and the set with its last member.",
			Flags:    spec.Write | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Delete)},
			Elements: spec.ElementsFrom(2, 1)}, Run: srem},
		{Command: spec.Command{Name: "scard", Syntax: "SCARD key",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Counts the members of a set.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: scard},
		{Command: spec.Command{Name: "sismember", Syntax: "SISMEMBER key member",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(1)",
			Summary:  "Tells whether a member is in a set.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO)},
			Elements: spec.ElementAt(2)}, Run: sismember},
		{Command: spec.Command{Name: "smismember", Syntax: "SMISMEMBER key member [member ...]",
			Group: spec.Set, Since: "6.2.0", Complexity: "O(N) with N the number of members asked for",
			Summary:  "Tells of each member whether it is in a set.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementsFrom(2, 1)}, Run: smismember},
		{Command: spec.Command{Name: "smembers", Syntax: "SMEMBERS key",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N) with N the size of the set",
			Summary: "Returns all members of a set.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: smembers},
		{Command: spec.Command{Name: "srandmember", Syntax: "SRANDMEMBER key [count]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(1) without a count, O(N) with N the count otherwise",
			Summary: "Returns random members of a set; with a negative count one may come several times.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: srandmember},
		{Command: spec.Command{Name: "spop", Syntax: "SPOP key [count]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(1) without a count, O(N) with N the count otherwise",
			Summary: "Removes random members from a set and returns them.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete)},
			Hints:   []string{"nondeterministic_output"}}, Run: spop},
		{Command: spec.Command{Name: "smove", Syntax: "SMOVE source destination member",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(1)",
			Summary:  "Moves a member from one set to another.",
			Flags:    spec.Write | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete), spec.KeyAt(2, spec.RW|spec.Insert)},
			Elements: spec.ElementAt(3)}, Run: smove},
		{Command: spec.Command{Name: "sinter", Syntax: "SINTER key [key ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N*M) with N the size of the smallest set and M the number of sets",
			Summary: "Returns the members that all of the sets have.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO|spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: replyAlgebra(intersect)},
		{Command: spec.Command{Name: "sintercard", Syntax: "SINTERCARD numkeys key [key ...] [LIMIT limit]",
			Group: spec.Set, Since: "7.0.0", Complexity: "O(N*M) with N the size of the smallest set and M the number of sets",
			Summary: "Counts the members that all of the sets have, up to a limit.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RO|spec.Access)}}, Run: sintercard},
		{Command: spec.Command{Name: "sinterstore", Syntax: "SINTERSTORE destination key [key ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N*M) with N the size of the smallest set and M the number of sets",
			Summary: "Stores the members that all of the sets have in a set and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update), spec.KeysFrom(2, spec.RO|spec.Access)}}, Run: storeAlgebra(intersect), Reads: true},
		{Command: spec.Command{Name: "sunion", Syntax: "SUNION key [key ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N) with N the members of all sets",
			Summary: "Returns the members that any of the sets has.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO|spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: replyAlgebra(unite)},
		{Command: spec.Command{Name: "sunionstore", Syntax: "SUNIONSTORE destination key [key ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N) with N the members of all sets",
			Summary: "Stores the members that any of the sets has in a set and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.KeysFrom(2, spec.RO|spec.Access)}}, Run: storeAlgebra(unite), Reads: true},
		{Command: spec.Command{Name: "sdiff", Syntax: "SDIFF key [key ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N*M) with N the size of the first set and M the number of sets",
			Summary: "Returns the members of the first set that none of the others has.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO|spec.Access)},
			Hints:   []string{"nondeterministic_output_order"}}, Run: replyAlgebra(subtract)},
		{Command: spec.Command{Name: "sdiffstore", Syntax: "SDIFFSTORE destination key [key ...]",
			Group: spec.Set, Since: "1.0.0", Complexity: "O(N*M) with N the size of the first set and M the number of sets",
			Summary: "Stores the members of the first set that none of the others has in a set and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.KeysFrom(2, spec.RO|spec.Access)}}, Run: storeAlgebra(subtract), Reads: true},
		{Command: spec.Command{Name: "sscan", Syntax: "SSCAN key cursor [MATCH pattern] [COUNT count]",
			Group: spec.Set, Since: "2.8.0", Complexity: "O(1) for each call, O(N) for the whole iteration with N the size of the set",
			Differs: "Returns up to 512 members in one call, whatever their size (Redis: those of a small set of integers).",
			Summary: "Iterates over the members of a set, a few with each call.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: sscan},
	}
}

// SADD key member [member ...]
func sadd(c *Call) error {
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	n, err := countElements(c, s.Add)
	c.notifyIf(n > 0, shard.NoteSet, "sadd", c.key())
	return err
}

// SREM key member [member ...]
func srem(c *Call) error {
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	return removeElements(c, s.Remove, shard.NoteSet, "srem")
}

// SCARD key
func scard(c *Call) error {
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	n, err := s.Len()
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// SISMEMBER key member
func sismember(c *Call) error {
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	_, err = countElements(c, s.Has)
	return err
}

// SMISMEMBER key member [member ...]
func smismember(c *Call) error {
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	members := c.args(1).all()
	c.Out.Array(len(members))
	for _, member := range members {
		ok, err := s.Has(member)
		if err != nil {
			return err
		}
		c.Out.Int(oneIf(ok))
	}
	return nil
}

// SMEMBERS key
func smembers(c *Call) error {
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	n, err := s.Len()
	if err != nil {
		return err
	}
	c.Out.Set(int(n))
	return s.Each(func(member []byte) bool {
		c.Out.Bulk(member)
		return true
	})
}

// SRANDMEMBER key [count]
func srandmember(c *Call) error {
	count, given, err := c.args(1).optionalCount((*arguments).signedCount)
	if err != nil {
		return err
	}
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	if !given {
		member, ok, err := s.RandomOne()
		if err != nil {
			return err
		}
		c.replyString(member, ok)
		return nil
	}
	n, err := s.Len()
	if err != nil {
		return err
	}
	if count >= 0 {
		n = min(n, count)
		c.Out.Array(int(n))
		return s.Random(int(n), c.Out.Bulk)
	}
	if n == 0 {
		c.Out.Array(0)
		return nil
	}
	return repeatRandom(c, s, -count)
}

// repeatRandom replies count members of a set that is not empty, each drawn from all of them. A count that no reply
// can hold ends when the output buffer is full, which costs the client its connection.
func repeatRandom(c *Call, s shard.Set, count int64) error {
	c.Out.Array(int(count))
	for ; count > 0 && !c.Out.Overflowed(); count-- {
		member, _, err := s.RandomOne()
		if err != nil {
			return err
		}
		c.Out.Bulk(member)
	}
	return nil
}

// signedCount takes the count of SRANDMEMBER, whose negative has to be a number too.
func (a *arguments) signedCount() int64 {
	n := a.integer()
	if n == math.MinInt64 {
		a.fail(resp.ErrOutOfBounds(-math.MaxInt64, math.MaxInt64))
	}
	return n
}

// positiveCount takes a count of 0 or more.
func (a *arguments) positiveCount() int64 { return a.atLeast(0, resp.ErrNotPositive) }

// atLeast takes an integer; otherwise is the error if it is none or less than lowest.
func (a *arguments) atLeast(lowest int64, otherwise error) int64 {
	n, ok := parseInt(a.bytes())
	if !ok || n < lowest {
		a.fail(otherwise)
	}
	return n
}

// optionalCount takes what is left, which is a count or nothing. More is an error before the count is looked at.
func (a *arguments) optionalCount(take func(*arguments) int64) (count int64, given bool, err error) {
	switch len(a.rest) {
	case 0:
		return 0, false, nil
	case 1:
		count = take(a)
		return count, true, a.err
	}
	return 0, false, resp.ErrSyntax
}

// SPOP key [count]
func spop(c *Call) error {
	count, given, err := c.args(1).optionalCount((*arguments).positiveCount)
	if err != nil {
		return err
	}
	s, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	n, err := s.Len()
	if err != nil {
		return err
	}
	if given {
		n = min(n, count)
		c.Out.Set(int(n))
		return popMembers(c, s, n)
	}
	if n == 0 {
		c.Out.Null()
		return nil
	}
	return popMembers(c, s, 1)
}

// popMembers removes n random members, of which there have to be as many, and writes them.
func popMembers(c *Call, s shard.Set, n int64) error {
	if err := s.Pop(int(n), c.Out.Bulk); err != nil || n == 0 {
		return err
	}
	return noteRemoval(c.DB(), shard.NoteSet, "spop", c.key())
}

// SMOVE source destination member
func smove(c *Call) error {
	a := c.args(1)
	destination, member := a.bytes(), a.bytes()
	from, err := c.DB().SetOf(c.key())
	if err != nil {
		return err
	}
	// Without a source, Redis does not look at the destination's type.
	if n, err := from.Len(); n == 0 || err != nil {
		c.Out.Int(0)
		return err
	}
	to, err := c.DB().SetOf(destination)
	if err != nil {
		return err
	}
	if bytes.Equal(c.key(), destination) {
		return moveNothing(c, from, member)
	}
	moved, err := from.Remove(member)
	if err != nil {
		return err
	}
	c.Out.Int(oneIf(moved))
	if !moved {
		return nil
	}
	if err := noteRemoval(c.DB(), shard.NoteSet, "srem", c.key()); err != nil {
		return err
	}
	added, err := to.Add(member)
	c.notifyIf(added, shard.NoteSet, "sadd", destination)
	return err
}

// moveNothing replies to an SMOVE from a set to itself.
func moveNothing(c *Call, s shard.Set, member []byte) error {
	ok, err := s.Has(member)
	if err != nil {
		return err
	}
	c.Out.Int(oneIf(ok))
	return nil
}

// setAlgebra visits the result of an operation over sets until fn returns false. It may change the order of sets.
type setAlgebra func(sets []shard.Set, fn func(member []byte) bool) error

// SINTER key [key ...], SUNION key [key ...], SDIFF key [key ...]
func replyAlgebra(operation setAlgebra) Handler {
	return func(c *Call) error {
		sets, err := openSets(c, c.args(0).all())
		if err != nil {
			return err
		}
		var result gathered
		err = operation(sets, func(member []byte) bool {
			result.bulk(member)
			return true
		})
		if err != nil {
			return err
		}
		c.Out.Set(result.n)
		c.Out.Raw(result.elements.Bytes())
		return nil
	}
}

// SINTERSTORE destination key [key ...], SUNIONSTORE destination key [key ...], SDIFFSTORE destination key [key ...]
func storeAlgebra(operation setAlgebra) Handler {
	return func(c *Call) error {
		sets, err := openSets(c, c.args(1).all())
		if err != nil {
			return err
		}
		// The destination may be among the sources, so the result is collected before it is written.
		var result memberList
		err = operation(sets, func(member []byte) bool {
			result.add(member)
			return true
		})
		if err != nil {
			return err
		}
		if len(result.members) > 0 {
			if err := c.DB().CanHold(c.key(), shard.KindSet); err != nil {
				return err
			}
		}
		c.Out.Int(int64(len(result.members)))
		deleted, err := c.DB().Delete(c.key())
		if err != nil || len(result.members) == 0 {
			c.notifyIf(deleted, shard.NoteGeneric, eventDel, c.key())
			return err
		}
		s, err := c.DB().SetOf(c.key())
		if err != nil {
			return err
		}
		for _, member := range result.members {
			if _, err := s.Add(member); err != nil {
				return err
			}
		}
		c.notify(shard.NoteSet, c.cmd.Name, c.key())
		return nil
	}
}

// SINTERCARD numkeys key [key ...] [LIMIT limit]
func sintercard(c *Call) error {
	a := c.args(0)
	numKeys := a.atLeast(1, resp.ErrNumKeysNotPositive)
	if a.err == nil && numKeys > int64(len(a.rest)) {
		a.fail(resp.ErrNumKeysTooMany)
	}
	keys := a.take(int(numKeys))
	var limit int64
	for a.more() {
		if !a.token("LIMIT") {
			a.fail(resp.ErrSyntax)
		}
		limit = a.atLeast(0, resp.ErrLimitNegative)
	}
	if err := a.done(); err != nil {
		return err
	}
	sets, err := openSets(c, keys)
	if err != nil {
		return err
	}
	var n int64
	err = intersect(sets, func([]byte) bool {
		n++
		return n != limit
	})
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// openSets opens the sets at the keys. A key of another type is an error even where an empty set before it decides the
// result.
func openSets(c *Call, keys [][]byte) ([]shard.Set, error) {
	sets := make([]shard.Set, 0, len(keys))
	for _, key := range keys {
		s, err := c.DB().SetOf(key)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// intersect looks the smallest set's members up in the others, smaller ones first.
func intersect(sets []shard.Set, fn func(member []byte) bool) error {
	type sized struct {
		set  shard.Set
		size int64
	}
	bySize := make([]sized, 0, len(sets))
	for _, s := range sets {
		n, err := s.Len()
		if n == 0 || err != nil {
			return err
		}
		bySize = append(bySize, sized{s, n})
	}
	slices.SortStableFunc(bySize, func(a, b sized) int { return cmp.Compare(a.size, b.size) })
	for i := range bySize {
		sets[i] = bySize[i].set
	}
	return filter(sets[0], sets[1:], true, fn)
}

// unite visits each set's members that no set before had.
func unite(sets []shard.Set, fn func(member []byte) bool) error {
	seen := make(map[string]struct{})
	goOn := true
	for _, s := range sets {
		err := s.Each(func(member []byte) bool {
			if _, again := seen[string(member)]; !again {
				seen[string(member)] = struct{}{}
				goOn = fn(member)
			}
			return goOn
		})
		if !goOn || err != nil {
			return err
		}
	}
	return nil
}

// subtract looks the first set's members up in the others.
func subtract(sets []shard.Set, fn func(member []byte) bool) error {
	return filter(sets[0], sets[1:], false, fn)
}

// filter visits the members of s that all of the others have, or that none of them has.
func filter(s shard.Set, others []shard.Set, have bool, fn func(member []byte) bool) error {
	var failed error
	err := s.Each(func(member []byte) bool {
		for _, other := range others {
			ok, err := other.Has(member)
			if err != nil {
				failed = err
				return false
			}
			if ok != have {
				return true
			}
		}
		return fn(member)
	})
	if failed != nil {
		return failed
	}
	return err
}

// SSCAN key cursor [MATCH pattern] [COUNT count]
func sscan(c *Call) error {
	set, err := c.DB().SetOf(c.key())
	return scanCollection(c, set.Len, err, func(s *scanCall) (next uint64, err error) {
		return set.Scan(s.cursor, s.count, func(member []byte) {
			if s.matches(member) {
				s.bulk(member)
			}
		})
	})
}

// memberList keeps copies of members beyond the walk that met them.
type memberList struct {
	members [][]byte
	block   []byte // the members so far; where it grows, they stay in the old one
}

func (l *memberList) add(member []byte) {
	start := len(l.block)
	l.block = append(l.block, member...)
	l.members = append(l.members, l.block[start:len(l.block):len(l.block)])
}

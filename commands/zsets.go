package commands

import (
	"math"
	"slices"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Sorted sets: single members and the two ends. For a new command add an entry to the table and, in the same order, its
// handler. Commands on a range of members are in zset_ranges.go, with a table of their own.

func zsetCommands() []Command {
	return append(zsetMemberCommands(), zsetRangeCommands()...)
}

func zsetMemberCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "zadd", Syntax: "ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(log(N)) for each member with N the size of the sorted set",
			Summary:  "Adds members with their scores to a sorted set, or gives new scores to those that are in it.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Update)},
			Elements: spec.ElementsAfter(2, 1, 2, "NX", "XX", "GT", "LT", "CH", "INCR")}, Run: zadd},
		{Command: spec.Command{Name: "zrem", Syntax: "ZREM key member [member ...]",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(M*log(N)) with N the size of the sorted set and M the number of members to remove",
			Summary:  "Removes members from a sorted set, and the sorted set with its last member.",
			Flags:    spec.Write | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Delete)},
			Elements: spec.ElementsFrom(2, 1)}, Run: zrem},
		{Command: spec.Command{Name: "zcard", Syntax: "ZCARD key",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(1)",
			Summary: "Counts the members of a sorted set.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: zcard},
		{Command: spec.Command{Name: "zscore", Syntax: "ZSCORE key member",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(1)",
			Summary:  "Returns the score of a member of a sorted set.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementAt(2)}, Run: zscore},
		{Command: spec.Command{Name: "zmscore", Syntax: "ZMSCORE key member [member ...]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(N) with N the number of members asked for",
			Summary:  "Returns the scores of the given members of a sorted set, null for those that are not in it.",
			Flags:    spec.ReadOnly | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementsFrom(2, 1)}, Run: zmscore},
		{Command: spec.Command{Name: "zrank", Syntax: "ZRANK key member",
			Group: spec.SortedSet, Since: "2.0.0", Complexity: "O(log(N)) with N the size of the sorted set",
			Differs: "The first rank that is asked of a large sorted set after a start costs a pass over it, some 0.1 s for a million members (ADR 0011).",
			Summary: "Returns how many members of a sorted set stand before a member.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: zrank(false)},
		{Command: spec.Command{Name: "zrevrank", Syntax: "ZREVRANK key member",
			Group: spec.SortedSet, Since: "2.0.0", Complexity: "O(log(N)) with N the size of the sorted set",
			Differs: "As ZRANK.",
			Summary: "Returns how many members of a sorted set stand behind a member.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: zrank(true)},
		{Command: spec.Command{Name: "zincrby", Syntax: "ZINCRBY key increment member",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(log(N)) with N the size of the sorted set",
			Summary:  "Adds to the score of a member of a sorted set; a member that is not in it counts as 0.",
			Flags:    spec.Write | spec.DenyOOM | spec.Fast,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)},
			Elements: spec.ElementAt(3)}, Run: zincrby},
		{Command: spec.Command{Name: "zpopmin", Syntax: "ZPOPMIN key [count]",
			Group: spec.SortedSet, Since: "5.0.0", Complexity: "O(log(N)*M) with N the size of the sorted set and M the count",
			Summary: "Removes the members of the lowest scores from a sorted set and returns them.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete)}}, Run: zpop(false)},
		{Command: spec.Command{Name: "zpopmax", Syntax: "ZPOPMAX key [count]",
			Group: spec.SortedSet, Since: "5.0.0", Complexity: "O(log(N)*M) with N the size of the sorted set and M the count",
			Summary: "Removes the members of the highest scores from a sorted set and returns them.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Delete)}}, Run: zpop(true)},
		{Command: spec.Command{Name: "zmpop", Syntax: "ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]",
			Group: spec.SortedSet, Since: "7.0.0", Complexity: "O(K + M*log(N)) with K the number of keys, N the size of the sorted set and M the count",
			Summary: "Removes members from an end of the first sorted set that is not empty and returns them.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RW|spec.Access|spec.Delete)}}, Run: zmpop},
		{Command: spec.Command{Name: "zscan", Syntax: "ZSCAN key cursor [MATCH pattern] [COUNT count]",
			Group: spec.SortedSet, Since: "2.8.0", Complexity: "O(1) for each call, O(N) for the whole iteration with N the size of the sorted set",
			Differs: "A whole score from 1e17 on is `1e+17` in a small sorted set, too, as in a large one. Returns up to 512 " +
				"elements in one call, whatever their size.",
			Summary: "Iterates over the members of a sorted set and their scores, a few with each call.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: zscan},
	}
}

// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
func zadd(c *Call) error { return addScored(c, zaddOptions{}) }

// addScored is the run of ZADD and ZINCRBY. As in Redis, the latter is a ZADD with INCR and knows all of its options.
func addScored(c *Call, o zaddOptions) error {
	a := c.args(1)
	o.parse(a)
	pairs := a.all()
	if err := o.check(len(pairs)); err != nil {
		return err
	}
	scores := make([]float64, 0, 16)
	for pair := range slices.Chunk(pairs, 2) {
		score, ok := parseFloat(pair[0])
		if !ok {
			return resp.ErrNotFloat
		}
		scores = append(scores, score)
	}
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	var n, changed int64
	event := "zadd"
	if o.incr {
		event = "zincr"
	}
	for i, score := range scores {
		change, score, err := o.apply(z, pairs[2*i+1], score)
		if err != nil {
			return err
		}
		if change == scoreAdded || change == scoreUpdated {
			changed++
		}
		if o.incr {
			doubleOrNull(c.Out, score, change != scoreSkipped)
			c.notifyIf(changed > 0, shard.NoteZSet, event, c.key())
			return nil
		}
		if change == scoreAdded || o.ch && change == scoreUpdated {
			n++
		}
	}
	c.notifyIf(changed > 0, shard.NoteZSet, event, c.key())
	c.Out.Int(n)
	return nil
}

func doubleOrNull(out *resp.Writer, f float64, ok bool) {
	if ok {
		out.Double(f)
	} else {
		out.Null()
	}
}

// zaddOptions are ZADD's options.
type zaddOptions struct{ nx, xx, gt, lt, ch, incr bool }

// parse takes the options; the first argument that is none of them is the first score.
func (o *zaddOptions) parse(a *arguments) {
	for {
		switch {
		case a.token("NX"):
			o.nx = true
		case a.token("XX"):
			o.xx = true
		case a.token("GT"):
			o.gt = true
		case a.token("LT"):
			o.lt = true
		case a.token("CH"):
			o.ch = true
		case a.token("INCR"):
			o.incr = true
		default:
			return
		}
	}
}

// check refuses options that contradict each other or the number of arguments behind them.
func (o *zaddOptions) check(operands int) error {
	switch {
	case operands == 0 || operands%2 != 0:
		return resp.ErrSyntax
	case o.nx && o.xx:
		return resp.ErrZaddXXAndNX
	case o.gt && o.nx || o.lt && o.nx || o.gt && o.lt:
		return resp.ErrZaddGTLTAndNX
	case o.incr && operands > 2:
		return resp.ErrZaddIncrPair
	}
	return nil
}

// scoreChange is what a ZADD did to one member.
type scoreChange uint8

const (
	scoreSkipped scoreChange = iota // an option kept the member as it is
	scoreKept                       // the member has had this score before
	scoreUpdated
	scoreAdded
)

// apply gives the member the score, or adds the score to the member's own, as far as the options let it. It returns the
// score that the member has then. Its only error of the client's is for a sum that is not a number, and no option but
// INCR, which takes a single member, can lead to one.
func (o *zaddOptions) apply(z shard.ZSet, member []byte, score float64) (scoreChange, float64, error) {
	old, exists, err := z.Score(member)
	if err != nil || exists && o.nx || !exists && o.xx {
		return scoreSkipped, 0, err
	}
	if exists {
		if o.incr {
			score += old
		}
		switch {
		case math.IsNaN(score):
			return scoreSkipped, 0, resp.ErrScoreNaN
		case o.gt && score <= old, o.lt && score >= old:
			return scoreSkipped, 0, nil
		case score == old:
			return scoreKept, score, nil
		}
	}
	if _, err := z.Set(member, score); err != nil {
		return scoreSkipped, 0, err
	}
	if exists {
		return scoreUpdated, score, nil
	}
	return scoreAdded, score, nil
}

// ZREM key member [member ...]
func zrem(c *Call) error {
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	return removeElements(c, z.Remove, shard.NoteZSet, "zrem")
}

// ZCARD key
func zcard(c *Call) error {
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	n, err := z.Len()
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// ZSCORE key member
func zscore(c *Call) error {
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	score, ok, err := z.Score(c.args(1).bytes())
	if err != nil {
		return err
	}
	doubleOrNull(c.Out, score, ok)
	return nil
}

// ZMSCORE key member [member ...]
func zmscore(c *Call) error {
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	members := c.args(1).all()
	c.Out.Array(len(members))
	for _, member := range members {
		score, ok, err := z.Score(member)
		if err != nil {
			return err
		}
		doubleOrNull(c.Out, score, ok)
	}
	return nil
}

// ZRANK key member, ZREVRANK key member
func zrank(reverse bool) Handler {
	return func(c *Call) error {
		z, err := c.DB().ZSet(c.key())
		if err != nil {
			return err
		}
		rank, _, ok, err := z.Rank(c.args(1).bytes(), reverse)
		if err != nil {
			return err
		}
		if ok {
			c.Out.Int(rank)
		} else {
			c.Out.Null()
		}
		return nil
	}
}

// ZINCRBY key increment member
func zincrby(c *Call) error { return addScored(c, zaddOptions{incr: true}) }

// ZPOPMIN key [count], ZPOPMAX key [count]
func zpop(highest bool) Handler {
	return func(c *Call) error {
		count, given, err := c.args(1).optionalCount((*arguments).positiveCount)
		if err != nil {
			return err
		}
		if !given {
			count = 1
		}
		z, err := c.DB().ZSet(c.key())
		if err != nil {
			return err
		}
		n, err := z.Len()
		if err != nil {
			return err
		}
		n = min(n, count)
		// RESP3 has a pair for each member, but a call without a count gets its only pair as it is.
		nested := given && c.Out.Proto() == 3
		if nested {
			c.Out.Array(int(n))
		} else {
			c.Out.Array(int(2 * n))
		}
		return popScored(c.Out, c.DB(), c.key(), z, n, highest, nested)
	}
}

// popScored removes n members, of which there have to be as many, of the sorted set at the key and writes them with their
// scores.
func popScored(out *resp.Writer, db shard.DB, key []byte, z shard.ZSet, n int64, highest, nested bool) error {
	for range n {
		member, score, _, err := z.Pop(highest)
		if err != nil {
			return err
		}
		if nested {
			out.Array(2)
		}
		out.Bulk(member)
		out.Double(score)
	}
	switch {
	case n == 0:
		return nil
	case highest:
		return noteRemoval(db, shard.NoteZSet, "zpopmax", key)
	}
	return noteRemoval(db, shard.NoteZSet, "zpopmin", key)
}

// ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]
func zmpop(c *Call) error {
	p := parseZmpop(c.args(0))
	if p.err != nil {
		return p.err
	}
	return c.firstOf(p.keys, popZSet(p.highest, p.count))
}

// popZSet is the attempt to take up to count members, with the key and them for a reply.
func popZSet(highest bool, count int64) attempt {
	return func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error) {
		z, n, err := zsetOf(db, key)
		if n == 0 || err != nil {
			return false, err
		}
		n = min(n, count)
		out.Array(2)
		out.Bulk(key)
		out.Array(int(n))
		return true, popScored(out, db, key, z, n, highest, true)
	}
}

// zsetOf is the sorted set at a key and its length.
func zsetOf(db shard.DB, key []byte) (shard.ZSet, int64, error) {
	z, err := db.ZSet(key)
	if err != nil {
		return z, 0, err
	}
	n, err := z.Len()
	return z, n, err
}

// zmpopCall is what ZMPOP and BZMPOP ask for.
type zmpopCall struct {
	keys    [][]byte
	highest bool
	count   int64
	err     error
}

func parseZmpop(a *arguments) zmpopCall {
	p := zmpopCall{count: 1}
	p.keys = a.take(int(a.atLeast(1, resp.ErrNumKeysNotPositive)))
	switch {
	case a.token("MIN"):
	case a.token("MAX"):
		p.highest = true
	default:
		a.fail(resp.ErrSyntax)
	}
	if a.token("COUNT") {
		// Redis takes a COUNT that nothing follows for an unknown option.
		p.count = a.atLeast(1, resp.ErrCountNotPositive)
	}
	p.err = a.done()
	return p
}

// ZSCAN key cursor [MATCH pattern] [COUNT count]
func zscan(c *Call) error {
	z, err := c.DB().ZSet(c.key())
	return scanCollection(c, z.Len, err, func(s *scanCall) (next uint64, err error) {
		return z.Scan(s.cursor, s.count, func(member []byte, score float64) {
			if s.matches(member) {
				var digits [32]byte
				s.bulk(member)
				s.bulk(resp.AppendDouble(digits[:0], score))
			}
		})
	})
}

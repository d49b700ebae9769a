package commands

import (
	"bytes"
	"errors"
	"strconv"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Ranges of sorted sets. All commands share one parser and one walk, zrange; what sets them apart is a rangeForm. For a
// new command add an entry to the table, and a handler if it does something new with the members of a range.

func zsetRangeCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "zrange", Syntax: "ZRANGE key start:string stop:string [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(log(N)+S+M) with N the size of the sorted set, S the members skipped and M those returned",
			Differs: "BYLEX takes members of different scores as if all had the first one's; Redis leaves it open. By rank, as ZRANK.",
			Summary: "Returns a range of members of a sorted set, by rank, by score or by name.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: zrangeReply(rangeForm{})},
		{Command: spec.Command{Name: "zrangebyscore", Syntax: "ZRANGEBYSCORE key min:double max:double [WITHSCORES] [LIMIT offset count]",
			Group: spec.SortedSet, Since: "1.0.5", Complexity: "O(log(N)+S+M) with N the size of the sorted set, S the members skipped and M those returned",
			Summary:  "Returns the members of a sorted set whose scores are within a range.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`ZRANGE` with the `BYSCORE` argument"},
			Run: zrangeReply(rangeForm{by: byScore})},
		{Command: spec.Command{Name: "zrevrange", Syntax: "ZREVRANGE key start stop [WITHSCORES]",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(log(N)+M) with N the size of the sorted set and M the members returned",
			Differs:  "As ZRANK.",
			Summary:  "Returns a range of members of a sorted set by rank, counted from the highest score.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`ZRANGE` with the `REV` argument"},
			Run: zrangeReply(rangeForm{by: byRank, rev: true})},
		{Command: spec.Command{Name: "zrevrangebyscore", Syntax: "ZREVRANGEBYSCORE key max:double min:double [WITHSCORES] [LIMIT offset count]",
			Group: spec.SortedSet, Since: "2.2.0", Complexity: "O(log(N)+S+M) with N the size of the sorted set, S the members skipped and M those returned",
			Summary:  "Returns the members of a sorted set whose scores are within a range, from the highest down.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`ZRANGE` with the `REV` and `BYSCORE` arguments"},
			Run: zrangeReply(rangeForm{by: byScore, rev: true})},
		{Command: spec.Command{Name: "zrangebylex", Syntax: "ZRANGEBYLEX key min max [LIMIT offset count]",
			Group: spec.SortedSet, Since: "2.8.9", Complexity: "O(log(N)+S+M) with N the size of the sorted set, S the members skipped and M those returned",
			Differs:  "Members of different scores are taken as if all had the first one's; Redis leaves it open.",
			Summary:  "Returns the members of a sorted set of equal scores whose names are within a range.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`ZRANGE` with the `BYLEX` argument"},
			Run: zrangeReply(rangeForm{by: byLex})},
		{Command: spec.Command{Name: "zrevrangebylex", Syntax: "ZREVRANGEBYLEX key max min [LIMIT offset count]",
			Group: spec.SortedSet, Since: "2.8.9", Complexity: "O(log(N)+S+M) with N the size of the sorted set, S the members skipped and M those returned",
			Differs:  "Members of different scores are taken as if all had the first one's; Redis leaves it open.",
			Summary:  "Returns the members of a sorted set of equal scores whose names are within a range, from the last to the first.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`ZRANGE` with the `REV` and `BYLEX` arguments"},
			Run: zrangeReply(rangeForm{by: byLex, rev: true})},
		{Command: spec.Command{Name: "zrangestore", Syntax: "ZRANGESTORE dst:key src:key min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(log(N)+S+M*log(M)) with N the size of the source, S the members skipped and M those stored",
			Differs: "As ZRANGE.",
			Summary: "Stores a range of members of a sorted set in another one and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.KeyAt(2, spec.RO|spec.Access)}}, Run: zrangestore, Reads: true},
		{Command: spec.Command{Name: "zcount", Syntax: "ZCOUNT key min:double max:double",
			Group: spec.SortedSet, Since: "2.0.0", Complexity: "O(log(N)) with N the size of the sorted set",
			Differs: "As ZRANK.",
			Summary: "Counts the members of a sorted set whose scores are within a range.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: zcount},
		{Command: spec.Command{Name: "zlexcount", Syntax: "ZLEXCOUNT key min max",
			Group: spec.SortedSet, Since: "2.8.9", Complexity: "O(log(N)) with N the size of the sorted set, O(M) with M the members in the range if scores differ",
			Differs: "Members of different scores are taken as if all had the first one's; Redis leaves it open. As ZRANK.",
			Summary: "Counts the members of a sorted set of equal scores whose names are within a range.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: zlexcount},
		{Command: spec.Command{Name: "zremrangebyscore", Syntax: "ZREMRANGEBYSCORE key min:double max:double",
			Group: spec.SortedSet, Since: "1.2.0", Complexity: "O(log(N)+M*log(N)) with N the size of the sorted set and M the members removed",
			Summary: "Removes the members of a sorted set whose scores are within a range and counts them.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)}}, Run: zremrange(byScore)},
		{Command: spec.Command{Name: "zremrangebyrank", Syntax: "ZREMRANGEBYRANK key start stop",
			Group: spec.SortedSet, Since: "2.0.0", Complexity: "O(log(N)+M*log(N)) with N the size of the sorted set and M the members removed",
			Differs: "As ZRANK.",
			Summary: "Removes a range of members of a sorted set by rank and counts them.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)}}, Run: zremrange(byRank)},
		{Command: spec.Command{Name: "zremrangebylex", Syntax: "ZREMRANGEBYLEX key min max",
			Group: spec.SortedSet, Since: "2.8.9", Complexity: "O(log(N)+M*log(N)) with N the size of the sorted set and M the members removed",
			Differs: "Members of different scores are taken as if all had the first one's; Redis leaves it open.",
			Summary: "Removes the members of a sorted set of equal scores whose names are within a range and counts them.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)}}, Run: zremrange(byLex)},
	}
}

// rangeBy is what a range is measured by.
type rangeBy uint8

const (
	byAny rangeBy = iota // the options decide; by rank without any
	byRank
	byScore
	byLex
)

// rangeForm is what a command's name says about its range.
type rangeForm struct {
	by     rangeBy
	rev    bool
	stores bool // the scores go along, so there is no WITHSCORES
}

// zrange is a range of members of a sorted set.
type zrange struct {
	by         rangeBy
	rev        bool
	withScores bool
	offset     int64
	limit      int64 // negative for all

	start, stop int64 // by rank; negative ones count from the end
	score       shard.ScoreRange
	lex         shard.LexRange
	empty       bool // by score or name, with ends in the wrong order
}

// parseRange parses "start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]", as far as the form leaves the
// options open. The ends are looked at last.
func parseRange(a *arguments, form rangeForm) (*zrange, error) {
	first, last := a.bytes(), a.bytes()
	r := &zrange{by: form.by, rev: form.rev, limit: -1}
	r.parseOptions(a, form)
	if err := a.done(); err != nil {
		return nil, err
	}
	switch {
	// Redis can't tell a limit of -1 from none.
	case r.limit != -1 && r.by == byRank:
		return nil, resp.ErrZrangeLimit
	case r.withScores && r.by == byLex:
		return nil, resp.ErrZrangeWithScoresLex
	}
	if r.rev && r.by != byRank {
		first, last = last, first
	}
	return r, r.parseEnds(first, last)
}

func (r *zrange) parseOptions(a *arguments, form rangeForm) {
	for a.more() {
		switch {
		case !form.stores && a.token("WITHSCORES"):
			r.withScores = true
		case len(a.rest) > 2 && a.token("LIMIT"):
			r.offset, r.limit = a.integer(), a.integer()
		case form.by == byAny && !r.rev && a.token("REV"):
			r.rev = true
		case r.by == byAny && a.token("BYSCORE"):
			r.by = byScore
		case r.by == byAny && a.token("BYLEX"):
			r.by = byLex
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if r.by == byAny {
		r.by = byRank
	}
}

// parseEnds parses the ends, the lower one first.
func (r *zrange) parseEnds(low, high []byte) error {
	switch r.by {
	case byScore:
		return r.parseScores(low, high)
	case byLex:
		return r.parseNames(low, high)
	}
	a := arguments{rest: [][]byte{low, high}}
	r.start, r.stop = a.integer(), a.integer()
	return a.done()
}

func (r *zrange) parseScores(low, high []byte) error {
	var okMin, okMax bool
	r.score.Min, r.score.MinEx, okMin = parseScoreEnd(low)
	r.score.Max, r.score.MaxEx, okMax = parseScoreEnd(high)
	if !okMin || !okMax {
		return resp.ErrMinMaxNotFloat
	}
	exclusive := r.score.MinEx || r.score.MaxEx
	r.empty = r.score.Min > r.score.Max || r.score.Min == r.score.Max && exclusive
	return nil
}

// parseScoreEnd reads "score" or "(score", the latter excluding the score itself. Redis uses C's strtod as it is here:
// blanks may stand before the number, a NUL ends it, nothing at all is zero, and what is too large is infinite. Minus zero
// is zero, as in the sorted set.
func parseScoreEnd(b []byte) (score float64, exclusive, ok bool) {
	b, exclusive = bytes.CutPrefix(b, []byte("("))
	b, _, _ = bytes.Cut(b, []byte{0})
	if len(b) == 0 {
		return 0, exclusive, true
	}
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	if score, ok = parseFloat(b); ok {
		return score + 0, exclusive, true
	}
	score, err := strconv.ParseFloat(string(b), 64)
	return score, exclusive, errors.Is(err, strconv.ErrRange)
}

func (r *zrange) parseNames(low, high []byte) error {
	low, lowEnd := parseNameEnd(low)
	high, highEnd := parseNameEnd(high)
	if lowEnd == nameInvalid || highEnd == nameInvalid {
		return resp.ErrMinMaxNotLex
	}
	r.lex = shard.LexRange{
		Min: low, MinEx: lowEnd == nameExclusive, MinInf: lowEnd == nameFirst,
		Max: high, MaxEx: highEnd == nameExclusive, MaxInf: highEnd == nameLast,
	}
	switch {
	case lowEnd == nameLast || highEnd == nameFirst:
		r.empty = true
	case !r.lex.MinInf && !r.lex.MaxInf:
		order := bytes.Compare(low, high)
		r.empty = order > 0 || order == 0 && (r.lex.MinEx || r.lex.MaxEx)
	}
	return nil
}

// nameEnd is what an end of a range by name is.
type nameEnd uint8

const (
	nameInvalid nameEnd = iota
	nameFirst           // "-", before every name
	nameLast            // "+", behind every name
	nameInclusive
	nameExclusive
)

// parseNameEnd reads "-", "+", "[name" or "(name".
func parseNameEnd(b []byte) (name []byte, end nameEnd) {
	switch {
	case len(b) == 0:
		return nil, nameInvalid
	case string(b) == "-":
		return nil, nameFirst
	case string(b) == "+":
		return nil, nameLast
	case b[0] == '[':
		return b[1:], nameInclusive
	case b[0] == '(':
		return b[1:], nameExclusive
	}
	return nil, nameInvalid
}

// each visits the members of the range in order until fn returns false, and no further than LIMIT asks for.
func (r *zrange) each(z shard.ZSet, fn func(member []byte, score float64) bool) error {
	if r.by == byRank {
		start, stop, err := r.ranks(z)
		if err != nil || start > stop {
			return err
		}
		return z.RangeByRank(start, stop, r.rev, fn)
	}
	if r.empty || r.offset < 0 || r.limit == 0 {
		return nil
	}
	skip, left := r.offset, r.limit
	visit := func(member []byte, score float64) bool {
		if skip > 0 {
			skip--
			return true
		}
		left--
		return fn(member, score) && left != 0
	}
	if r.by == byScore {
		return z.RangeByScore(r.score, r.rev, visit)
	}
	return z.RangeByLex(r.lex, r.rev, visit)
}

// ranks returns the first and the last rank within the sorted set; the first one is the greater if there is none.
func (r *zrange) ranks(z shard.ZSet) (start, stop int64, err error) {
	n, err := z.Len()
	if err != nil {
		return 0, 0, err
	}
	start, stop = r.start, r.stop
	if start < 0 {
		start = max(start+n, 0)
	}
	if stop < 0 {
		stop += n
	}
	return start, min(stop, n-1), nil
}

// remove removes the members of the range and tells how many they were.
func (r *zrange) remove(z shard.ZSet) (int64, error) {
	switch {
	case r.by == byRank:
		start, stop, err := r.ranks(z)
		if err != nil || start > stop {
			return 0, err
		}
		return z.RemoveByRank(start, stop)
	case r.empty:
		return 0, nil
	case r.by == byScore:
		return z.RemoveByScore(r.score)
	}
	return z.RemoveByLex(r.lex)
}

// collect keeps the members of the range and their scores.
func (r *zrange) collect(z shard.ZSet) (list memberList, scores []float64, err error) {
	err = r.each(z, func(member []byte, score float64) bool {
		list.add(member)
		scores = append(scores, score)
		return true
	})
	return list, scores, err
}

// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES],
// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count], ZREVRANGE key start stop [WITHSCORES],
// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count], ZRANGEBYLEX key min max [LIMIT offset count],
// ZREVRANGEBYLEX key max min [LIMIT offset count]
func zrangeReply(form rangeForm) Handler {
	return func(c *Call) error {
		r, err := parseRange(c.args(1), form)
		if err != nil {
			return err
		}
		z, err := c.DB().ZSet(c.key())
		if err != nil {
			return err
		}
		result := scoredReply{withScores: r.withScores}
		result.elements.SetProto(c.Out.Proto())
		if err := r.each(z, result.add); err != nil {
			return err
		}
		result.reply(c.Out)
		return nil
	}
}

// scoredReply gathers members, with their scores if they are asked for. RESP3 has an array for each such pair.
type scoredReply struct {
	gathered
	withScores bool
}

func (g *scoredReply) add(member []byte, score float64) bool {
	switch {
	case !g.withScores:
		g.bulk(member)
		return true
	case g.elements.Proto() == 3:
		g.elements.Array(2)
	default:
		g.n++
	}
	g.bulk(member)
	g.elements.Double(score)
	return true
}

// ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]
func zrangestore(c *Call) error {
	a := c.args(1)
	source := a.bytes()
	r, err := parseRange(a, rangeForm{stores: true})
	if err != nil {
		return err
	}
	from, err := c.DB().ZSet(source)
	if err != nil {
		return err
	}
	list, scores, err := r.collect(from)
	if err != nil {
		return err
	}
	if len(scores) > 0 {
		if err := c.DB().CanHold(c.key(), shard.KindZSet); err != nil {
			return err
		}
	}
	c.Out.Int(int64(len(scores)))
	deleted, err := c.DB().Delete(c.key())
	if err != nil || len(scores) == 0 {
		c.notifyIf(deleted, shard.NoteGeneric, eventDel, c.key())
		return err
	}
	to, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	for i, member := range list.members {
		if _, err := to.Set(member, scores[i]); err != nil {
			return err
		}
	}
	c.notify(shard.NoteZSet, "zrangestore", c.key())
	return nil
}

// ZCOUNT key min max
func zcount(c *Call) error {
	r, z, err := openRange(c, byScore)
	if err != nil {
		return err
	}
	var n int64
	if !r.empty {
		if n, err = z.Count(r.score); err != nil {
			return err
		}
	}
	c.Out.Int(n)
	return nil
}

// openRange parses the range of a command without options and opens the sorted set.
func openRange(c *Call, by rangeBy) (*zrange, shard.ZSet, error) {
	r, err := parseRange(c.args(1), rangeForm{by: by})
	if err != nil {
		return nil, shard.ZSet{}, err
	}
	z, err := c.DB().ZSet(c.key())
	return r, z, err
}

// ZLEXCOUNT key min max
func zlexcount(c *Call) error {
	r, z, err := openRange(c, byLex)
	if err != nil {
		return err
	}
	var n int64
	if !r.empty {
		if n, err = z.CountByLex(r.lex); err != nil {
			return err
		}
	}
	c.Out.Int(n)
	return nil
}

// ZREMRANGEBYSCORE key min max, ZREMRANGEBYRANK key start stop, ZREMRANGEBYLEX key min max
func zremrange(by rangeBy) Handler {
	return func(c *Call) error {
		r, z, err := openRange(c, by)
		if err != nil {
			return err
		}
		n, err := r.remove(z)
		if err != nil {
			return err
		}
		c.Out.Int(n)
		if n == 0 {
			return nil
		}
		return noteRemoval(c.DB(), shard.NoteZSet, c.cmd.Name, c.key())
	}
}

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

// Operations over several sorted sets, and random members of one. Sets take part as sorted sets whose members all have the
// score 1. For a new command add an entry to the table and, in the same order, its handler. A new operation is a
// scoredAlgebra, which gives the command that replies and the one that stores.

func zsetAlgebraCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "zunion", Syntax: "ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(N+M*log(M)) with N the members of all inputs and M those of the result",
			Summary: "Returns the members that any of the sorted sets has, in the order of their combined scores.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RO|spec.Access)}}, Run: replyScoredAlgebra(uniteScored, takesWeights)},
		{Command: spec.Command{Name: "zunionstore", Syntax: "ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
			Group: spec.SortedSet, Since: "2.0.0", Complexity: "O(N+M*log(M)) with N the members of all inputs and M those of the result",
			Summary: "Stores the members that any of the sorted sets has, with their combined scores, and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.CountedKeys(2, spec.RO|spec.Access)}}, Run: storeScoredAlgebra(uniteScored, takesWeights), Reads: true},
		{Command: spec.Command{Name: "zinter", Syntax: "ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(N*K+M*log(M)) with N the size of the smallest input, K the number of inputs and M the size of the result",
			Summary: "Returns the members that all of the sorted sets have, in the order of their combined scores.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RO|spec.Access)}}, Run: replyScoredAlgebra(intersectScored, takesWeights)},
		{Command: spec.Command{Name: "zinterstore", Syntax: "ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
			Group: spec.SortedSet, Since: "2.0.0", Complexity: "O(N*K+M*log(M)) with N the size of the smallest input, K the number of inputs and M the size of the result",
			Summary: "Stores the members that all of the sorted sets have, with their combined scores, and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.CountedKeys(2, spec.RO|spec.Access)}}, Run: storeScoredAlgebra(intersectScored, takesWeights), Reads: true},
		{Command: spec.Command{Name: "zintercard", Syntax: "ZINTERCARD numkeys key [key ...] [LIMIT limit]",
			Group: spec.SortedSet, Since: "7.0.0", Complexity: "O(N*K) with N the size of the smallest input and K the number of inputs",
			Summary: "Counts the members that all of the sorted sets have, up to a limit.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RO|spec.Access)}}, Run: zintercard},
		{Command: spec.Command{Name: "zdiff", Syntax: "ZDIFF numkeys key [key ...] [WITHSCORES]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(N*K+M*log(M)) with N the size of the first input, K the number of inputs and M the size of the result",
			Summary: "Returns the members of the first sorted set that none of the others has.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.CountedKeys(1, spec.RO|spec.Access)}}, Run: replyScoredAlgebra(subtractScored, 0)},
		{Command: spec.Command{Name: "zdiffstore", Syntax: "ZDIFFSTORE destination numkeys key [key ...]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(N*K+M*log(M)) with N the size of the first input, K the number of inputs and M the size of the result",
			Summary: "Stores the members of the first sorted set that none of the others has and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.CountedKeys(2, spec.RO|spec.Access)}}, Run: storeScoredAlgebra(subtractScored, 0), Reads: true},
		{Command: spec.Command{Name: "zrandmember", Syntax: "ZRANDMEMBER key [count [WITHSCORES]]",
			Group: spec.SortedSet, Since: "6.2.0", Complexity: "O(1) without a count, O(N) with N the count otherwise",
			Summary: "Returns random members of a sorted set; with a negative count one may come several times.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: zrandmember},
	}
}

// scoredMember is a member of a result with its score.
type scoredMember struct {
	member []byte
	score  float64
}

// operand is an input of an operation: a sorted set, or a set.
type operand struct {
	zset   shard.ZSet
	set    shard.Set
	isSet  bool
	size   int64
	weight float64
}

// openOperands opens the inputs at the keys. A key of another type is an error whatever the other inputs are.
func openOperands(db shard.DB, keys [][]byte) ([]operand, error) {
	operands := make([]operand, 0, len(keys))
	for _, key := range keys {
		o := operand{weight: 1}
		var err error
		if o.zset, err = db.ZSet(key); err == shard.ErrWrongType {
			o.isSet = true
			o.set, err = db.SetOf(key)
		}
		if err != nil {
			return nil, err
		}
		if o.isSet {
			o.size, err = o.set.Len()
		} else {
			o.size, err = o.zset.Len()
		}
		if err != nil {
			return nil, err
		}
		operands = append(operands, o)
	}
	return operands, nil
}

// each visits the members with their own scores until fn returns false.
func (o *operand) each(fn func(member []byte, score float64) bool) error {
	if !o.isSet {
		return o.zset.Each(fn)
	}
	return o.set.Each(func(member []byte) bool { return fn(member, 1) })
}

// score looks a member's own score up.
func (o *operand) score(member []byte) (score float64, ok bool, err error) {
	if !o.isSet {
		return o.zset.Score(member)
	}
	ok, err = o.set.Has(member)
	return 1, ok, err
}

// aggregate combines two scores of one member. What is not a number, such as infinity less infinity, becomes 0 in a sum
// and never wins otherwise.
type aggregate func(a, b float64) float64

func aggregateSum(a, b float64) float64 { return numberOrZero(a + b) }

func aggregateMin(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func aggregateMax(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

func numberOrZero(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// scoredAlgebra visits the result of an operation until fn returns false, with scores as the operands' weights and the
// aggregate make them. It may change the order of the operands.
type scoredAlgebra func(operands []operand, combine aggregate, fn func(member []byte, score float64) bool) error

// bySize sorts smaller operands first. Besides saving work, the order decides how a sum is rounded.
func bySize(operands []operand) {
	slices.SortStableFunc(operands, func(a, b operand) int { return cmp.Compare(a.size, b.size) })
}

// uniteScored adds all operands up in memory, since a score is complete only when the last one was read.
func uniteScored(operands []operand, combine aggregate, fn func(member []byte, score float64) bool) error {
	bySize(operands)
	scores := make(map[string]float64)
	for i := range operands {
		o := &operands[i]
		err := o.each(func(member []byte, score float64) bool {
			score = numberOrZero(o.weight * score)
			if sum, again := scores[string(member)]; again {
				score = combine(sum, score)
			}
			scores[string(member)] = score
			return true
		})
		if err != nil {
			return err
		}
	}
	for member, score := range scores {
		if !fn([]byte(member), score) {
			break
		}
	}
	return nil
}

// intersectScored looks the smallest operand's members up in the others.
func intersectScored(operands []operand, combine aggregate, fn func(member []byte, score float64) bool) error {
	bySize(operands)
	return eachLookedUp(operands, func(o *operand, sum, score float64, ok bool) (float64, bool) {
		return combine(sum, o.weight*score), ok
	}, fn)
}

// subtractScored looks the first operand's members up in the others.
func subtractScored(operands []operand, _ aggregate, fn func(member []byte, score float64) bool) error {
	return eachLookedUp(operands, func(_ *operand, sum, _ float64, ok bool) (float64, bool) { return sum, !ok }, fn)
}

// eachLookedUp looks each member of the first operand up in the others. keep is told whether the next one has it, and
// returns the score so far and whether the member stays in the result.
func eachLookedUp(operands []operand, keep func(o *operand, sum, score float64, ok bool) (float64, bool),
	fn func(member []byte, score float64) bool) error {
	var failed error
	err := operands[0].each(func(member []byte, score float64) bool {
		sum := numberOrZero(operands[0].weight * score)
		for i := range operands[1:] {
			other := &operands[i+1]
			score, ok, err := other.score(member)
			if err != nil {
				failed = err
				return false
			}
			if sum, ok = keep(other, sum, score, ok); !ok {
				return true
			}
		}
		return fn(member, sum)
	})
	if failed != nil {
		return failed
	}
	return err
}

// algebraCall is what a command over several sorted sets asks for.
type algebraCall struct {
	operands   []operand
	combine    aggregate
	withScores bool
	limit      int64 // 0 for all
}

// algebraOptions are the options that a command has.
type algebraOptions uint8

const (
	takesWeights    algebraOptions = 1 << iota // WEIGHTS and AGGREGATE
	takesWithScores                            // WITHSCORES
	takesLimit                                 // LIMIT
)

// parseAlgebra parses "numkeys key [key ...]" and the options. The keys are opened in between, as in Redis, where the
// type of a value comes before the options.
func parseAlgebra(c *Call, a *arguments, options algebraOptions) (*algebraCall, error) {
	n := a.integer()
	if a.err == nil && n < 1 {
		a.fail(resp.ErrNoInputKeys(c.cmd.Name))
	}
	keys := a.take(int(min(n, math.MaxInt32)))
	if a.err != nil {
		return nil, a.err
	}
	p := &algebraCall{combine: aggregateSum}
	var err error
	if p.operands, err = openOperands(c.DB(), keys); err != nil {
		return nil, err
	}
	for a.more() {
		switch behind := len(a.rest) - 1; {
		case options&takesWeights != 0 && behind >= len(keys) && a.token("WEIGHTS"):
			for i := range p.operands {
				p.operands[i].weight = a.float(resp.ErrWeightNotFloat)
			}
		case options&takesWeights != 0 && behind >= 1 && a.token("AGGREGATE"):
			p.combine = a.aggregate()
		case options&takesWithScores != 0 && a.token("WITHSCORES"):
			p.withScores = true
		case options&takesLimit != 0 && behind >= 1 && a.token("LIMIT"):
			p.limit = a.atLeast(0, resp.ErrLimitNegative)
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	return p, a.done()
}

// aggregate takes SUM, MIN or MAX.
func (a *arguments) aggregate() aggregate {
	switch {
	case a.token("SUM"):
		return aggregateSum
	case a.token("MIN"):
		return aggregateMin
	case a.token("MAX"):
		return aggregateMax
	}
	a.fail(resp.ErrSyntax)
	return nil
}

// collect keeps the result of the operation.
func (p *algebraCall) collect(operation scoredAlgebra) ([]scoredMember, error) {
	var members memberList
	var scores []float64
	err := operation(p.operands, p.combine, func(member []byte, score float64) bool {
		members.add(member)
		scores = append(scores, score)
		return true
	})
	result := make([]scoredMember, len(scores))
	for i := range result {
		result[i] = scoredMember{members.members[i], scores[i]}
	}
	return result, err
}

// ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES], ZINTER with the
// same, ZDIFF numkeys key [key ...] [WITHSCORES]
func replyScoredAlgebra(operation scoredAlgebra, options algebraOptions) Handler {
	return func(c *Call) error {
		p, err := parseAlgebra(c, c.args(0), options|takesWithScores)
		if err != nil {
			return err
		}
		result, err := p.collect(operation)
		if err != nil {
			return err
		}
		slices.SortFunc(result, func(a, b scoredMember) int {
			return cmp.Or(cmp.Compare(a.score, b.score), bytes.Compare(a.member, b.member))
		})
		reply := scoredReply{withScores: p.withScores}
		reply.elements.SetProto(c.Out.Proto())
		for _, m := range result {
			reply.add(m.member, m.score)
		}
		reply.reply(c.Out)
		return nil
	}
}

// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>],
// ZINTERSTORE with the same, ZDIFFSTORE destination numkeys key [key ...]
func storeScoredAlgebra(operation scoredAlgebra, options algebraOptions) Handler {
	return func(c *Call) error {
		p, err := parseAlgebra(c, c.args(1), options)
		if err != nil {
			return err
		}
		result, err := p.collect(operation)
		if err != nil {
			return err
		}
		return storeScored(c, c.key(), result, c.cmd.Name)
	}
}

// storeScored puts a sorted set at the key, whatever was there, and replies its size. Without members the key is removed.
// The members are copies, for what they come from may be at the key.
func storeScored(c *Call, key []byte, members []scoredMember, event string) error {
	if len(members) > 0 {
		if err := c.DB().CanHold(key, shard.KindZSet); err != nil {
			return err
		}
	}
	c.Out.Int(int64(len(members)))
	deleted, err := c.DB().Delete(key)
	if err != nil || len(members) == 0 {
		c.notifyIf(deleted, shard.NoteGeneric, eventDel, key)
		return err
	}
	z, err := c.DB().ZSet(key)
	if err != nil {
		return err
	}
	for _, m := range members {
		if _, err := z.Set(m.member, m.score); err != nil {
			return err
		}
	}
	c.notify(shard.NoteZSet, event, key)
	return nil
}

// ZINTERCARD numkeys key [key ...] [LIMIT limit]
func zintercard(c *Call) error {
	p, err := parseAlgebra(c, c.args(0), takesLimit)
	if err != nil {
		return err
	}
	var n int64
	err = intersectScored(p.operands, p.combine, func([]byte, float64) bool {
		n++
		return n != p.limit
	})
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// ZRANDMEMBER key [count [WITHSCORES]]
func zrandmember(c *Call) error {
	r, err := parseDraw(c.args(1), "WITHSCORES")
	if err != nil {
		return err
	}
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	return replyDraw(c, r, z.Len, z.Random, z.RandomRepeated, (*resp.Writer).Double)
}

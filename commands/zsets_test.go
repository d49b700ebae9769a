package commands

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestSortedSetsLikeRedis(t *testing.T) { bothProtocols(t, sortedSetsScript) }

const sortedSetsScript = `
	SET str x
	ZADD z 1 a 2 b 3 c
	ZADD z 1 a 5 b
	ZADD z CH 1 a 6 b 7 d
	ZADD z NX 9 a 9 e
	ZADD z XX 9 a 9 f
	ZADD z XX CH 8 a 9 f
	ZADD z GT 1 a 10 b 1 new
	ZADD z LT CH 1 a 20 b 2 new2
	ZADD z GT XX CH 100 a 100 nobody
	ZADD z nx gt 1 a
	ZADD z GT LT 1 a
	ZADD z NX XX 1 a
	ZADD z NX XX GT 1 a
	ZADD z INCR 1 a 2 b
	ZADD z INCR NX XX 1 a 2 b
	ZADD z 1 a 2
	ZADD z NX CH
	ZADD z NX CH XX
	ZADD z x a
	ZADD z 1 a x b
	ZADD z nan a
	ZADD z 1e400 a
	ZADD z _1 a
	ZADD z "" a
	ZADD z 0x10 hex
	ZADD z 1e3 exp +inf top -inf bottom
	ZADD str x a
	ZADD str 1 a
	ZADD str XX 1 a
	ZADD none XX 1 a
	EXISTS none
	ZADD z INCR 1.5 a
	ZADD z NX INCR 1 a
	ZADD z XX INCR 1 nobody
	ZADD z GT INCR -1 a
	ZADD z LT INCR -1 a
	ZADD z GT INCR 1 fresh
	ZADD z INCR -inf top
	ZADD z INCR 1 top
	ZINCRBY z 2 a
	ZINCRBY z 2 fresh2
	ZINCRBY z -inf top
	ZINCRBY z x a
	ZINCRBY z NX a
	ZINCRBY str x a
	ZINCRBY str 1 a
	ZSCORE z a
	ZSCORE z none
	ZSCORE none a
	ZSCORE str a
	ZMSCORE z a none top
	ZMSCORE none a b
	ZMSCORE str a
	ZCARD z
	ZCARD none
	ZCARD str
	ZRANK z a
	ZRANK z none
	ZRANK none a
	ZRANK str a
	ZREVRANK z a
	ZREVRANK z none
	ZADD f 3.1 a 0.1 b 1e20 c 1e300 d 1.7976931348623157e308 e 5e-324 f -0.5 g 17179869184 h 9007199254740993 i
	ZRANGE f 0 -1 WITHSCORES
	ZSCAN f 0
	ZSCAN f 0 MATCH [ab]
	ZSCAN f 0 COUNT 0
	ZSCAN none 0 nonsense
	ZSCAN str 0
	ZSCAN f x
	ZADD zero -0.0 m
	ZSCORE zero m
	ZCOUNT zero -0 -0
	ZCOUNT zero (-0 1
	ZPOPMIN z
	ZPOPMAX z
	ZPOPMIN z 2
	ZPOPMAX z 2
	ZPOPMIN z 0
	ZPOPMIN z -1
	ZPOPMIN z x
	ZPOPMIN z 1 2
	ZPOPMIN none
	ZPOPMAX none 5
	ZPOPMIN str
	ZPOPMIN str x
	ZPOPMAX str 0
	ZMPOP 1 none MIN
	ZMPOP 2 none z MIN
	ZMPOP 2 z none MAX COUNT 2
	ZMPOP 2 none str MIN
	ZMPOP 2 z str min count 1
	ZMPOP 0 z MIN
	ZMPOP -1 z MIN
	ZMPOP x z MIN
	ZMPOP 5 z MIN
	ZMPOP 9223372036854775807 z MIN
	ZMPOP 1 z nonsense
	ZMPOP 1 z MIN COUNT
	ZMPOP 1 z MIN COUNT 0
	ZMPOP 1 z MIN COUNT x
	ZMPOP 1 z MIN COUNT 1 COUNT 1
	ZMPOP 1 z MIN nonsense
	ZPOPMIN z 9223372036854775807
	EXISTS z
	ZADD z 1 a 2 b
	ZREM z a none
	ZREM none a
	ZREM str a
	ZREM z b
	EXISTS z
	ZADD part:z 3 a 1 b 2 c 1 d
	ZRANGE part:z 0 -1 WITHSCORES
	ZREVRANGE part:z 1 2
	ZRANK part:z a
	ZPOPMIN part:z 2
	ZPOPMAX part:z
	ZCARD part:z`

// TestSortedSetsLikeRedisAtRandom draws calls whose scores and members often meet.
func TestSortedSetsLikeRedisAtRandom(t *testing.T) {
	const calls = 4000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, proto := range []int{2, 3} {
		w := newTwin(t, proto)
		r := rand.New(rand.NewPCG(seed, uint64(proto)))
		for range calls {
			if w.same(randomCall(r)...); t.Failed() {
				t.FailNow()
			}
		}
	}
}

// randomCall draws a call on one of a few sorted sets, or on a key of another type.
func randomCall(r *rand.Rand) []string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	key := func() string { return pick("z1", "z2", "z3", "part:z1", "part:z2") }
	named := func() string { return pick("l1", "part:zl") } // all scores are equal there, as ranges by name expect
	member := func() string { return pick("", "a", "b", "ba", "c", fmt.Sprint("m", r.IntN(30))) }
	score := func() string { return pick("-inf", "inf", "0", "-0.0", "1", "1.5", "2", fmt.Sprint(r.IntN(8))) }
	bound := func() string { return pick("", "(", "") + score() }
	name := func() string { return pick("-", "+", "["+member(), "("+member(), "[") }
	index := func() string { return fmt.Sprint(r.IntN(24) - 12) }
	with := func(call []string, options ...string) []string {
		if r.IntN(2) == 0 {
			return append(call, options...)
		}
		return call
	}
	limit := []string{"LIMIT", fmt.Sprint(r.IntN(6) - 1), fmt.Sprint(r.IntN(6) - 1)}
	switch r.IntN(20) {
	case 0, 1, 2:
		return []string{"ZADD", key(), pick("CH", "NX", "XX", "GT", "LT"), score(), member(), score(), member()}
	case 3:
		return []string{"ZADD", key(), pick("CH", "NX", "XX", "GT", "LT"), "INCR", pick("1", "-1", "inf"), member()}
	case 4:
		return []string{"ZREM", key(), member(), member()}
	case 5:
		return []string{pick("ZPOPMIN", "ZPOPMAX"), key(), pick("0", "1", "3")}
	case 6:
		return []string{pick("ZRANK", "ZREVRANK", "ZSCORE"), key(), member()}
	case 7:
		return with(with([]string{"ZRANGE", key(), index(), index()}, "REV"), "WITHSCORES")
	case 8:
		return with(with([]string{"ZRANGE", key(), bound(), bound(), "BYSCORE", "WITHSCORES"}, "REV"), limit...)
	case 9:
		return with(with([]string{"ZRANGE", named(), name(), name(), "BYLEX"}, "REV"), limit...)
	case 10:
		return with([]string{pick("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), key(), bound(), bound()}, limit...)
	case 11:
		return []string{"ZCOUNT", key(), bound(), bound()}
	case 12:
		return []string{"ZLEXCOUNT", named(), name(), name()}
	case 13:
		return with([]string{"ZRANGESTORE", key(), key(), bound(), bound(), "BYSCORE"}, "REV")
	case 14:
		return []string{"ZREMRANGEBYSCORE", key(), bound(), "(" + score()}
	case 15:
		return []string{"ZREMRANGEBYRANK", key(), index(), fmt.Sprint(r.IntN(3))}
	case 16:
		return []string{"ZREMRANGEBYLEX", named(), "[" + member(), "(" + member()}
	case 17:
		return []string{"ZMPOP", "2", key(), key(), pick("MIN", "MAX"), "COUNT", pick("1", "2")}
	}
	return []string{"ZADD", named(), "0", member(), "0", member()}
}

package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// zsetDuel compares one sorted set that is larger than its windows with a sorted slice.
type zsetDuel struct {
	t    *testing.T
	st   *Store
	tx   *Tx
	rnd  *rand.Rand
	key  string
	want []scored
	// Entries are drawn with so many scores, and members with this prefix.
	scores int
	prefix string
}

func (d *zsetDuel) draw(members int) scored {
	return scored{float64(d.rnd.IntN(d.scores)), fmt.Sprint(d.prefix, d.rnd.IntN(members))}
}

func (d *zsetDuel) check(what string, got, want any) {
	d.t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		d.t.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

func (d *zsetDuel) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *zsetDuel) zset() ZSet {
	d.t.Helper()
	z, err := d.tx.DB(0).ZSet([]byte(d.key))
	d.ok(err)
	return z
}

// place is where the model has the entry, or would have it.
func (d *zsetDuel) place(e scored) int {
	i, _ := slices.BinarySearchFunc(d.want, e, compareScored)
	return i
}

func (d *zsetDuel) set(z ZSet, e scored) {
	score, had, err := z.Score([]byte(e.member))
	d.ok(err)
	if had {
		at := d.place(scored{score, e.member})
		d.want = slices.Delete(d.want, at, at+1)
	}
	d.want = slices.Insert(d.want, d.place(e), e)
	_, err = z.Set([]byte(e.member), e.score)
	d.ok(err)
}

func (d *zsetDuel) pop(z ZSet, highest bool) {
	member, score, found, err := z.Pop(highest)
	d.ok(err)
	d.check("found", found, len(d.want) > 0)
	if !found {
		return
	}
	at := 0
	if highest {
		at = len(d.want) - 1
	}
	d.check("popped", scored{score, string(member)}, d.want[at])
	d.want = slices.Delete(d.want, at, at+1)
}

// removeRange removes what stands together, of any length or all but a few.
func (d *zsetDuel) removeRange(z ZSet) {
	if len(d.want) == 0 {
		return
	}
	start, stop := d.rnd.IntN(len(d.want)), len(d.want)-1
	if d.rnd.IntN(3) > 0 {
		stop = start + d.rnd.IntN(len(d.want)-start)
	}
	if d.rnd.IntN(3) == 0 {
		start = 0
	}
	var n int64
	var err error
	if d.rnd.IntN(2) == 0 {
		n, err = z.RemoveByRank(int64(start), int64(stop))
	} else {
		r := ScoreRange{Min: d.want[start].score, Max: d.want[stop].score, MinEx: d.rnd.IntN(2) == 0, MaxEx: d.rnd.IntN(2) == 0}
		start = d.place(scored{score: r.Min})
		if r.MinEx {
			start = d.place(scored{score: r.Min + 1})
		}
		stop = d.place(scored{score: r.Max + 1}) - 1
		if r.MaxEx {
			stop = d.place(scored{score: r.Max}) - 1
		}
		stop = max(stop, start-1)
		n, err = z.RemoveByScore(r)
	}
	d.ok(err)
	d.check(fmt.Sprintf("removed %d … %d of %d", start, stop, len(d.want)), n, stop-start+1)
	for range 20 { // some of what is gone, for the store still has it
		if n > 0 {
			e := d.want[start+d.rnd.IntN(int(n))]
			_, found, err := z.Score([]byte(e.member))
			d.ok(err)
			d.check("found", found, false)
		}
	}
	d.want = slices.Delete(d.want, start, stop+1)
}

// look asks for a few entries in one of the ways there are.
func (d *zsetDuel) look(z ZSet) {
	if len(d.want) == 0 {
		return
	}
	left := 1 + d.rnd.IntN(700)
	var got []scored
	take := func(member []byte, score float64) bool {
		got = append(got, scored{score, string(member)})
		left--
		return left > 0
	}
	i, j := d.rnd.IntN(len(d.want)), d.rnd.IntN(len(d.want))
	i, j = min(i, j), max(i, j)
	r := ScoreRange{Min: d.want[i].score, Max: d.want[j].score, MinEx: d.rnd.IntN(2) == 0, MaxEx: d.rnd.IntN(2) == 0}
	if d.rnd.IntN(4) == 0 {
		r.Max = math.Inf(1)
	}
	want, rev := d.inside(r), d.rnd.IntN(2) == 0
	n, err := z.Count(r)
	d.ok(err)
	d.check(fmt.Sprintf("count %+v", r), n, len(want))
	if d.rnd.IntN(2) == 0 {
		d.ok(z.RangeByScore(r, rev, take))
	} else {
		want = slices.Clone(d.want[i : j+1])
		start, stop := int64(i), int64(j)
		if rev {
			start, stop = int64(len(d.want)-1-j), int64(len(d.want)-1-i)
		}
		d.ok(z.RangeByRank(start, stop, rev, take))
	}
	if rev {
		slices.Reverse(want)
	}
	d.check("range", got, want[:len(got)])
	if left > 0 {
		d.check("length of the range", len(got), len(want))
	}
	rank, _, _, err := z.Rank([]byte(d.want[i].member), false)
	d.ok(err)
	d.check("rank", rank, i)
}

func (d *zsetDuel) inside(r ScoreRange) (in []scored) {
	for _, e := range d.want {
		if e.score < r.Min || e.score > r.Max || r.MinEx && e.score == r.Min || r.MaxEx && e.score == r.Max {
			continue
		}
		in = append(in, e)
	}
	return in
}

// forget makes the cache lose some or all of what it knows of the sorted set.
func (d *zsetDuel) forget() {
	for _, s := range d.st.shards {
		s.mu.Lock()
		o := s.cache.get(0, []byte(d.key))
		switch {
		case o == nil:
		case d.rnd.IntN(2) == 0 && o.zset != nil:
			o.dropElements()
			s.cache.charge(o)
		default:
			s.cache.drop(o)
		}
		s.mu.Unlock()
	}
}

func (d *zsetDuel) step(z ZSet, members int) {
	switch k := d.rnd.IntN(13); {
	case k == 12:
		d.removeRange(z)
	case k < 5:
		d.set(z, d.draw(members))
	case k < 7:
		for range d.rnd.IntN(60) {
			d.pop(z, true)
		}
	case k < 9:
		for range d.rnd.IntN(60) {
			d.pop(z, false)
		}
	case k < 10 && len(d.want) > 0:
		at := d.rnd.IntN(len(d.want))
		_, err := z.Remove([]byte(d.want[at].member))
		d.ok(err)
		d.want = slices.Delete(d.want, at, at+1)
	default:
		d.look(z)
	}
}

// TestZSetWindows draws operations on a sorted set that is many times larger than what is cached of it.
func TestZSetWindows(t *testing.T) {
	const members = 6 * windowSize
	for seed := range seeds(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
			opts.Fsync, opts.CacheBytes, opts.manyRows = FsyncNo, 1<<20, 200
			st := openTest(t, opts)
			d := &zsetDuel{t: t, key: "z", st: st, tx: st.NewTx(), rnd: rand.New(rand.NewPCG(seed, 1)), scores: members, prefix: "m"}
			if seed%2 == 1 { // marks are cut short, and many members share one
				d.scores, d.prefix = 3, strings.Repeat("m", 2*maxMarkBytes)
			}
			defer func() {
				d.tx.End()
				closeTest(t, st)
			}()
			for range rounds(250) {
				d.tx.Begin(st.All())
				z := d.zset()
				before := slices.Clone(d.want)
				for len(d.want) < members/2 && d.rnd.IntN(members) > 0 {
					d.set(z, d.draw(members))
				}
				for range 1 + d.rnd.IntN(6) {
					d.step(z, members)
				}
				if d.rnd.IntN(5) == 0 {
					d.tx.Abort()
					d.want = before
				} else {
					d.ok(d.tx.Commit())
				}
				d.tx.End()
				if d.rnd.IntN(3) == 0 {
					d.forget()
				}
			}
			d.tx.Begin(st.All())
			var got []scored
			z := d.zset()
			if len(d.want) > 0 {
				d.ok(z.RangeByRank(0, int64(len(d.want)-1), true, func(m []byte, s float64) bool {
					got = append(got, scored{s, string(m)})
					return true
				}))
			}
			d.tx.End()
			slices.Reverse(got)
			d.check("in the end", got, d.want)
		})
	}
}

// internalSteps is how many rows, tombstones included, an iterator of the sorted set steps over to reach its outermost entry.
func internalSteps(t *testing.T, s *Shard, o *object, highest bool) int {
	t.Helper()
	it, err := s.scoreRows(o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	if highest {
		found = it.Last()
	} else {
		found = it.First()
	}
	steps := stepsOf(it) - 1 // without the seek
	if err := s.finish(it); err != nil || !found {
		t.Fatalf("found %v, %v", found, err)
	}
	return steps
}

// TestDrainedEnds pops most of a sorted set from one end. Nobody who asks for that end steps over what was popped, be the sorted
// set in the cache, partly, or not at all, as after a restart.
func TestDrainedEnds(t *testing.T) {
	const entries, left = 5000, 1000
	for _, highest := range []bool{false, true} {
		for _, cached := range []string{"wholly", "partly", "not"} {
			t.Run(fmt.Sprintf("highest %v, cached %s", highest, cached), func(t *testing.T) {
				opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
				opts.Fsync, opts.CacheBytes, opts.MemtableBytes = FsyncNo, 64<<20, 64<<20
				st := openTest(t, opts)
				d := &zsetDuel{t: t, key: "z", st: st, tx: st.NewTx(), rnd: rand.New(rand.NewPCG(1, 1))}
				defer func() {
					d.tx.End()
					closeTest(t, st)
				}()
				d.tx.Begin(st.All())
				for i := range entries {
					d.set(d.zset(), scored{float64(i), fmt.Sprintf("member %04d", i)})
				}
				d.ok(d.tx.Commit())
				d.tx.End()
				s := st.shards[0]
				for i := range entries - left {
					d.tx.Begin(st.All())
					d.pop(d.zset(), highest)
					d.ok(d.tx.Commit())
					o := s.cache.get(0, []byte("z"))
					switch {
					case cached == "partly" && i%100 == 0:
						o.dropElements()
					case cached == "not" && i%100 == 0:
						s.cache.drop(o)
					}
					if i%100 == 0 {
						o, err := s.lookup(d.tx.nowMs, 0, []byte("z"))
						d.ok(err)
						if n := internalSteps(t, s, o, highest); n > 2 {
							t.Fatalf("%d steps after %d pops", n, i+1)
						}
					}
					d.tx.End()
				}
			})
		}
	}
}

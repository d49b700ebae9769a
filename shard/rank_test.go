package shard

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// rankDuel compares a rank index alone with a sorted slice.
type rankDuel struct {
	t    *testing.T
	rnd  *rand.Rand
	ix   *rankIndex
	want []scored
}

func (d *rankDuel) place(e scored) (int, bool) {
	return slices.BinarySearchFunc(d.want, e, compareScored)
}

// split divides a run as tidyRanks does from rows.
func (d *rankDuel) split(run rankRun) (parts []rankRun, err error) {
	at, _ := d.place(run.from)
	rows := d.want[at : at+int(run.n)]
	for part := range slices.Chunk(rows, int(d.ix.fill)) {
		parts = append(parts, rankRun{part[0], int64(len(part))})
	}
	parts[0].from = run.from
	return parts, nil
}

func (d *rankDuel) check() {
	d.t.Helper()
	size, total, place := 0, int64(0), 0
	last := scored{score: math.Inf(-1)}
	for i, c := range d.ix.chunks {
		if len(c.runs) == 0 || len(c.runs) > chunkMax {
			d.t.Fatalf("chunk %d has %d runs", i, len(c.runs))
		}
		inChunk := int64(0)
		for _, r := range c.runs {
			if r.from.less(last) || total > 0 && r.from == last {
				d.t.Fatalf("separator %v follows %v", r.from, last)
			}
			if at, _ := d.place(r.from); at != place {
				d.t.Fatalf("run from %v begins at %d, counted %d", r.from, at, place)
			}
			if r.n > runSplit*d.ix.fill {
				d.t.Fatalf("run of %d, fill is %d", r.n, d.ix.fill)
			}
			last, place = r.from, place+int(r.n)
			inChunk += r.n
		}
		if inChunk != c.n {
			d.t.Fatalf("chunk %d counts %d, has %d", i, c.n, inChunk)
		}
		size += c.bytes()
		total += c.n
	}
	if total != int64(len(d.want)) || d.ix.total != total || size != d.ix.bytes {
		d.t.Fatalf("%d entries, %d bytes; want %d, %d; says %d, %d", total, size, len(d.want), size, d.ix.total, d.ix.bytes)
	}
	if runs := size / runSize; runs > 64 && int64(runs)*d.ix.fill/(2*runMerge) > total+64*d.ix.fill {
		d.t.Fatalf("%d runs for %d entries", runs, total)
	}
	if d.ix.bytes > d.ix.limit {
		d.t.Fatalf("%d bytes, the limit is %d", d.ix.bytes, d.ix.limit)
	}
}

// TestRankIndex draws changes, single and in masses, that are kept or undone.
func TestRankIndex(t *testing.T) {
	for seed := range seeds(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			d := &rankDuel{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), ix: newRankIndex(1, 0, 1<<14)}
			d.ix.setRuns([]rankRun{{from: scored{score: math.Inf(-1)}}})
			for range rounds(150) {
				before := slices.Clone(d.want)
				d.changeSome()
				if d.rnd.IntN(4) == 0 {
					d.ix.undo()
					d.want = before
				} else if err := d.ix.tidy(d.split); err != nil {
					t.Fatal(err)
				}
				d.check()
			}
		})
	}
}

func (d *rankDuel) changeSome() {
	grow := d.rnd.IntN(2) == 0
	around := float64(d.rnd.IntN(1000))
	for range 1 + d.rnd.IntN(1+d.rnd.IntN(3000)) {
		e := scored{around + math.Floor(d.rnd.NormFloat64()*20), fmt.Sprint(d.rnd.IntN(100000))}
		at, found := d.place(e)
		switch {
		case grow && !found:
			d.want = slices.Insert(d.want, at, e)
			d.ix.change(e, 1)
		case !grow && at < len(d.want):
			e = d.want[at]
			d.want = slices.Delete(d.want, at, at+1)
			d.ix.change(e, -1)
		}
	}
}

// TestRankIndexGivesUp can't read the rows of a run that has grown too long.
func TestRankIndexGivesUp(t *testing.T) {
	ix := newRankIndex(1, 0, 1<<14)
	ix.setRuns([]rankRun{{from: scored{score: math.Inf(-1)}}})
	for i := range runSplit*runFill + 1 {
		ix.change(scored{float64(i), ""}, 1)
	}
	if err := ix.tidy(func(rankRun) ([]rankRun, error) { return nil, errCorruptRow }); !errors.Is(err, errCorruptRow) {
		t.Fatalf("got %v", err)
	}
}

// askRanks asks for ranks and counts in every way there is.
func (d *zsetDuel) askRanks() {
	d.t.Helper()
	z := d.zset()
	n := len(d.want)
	if n == 0 {
		return
	}
	i, j := d.rnd.IntN(n), d.rnd.IntN(n)
	i, j = min(i, j), max(i, j)
	for _, rev := range []bool{false, true} {
		rank, _, ok, err := z.Rank([]byte(d.want[i].member), rev)
		d.ok(err)
		want := i
		if rev {
			want = n - 1 - i
		}
		d.check("rank", []any{rank, ok}, []any{want, true})
	}
	first := d.rnd.IntN(n)
	stop := min(n-1, first+d.rnd.IntN(40))
	for _, rev := range []bool{false, true} {
		var got []scored
		d.ok(z.RangeByRank(int64(first), int64(stop), rev, func(member []byte, score float64) bool {
			got = append(got, scored{score, string(member)})
			return true
		}))
		want := slices.Clone(d.want[first : stop+1])
		if rev {
			want = slices.Clone(d.want[n-1-stop : n-first])
			slices.Reverse(want)
		}
		d.check(fmt.Sprintf("range %d %d of %d, reversed %v", first, stop, n, rev), got, want)
	}
	r := ScoreRange{Min: d.want[i].score, Max: d.want[j].score, MinEx: d.rnd.IntN(2) == 0, MaxEx: d.rnd.IntN(2) == 0}
	count, err := z.Count(r)
	d.ok(err)
	d.check(fmt.Sprintf("count %+v", r), count, len(d.inside(r)))
	d.askNames(z, d.want[i].member, d.want[j].member)
}

func (d *zsetDuel) askNames(z ZSet, low, high string) {
	r := LexRange{Min: []byte(low), Max: []byte(high), MinEx: d.rnd.IntN(2) == 0, MaxEx: d.rnd.IntN(2) == 0,
		MinInf: d.rnd.IntN(4) == 0, MaxInf: d.rnd.IntN(4) == 0}
	if r.MinInf {
		r.Min, r.MinEx = nil, false
	}
	if r.MaxInf {
		r.Max, r.MaxEx = nil, false
	}
	listed := int64(0)
	d.ok(z.RangeByLex(r, false, func([]byte, float64) bool { listed++; return true }))
	counted, err := z.CountByLex(r)
	d.ok(err)
	d.check(fmt.Sprintf("names %+v", r), counted, listed)
}

// sameAsRows compares the indexes, if there are any, with the rows.
func (d *zsetDuel) sameAsRows() {
	d.t.Helper()
	for _, s := range d.st.shards {
		o, err := s.lookup(d.tx.nowMs, 0, []byte(d.key))
		d.ok(err)
		ix := s.cache.ranks.get(o.id)
		if o.kind == KindNone || ix == nil {
			continue
		}
		var rows []scored
		_, err = s.ascendRows(o, nil, func(e scored) bool { rows = append(rows, e); return true })
		d.ok(err)
		(&rankDuel{t: d.t, ix: ix, want: rows}).check()
	}
}

// stepMasses changes many entries at once.
func (d *zsetDuel) stepMasses(members int) {
	z := d.zset()
	switch d.rnd.IntN(5) {
	case 4:
		d.removeRange(z)
	case 0:
		for range d.rnd.IntN(2000) {
			d.set(z, d.draw(members))
		}
	case 1: // beyond all others
		for i := range d.rnd.IntN(1500) {
			d.set(z, scored{float64(d.scores + i), fmt.Sprint(d.prefix, d.rnd.IntN(members))})
		}
	case 2:
		if len(d.want) == 0 {
			return
		}
		from := d.rnd.IntN(len(d.want))
		to := min(len(d.want), from+d.rnd.IntN(1500))
		for _, e := range d.want[from:to] {
			_, err := z.Remove([]byte(e.member))
			d.ok(err)
		}
		d.want = slices.Delete(d.want, from, to)
	case 3:
		highest := d.rnd.IntN(2) == 0
		for range d.rnd.IntN(800) {
			d.pop(z, highest)
		}
	}
}

// TestRanks draws changes of a sorted set that is too large to be walked over, on one shard and partitioned, with caches that
// hold all of it or little, and compares what is asked in between.
func TestRanks(t *testing.T) {
	for seed := range seeds(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := testOptions(vfs.NewMem(), 1+2*int(seed/2%2), clock.NewManual(testStart))
			opts.Fsync, opts.CacheBytes = FsyncNo, []int{64 << 10, 16 << 20}[seed%2]*len(opts.Names)
			opts.manyRows = 200
			st := openTest(t, opts)
			d := &zsetDuel{t: t, key: "z", st: st, tx: st.NewTx(), rnd: rand.New(rand.NewPCG(seed, 2)), scores: 5000, prefix: "m"}
			if len(opts.Names) > 1 {
				d.key = "part:z"
			}
			if seed >= 4 {
				d.scores, d.prefix = 1, strings.Repeat("m", 20)
			}
			defer func() {
				d.tx.End()
				closeTest(t, st)
			}()
			for round := range rounds(24) {
				d.tx.Begin(st.All())
				before := slices.Clone(d.want)
				for len(d.want) < 3000 && round%12 < 4 {
					d.set(d.zset(), d.draw(9000))
				}
				for range 1 + d.rnd.IntN(3) {
					d.stepMasses(9000)
					d.askRanks()
				}
				if d.rnd.IntN(3) == 0 {
					d.tx.Abort()
					d.want = before
				} else {
					d.ok(d.tx.Commit())
				}
				d.askRanks()
				d.sameAsRows()
				d.tx.End()
				if d.rnd.IntN(3) == 0 {
					d.forget()
				}
			}
		})
	}
}

// rankOwner is a sorted set that goes from key to key.
type rankOwner struct {
	*zsetDuel
	db  int
	key string
}

const rankOwnerEntries = 10 * rankAt

// ask asks for a rank when nothing but indexes is cached, which takes so many rows.
func (r *rankOwner) ask(what string, least, most int64) {
	r.t.Helper()
	s := r.st.shards[0]
	s.cache.dropAll()
	before := s.stats.RowsRead
	z, err := r.tx.DB(r.db).ZSet([]byte(r.key))
	r.ok(err)
	at, _, ok, err := z.Rank([]byte("07000"), false)
	r.ok(err)
	r.check(what, []any{at, ok}, []any{7000, true})
	if n := s.stats.RowsRead - before; n < least || n > most {
		r.t.Errorf("%s: %d rows were read, want %d to %d", what, n, least, most)
	}
}

// removeHalf and removeKey are taken back.
func (r *rankOwner) removeHalf() error {
	for i := range rankOwnerEntries / 2 {
		if _, err := r.zset().Remove(fmt.Appendf(nil, "%05d", i)); err != nil {
			return err
		}
	}
	r.tx.Abort()
	return nil
}

func (r *rankOwner) removeKey() error {
	_, err := r.tx.DB(0).Delete([]byte("z"))
	r.tx.Abort()
	return err
}

func (r *rankOwner) rename() error {
	r.key = "y"
	return r.tx.DB(0).Rename([]byte("z"), []byte("y"))
}

func (r *rankOwner) move() error {
	r.db = 1
	_, err := r.tx.DB(0).MoveKey([]byte("y"), r.tx.DB(1))
	return err
}

func (r *rankOwner) swap() error {
	r.db = 2
	return r.tx.SwapDB(1, 2)
}

func (r *rankOwner) removeCopy() error {
	if err := r.tx.DB(2).copyValue(KindZSet, []byte("y"), []byte("copy")); err != nil {
		return err
	}
	_, err := r.tx.DB(2).Delete([]byte("copy"))
	return err
}

// TestRankIndexOutlives makes the index of a sorted set once. Only what takes the sorted set away takes the index away.
func TestRankIndexOutlives(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Fsync, opts.CacheBytes = FsyncNo, 1<<20
	st := openTest(t, opts)
	d := &zsetDuel{t: t, key: "z", st: st, tx: st.NewTx(), rnd: rand.New(rand.NewPCG(1, 1))}
	defer func() {
		d.tx.End()
		closeTest(t, st)
	}()
	s := st.shards[0]
	d.tx.Begin(st.All())
	for i := range rankOwnerEntries {
		_, err := d.zset().Set(fmt.Appendf(nil, "%05d", i), float64(i))
		d.ok(err)
	}
	d.ok(d.tx.Commit())
	r := &rankOwner{d, 0, "z"}
	const few = runSplit*runFill + 8
	r.ask("the first time", rankOwnerEntries, rankOwnerEntries+2*rankAt)
	r.ask("the second time", 1, few)
	steps := []struct {
		name string
		do   func() error
	}{
		{"a transaction is aborted", r.removeHalf},
		{"the removal is aborted", r.removeKey},
		{"RENAME", r.rename},
		{"MOVE", r.move},
		{"SWAPDB", r.swap},
		{"a copy is removed", r.removeCopy},
	}
	for _, step := range steps {
		d.ok(step.do())
		d.ok(d.tx.Commit())
		r.ask(step.name, 1, few)
	}
	d.ok(d.tx.DB(2).Flush())
	d.ok(d.tx.Commit())
	for s.graves {
		d.ok(s.clearGraves())
		d.ok(d.tx.Commit())
	}
	if n := len(s.cache.ranks.byID); n != 0 || s.cache.ranks.bytes != 0 {
		t.Errorf("%d indexes of %d bytes are left", n, s.cache.ranks.bytes)
	}
}

// TestRankIndexesAreBounded asks for ranks in more sorted sets than there is room for.
func TestRankIndexesAreBounded(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Fsync, opts.CacheBytes = FsyncNo, 8<<10
	st := openTest(t, opts)
	tx := st.NewTx()
	s := st.shards[0]
	defer func() {
		tx.End()
		closeTest(t, st)
	}()
	for i := range 8 {
		tx.Begin(st.All())
		z, err := tx.DB(0).ZSet(fmt.Appendf(nil, "z%d", i))
		for j := 0; err == nil && j < 3*rankAt; j++ {
			_, err = z.Set(fmt.Appendf(nil, "%05d", j), float64(j))
		}
		if err = errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
		tx.End()
		tx.Begin(st.All())
		if z, err = tx.DB(0).ZSet(fmt.Appendf(nil, "z%d", i)); err != nil {
			t.Fatal(err)
		}
		if rank, _, _, err := z.Rank([]byte("02000"), false); rank != 2000 || err != nil {
			t.Fatalf("rank %d, %v", rank, err)
		}
		tx.End()
		ranks := &s.cache.ranks
		if ranks.get(z.o.id) == nil || ranks.bytes > ranks.budget() || s.cache.bytes > s.cache.budget {
			t.Fatalf("%d indexes of %d bytes, in all %d", len(ranks.byID), ranks.bytes, s.cache.bytes)
		}
	}
}

// TestRankIndexOfAnAbort makes an index of what a transaction has written and then takes back.
func TestRankIndexOfAnAbort(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Fsync = FsyncNo
	st := openTest(t, opts)
	d := &zsetDuel{t: t, key: "z", st: st, tx: st.NewTx(), rnd: rand.New(rand.NewPCG(1, 1)), scores: 1000, prefix: "m"}
	defer func() {
		d.tx.End()
		closeTest(t, st)
	}()
	d.tx.Begin(st.All())
	for range 4 * rankAt {
		d.set(d.zset(), d.draw(1<<30))
	}
	d.ok(d.tx.Commit())
	before := slices.Clone(d.want)
	st.shards[0].cache.dropAll()
	for range rankAt {
		d.pop(d.zset(), false)
	}
	d.askRanks()
	if len(st.shards[0].cache.ranks.byID) == 0 {
		t.Fatal("there is no index")
	}
	d.tx.Abort()
	d.want = before
	d.askRanks()
	d.sameAsRows()
}

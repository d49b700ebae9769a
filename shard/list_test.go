package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// listDuel compares one list that is larger than its windows, and has holes, with a slice.
type listDuel struct {
	t    *testing.T
	rnd  *rand.Rand
	st   *Store
	tx   *Tx
	want []string
	next int // number of the next value
}

func (d *listDuel) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *listDuel) list() List {
	d.t.Helper()
	l, err := d.tx.DB(0).List([]byte("l"))
	d.ok(err)
	return l
}

func (d *listDuel) value() string {
	d.next++
	return fmt.Sprint("v", d.next)
}

func (d *listDuel) push(n int) {
	for range n {
		val, end := d.value(), End(d.rnd.IntN(2))
		d.ok(d.list().Push(end, []byte(val)))
		if end == Head {
			d.want = slices.Insert(d.want, 0, val)
		} else {
			d.want = append(d.want, val)
		}
	}
}

func (d *listDuel) insert() {
	at, before, val := d.rnd.IntN(len(d.want)), d.rnd.IntN(2) == 0, d.value()
	done, err := d.list().Insert(before, []byte(d.want[at]), []byte(val))
	d.ok(err)
	if !done {
		d.t.Fatalf("pivot %s is not found", d.want[at])
	}
	if !before {
		at++
	}
	d.want = slices.Insert(d.want, at, val)
}

// remove removes a run of elements one by one, from one of its ends.
func (d *listDuel) remove() {
	from := d.rnd.IntN(len(d.want))
	if d.rnd.IntN(3) == 0 {
		from = 0
	}
	to := min(len(d.want), from+d.rnd.IntN(40))
	for _, val := range d.want[from:to] {
		count := []int64{1, -1, 0}[d.rnd.IntN(3)]
		n, err := d.list().Remove(count, []byte(val))
		d.ok(err)
		if n != 1 {
			d.t.Fatalf("removed %d of %s", n, val)
		}
	}
	d.want = slices.Delete(d.want, from, to)
}

func (d *listDuel) trim() {
	start := d.rnd.IntN(1 + min(len(d.want)-1, 60))
	stop := max(start, len(d.want)-1-d.rnd.IntN(60))
	if d.rnd.IntN(8) == 0 { // most of it goes, and from the middle some stays
		start = d.rnd.IntN(len(d.want))
		stop = min(len(d.want)-1, start+d.rnd.IntN(40))
	}
	d.ok(d.list().Trim(int64(start), int64(stop)))
	d.want = slices.Clone(d.want[start : stop+1])
}

func (d *listDuel) pop() {
	for range d.rnd.IntN(50) {
		end := End(d.rnd.IntN(2))
		val, ok, err := d.list().Pop(end)
		d.ok(err)
		if !ok {
			return
		}
		i := 0
		if end == Tail {
			i = len(d.want) - 1
		}
		if string(val) != d.want[i] {
			d.t.Fatalf("popped %s, want %s", val, d.want[i])
		}
		d.want = slices.Delete(d.want, i, i+1)
	}
}

func (d *listDuel) look() {
	d.t.Helper()
	start := d.rnd.IntN(len(d.want))
	stop := min(len(d.want)-1, start+d.rnd.IntN(300))
	var got []string
	d.ok(d.list().Range(int64(start), int64(stop), func(val []byte) { got = append(got, string(val)) }))
	if !slices.Equal(got, d.want[start:stop+1]) {
		d.t.Fatalf("range %d %d of %d: got %v, want %v", start, stop, len(d.want), got, d.want[start:stop+1])
	}
	val, ok, err := d.list().Index(int64(start))
	d.ok(err)
	if !ok || string(val) != d.want[start] {
		d.t.Fatalf("index %d: got %s, want %s", start, val, d.want[start])
	}
}

// forget makes the cache lose what it knows of the list.
func (d *listDuel) forget() {
	s := d.st.shards[0]
	o, err := s.lookup(d.tx.nowMs, 0, []byte("l"))
	d.ok(err)
	if o.kind == KindNone || d.rnd.IntN(2) == 0 {
		s.cache.drop(o)
		return
	}
	o.list.shrink(d.rnd.IntN(2000))
	s.cache.charge(o)
}

func TestLists(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
			opts.Fsync, opts.CacheBytes, opts.manyRows = FsyncNo, 4<<20, 30
			st := openTest(t, opts)
			d := &listDuel{t: t, st: st, tx: st.NewTx(), rnd: rand.New(rand.NewPCG(seed, 4))}
			defer func() {
				d.tx.End()
				closeTest(t, st)
			}()
			steps := []func(){d.insert, d.insert, d.insert, d.remove, d.remove, d.trim, d.pop, d.look, d.look}
			for range rounds(150) {
				d.tx.Begin(st.All())
				before := slices.Clone(d.want)
				for range 1 + d.rnd.IntN(4) {
					if len(d.want) < 300 {
						d.push(300)
					}
					steps[d.rnd.IntN(len(steps))]()
				}
				if d.rnd.IntN(4) == 0 {
					d.tx.Abort()
					d.want = before
				} else {
					d.ok(d.tx.Commit())
				}
				if d.rnd.IntN(2) == 0 {
					d.forget()
				}
				d.tx.End()
			}
		})
	}
}

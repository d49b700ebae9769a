package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestListWindows pops a list whose middle no window has, so that it is read from rows: those that are staged, those that are
// being applied and those that have been, in any mixture. The model is the order in which the elements were pushed.
func TestListWindows(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 1000 // the list grows and shrinks once
	}
	for _, sizes := range [][2]int{{testStageBytes, 1 << 20}, {20 << 10, 1 << 20}, {200 << 10, 1 << 20}, {20 << 10, 1}} {
		opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
		opts.stageBytes, opts.CacheBytes = sizes[0], sizes[1]
		st, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(uint64(sizes[0]), 7))
		var want []string
		filler := strings.Repeat("x", 400)
		tx := st.NewTx()
		for step := range steps {
			tx.Begin(st.All())
			applied := func() {}
			if step%3 == 0 {
				applied = holdStage(t, st.shards[0])
			}
			list, err := tx.DB(0).List([]byte("l"))
			if err != nil {
				t.Fatal(err)
			}
			// Longer pushes than pops, then longer pops than pushes.
			many, end := 1+rnd.IntN(40), End(rnd.IntN(2))
			if grow := step%1000 < 300; grow && step%2 == 0 || !grow && step%8 == 0 {
				for range many {
					val := fmt.Sprint(step, "-", rnd.Int(), filler[:rnd.IntN(400)])
					if err := list.Push(end, []byte(val)); err != nil {
						t.Fatal(err)
					}
					if end == Head {
						want = append([]string{val}, want...)
					} else {
						want = append(want, val)
					}
				}
			} else {
				if middle := len(want) / 2; step%3 == 1 && middle > 0 { // the transaction changes what it reads then
					want[middle] = fmt.Sprint("changed ", step)
					if _, err := list.Set(int64(middle), []byte(want[middle])); err != nil {
						t.Fatal(err)
					}
				}
				for range 1 + step%3 {
					want = popBoth(t, list, end, want)
				}
			}
			applied()
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			tx.End()
		}
		closeTest(t, st)
	}
}

// holdStage makes what is staged the stage that is being applied, and stay so until the function is called that it returns, but for
// rows that somebody waits for. The caller has the shard locked and does not wait for all.
func holdStage(t *testing.T, s *Shard) (applied func()) {
	t.Helper()
	s.stagePending()
	if err := s.awaitApplied(); err != nil {
		t.Fatal(err)
	}
	g := s.staged
	g.done, g.urgent = make(chan struct{}), make(chan urgentGroup)
	s.staged = newStage()
	s.applying.Store(g)
	goOn := make(chan struct{})
	go func() { // ends with the call of the function
		defer close(g.done)
		for {
			select {
			case u := <-g.urgent:
				if err := s.applyRows(g, g.chained(u.group)); err != nil {
					t.Error(err)
				}
				close(u.applied)
				continue
			case <-goOn:
			}
			if err := s.applyStage(g); err != nil {
				t.Error(err)
			}
			s.applying.Store(nil)
			return
		}
	}()
	return func() {
		close(goOn)
		<-g.done
	}
}

// popBoth pops from the list and from the model, which must agree.
func popBoth(t *testing.T, list List, end End, want []string) []string {
	t.Helper()
	val, ok, err := list.Pop(end)
	if err != nil || ok != (len(want) > 0) {
		t.Fatalf("pop: %t, %v; the model has %d", ok, err, len(want))
	}
	if !ok {
		return nil
	}
	expected, rest := want[0], want[1:]
	if end == Tail {
		expected, rest = want[len(want)-1], want[:len(want)-1]
	}
	if string(val) != expected {
		t.Fatalf("popped %.40q, want %.40q", val, expected)
	}
	return rest
}

// onList runs fn on a list in a transaction and commits it.
func onList(t *testing.T, st *Store, fn func(l List) error) {
	t.Helper()
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		l, err := d.List([]byte("l"))
		if err == nil {
			err = fn(l)
		}
		return err
	})
}

// TestListChangedBetweenWindows pops, in the transaction that has changed them, elements that neither window has.
func TestListChangedBetweenWindows(t *testing.T) {
	const n = 1000
	pivot := fmt.Sprint("e", n/2)
	for name, change := range map[string]func(l List, want []string) ([]string, error){
		"replaced": func(l List, want []string) ([]string, error) {
			want[n/2] = "changed"
			_, err := l.Set(n/2, []byte("changed"))
			return want, err
		},
		"inserted": func(l List, want []string) ([]string, error) {
			_, err := l.Insert(true, []byte(pivot), []byte("new"))
			return slices.Insert(want, slices.Index(want, pivot), "new"), err
		},
		"removed": func(l List, want []string) ([]string, error) {
			_, err := l.Remove(1, []byte(pivot))
			at := slices.Index(want, pivot)
			return slices.Delete(want, at, at+1), err
		},
		"removed and inserted": func(l List, want []string) ([]string, error) {
			if _, err := l.Insert(false, []byte(pivot), []byte("new")); err != nil {
				return nil, err
			}
			_, err := l.Remove(1, []byte(pivot))
			want[slices.Index(want, pivot)] = "new"
			return want, err
		},
	} {
		for _, end := range []End{Head, Tail} {
			st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
			var want []string
			onList(t, st, func(l List) (err error) {
				for i := range n {
					want = append(want, fmt.Sprint("e", i))
					err = errors.Join(err, l.Push(Tail, []byte(want[i])))
				}
				return err
			})
			s := st.shards[0]
			s.mu.Lock()
			s.cache.dropAll()
			s.mu.Unlock()
			onList(t, st, func(l List) (err error) {
				if _, _, err = l.Pop(1 - end); err != nil {
					return err
				}
				if end == Tail {
					want, err = change(l, want[1:])
				} else {
					want, err = change(l, want[:n-1])
				}
				for len(want) > 0 && err == nil {
					want = popBoth(t, l, end, want)
				}
				return err
			})
			closeTest(t, st)
			if t.Failed() {
				t.Fatalf("%s, from end %d", name, end)
			}
		}
	}
}

package shard

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// TestTextsStay: whatever of a hash's values is set, replaced, deleted, committed and aborted, one that was read stays as it is for good,
// and one that was read with its memo until the transaction ends; and all are what was set last.
func TestTextsStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
		defer closeTest(t, st)
		type reading struct {
			val  []byte
			want string
		}
		var kept, lent []reading
		check := func(readings []reading) {
			for _, r := range readings {
				if string(r.val) != r.want {
					rt.Fatalf("what was read as %.40q… is %.40q…", r.want, r.val)
				}
			}
		}
		committed, model := map[string]string{}, map[string]string{}
		tx := st.NewTx()
		n := 0
		for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
			tx.Begin(st.All())
			h, err := tx.DB(0).Hash([]byte("hash"))
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				n++
				name := fmt.Sprint("field", rapid.IntRange(0, 4).Draw(rt, "field"))
				field, old := []byte(name), model[name]
				val := bytes.Repeat([]byte{byte('a' + n%26)}, rapid.SampledFrom([]int{1, 200, 250, 300, 2040, 2100}).Draw(rt, "length"))
				switch rapid.IntRange(0, 7).Draw(rt, "step") {
				case 0, 1:
					_, err = h.SetMemo(field, val, "memo")
					model[name] = string(val)
				case 2:
					_, err = h.SetIdle(field, val)
					model[name] = string(val)
				case 3:
					_, err = h.Set(field, val)
					model[name] = string(val)
				case 4:
					var got []byte
					got, _, err = h.Get(field)
					kept = append(kept, reading{got, old})
				case 5:
					var got []byte
					got, _, _, err = h.GetMemo(field)
					lent = append(lent, reading{got, old})
				case 6:
					_, err = h.Delete(field)
					delete(model, name)
				case 7:
					err = h.Each(func(field, val []byte) bool {
						lent = append(lent, reading{val, model[string(field)]})
						return true
					})
				}
				if err != nil {
					rt.Fatal(err)
				}
				check(lent)
			}
			check(kept)
			to, from := committed, model
			if rapid.IntRange(0, 3).Draw(rt, "aborts") == 0 {
				tx.Abort()
				to, from = model, committed
			} else if err := tx.Commit(); err != nil {
				rt.Fatal(err)
			}
			clear(to)
			for name, val := range from {
				to[name] = val
			}
			lent = lent[:0]
			tx.End()
			check(kept)
		}
	})
}

// TestTextsAreUsedAgain: a value's memory is that of one which was replaced by a commit before, unless it was read in a way that allows to
// keep it, or is of quite another size.
func TestTextsAreUsedAgain(t *testing.T) {
	old, val := bytes.Repeat([]byte("o"), 300), bytes.Repeat([]byte("v"), 310)
	for name, test := range map[string]struct {
		before func(h Hash, field []byte) error
		val    []byte
		again  bool
	}{
		"replaced":     {nil, val, true},
		"shorter":      {nil, val[:150], true},
		"much shorter": {nil, val[:50], false},
		"longer":       {nil, bytes.Repeat(val, 2), false},
		"read": {func(h Hash, field []byte) error {
			_, _, err := h.Get(field)
			return err
		}, val, false},
		"read with its memo": {func(h Hash, field []byte) error {
			_, _, _, err := h.GetMemo(field)
			return err
		}, val, true},
		"read before": {func(h Hash, field []byte) error {
			_, _, err := h.Get(field)
			if err == nil {
				_, err = h.SetMemo(field, old, "memo")
			}
			return err
		}, val, true},
		"walked over": {func(h Hash, _ []byte) error { return h.Each(func(_, _ []byte) bool { return true }) }, val, false},
	} {
		t.Run(name, func(t *testing.T) {
			st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
			defer closeTest(t, st)
			var memory *byte
			set := func(h Hash, field string, val []byte) {
				if _, err := h.SetMemo([]byte(field), val, "memo"); err != nil {
					t.Fatal(err)
				}
			}
			at := func(h Hash, field string) *byte { return &h.o.hash.find([]byte(field)).val.text[0] }
			onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
				set(h, "a", old)
				if test.before != nil {
					if err := test.before(h, []byte("a")); err != nil {
						t.Fatal(err)
					}
				}
				memory = at(h, "a")
				return nil
			})
			onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
				set(h, "a", val)
				set(h, "b", val)
				if memory == at(h, "a") || memory == at(h, "b") {
					t.Error("it is used again before the commit")
				}
				return nil
			})
			onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
				set(h, "c", test.val)
				if again := memory == at(h, "c"); again != test.again {
					t.Errorf("it is used again: %t, want %t", again, test.again)
				}
				return nil
			})
		})
	}
}

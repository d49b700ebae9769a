package shard

import (
	"bytes"
	"fmt"
	"maps"
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
		m := textsModel{values: map[string]string{}}
		committed := map[string]string{}
		tx := st.NewTx()
		defer func() { tx.End() }() // also of a check that fails
		for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
			tx.Begin(st.All())
			h, err := tx.DB(0).Hash([]byte("hash"))
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				if err == nil {
					err = m.step(rt, h)
				}
				m.check(rt, m.lent)
			}
			to, from := committed, m.values
			if rapid.IntRange(0, 3).Draw(rt, "aborts") == 0 {
				tx.Abort()
				to, from = from, to
			} else if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				rt.Fatal(err)
			}
			clear(to)
			maps.Copy(to, from)
			m.lent = m.lent[:0]
			tx.End()
			m.check(rt, m.kept)
		}
	})
}

// textsModel is what a hash has, and what was read of it.
type textsModel struct {
	steps      int
	values     map[string]string
	kept, lent []textRead
}

type textRead struct {
	val  []byte
	want string
}

func (m *textsModel) check(t *rapid.T, readings []textRead) {
	for _, r := range readings {
		if string(r.val) != r.want {
			t.Fatalf("what was read as %.40q… is %.40q…", r.want, r.val)
		}
	}
}

// step does something with a field.
func (m *textsModel) step(t *rapid.T, h Hash) (err error) {
	m.steps++
	name := fmt.Sprint("field", rapid.IntRange(0, 4).Draw(t, "field"))
	length := rapid.SampledFrom([]int{1, 200, 250, 300, 2040, 2100}).Draw(t, "length")
	field, old, val := []byte(name), m.values[name], bytes.Repeat([]byte{byte('a' + m.steps%26)}, length)
	var got []byte
	switch rapid.IntRange(0, 7).Draw(t, "step") {
	case 0, 1:
		_, err = h.SetMemo(field, val, Memo{Of: "memo"})
		m.values[name] = string(val)
	case 2:
		_, err = h.SetIdle(field, val)
		m.values[name] = string(val)
	case 3:
		_, err = h.Set(field, val)
		m.values[name] = string(val)
	case 4:
		got, _, err = h.Get(field)
		m.kept = append(m.kept, textRead{got, old})
	case 5:
		got, _, _, err = h.GetMemo(field)
		m.lent = append(m.lent, textRead{got, old})
	case 6:
		_, err = h.Delete(field)
		delete(m.values, name)
	case 7:
		err = h.Each(func(field, val []byte) bool { // which may not keep it
			m.check(t, []textRead{{val, m.values[string(field)]}})
			return true
		})
	}
	return err
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
				_, err = h.SetMemo(field, old, Memo{Of: "memo"})
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
				if _, err := h.SetMemo([]byte(field), val, Memo{Of: "memo"}); err != nil {
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

package lua

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// drawKey draws a key; the keys are few, so that they meet again.
func drawKey(t *rapid.T) Value {
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return Number(float64(rapid.IntRange(-3, 40).Draw(t, "integer")))
	case 1:
		return Number(float64(rapid.IntRange(1, 6).Draw(t, "power")) * 1e9)
	case 2:
		return Number(float64(rapid.IntRange(-4, 4).Draw(t, "quarter")) / 4)
	case 3:
		return Bool(rapid.Bool().Draw(t, "boolean"))
	}
	return String(fmt.Sprintf("k%d", rapid.IntRange(0, 30).Draw(t, "text")))
}

// keyText tells keys apart as Equal does.
func keyText(k Value) string {
	if f, ok := k.Float(); ok {
		return fmt.Sprint("number ", f+0)
	}
	text, _ := k.Text()
	return k.Kind().String() + text + fmt.Sprint(k.Truth())
}

// TestTable compares a table with a map: what is there, what a visit of all keys sees, and that # is a border.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable(rapid.IntRange(0, 9).Draw(t, "elements"), rapid.IntRange(0, 9).Draw(t, "fields"))
		model := map[string]float64{}
		for i := range rapid.IntRange(0, 120).Draw(t, "sets") {
			k := drawKey(t)
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				table.Set(k, Nil)
				delete(model, keyText(k))
				continue
			}
			table.Set(k, Number(float64(i)))
			model[keyText(k)] = float64(i)
		}
		seen := 0
		for k, v, ok := table.Next(Nil); !k.IsNil(); k, v, ok = table.Next(k) {
			if f, _ := v.Float(); !ok || model[keyText(k)] != f {
				t.Fatalf("%s is %v, want %v", keyText(k), f, model[keyText(k)])
			}
			if !Equal(table.Get(k), v) {
				t.Fatalf("Next and Get differ for %s", keyText(k))
			}
			seen++
		}
		if seen != len(model) {
			t.Fatalf("%d keys are visited, want %d", seen, len(model))
		}
		n := table.Len()
		if n > 0 && table.GetInt(n).IsNil() || !table.GetInt(n+1).IsNil() {
			t.Fatalf("%d is no border", n)
		}
		if _, _, ok := table.Next(String("never set")); ok {
			t.Fatal("a key that is not there has a next one")
		}
	})
}

// TestTableOrder: the order of keys, and what # says of a table with holes, are the reference implementation's.
func TestTableOrder(t *testing.T) {
	table := NewTable(0, 0)
	for _, name := range []string{"name", "id", "status", "priority", "attempts", "payload", "created_at", "a", "b", "c"} {
		table.SetText(name, True)
	}
	order := ""
	for k, _, _ := table.Next(Nil); !k.IsNil(); k, _, _ = table.Next(k) {
		text, _ := k.Text()
		order += text + " "
	}
	const redis = "a c b id created_at name payload status priority attempts "
	if order != redis {
		t.Errorf("keys in the order %q, want %q", order, redis)
	}
	holes := NewTable(0, 0)
	for _, i := range []int{1, 2, 3, 10} {
		holes.SetInt(i, True)
	}
	if n := holes.Len(); n != 3 {
		t.Errorf("the border is %d, want 3", n)
	}
}

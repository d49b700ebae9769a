package queue

import (
	"testing"

	"codeq/shard"
)

// TestMadeIDIsNew draws the same numbers for two tasks of one KEY, where little of an id is random: the second one gets another id.
func TestMadeIDIsNew(t *testing.T) {
	m := newMachine(t, "hash")
	defer func() {
		if err := m.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	var ids []string
	for range 2 {
		m.random.Seed(5, 6)
		failure := m.change(t, false, func(shard.DB) error {
			e := Enqueue{Queue: nameOf("a"), Key: []byte("customer")}
			return m.tx.Enqueue(&e, [][]byte{[]byte("p")}, func(id []byte) { ids = append(ids, string(id)) })
		})
		if failure != nil {
			t.Fatal(failure)
		}
	}
	if ids[0] == ids[1] || ids[0][:8] != ids[1][:8] {
		t.Errorf("the ids are %q", ids)
	}
}

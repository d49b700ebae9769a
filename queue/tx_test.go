package queue

import (
	"testing"

	"codeq/shard"
	"codeq/supplier"
)

// TestOnOpensPinnedAgain aborts a transaction and uses it again in a database that is pinned, where what On opens are the objects of
// one shard: those of the first use are gone.
func TestOnOpensPinnedAgain(t *testing.T) {
	m := newMachine(t, "hash")
	if err := m.st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := supplier.NewRegistry().New("hash", supplier.Options{Topology: m.router.Topology()})
	if err != nil {
		t.Fatal(err)
	}
	pins := map[int]string{0: m.router.Topology().Name(1)}
	m.router, err = supplier.NewRouter(supplier.RouterConfig{Topology: m.router.Topology(), Supplier: s, Databases: pins})
	if err != nil {
		t.Fatal(err)
	}
	m.open(t)
	defer func() {
		if err := m.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	enqueue := func(id string) error {
		return m.tx.Enqueue(&Enqueue{Queue: nameOf("a"), ID: []byte(id)}, [][]byte{[]byte("p")}, func([]byte) {})
	}
	tx := m.transaction
	tx.Begin(m.st.All())
	if err = m.tx.On(tx.DB(0)); err == nil {
		err = enqueue("first")
	}
	tx.End()
	if err != nil {
		t.Fatal(err)
	}
	if failure := m.change(t, false, func(shard.DB) error { return enqueue("second") }); failure != nil {
		t.Fatal(failure)
	}
	m.tx = m.queues.NewTx()
	if failure := m.change(t, false, func(shard.DB) error { return m.tx.mustLoad([]byte("second")) }); failure != nil {
		t.Error(failure)
	}
}

package queue

import (
	"bytes"
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

// TestNamesInAnotherCase: names that are the same by their ASCII letters are of one queue, and whatever is taken for the same has the same keys.
func TestNamesInAnotherCase(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"mail", "MAIL", true}, {"mail", "Mail", true}, {"mail", "mails", false}, {"mail", "nail", false}, {"a@", "a`", false}, {"a[", "a{", false},
		{"\u00e9", "\u00c9", false}, {"k", "\u212a", false}, {"\u00e9", "\u00e9", true}, {"a\x00", "A ", false},
	} {
		a, b := Name{Command: []byte(test.a)}, Name{Command: []byte(test.b)}
		if a.is(b) != test.same || b.is(a) != test.same {
			t.Errorf("%q and %q: the same is %v", test.a, test.b, !test.same)
		}
	}
	for c := range 1 << 16 {
		a, b := []byte{'x', byte(c)}, []byte{'X', byte(c >> 8)}
		if (Name{Command: a}).is(Name{Command: b}) && !bytes.Equal(bytes.ToLower(a), bytes.ToLower(b)) {
			t.Fatalf("%q and %q are not the same", a, b)
		}
	}
	if (Name{[]byte("a"), []byte("t")}).is(Name{[]byte("a"), []byte("T")}) {
		t.Error("tenants are the same in another case")
	}
}

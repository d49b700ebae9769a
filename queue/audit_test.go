package queue

import (
	"testing"

	"codeq/shard"
)

// TestAuditOfSwappedDatabases: an audit that has begun does not go on with the set of another database that has taken the place of its own. There
// a task is a suspect for as long as anywhere, even one that looks the same.
func TestAuditOfSwappedDatabases(t *testing.T) {
	m := newMachine(t, "hash")
	defer func() {
		if err := m.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	name := nameOf("a")
	key := inProgressKey(nil, name, nil)
	shards, err := m.queues.Shards(0, name)
	if err != nil {
		t.Fatal(err)
	}
	for db := range 2 {
		m.inDatabase(t, db, func(d shard.DB) error {
			e := Enqueue{Queue: name, ID: []byte("1")}
			if err := m.tx.Enqueue(&e, [][]byte{[]byte("p")}, func([]byte) {}); err != nil {
				return err
			}
			set, err := d.SetOf(key)
			if err == nil {
				_, err = set.Add([]byte("1"))
			}
			return err
		})
	}
	audit := func(db int, held int64) {
		t.Helper()
		m.inDatabase(t, db, func(d shard.DB) error {
			for ordinal := range modelShards {
				if !shards.Has(ordinal) {
					continue
				}
				if _, err := m.queues.Due(d, ordinal, key, 64); err != nil {
					return err
				}
			}
			set, err := d.SetOf(key)
			if err != nil {
				return err
			}
			n, err := set.Len()
			if n != held {
				t.Errorf("database %d has %d claimed tasks, want %d", db, n, held)
			}
			return err
		})
	}
	audit(0, 1)
	m.inDatabase(t, 0, func(shard.DB) error { return m.transaction.SwapDB(0, 1) })
	audit(0, 1)
	audit(1, 1)
	audit(0, 0)
	audit(1, 0)
}

// inDatabase is change for another database.
func (m *machine) inDatabase(t *testing.T, db int, fn func(d shard.DB) error) {
	t.Helper()
	failure := m.change(t, false, func(shard.DB) error {
		d := m.transaction.DB(db)
		if err := m.tx.On(d); err != nil {
			return err
		}
		return fn(d)
	})
	if failure != nil {
		t.Fatal(failure)
	}
}

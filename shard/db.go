package shard

import (
	"errors"
	"math"
)

// ErrNoDeadline says that the key is partitioned: such a key can't expire. A write locks the shards of its own elements only,
// so a deadline would not hold for the fragments that are begun after it was set.
var ErrNoDeadline = errors.New("a partitioned key can't have a deadline")

// DB is one database within a transaction.
type DB struct {
	tx *Tx
	n  int
}

// Now is the transaction's time, unix milliseconds. It stands still within a command, a MULTI or a script.
func (d DB) Now() int64 { return d.tx.nowMs }

// Number is the number of the database.
func (d DB) Number() int { return d.n }

// place locates the key and, unless it is partitioned, returns its shard and object.
func (d DB) place(key []byte) (Placement, *Shard, *object, error) {
	p, err := d.tx.store.placer.Place(d.n, key)
	if err != nil || p.Partitioned {
		return p, nil, nil, err
	}
	s, o, err := d.at(p.Shard, key)
	return p, s, o, err
}

// at returns the key's object on the shard.
func (d DB) at(ordinal int, key []byte) (*Shard, *object, error) {
	s, err := d.tx.shard(ordinal)
	if err != nil {
		return nil, nil, err
	}
	o, err := s.lookup(d.tx.nowMs, d.n, key)
	if d.tx.counting && err == nil {
		d.tx.countLookup(s, key, o)
	}
	return s, o, err
}

// fragments calls fn for the key's object on every shard that may have one.
func (d DB) fragments(key []byte, fn func(s *Shard, o *object) error) error {
	p, s, o, err := d.place(key)
	if err != nil {
		return err
	}
	if !p.Partitioned {
		return fn(s, o)
	}
	for n, last := d.span(); n <= last; n++ {
		if s, o, err = d.at(n, key); err != nil {
			return err
		}
		if err = fn(s, o); err != nil {
			return err
		}
	}
	return nil
}

// span is the first and the last of the shards whose fragments of partitioned keys the transaction sees.
func (d DB) span() (first, last int) {
	if n := d.tx.narrow - 1; n >= 0 {
		return n, n
	}
	return 0, len(d.tx.store.shards) - 1
}

// Type returns the kind of the key's value, KindNone when there is none.
func (d DB) Type(key []byte) (Kind, error) {
	kind := KindNone
	err := d.fragments(key, func(_ *Shard, o *object) error {
		kind = max(kind, o.kind)
		return nil
	})
	return kind, err
}

// Exists tells whether there is a value at the key.
func (d DB) Exists(key []byte) (bool, error) {
	kind, err := d.Type(key)
	return kind != KindNone, err
}

// CanHold returns ErrWrongType for a partitioned key that can never hold a value of the kind, whatever is
// there now. A command that overwrites a key asks before it writes anything.
func (d DB) CanHold(key []byte, kind Kind) error {
	p, err := d.tx.store.placer.Place(d.n, key)
	if err == nil && p.Partitioned && p.Kind != kind {
		err = ErrWrongType
	}
	return err
}

// CanExpire returns ErrNoDeadline for a deadline, in unix ms and 0 for none, that the key can't have, whatever is there now. A
// command that writes a value with a deadline asks before it writes anything.
func (d DB) CanExpire(key []byte, atMs int64) error {
	if atMs == 0 {
		return nil
	}
	p, err := d.tx.store.placer.Place(d.n, key)
	if err == nil && p.Partitioned {
		err = ErrNoDeadline
	}
	return err
}

// Delete removes the key and tells whether it was there.
func (d DB) Delete(key []byte) (existed bool, err error) {
	err = d.fragments(key, func(s *Shard, o *object) error {
		existed = existed || o.kind != KindNone
		return s.remove(o)
	})
	return existed, err
}

// ExpireAt returns the key's deadline in unix ms, 0 when it has none.
func (d DB) ExpireAt(key []byte) (atMs int64, exists bool, err error) {
	err = d.fragments(key, func(_ *Shard, o *object) error {
		if o.kind != KindNone {
			exists, atMs = true, o.expireAt
		}
		return nil
	})
	return atMs, exists, err
}

// SetExpireAt sets the key's deadline in unix ms; 0 removes it, and a time that has passed removes the key.
// It returns false when there is no such key, and ErrNoDeadline for a partitioned one that is not to be removed.
func (d DB) SetExpireAt(key []byte, atMs int64) (exists bool, err error) {
	if atMs > d.tx.nowMs {
		if err := d.CanExpire(key, atMs); err != nil {
			return false, err
		}
	}
	err = d.fragments(key, func(s *Shard, o *object) error {
		if o.kind == KindNone {
			return nil
		}
		exists = true
		if atMs != 0 && atMs <= d.tx.nowMs {
			return s.remove(o)
		}
		if atMs != 0 {
			s.modify(o) // for those who watch the key: as in Redis the same deadline counts, too
		}
		s.setDeadline(o, atMs)
		return nil
	})
	return exists, err
}

// Get returns the string at the key. The bytes are valid until the transaction changes the key.
func (d DB) Get(key []byte) (val []byte, ok bool, err error) {
	t, err := d.StringOf(key)
	if err != nil {
		return nil, false, err
	}
	val, err = t.Part(0, math.MaxInt64)
	return val, t.Exists(), err
}

// Set puts a string at the key, whatever was there. expireAtMs is its deadline, 0 for none.
func (d DB) Set(key, val []byte, expireAtMs int64) error {
	p, s, o, err := d.place(key)
	if err != nil {
		return err
	}
	if p.Partitioned {
		return ErrWrongType
	}
	if o.kind != KindString || o.chunked != nil && o.chunked.length > int64(len(val)) {
		if o.kind == KindNone {
			s.noteNew(o)
		}
		if err := s.remove(o); err != nil {
			return err
		}
		s.modify(o)
		o.kind = KindString
		s.count(o.db.n, 1)
	}
	s.modify(o)
	if o.chunked == nil && len(val) > s.store.opts.stringBytes {
		s.beginChunks(o)
	}
	if o.chunked == nil {
		s.tx.spend(len(val) - len(o.str))
		// A new slice each time: the value may still be that which was there.
		o.str = append(make([]byte, 0, len(val)), val...)
	} else if err := s.writeChunks(o, 0, val); err != nil {
		return err
	}
	s.setDeadline(o, expireAtMs)
	if expireAtMs != 0 && expireAtMs <= d.tx.nowMs {
		return s.remove(o)
	}
	return nil
}

// collection finds the object behind a collection's handle and checks its kind. The key of a partitioned one must not change as long
// as the handle is used.
func (d DB) collection(key []byte, kind Kind) (handle, error) {
	p, s, o, err := d.place(key)
	if err != nil {
		return handle{}, err
	}
	if p.Partitioned {
		if p.Kind != kind {
			return handle{}, ErrWrongType
		}
		return handle{db: d, key: key, kind: kind, partitioned: true}, nil
	}
	if o.kind != kind && o.kind != KindNone {
		return handle{}, ErrWrongType
	}
	return handle{db: d, key: key, kind: kind, s: s, o: o}, nil
}

// handle is what the typed collections have in common: a place for the elements, which for a partitioned key
// is another one for each home.
type handle struct {
	db          DB
	key         []byte
	kind        Kind
	partitioned bool
	s           *Shard
	o           *object
}

// home returns the fragment that holds the element.
func (h *handle) home(element []byte) (*Shard, *object, error) {
	if !h.partitioned {
		return h.s, h.o, nil
	}
	return h.db.at(h.db.tx.homeOf(element), h.key)
}

// maxHomed is the length of elements whose home is remembered.
const maxHomed = 64

// homeOf is the placer's Home, asked once for an element that comes several times in a row, as a task's id does.
func (tx *Tx) homeOf(element []byte) int {
	if len(element) > maxHomed {
		return tx.store.placer.Home(element)
	}
	if len(tx.homed) == 0 || string(tx.homed) != string(element) {
		tx.home, tx.homed = tx.store.placer.Home(element), append(tx.homed[:0], element...)
	}
	return tx.home
}

// writable returns the fragment that holds the element, and creates it if there is none yet.
func (h *handle) writable(element []byte) (*Shard, *object, error) {
	s, o, err := h.home(element)
	if err != nil {
		return nil, nil, err
	}
	if o.kind == KindNone {
		s.create(o, h.kind)
		if !h.partitioned {
			s.noteNew(o)
		}
	}
	return s, o, nil
}

// each calls fn for every fragment that exists, in the order of the shards, until it returns an error.
func (h *handle) each(fn func(s *Shard, o *object) error) error {
	if !h.partitioned {
		if h.o.kind == KindNone {
			return nil
		}
		return fn(h.s, h.o)
	}
	for n, last := h.db.span(); n <= last; n++ {
		s, o, err := h.db.at(n, h.key)
		if err != nil {
			return err
		}
		if o.kind == KindNone {
			continue
		}
		if err := fn(s, o); err != nil {
			return err
		}
	}
	return nil
}

// Len counts the elements; of a partitioned collection over all fragments.
func (h *handle) Len() (n int64, err error) {
	err = h.each(func(_ *Shard, o *object) error {
		n += o.count
		return nil
	})
	return n, err
}

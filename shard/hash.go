package shard

import "bytes"

// Hash is the hash at a key. The handle of a missing key is an empty hash.
type Hash struct{ handle }

// Hash returns the hash at the key, or ErrWrongType.
func (d DB) Hash(key []byte) (Hash, error) {
	h, err := d.collection(key, KindHash)
	return Hash{h}, err
}

// hashBody caches a hash's fields.
type hashBody struct{ elements[[]byte] }

func newHashBody() *hashBody { return &hashBody{newElements[[]byte]()} }

func valueSize(v []byte) int { return len(v) }

func (b *hashBody) settle() {
	b.elements.settle()
	b.settleIdle(valueSize)
}

func (b *hashBody) shrink(o *object) { b.thin(o, valueSize) }

// field reads one field through the cache.
func (s *Shard) field(o *object, field []byte) (val []byte, ok bool, err error) {
	if o.kind == KindNone {
		return nil, false, nil
	}
	if el := o.hash.find(field); el != nil {
		if el.lent {
			el.val, el.lent = bytes.Clone(el.val), false
		}
		return el.val, !el.dead, nil
	}
	if o.hash.lacks(o, field) {
		return nil, false, nil
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, field)
	val, ok, err = s.get(s.keyBuf)
	if ok {
		o.hash.put(field, val, len(val), 0)
		s.cache.charge(o)
	}
	return val, ok, err
}

// Get returns the field's value. The bytes stay as they are when the field is set again.
func (h Hash) Get(field []byte) (val []byte, ok bool, err error) {
	s, o, err := h.home(field)
	if err != nil {
		return nil, false, err
	}
	return s.field(o, field)
}

// Set sets the field and tells whether it is new.
func (h Hash) Set(field, val []byte) (created bool, err error) { return h.set(field, val, false) }

// SetIdle is Set followed by Uncache, without memory of its own for the value.
func (h Hash) SetIdle(field, val []byte) (created bool, err error) { return h.set(field, val, true) }

func (h Hash) set(field, val []byte, idle bool) (created bool, err error) {
	s, o, err := h.writable(field)
	if err != nil {
		return false, err
	}
	old, ok, err := s.field(o, field)
	if err != nil {
		return false, err
	}
	if idle {
		s.setIdle(o, field, val, len(old), ok)
	} else {
		s.setField(o, field, val, len(old), ok)
	}
	return !ok, nil
}

// SetNew sets a field that is not there, which the caller knows for sure, so it need not be looked for.
func (h Hash) SetNew(field, val []byte) error {
	s, o, err := h.writable(field)
	if err == nil {
		s.setField(o, field, val, 0, false)
	}
	return err
}

// setField sets a field in place of the one that is there, if there is one, with a value of oldLen bytes.
func (s *Shard) setField(o *object, field, val []byte, oldLen int, there bool) {
	s.writeField(o, field, val, there)
	o.hash.put(field, append(make([]byte, 0, len(val)), val...), len(val), oldLen)
}

// setIdle is setField for a field that is forgotten with the commit.
func (s *Shard) setIdle(o *object, field, val []byte, oldLen int, there bool) {
	s.writeField(o, field, val, there)
	el := o.hash.put(field, s.lastValue(val), len(val), oldLen)
	el.lent = true
	o.hash.forgetLater(el)
}

// writeField writes a field's row.
func (s *Shard) writeField(o *object, field, val []byte, there bool) {
	s.modify(o)
	if len(s.queues) > 0 && o.track != nil && o.track.Elements {
		s.signal(o, field)
	}
	if !there {
		o.count++
		o.hash.created(field)
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, field)
	s.put(s.keyBuf, val, !there)
}

// lastValue is the value that was written last, in the batch's own memory: it stays as it is until the batch is used again.
func (s *Shard) lastValue(val []byte) []byte {
	if s.tx.spent.tooMuch { // then it was not written
		return bytes.Clone(val)
	}
	rows := s.batch.Repr()
	return rows[len(rows)-len(val) : len(rows) : len(rows)]
}

// NoteAbsent tells that the hash has no such field, which the caller knows for sure. So setting it needs no look into the store.
func (h Hash) NoteAbsent(field []byte) error {
	s, o, err := h.home(field)
	if err == nil && o.hash != nil {
		o.hash.absent(field)
		s.cache.charge(o)
	}
	return err
}

// Uncache has the cache forget a field that nobody is expected to ask for soon, with the commit if the transaction has changed the hash.
func (h Hash) Uncache(field []byte) error {
	s, o, err := h.home(field)
	if err == nil && o.hash != nil {
		o.hash.uncache(o, field, valueSize)
		s.cache.charge(o)
	}
	return err
}

// Delete removes the field and tells whether it was there.
func (h Hash) Delete(field []byte) (bool, error) {
	s, o, err := h.home(field)
	if err != nil {
		return false, err
	}
	val, ok, err := s.field(o, field)
	if err != nil || !ok {
		return false, err
	}
	s.modify(o)
	s.keyBuf = s.appendField(s.keyBuf[:0], o, field)
	s.delete(s.keyBuf)
	o.hash.kill(field, len(val))
	s.removed(o)
	return true, nil
}

// removed counts an element that went, and the key with its last one.
func (s *Shard) removed(o *object) {
	if o.count--; o.count == 0 {
		s.forget(o)
	}
}

// Each calls fn, which may not keep the value, for every field until it returns false. The hash may not change meanwhile.
func (h Hash) Each(fn func(field, val []byte) bool) error {
	return untilStopped(&h.handle, func(s *Shard, o *object) (bool, error) {
		if o.hash.complete(o) {
			for name, el := range o.hash.rows {
				if !el.dead && !fn([]byte(name), el.val) {
					return false, nil
				}
			}
			return true, nil
		}
		return s.eachElement(o, 0, func(field, val []byte) bool {
			if o.count <= cacheWholeLimit {
				if o.hash.find(field) == nil {
					o.hash.put(field, append([]byte(nil), val...), len(val), 0)
				}
			}
			return fn(field, val)
		})
	})
}

// Scan visits fields from the cursor on, see handle.scan.
func (h Hash) Scan(cursor uint64, count int, fn func(field, val []byte)) (next uint64, err error) {
	return h.scan(cursor, count, fn, h.Each)
}

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
type hashBody struct {
	elements[fieldValue]
	noted bool // some of them have noted what another hash lacks
}

// fieldValue is a field's value as it is cached.
type fieldValue struct {
	text []byte
	memo any // see Memo; nil if there is none
}

// memoBytes is what a memo may take in memory.
const memoBytes = 64

func newHashBody(common *string) *hashBody {
	return &hashBody{elements: newElements[fieldValue](common)}
}

// size is the value's resident size.
func (v fieldValue) size() int {
	if v.memo != nil {
		return cap(v.text) + memoBytes
	}
	return len(v.text)
}

// keep adds or replaces the entry of a field; oldSize is the size of the value that is replaced.
func (b *hashBody) keep(field []byte, val fieldValue, oldSize int) *element[fieldValue] {
	return b.put(field, val, val.size(), oldSize)
}

func (b *hashBody) settle() {
	b.elements.settle()
	b.settleIdle(fieldValue.size)
}

func (b *hashBody) shrink(o *object) { b.thin(o, fieldValue.size) }

// field reads one field through the cache.
func (s *Shard) field(o *object, field []byte) (val fieldValue, ok bool, err error) {
	if o.kind == KindNone {
		return val, false, nil
	}
	if el := o.hash.find(field); el != nil {
		if el.lent {
			el.val.text, el.lent = bytes.Clone(el.val.text), false
		}
		return el.val, !el.dead, nil
	}
	if o.hash.lacks(o, field) {
		return val, false, nil
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, field)
	val.text, ok, err = s.get(s.keyBuf)
	switch {
	case ok:
		o.hash.keep(field, val, 0)
		s.cache.charge(o)
	case err == nil:
		s.missElement(o, &o.hash.names)
	}
	return val, ok, err
}

// Get returns the field's value. The bytes stay as they are when the field is set again.
func (h Hash) Get(field []byte) (val []byte, ok bool, err error) {
	s, o, err := h.home(field)
	if err != nil {
		return nil, false, err
	}
	v, ok, err := s.field(o, field)
	if ok {
		if el := o.hash.find(field); el != nil {
			el.kept = true
		}
	}
	return v.text, ok, err
}

// GetMemo is Get with the memo that was set with the value, a zero one if there was none or the cache has it no more. The value stays as it
// is until the transaction commits.
func (h Hash) GetMemo(field []byte) (val []byte, memo Memo, ok bool, err error) {
	s, o, err := h.home(field)
	if err != nil {
		return nil, memo, false, err
	}
	v, ok, err := s.field(o, field)
	if ok {
		if memo.Of = v.memo; o.hash.last != nil { // it is the field's, which was found just now
			memo.Lacking = o.hash.last.lacking
		}
	}
	return v.text, memo, ok, err
}

// Cached is GetMemo if the cache answers for the field, which known tells. Otherwise it looks no further.
func (h Hash) Cached(field []byte) (val []byte, memo Memo, ok, known bool, err error) {
	_, o, err := h.home(field)
	if err != nil || !o.knows(field) {
		return nil, memo, false, false, err
	}
	val, memo, ok, err = h.GetMemo(field)
	return val, memo, ok, true, err
}

// Set sets the field and tells whether it is new.
func (h Hash) Set(field, val []byte) (created bool, err error) {
	return h.set(field, val, Memo{}, false)
}

// Memo is what the caller of SetMemo knows besides the value and would have to work out again when it reads it. The cache forgets it with the
// value, and does not have it when the value was read again.
type Memo struct {
	Of      any    // of the value; may not change, and takes 64 bytes at most. Nil: nothing
	Lacking Moment // since when another hash lacks a field of the same name, see Hash.Note
}

// SetMemo is Set with a memo.
func (h Hash) SetMemo(field, val []byte, memo Memo) (created bool, err error) {
	return h.set(field, val, memo, false)
}

// SetIdle is Set followed by Uncache, without memory of its own for the value.
func (h Hash) SetIdle(field, val []byte) (created bool, err error) {
	return h.set(field, val, Memo{}, true)
}

func (h Hash) set(field, val []byte, memo Memo, idle bool) (created bool, err error) {
	s, o, err := h.writable(field)
	if err != nil {
		return false, err
	}
	old, ok, err := s.field(o, field)
	if err != nil {
		return false, err
	}
	if !ok {
		o.arrivals.add(field)
	}
	if idle {
		s.setIdle(o, field, val, old.size(), ok)
	} else {
		s.setField(o, field, val, memo, old.size(), ok)
	}
	return !ok, nil
}

// SetNew is SetMemo for a field that is not there, which the caller knows for sure, so it need not be looked for.
func (h Hash) SetNew(field, val []byte, memo Memo) error {
	s, o, err := h.writable(field)
	if err == nil {
		o.arrivals.add(field)
		s.setField(o, field, val, memo, 0, false)
	}
	return err
}

// setField sets a field in place of the one that is there, if there is one, with a value of oldSize.
func (s *Shard) setField(o *object, field, val []byte, memo Memo, oldSize int, there bool) {
	s.writeField(o, field, val, there)
	if there {
		s.outdate(o, field)
	}
	if memo.Of != nil {
		val = s.texts.copyOf(val)
	} else {
		val = append(make([]byte, 0, len(val)), val...)
	}
	el := o.hash.keep(field, fieldValue{val, memo.Of}, oldSize)
	el.lacking, o.hash.noted = memo.Lacking, o.hash.noted || memo.Lacking != 0
}

// outdate has the memory of a field's value used again when the transaction has committed, if it was set with a memo: a task's JSON is
// replaced at each step of its life. Nobody has kept it then.
func (s *Shard) outdate(o *object, field []byte) {
	if el := o.hash.find(field); el != nil && el.val.memo != nil && !el.kept {
		s.texts.outdated = append(s.texts.outdated, el.val.text)
	}
}

// setIdle is setField for a field that is forgotten with the commit.
func (s *Shard) setIdle(o *object, field, val []byte, oldSize int, there bool) {
	s.writeField(o, field, val, there)
	if there {
		s.outdate(o, field)
	}
	el := o.hash.keep(field, fieldValue{text: s.lastValue(val)}, oldSize)
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
		o.hash.created(s, o, field)
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

// Uncache has the cache forget a field that nobody is expected to ask for soon, with the commit if the transaction has changed the hash.
func (h Hash) Uncache(field []byte) error {
	s, o, err := h.home(field)
	if err == nil && o.hash != nil {
		o.hash.uncache(o, field, fieldValue.size)
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
	if len(s.queues) > 0 && o.track != nil && o.track.Departures {
		s.signal(o, field)
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, field)
	s.delete(s.keyBuf)
	o.hash.kill(s, o, field, val.size())
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
				if el.dead {
					continue
				}
				if el.kept = true; !fn([]byte(name), el.val.text) {
					return false, nil
				}
			}
			return true, nil
		}
		return s.eachElement(o, 0, func(field, val []byte) bool {
			if o.count <= cacheWholeLimit {
				if o.hash.find(field) == nil {
					o.hash.keep(field, fieldValue{text: append([]byte(nil), val...)}, 0)
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

package shard

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A string of up to stringBytes is kept whole, in the metadata row of its key. A longer one is kept in chunks: rows of
// chunkBytes each under a collection id, so that what changes or reads a part of it pays for that part only (ADR 0012).
//
// Invariants of a string in chunks:
//
//   - Chunk n holds the bytes from n*size on. Where there is no row, and behind the end of a shorter row, they are zeros:
//     a string that was only written far from its beginning has rows there alone.
//   - No row is longer than a chunk, and none lies behind the string's end. object.count is the number of chunks up to that
//     end, those without a row included.
//   - It never becomes shorter or whole again: a shorter value takes the place of all of it.
//   - What the transaction has changed is in the cache. It reaches the batch with the metadata, once for each chunk however
//     often it was changed, or before if an iterator is to see it.

const (
	// stringBytes is the length up to which a string is kept whole: about there, writing it whole to change one bit
	// begins to cost several times what a chunk does, while SET and GET cost the same either way.
	stringBytes = 16 << 10
	// chunkBits is the logarithm of a new string's chunk size. Its rows say what size they have.
	chunkBits = 12
	// maxChunkBits is the largest that a row may name.
	maxChunkBits = 24
)

// chunkedBody is a string in chunks.
type chunkedBody struct {
	length int64
	bits   uint8            // logarithm of the chunk size
	cached map[int64]*chunk // by number
	dirty  []int64          // chunks that are to be put into the transaction's batch
	bytes  int              // resident size of what is cached
}

// chunk is a chunk as its row has it. Without data there is no row.
type chunk struct {
	data  []byte
	dirty bool
}

func newChunkedBody(bits uint8) *chunkedBody {
	return &chunkedBody{bits: bits, cached: make(map[int64]*chunk)}
}

func (b *chunkedBody) size() int64 { return 1 << b.bits }

// chunks is the number of chunks up to the string's end.
func (b *chunkedBody) chunks() int64 { return (b.length + b.size() - 1) >> b.bits }

// encode appends what the metadata row says of the string.
func (b *chunkedBody) encode(dst []byte, id uint64) []byte {
	dst = binary.AppendUvarint(dst, id)
	dst = binary.AppendUvarint(dst, uint64(b.length))
	return append(dst, b.bits)
}

// decodeChunked reads what the metadata row of a string in chunks says of it.
func (o *object) decodeChunked(rest []byte) error {
	r := varintReader{rest: rest}
	o.id = r.uvarint()
	b := newChunkedBody(0)
	b.length = int64(r.uvarint())
	if r.bad || b.length < 0 || len(r.rest) != 1 || r.rest[0] > maxChunkBits || o.kind != KindString {
		return errCorruptRow
	}
	b.bits = r.rest[0]
	o.chunked, o.count = b, b.chunks()
	return nil
}

// put caches a chunk.
func (b *chunkedBody) put(n int64, c *chunk) {
	b.cached[n] = c
	b.bytes += elementOverhead + cap(c.data)
}

// complete tells whether every chunk is cached.
func (b *chunkedBody) complete(o *object) bool { return int64(len(b.cached)) == o.count }

// shrink drops half of the cached chunks. None is dirty, since only objects that the transaction has not changed are evicted.
func (b *chunkedBody) shrink() {
	keep := len(b.cached) / 2
	all := b.cached
	b.cached, b.bytes = make(map[int64]*chunk, keep), 0
	for n, c := range all {
		if len(b.cached) >= keep {
			break
		}
		b.put(n, c)
	}
}

// String is the string at a key, for those who need a part of it. The handle of a missing key is an empty string.
type String struct {
	s *Shard
	o *object
}

// StringOf returns the string at the key, or ErrWrongType.
func (d DB) StringOf(key []byte) (String, error) {
	p, s, o, err := d.place(key)
	if err != nil {
		return String{}, err
	}
	if p.Partitioned || o.kind != KindString && o.kind != KindNone {
		return String{}, ErrWrongType
	}
	return String{s: s, o: o}, nil
}

// Exists tells whether there is a string at the key.
func (t String) Exists() bool { return t.o.kind == KindString }

// Len is the length in bytes.
func (t String) Len() int64 {
	if t.o.chunked != nil {
		return t.o.chunked.length
	}
	return int64(len(t.o.str))
}

// Part returns the bytes from the first to the last, those of them that the string has. They are valid until the transaction
// changes the key.
func (t String) Part(first, last int64) ([]byte, error) {
	last = min(last, t.Len()-1)
	if first > last {
		return nil, nil
	}
	if t.o.chunked == nil {
		return t.o.str[first : last+1], nil
	}
	part := make([]byte, last-first+1)
	return part, t.Read(part, first)
}

// Read fills dst, which holds zeros, with the bytes from the first on. The string must have as many.
func (t String) Read(dst []byte, first int64) error {
	if len(dst) == 0 {
		return nil
	}
	return t.Pieces(first, first+int64(len(dst))-1, func(at int64, piece []byte) bool {
		copy(dst[at-first:], piece)
		return true
	})
}

// Pieces calls fn for pieces of the string from its first to its last byte, which it must have, until fn returns false. What
// it skips are zeros. The bytes are valid until fn returns; the string may not change meanwhile.
func (t String) Pieces(first, last int64, fn func(at int64, piece []byte) bool) error {
	b := t.o.chunked
	if b == nil {
		fn(first, t.o.str[first:last+1])
		return nil
	}
	return t.s.eachChunk(t.o, first>>b.bits, last>>b.bits, func(n int64, data []byte) bool {
		at := n << b.bits
		from, to := max(first-at, 0), min(last-at+1, int64(len(data)))
		return from >= to || fn(at+from, data[from:to])
	})
}

// Write overwrites the string from a byte on, with zeros before if it is shorter. It creates a key that is missing and keeps
// the deadline.
func (t String) Write(at int64, part []byte) error {
	s, o := t.s, t.o
	s.makeString(o)
	s.modify(o)
	if o.chunked == nil && max(at+int64(len(part)), int64(len(o.str))) > int64(s.store.opts.stringBytes) {
		whole := o.str
		s.beginChunks(o)
		if err := s.writeChunks(o, 0, whole); err != nil {
			return err
		}
	}
	if o.chunked == nil {
		s.tx.spend(-len(o.str))
		o.str = splice(o.str, at, part)
		s.tx.spend(len(o.str))
		return nil
	}
	return s.writeChunks(o, at, part)
}

// makeString makes an absent object an empty string.
func (s *Shard) makeString(o *object) {
	if o.kind != KindNone {
		return
	}
	s.noteNew(o)
	s.modify(o)
	o.kind = KindString
	s.count(o.db.n, 1)
}

// beginChunks makes a string that is empty and whole one in chunks.
func (s *Shard) beginChunks(o *object) {
	s.tx.spend(-len(o.str))
	o.str = nil
	o.id, o.count = s.state.nextID, 0
	o.chunked = newChunkedBody(s.store.opts.chunkBits)
	s.state.nextID++
}

// chunk returns a chunk through the cache. One that is not there may be blank if all its bytes are to be overwritten.
func (s *Shard) chunk(o *object, n int64, blank bool) (*chunk, error) {
	b := o.chunked
	if c, ok := b.cached[n]; ok {
		return c, nil
	}
	c := &chunk{}
	if n < o.count && !blank {
		s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, n)
		data, _, err := s.get(s.keyBuf)
		if err != nil {
			return nil, err
		}
		c.data = data
	}
	b.put(n, c)
	s.cache.charge(o)
	return c, nil
}

// writeChunks overwrites the string from a byte on, which grows as far as needed.
func (s *Shard) writeChunks(o *object, at int64, part []byte) error {
	b := o.chunked
	end := at + int64(len(part))
	for len(part) > 0 {
		n, skip := at>>b.bits, at&(b.size()-1)
		now := part[:min(b.size()-skip, int64(len(part)))]
		part, at = part[len(now):], at+int64(len(now))
		c, err := s.chunk(o, n, skip == 0 && (int64(len(now)) == b.size() || at >= b.length))
		if err != nil {
			return err
		}
		if n >= o.count && isZero(now) {
			continue // a new chunk of zeros needs no row
		}
		before := cap(c.data)
		c.data = splice(c.data, skip, now)
		b.bytes += cap(c.data) - before
		if !c.dirty {
			c.dirty = true
			b.dirty = append(b.dirty, n)
			s.tx.spend(int(b.size()))
		}
	}
	b.length = max(b.length, end)
	o.count = b.chunks()
	return nil
}

// splice overwrites dst from a byte on, in place where it has room, with zeros before if it is shorter.
func splice(dst []byte, at int64, part []byte) []byte {
	if old, end := int64(len(dst)), at+int64(len(part)); end > old {
		dst = slices.Grow(dst, int(end-old))[:end]
		clear(dst[old:max(old, at)])
	}
	copy(dst[at:], part)
	return dst
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// flushChunks puts the chunks that the transaction has changed into its batch.
func (s *Shard) flushChunks(o *object) {
	b := o.chunked
	s.tx.spend(-o.unwritten())
	for _, n := range b.dirty {
		c := b.cached[n]
		c.dirty = false
		s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, n)
		s.set(s.keyBuf, c.data)
	}
	b.dirty = b.dirty[:0]
}

const (
	// chunksOneByOne is the number of chunks up to which they are looked up rather than walked over: opening an iterator
	// costs about as much as looking up a few rows.
	chunksOneByOne = 4
	// cacheWholeBytes is the length up to which a string in chunks that is walked over is put into the cache.
	cacheWholeBytes = 1 << 20
)

// eachChunk calls fn for the chunks with data from the first to the last, until it returns false.
func (s *Shard) eachChunk(o *object, first, last int64, fn func(n int64, data []byte) bool) error {
	b := o.chunked
	if last-first >= chunksOneByOne && !b.complete(o) {
		return s.walkChunks(o, first, last, fn)
	}
	for n := first; n <= last; n++ {
		c, err := s.chunk(o, n, false)
		if err != nil {
			return err
		}
		if len(c.data) > 0 && !fn(n, c.data) {
			return nil
		}
	}
	return nil
}

// walkChunks is eachChunk with an iterator.
func (s *Shard) walkChunks(o *object, first, last int64, fn func(n int64, data []byte) bool) error {
	s.flushChunks(o)
	it, err := s.iterate(s.reader(o), appendIndexKey(nil, o.id, first), appendIndexKey(nil, o.id, last+1))
	if err != nil {
		return err
	}
	b := o.chunked
	keep := b.length <= cacheWholeBytes
	next, stopped := first, false
	cacheGap := func(end int64) { // what no row came for has none
		for ; keep && next < end; next++ {
			if _, ok := b.cached[next]; !ok {
				b.put(next, &chunk{})
			}
		}
	}
	for ok := it.First(); ok && !stopped; ok = it.Next() {
		data, err := it.ValueAndErr()
		if err != nil {
			break
		}
		n := indexOf(it.Key())
		cacheGap(n)
		if _, ok := b.cached[n]; !ok && keep {
			b.put(n, &chunk{data: bytes.Clone(data)})
		}
		next = n + 1
		stopped = !fn(n, data)
	}
	if err := s.finish(it); err != nil {
		return err
	}
	if !stopped {
		cacheGap(last + 1)
	}
	s.cache.charge(o)
	return nil
}

package shard

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// cacheWholeLimit is the number of elements up to which a collection that is read as a whole is put into the
// cache as a whole, and up to which a scan returns it in one piece, as Redis does for its compact encodings.
const cacheWholeLimit = 512

// untilStopped calls fn for every fragment until it says that the walk is over.
func untilStopped(h *handle, fn func(s *Shard, o *object) (goOn bool, err error)) error {
	stop := errors.New("stop")
	err := h.each(func(s *Shard, o *object) error {
		goOn, err := fn(s, o)
		if err == nil && !goOn {
			return stop
		}
		s.cache.charge(o)
		return err
	})
	if err == stop {
		return nil
	}
	return err
}

// eachElement calls fn for the object's element rows whose hash is at least from, in the order of their
// hashes, until it returns false. The slices are valid during the call only.
func (s *Shard) eachElement(o *object, from uint32, fn func(name, val []byte) bool) (goOn bool, err error) {
	start := binary.BigEndian.AppendUint32(appendElementPrefix(nil, rowElement, o.id), from)
	it, err := s.iterate(s.reader(o), start, appendElementPrefix(nil, rowElement, o.id+1))
	if err != nil {
		return false, err
	}
	goOn = true
	for ok := it.First(); ok && goOn; ok = it.Next() {
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		goOn = fn(fieldOf(it.Key()), val)
	}
	return goOn, s.finish(it)
}

// A cursor of the SCAN family is shard<<32 | hash: the place where the next call goes on. It holds for ever:
// an element that is there from the first call of an iteration to its last has one hash and is met once.

func cursorAt(shard int, hash uint32) uint64 { return uint64(shard)<<32 | uint64(hash) }

// CursorShard is the ordinal of the shard that a cursor of Scan goes on with.
func CursorShard(cursor uint64) int { return int(cursor >> 32) }

// bucketWalk counts elements until a scan has enough. A scan may only stop between two hashes, since its
// cursor can't point into the middle of elements that share one.
type bucketWalk struct {
	want int
	last uint32
}

// enough tells whether to stop before the element with the hash.
func (w *bucketWalk) enough(hash uint32) bool {
	if w.want <= 0 && hash != w.last {
		return true
	}
	w.want--
	w.last = hash
	return false
}

// scan visits at least count elements from the cursor on, unless there are fewer, and returns the cursor for
// the next call, 0 at the end. each serves small collections, which are visited in one call.
func (h *handle) scan(cursor uint64, count int, fn func(name, val []byte), each func(func(name, val []byte) bool) error) (uint64, error) {
	n, err := h.Len()
	if err != nil || n == 0 {
		return 0, err
	}
	if n <= cacheWholeLimit {
		return 0, each(func(name, val []byte) bool {
			fn(name, val)
			return true
		})
	}
	first, last := 0, 0
	if h.partitioned {
		first, last = h.db.span()
		first = max(first, CursorShard(cursor))
	}
	hash := uint32(cursor)
	for ordinal := first; ordinal <= last; ordinal++ {
		s, o := h.s, h.o
		if h.partitioned {
			if s, o, err = h.db.at(ordinal, h.key); err != nil {
				return 0, err
			}
		}
		visited, stopped, err := s.scanFragment(o, hash, count, fn)
		if err != nil {
			return 0, err
		}
		if stopped != 0 {
			return cursorAt(ordinal, stopped), nil
		}
		if count -= visited; count <= 0 && ordinal < last {
			return cursorAt(ordinal+1, 0), nil
		}
		hash = 0
	}
	return 0, nil
}

// scanFragment visits count elements from the hash on; stopped is the hash to go on with, 0 at the end.
func (s *Shard) scanFragment(o *object, from uint32, count int, fn func(name, val []byte)) (visited int, stopped uint32, err error) {
	if o.kind == KindNone {
		return 0, 0, nil
	}
	walk := bucketWalk{want: count, last: from}
	_, err = s.eachElement(o, from, func(name, val []byte) bool {
		if hash := s.placeOf(o, name); walk.enough(hash) {
			stopped = hash
			return false
		}
		visited++
		fn(name, val)
		return true
	})
	return visited, stopped, err
}

// Size counts the database's keys, those included that have expired and are not removed yet. The shards know how many they
// have; of a partitioned key that is every fragment. Where groups of keys are partitioned, each of their keys is looked up.
func (d DB) Size() (int64, error) {
	defer d.tx.NarrowTo(d.tx.Widen())
	n, err := d.sum(func(ks keyspace) int64 { return ks.keys })
	if err != nil {
		return 0, err
	}
	surplus := func(key []byte) error {
		found := int64(0)
		err := d.eachShard(func(s *Shard) error {
			o, err := s.lookup(d.tx.nowMs, d.n, key)
			if err == nil && o.kind != KindNone {
				found++
			}
			return err
		})
		n -= max(found-1, 0)
		return err
	}
	for _, key := range d.tx.store.placer.Partitioned(d.n) {
		if err := surplus(key); err != nil {
			return 0, err
		}
	}
	return n, d.eachPartitionedGroup(surplus)
}

// Expires counts the database's keys that have a deadline, of which none is partitioned.
func (d DB) Expires() (int64, error) {
	return d.sum(func(ks keyspace) int64 { return ks.expires })
}

// sum adds up what the shards count.
func (d DB) sum(of func(keyspace) int64) (n int64, err error) {
	err = d.eachShard(func(s *Shard) error {
		n += of(s.state.spaces[d.n])
		return nil
	})
	return n, err
}

// eachShard calls fn for the shards, but for those that a transaction of BeginWithin has not got.
func (d DB) eachShard(fn func(s *Shard) error) error {
	for ordinal := range d.tx.store.shards {
		s, err := d.tx.shard(ordinal)
		if err == ErrBusy {
			continue
		}
		if err == nil {
			err = fn(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachPartitionedGroup calls fn for the keys of groups that are partitioned, whether there is anything at them or not.
func (d DB) eachPartitionedGroup(fn func(key []byte) error) error {
	placer := d.tx.store.placer
	if !placer.PartitionsGroups(d.n) {
		return nil
	}
	groups := make(map[string]struct{})
	err := d.eachShard(func(s *Shard) error {
		return d.Groups(s.ordinal, func(group string) { groups[group] = struct{}{} })
	})
	if err != nil {
		return err
	}
	for group := range groups {
		for _, key := range placer.GroupKeys([]byte(group)) {
			if err := fn(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Scan visits keys from the cursor on until count were visited, and returns the cursor for the next call, 0
// at the end. It touches only the shards that it gets to, CursorShard(cursor) first.
func (d DB) Scan(cursor uint64, count int, fn func(key []byte, kind Kind)) (next uint64, err error) {
	hash := uint32(cursor)
	for ordinal := CursorShard(cursor); ordinal < len(d.tx.store.shards); ordinal++ {
		visited, stopped, err := d.scanKeys(ordinal, hash, count, fn)
		if err != nil {
			return 0, err
		}
		if stopped != 0 {
			return cursorAt(ordinal, stopped), nil
		}
		if count -= visited; count <= 0 && ordinal+1 < len(d.tx.store.shards) {
			return cursorAt(ordinal+1, 0), nil
		}
		hash = 0
	}
	return 0, nil
}

// Keys visits every key. A partitioned key is visited once for each fragment but reported once.
func (d DB) Keys(fn func(key []byte, kind Kind)) error {
	for ordinal := range d.tx.store.shards {
		if _, _, err := d.scanKeys(ordinal, 0, math.MaxInt, fn); err != nil {
			return err
		}
	}
	return nil
}

// scanKeys visits count keys of one shard from the hash on; stopped is the hash to go on with, 0 at the end.
func (d DB) scanKeys(ordinal int, from uint32, count int, fn func(key []byte, kind Kind)) (visited int, stopped uint32, err error) {
	it, s, err := d.openKeys(ordinal, from)
	if err != nil {
		return 0, 0, err
	}
	walk := bucketWalk{want: count, last: from}
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		hash := binary.BigEndian.Uint32(key[5:])
		if walk.enough(hash) {
			stopped = hash
			break
		}
		visited++
		name := key[metaPrefixLen:]
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		kind, expireAt, err := decodeHead(val)
		if err != nil {
			return 0, 0, errors.Join(s.readError(err), s.finish(it))
		}
		if expireAt != 0 && expireAt <= d.tx.nowMs {
			continue
		}
		first, err := d.firstFragment(ordinal, name)
		if err != nil {
			return 0, 0, errors.Join(err, s.finish(it))
		}
		if first {
			fn(name, kind)
		}
	}
	return visited, stopped, s.finish(it)
}

// openKeys opens an iterator over the metadata rows of the database on one shard.
func (d DB) openKeys(ordinal int, from uint32) (*pebble.Iterator, *Shard, error) {
	s, err := d.tx.shard(ordinal)
	if err != nil {
		return nil, nil, err
	}
	var r pebble.Reader = s.db
	if s.touched {
		s.flushMeta()
		r = s.indexed()
	}
	space := s.state.spaces[d.n].id
	start := appendSpacePrefix(nil, space)
	end := upperBound(start)
	it, err := s.iterate(r, binary.BigEndian.AppendUint32(start, from), end)
	return it, s, err
}

// firstFragment tells whether no shard of lower order has a fragment of the key, so that a partitioned key is
// reported once. Other keys have one shard.
func (d DB) firstFragment(ordinal int, key []byte) (bool, error) {
	p, err := d.tx.store.placer.Place(d.n, key)
	if err != nil || !p.Partitioned {
		return true, nil // a key that can't be placed any more is still there
	}
	for n := range ordinal {
		_, o, err := d.at(n, key)
		if err != nil || o.kind != KindNone {
			return false, err
		}
	}
	return true, nil
}

// decodeHead reads the kind and the deadline of a metadata row.
func decodeHead(val []byte) (kind Kind, expireAt int64, err error) {
	if len(val) < 2 || val[1]&metaHasExpiry != 0 && len(val) < 10 {
		return KindNone, 0, errCorruptRow
	}
	if val[1]&metaHasExpiry != 0 {
		expireAt = int64(binary.BigEndian.Uint64(val[2:]))
	}
	return Kind(val[0]), expireAt, nil
}

// randomKeyWindow is the number of neighbours among which RandomKey draws, which evens out the gaps between
// the hashes.
const randomKeyWindow = 16

// RandomKey returns a random key of the database.
func (d DB) RandomKey() (key []byte, ok bool, err error) {
	sizes := make([]int64, len(d.tx.store.shards))
	var total int64
	for n := range sizes {
		s, err := d.tx.shard(n)
		if err != nil {
			return nil, false, err
		}
		sizes[n] = s.state.spaces[d.n].keys
		total += sizes[n]
	}
	if total == 0 {
		return nil, false, nil
	}
	pick := d.tx.store.rand.Int64N(total)
	ordinal := 0
	for ; pick >= sizes[ordinal]; ordinal++ {
		pick -= sizes[ordinal]
	}
	for range len(sizes) {
		if key, err = d.randomKeyAt(ordinal); err != nil || key != nil {
			return key, key != nil, err
		}
		ordinal = (ordinal + 1) % len(sizes)
	}
	return nil, false, nil
}

func (d DB) randomKeyAt(ordinal int) ([]byte, error) {
	var found [][]byte
	from := d.tx.store.rand.Uint32()
	for _, from := range []uint32{from, 0} { // past the last hash it goes on with the first
		_, _, err := d.scanKeys(ordinal, from, randomKeyWindow, func(key []byte, _ Kind) {
			found = append(found, append([]byte{}, key...)) // not nil, even if the key is empty
		})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return found[d.tx.store.rand.IntN(len(found))], nil
		}
	}
	return nil, nil
}

package shard

import (
	"encoding/binary"
	"errors"

	"github.com/gammazero/deque"
)

// Stream is the stream at a key. The handle of a missing key is an empty stream; one that has lost its last entry stays.
// The files of streams:
//
//	stream.go          entries: adding, reading; the body of a stream
//	stream_id.go       ids, fields
//	stream_trim.go     deleting and trimming
//	stream_group.go    consumer groups and consumers
//	stream_pending.go  entries that were delivered and not acknowledged yet
type Stream struct{ handle }

// Stream returns the stream at the key, or ErrWrongType.
func (d DB) Stream(key []byte) (Stream, error) {
	h, err := d.collection(key, KindStream)
	return Stream{h}, err
}

// streamBody is a stream's shape and the part of it that is cached. Ids only grow, so what is new stands at the end, and what
// is old goes from the front:
//
//   - tail holds every entry after the id tailAfter. Writers add to it, and readers that keep up read nothing else.
//   - head holds ids of the first entries, without a gap; a trim takes them from there. It is empty while tail holds all, and
//     gets the ids of what tail drops then, so that a stream whose length is bounded is trimmed without reading.
//   - the groups are loaded when one is asked for: see streamGroup, which reads ahead on its own.
//
// first is the low mark: no iterator begins before it, so that none steps over the tombstones of what was trimmed.
type streamBody struct {
	first, last StreamID // of the entries that exist, zero when there are none; the last id ever given
	maxDeleted  StreamID // the greatest id that Delete has removed
	added       int64    // entries ever added
	groupCount  int

	tail      streamWindow
	tailAfter StreamID
	head      deque.Deque[StreamID]
	// gone are the entries before tailAfter that the transaction has deleted, for the store still has them.
	gone map[StreamID]struct{}

	groups     map[string]*streamGroup // nil: not loaded
	touched    []*streamGroup          // changed by the transaction
	groupBytes int                     // estimate of the groups' resident bytes
	// row is the value of the metadata row as it stands, nil if the stream has none at its key. A group that hands out entries
	// changes the stream and not that row.
	row []byte
	// news tells that since the object was last clean something came that a waiter may be waiting for: see noteReady.
	news bool
}

type streamEntry struct {
	id     StreamID
	fields []byte
}

// streamWindow is a run of entries without a gap, in order.
type streamWindow struct {
	deque.Deque[streamEntry]
	bytes int
}

const (
	streamEntryOverhead = 72
	streamWindowBytes   = 64 << 10 // a tail that grew beyond this is cut to half of it after the commit
	streamWindowItems   = 128      // entries that a window is filled with
	streamHeadItems     = 256      // ids that head is filled with
	maxStreamHead       = 4 << 10  // ids that head takes from tail
)

func (w *streamWindow) push(e streamEntry) {
	w.bytes += len(e.fields) + streamEntryOverhead
	w.PushBack(e)
}

func (w *streamWindow) popFront() streamEntry {
	e := w.PopFront()
	w.bytes -= len(e.fields) + streamEntryOverhead
	return e
}

// search returns the place of the first entry whose id is not before id.
func (w *streamWindow) search(id StreamID) int {
	low, high := 0, w.Len()
	for low < high {
		if mid := (low + high) / 2; w.At(mid).id.Less(id) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// remove takes the entry out and tells whether it was there.
func (w *streamWindow) remove(id StreamID) bool {
	i := w.search(id)
	if i == w.Len() || w.At(i).id != id {
		return false
	}
	w.bytes -= len(w.Remove(i).fields) + streamEntryOverhead
	return true
}

// dropBelow takes the entries before id out.
func (w *streamWindow) dropBelow(id StreamID) {
	for w.Len() > 0 && w.Front().id.Less(id) {
		w.popFront()
	}
}

func (w *streamWindow) reset() { *w = streamWindow{} }

func (b *streamBody) footprint() int {
	return b.tail.bytes + b.head.Len()*streamIDLen + b.groupBytes + cap(b.row)
}

// whole tells whether tail holds all entries.
func (b *streamBody) whole() bool { return b.tailAfter.IsZero() }

// covers tells whether tail holds every entry from id on.
func (b *streamBody) covers(id StreamID) bool { return b.whole() || b.tailAfter.Less(id) }

// cutTail shortens tail to so many bytes. The ids go to head if that ends where tail begins.
func (b *streamBody) cutTail(o *object, bytes int) {
	joined := int64(b.head.Len()+b.tail.Len()) == o.count
	for b.tail.bytes > bytes {
		b.tailAfter = b.tail.popFront().id
		if joined = joined && b.head.Len() < maxStreamHead; joined {
			b.head.PushBack(b.tailAfter)
		}
	}
}

func (b *streamBody) settle(o *object) {
	if b.tail.bytes > streamWindowBytes {
		b.cutTail(o, streamWindowBytes/2)
	}
	b.gone = nil
	for _, g := range b.touched {
		g.settle(b)
	}
	clear(b.touched)
	b.touched = b.touched[:0]
}

// shrink forgets all that can be read again.
func (b *streamBody) shrink(o *object) {
	b.cutTail(o, 0)
	b.head = deque.Deque[StreamID]{}
	b.groups, b.groupBytes = nil, 0
}

// empty notes that no entries are left.
func (b *streamBody) empty() {
	b.first, b.tailAfter = StreamID{}, StreamID{}
	b.tail.reset()
	b.head.Clear()
	for _, g := range b.groups {
		b.forgetAhead(g)
	}
}

// encode appends what a stream's metadata row has besides: first, last and greatest deleted id, entries added, number of
// groups.
func (b *streamBody) encode(dst []byte) []byte {
	dst = appendVarID(dst, b.first)
	dst = appendVarID(dst, b.last)
	dst = appendVarID(dst, b.maxDeleted)
	dst = binary.AppendUvarint(dst, uint64(b.added))
	return binary.AppendUvarint(dst, uint64(b.groupCount))
}

func decodeStream(r *varintReader, count int64) *streamBody {
	b := &streamBody{first: r.streamID(), last: r.streamID(), maxDeleted: r.streamID()}
	b.added, b.groupCount = int64(r.uvarint()), int(r.uvarint())
	if count > 0 {
		b.tailAfter = b.last
	}
	return b
}

func appendEntryKey(dst []byte, id uint64, entry StreamID) []byte {
	return appendStreamID(appendElementPrefix(dst, rowElement, id), entry)
}

// changeStream marks the stream as changed; quietly when that is nothing to those who watch the key, which in Redis is so for all
// that concerns groups.
func (s *Shard) changeStream(o *object, quietly bool) {
	if !o.dirty {
		o.stream.news = false
		s.modify(o)
		o.quiet = quietly
		return
	}
	o.quiet = o.quiet && quietly
}

// StreamInfo is what a stream knows of itself without reading.
type StreamInfo struct {
	Length       int64
	First, Last  StreamID // of the entries that exist, zero when there are none; the last id ever given
	MaxDeleted   StreamID
	EntriesAdded int64
	Groups       int
}

// Exists tells whether there is a stream, which may be empty.
func (st Stream) Exists() bool { return st.o.kind != KindNone }

// Info returns the stream's counts and marks.
func (st Stream) Info() StreamInfo {
	if !st.Exists() {
		return StreamInfo{}
	}
	b := st.o.stream
	return StreamInfo{Length: st.o.count, First: b.first, Last: b.last, MaxDeleted: b.maxDeleted, EntriesAdded: b.added,
		Groups: b.groupCount}
}

// Last is the last id that was ever given, zero if there was none.
func (st Stream) Last() StreamID {
	if !st.Exists() {
		return StreamID{}
	}
	return st.o.stream.last
}

// Create makes an empty stream unless there is one.
func (st Stream) Create() error {
	_, _, err := st.writable(nil)
	return err
}

// Add appends an entry. Its id must be greater than the last one.
func (st Stream) Add(id StreamID, fields [][]byte) error {
	s, o, err := st.writable(nil)
	if err != nil {
		return err
	}
	s.changeStream(o, false)
	s.valBuf = appendFields(s.valBuf[:0], fields)
	s.append(o, streamEntry{id, append(make([]byte, 0, len(s.valBuf)), s.valBuf...)})
	return nil
}

// append adds an entry behind the others.
func (s *Shard) append(o *object, e streamEntry) {
	b := o.stream
	s.keyBuf = appendEntryKey(s.keyBuf[:0], o.id, e.id)
	s.set(s.keyBuf, e.fields)
	b.tail.push(e)
	if o.count++; o.count == 1 {
		b.first = e.id
	}
	b.last, b.news = e.id, true
	b.added++
}

// SetLast makes id the last one that was given. It must not be before an entry that exists; ids that were trimmed or deleted
// can be given again after it.
func (st Stream) SetLast(id StreamID) {
	b := st.o.stream
	st.s.changeStream(st.o, true)
	b.last = id
	b.tailAfter = earlierID(b.tailAfter, id)
	for _, g := range b.groups {
		b.forgetAhead(g)
	}
}

// SetEntriesAdded changes the count of entries that were ever added.
func (st Stream) SetEntriesAdded(n int64) {
	st.s.changeStream(st.o, true)
	st.o.stream.added = n
}

// SetMaxDeleted changes the greatest id that was ever deleted.
func (st Stream) SetMaxDeleted(id StreamID) {
	st.s.changeStream(st.o, true)
	st.o.stream.maxDeleted = id
}

// Range calls fn for the entries from … to, both included, until it returns false; with rev from the last to the first.
// The stream may not change meanwhile.
func (st Stream) Range(from, to StreamID, rev bool, fn func(id StreamID, fields Fields) bool) error {
	o := st.o
	if !st.Exists() || o.count == 0 {
		return nil
	}
	if from = laterID(from, o.stream.first); to.Less(from) {
		return nil
	}
	call := func(e streamEntry) bool { return fn(e.id, fieldsOf(e.fields)) }
	if rev {
		return st.s.descendEntries(o, from, to, call)
	}
	return st.s.ascendEntries(o, from, to, call)
}

// ascendEntries calls fn for the entries from … to in order until it returns false: from rows up to tail, then from tail.
func (s *Shard) ascendEntries(o *object, from, to StreamID, fn func(streamEntry) bool) error {
	b := o.stream
	if !b.covers(from) {
		goOn, err := s.entryRows(o, from, earlierID(to, b.tailAfter), false, fn)
		if err != nil || !goOn {
			return err
		}
	}
	for i := b.tail.search(from); i < b.tail.Len(); i++ {
		if e := b.tail.At(i); to.Less(e.id) || !fn(e) {
			break
		}
	}
	return nil
}

// descendEntries is ascendEntries from the other end.
func (s *Shard) descendEntries(o *object, from, to StreamID, fn func(streamEntry) bool) error {
	b := o.stream
	for i := b.tail.Len() - 1; i >= 0; i-- {
		e := b.tail.At(i)
		if to.Less(e.id) {
			continue
		}
		if e.id.Less(from) || !fn(e) {
			return nil
		}
	}
	if b.covers(from) {
		return nil
	}
	_, err := s.entryRows(o, from, earlierID(to, b.tailAfter), true, fn)
	return err
}

// entryRows calls fn for the rows of the entries from … to until it returns false; from is not before the first entry, and to
// not after tailAfter. What fn is given is valid during the call. What the transaction has added is in tail, and what it has
// deleted is before the first entry or in gone, so the store needs no help from the batch.
func (s *Shard) entryRows(o *object, from, to StreamID, rev bool, fn func(streamEntry) bool) (goOn bool, err error) {
	if to.Less(from) {
		return true, nil
	}
	b := o.stream
	it, err := s.iterate(s.db, appendEntryKey(nil, o.id, from), append(appendEntryKey(nil, o.id, to), 0))
	if err != nil {
		return false, err
	}
	begin, next := it.First, it.Next
	if rev {
		begin, next = it.Last, it.Prev
	}
	goOn = true
	for ok := begin(); ok && goOn; ok = next() {
		id := streamIDOf(it.Key())
		if _, gone := b.gone[id]; !gone {
			raw, err := it.ValueAndErr()
			if err != nil {
				break
			}
			goOn = fn(streamEntry{id, raw})
		}
	}
	return goOn, s.finish(it)
}

// Get returns the entry's fields.
func (st Stream) Get(id StreamID) (fields Fields, ok bool, err error) {
	if !st.Exists() {
		return Fields{}, false, nil
	}
	raw, ok, err := st.s.entry(st.o, id)
	if err != nil || !ok {
		return Fields{}, false, err
	}
	return fieldsOf(raw), true, nil
}

// entry reads one entry.
func (s *Shard) entry(o *object, id StreamID) (fields []byte, ok bool, err error) {
	b := o.stream
	if b.covers(id) {
		i := b.tail.search(id)
		if i == b.tail.Len() || b.tail.At(i).id != id {
			return nil, false, nil
		}
		return b.tail.At(i).fields, true, nil
	}
	if !b.mayBeStored(id) {
		return nil, false, nil
	}
	s.keyBuf = appendEntryKey(s.keyBuf[:0], o.id, id)
	return s.get(s.keyBuf)
}

// mayBeStored tells whether an entry that tail does not cover may exist, as far as that is known without reading.
func (b *streamBody) mayBeStored(id StreamID) bool {
	_, gone := b.gone[id]
	return !gone && !id.Less(b.first)
}

// Has tells whether the entry exists.
func (st Stream) Has(id StreamID) (bool, error) {
	if !st.Exists() {
		return false, nil
	}
	return st.s.hasEntry(st.o, id)
}

func (s *Shard) hasEntry(o *object, id StreamID) (bool, error) {
	b := o.stream
	if b.covers(id) {
		i := b.tail.search(id)
		return i < b.tail.Len() && b.tail.At(i).id == id, nil
	}
	if !b.mayBeStored(id) {
		return false, nil
	}
	if b.head.Len() > 0 && !b.head.Back().Less(id) {
		_, ok := b.searchHead(id)
		return ok, nil
	}
	s.keyBuf = appendEntryKey(s.keyBuf[:0], o.id, id)
	_, ok, err := s.get(s.keyBuf)
	return ok, err
}

// LastEntry returns the id of the last entry that exists, which may be less than the last id that was given.
func (st Stream) LastEntry() (id StreamID, ok bool, err error) {
	if !st.Exists() || st.o.count == 0 {
		return StreamID{}, false, nil
	}
	b := st.o.stream
	if b.tail.Len() == 0 {
		if err := st.s.fillTail(st.o); err != nil {
			return StreamID{}, false, err
		}
	}
	return b.tail.Back().id, true, nil
}

// fillTail puts the last entries into the tail of a stream that has entries, but none in there.
func (s *Shard) fillTail(o *object) error {
	b := o.stream
	full := false
	_, err := s.entryRows(o, b.first, b.tailAfter, true, func(e streamEntry) bool {
		e.fields = append(make([]byte, 0, len(e.fields)), e.fields...)
		b.tail.bytes += len(e.fields) + streamEntryOverhead
		b.tail.PushFront(e)
		full = b.tail.Len() >= streamWindowItems || b.tail.bytes >= streamWindowBytes/2
		return !full
	})
	if err != nil || b.tail.Len() == 0 {
		b.tail.reset()
		return errors.Join(err, s.readError(errCorruptRow))
	}
	b.tailAfter = StreamID{}
	if full && int64(b.tail.Len()) < o.count {
		b.tailAfter, _ = b.tail.Front().id.Previous()
	}
	for b.head.Len() > 0 && b.covers(b.head.Back()) {
		b.head.PopBack()
	}
	s.cache.charge(o)
	return nil
}

package shard

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/tidwall/btree"
)

// nack is an entry that was delivered to a consumer and not acknowledged. It has a row by its id, which holds all, and one
// by its consumer and id, which holds nothing.
type nack struct {
	id          StreamID
	consumer    *streamConsumer
	deliveredMs int64
	deliveries  int64
}

func newNackTree() *btree.BTreeG[nack] {
	return btree.NewBTreeGOptions(func(a, b nack) bool { return a.id.Less(b.id) }, btree.Options{NoLocks: true})
}

const (
	nackBytes = 96      // resident bytes of a cached nack, about
	maxNacks  = 4 << 10 // nacks of a group that stay cached after a commit; then the older half goes
	fewNacks  = 512     // pending entries up to which all are loaded when some are asked for
)

func appendNackKey(dst []byte, group uint64, id StreamID) []byte {
	return appendStreamID(appendElementPrefix(dst, rowElement, group), id)
}

// appendOwnedKey appends the key of a consumer's row for a nack. It stands where a sorted set has its scores.
func appendOwnedKey(dst []byte, group uint64, consumer uint32, id StreamID) []byte {
	dst = appendElementPrefix(dst, rowScore, group)
	return appendStreamID(binary.BigEndian.AppendUint32(dst, consumer), id)
}

// encode appends the nack row's value: consumer's number, time of the delivery in ms, deliveries, as uvarints.
func (n *nack) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(n.consumer.number))
	dst = binary.AppendVarint(dst, n.deliveredMs)
	return binary.AppendVarint(dst, n.deliveries)
}

func (g *streamGroup) decodeNack(id StreamID, val []byte) (nack, error) {
	r := varintReader{rest: val}
	n := nack{id: id, consumer: g.byNumber[uint32(r.uvarint())], deliveredMs: r.varint(), deliveries: r.varint()}
	if r.bad || n.consumer == nil {
		return nack{}, errCorruptRow
	}
	return n, nil
}

// complete tells whether every nack is cached.
func (g *streamGroup) complete() bool { return int64(g.nacks.Len()) == g.pending }

// lowMark is not after any pending entry.
func (g *streamGroup) lowMark() StreamID {
	if g.complete() {
		if first, ok := g.nacks.Min(); ok {
			return first.id
		}
		return LastStreamID()
	}
	return g.mark
}

// settle bounds what is cached of the group after a commit.
func (g *streamGroup) settle(b *streamBody) {
	g.touched, g.acked = false, nil
	if g.gone || g.nacks.Len() <= maxNacks {
		return
	}
	g.mark = g.lowMark()
	for g.nacks.Len() > maxNacks/2 {
		g.nacks.PopMin()
		b.groupBytes -= nackBytes
	}
}

// forgetGroup takes a group that goes out of the sum of bytes.
func (b *streamBody) forgetGroup(g *streamGroup) {
	b.forgetAhead(g)
	b.groupBytes -= streamGroupOverhead + len(g.name) + g.nacks.Len()*nackBytes
	for name := range g.byName {
		b.groupBytes -= streamConsumerOverhead + len(name)
	}
}

func (b *streamBody) forgetAhead(g *streamGroup) {
	b.groupBytes -= g.ahead.bytes
	g.ahead.reset()
	g.aheadTo = StreamID{}
}

// lookupNack finds a nack; the group's consumers are loaded for it.
func (s *Shard) lookupNack(o *object, g *streamGroup, id StreamID) (n nack, ok bool, err error) {
	if g.top.Less(id) { // as each new entry is
		return nack{}, false, nil
	}
	if n, ok = g.nacks.Get(nack{id: id}); ok || g.complete() || id.Less(g.mark) {
		return n, ok, nil
	}
	if _, acked := g.acked[id]; acked {
		return nack{}, false, nil
	}
	if err := s.loadConsumers(o, g); err != nil {
		return nack{}, false, err
	}
	s.keyBuf = appendNackKey(s.keyBuf[:0], g.id, id)
	val, ok, err := s.get(s.keyBuf)
	if err != nil || !ok {
		return nack{}, false, err
	}
	if n, err = g.decodeNack(id, val); err != nil {
		return nack{}, false, s.readError(err)
	}
	g.keepNack(o, n)
	s.cache.charge(o)
	return n, true, nil
}

// keepNack puts a nack into the cache.
func (g *streamGroup) keepNack(o *object, n nack) {
	if _, had := g.nacks.Set(n); !had {
		o.stream.groupBytes += nackBytes
	}
}

// putNack writes a nack, in the place of old if there is one.
func (s *Shard) putNack(o *object, g *streamGroup, n nack, old nack, exists bool) {
	s.touchGroup(o, g)
	if exists && old.consumer != n.consumer {
		s.disown(g, old.consumer, n.id)
	}
	if !exists || old.consumer != n.consumer {
		n.consumer.pending++
		g.changeConsumer(n.consumer)
		s.keyBuf = appendOwnedKey(s.keyBuf[:0], g.id, n.consumer.number, n.id)
		s.insert(s.keyBuf, nil)
	}
	if !exists {
		g.mark, g.top = earlierID(g.lowMark(), n.id), laterID(g.top, n.id)
		g.pending++
	}
	s.keyBuf = appendNackKey(s.keyBuf[:0], g.id, n.id)
	s.valBuf = n.encode(s.valBuf[:0])
	s.put(s.keyBuf, s.valBuf, !exists)
	g.keepNack(o, n)
}

// disown takes an entry from its consumer.
func (s *Shard) disown(g *streamGroup, c *streamConsumer, id StreamID) {
	c.pending--
	g.changeConsumer(c)
	s.keyBuf = appendOwnedKey(s.keyBuf[:0], g.id, c.number, id)
	s.delete(s.keyBuf)
}

// forgetNack removes a nack, which exists.
func (s *Shard) forgetNack(o *object, g *streamGroup, c *streamConsumer, id StreamID) {
	s.touchGroup(o, g)
	s.disown(g, c, id)
	s.keyBuf = appendNackKey(s.keyBuf[:0], g.id, id)
	s.delete(s.keyBuf)
	if !g.complete() {
		if g.acked == nil {
			g.acked = make(map[StreamID]struct{})
		}
		g.acked[id] = struct{}{}
	}
	if _, had := g.nacks.Delete(nack{id: id}); had {
		o.stream.groupBytes -= nackBytes
	}
	g.pending--
}

// Pending is an entry that was delivered and not acknowledged.
type Pending struct {
	ID          StreamID
	Consumer    string
	DeliveredMs int64 // when it was last delivered
	Deliveries  int64 // how often
}

func (n *nack) public() Pending { return Pending{n.id, n.consumer.name, n.deliveredMs, n.deliveries} }

// PendingEntry returns what is known of the delivery of an entry; not ok if it is not pending.
func (g Group) PendingEntry(id StreamID) (p Pending, ok bool, err error) {
	n, ok, err := g.s.lookupNack(g.o, g.g, id)
	if err != nil || !ok {
		return Pending{}, false, err
	}
	return n.public(), true, nil
}

// SetPending makes the entry pending for the consumer, whoever had it before.
func (g Group) SetPending(c Consumer, id StreamID, deliveredMs, deliveries int64) error {
	old, exists, err := g.s.lookupNack(g.o, g.g, id)
	if err == nil {
		g.s.putNack(g.o, g.g, nack{id, c.c, deliveredMs, deliveries}, old, exists)
	}
	return err
}

// Ack makes the entry no longer pending, and tells whether it was.
func (g Group) Ack(id StreamID) (bool, error) {
	n, ok, err := g.s.lookupNack(g.o, g.g, id)
	if err != nil || !ok {
		return false, err
	}
	g.s.forgetNack(g.o, g.g, n.consumer, id)
	return true, nil
}

// EachPending calls fn for the entries from … to that are pending, for the consumer unless it is nil, in order, until it
// returns false. The group may not change meanwhile.
func (g Group) EachPending(c *Consumer, from, to StreamID, fn func(Pending) bool) error {
	if g.g.pending == 0 || c != nil && c.c.pending == 0 {
		return nil
	}
	if err := g.loadFew(); err != nil {
		return err
	}
	switch {
	case g.g.complete():
		g.g.nacks.Ascend(nack{id: from}, func(n nack) bool {
			if to.Less(n.id) {
				return false
			}
			return c != nil && n.consumer != c.c || fn(n.public())
		})
		return nil
	case c != nil:
		return g.eachOwned(c.c, from, to, fn)
	}
	return g.eachRow(from, to, fn)
}

// loadFew makes the group's consumers known, and its pending entries if they are few. These may stand among the tombstones of
// any number that were acknowledged, which nobody needs to step over twice then.
func (g Group) loadFew() error {
	if err := g.s.loadConsumers(g.o, g.g); err != nil || g.g.complete() || g.g.pending > fewNacks {
		return err
	}
	return g.eachRow(StreamID{}, LastStreamID(), func(Pending) bool { return true })
}

// eachRow walks over the rows of the nacks. It looks at no more than there are, so not at what is behind the last.
func (g Group) eachRow(from, to StreamID, fn func(Pending) bool) error {
	s, left := g.s, g.g.pending
	mark := g.g.lowMark()
	it, err := s.iterate(s.reader(g.o), appendNackKey(nil, g.g.id, laterID(from, mark)), append(appendNackKey(nil, g.g.id, to), 0))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		n, err := g.g.decodeNack(streamIDOf(it.Key()), val)
		if err != nil {
			return errors.Join(s.readError(err), s.finish(it))
		}
		if left == g.g.pending && !mark.Less(from) {
			g.g.mark = n.id // nothing is pending before the first
		}
		if g.g.pending <= fewNacks {
			g.g.keepNack(g.o, n)
		}
		if left--; !fn(n.public()) || left == 0 {
			break
		}
	}
	s.cache.charge(g.o)
	return s.finish(it)
}

// eachOwned walks over a consumer's rows.
func (g Group) eachOwned(c *streamConsumer, from, to StreamID, fn func(Pending) bool) error {
	s, left := g.s, c.pending
	start := laterID(from, g.g.lowMark())
	end := append(appendOwnedKey(nil, g.g.id, c.number, to), 0)
	it, err := s.iterate(s.reader(g.o), appendOwnedKey(nil, g.g.id, c.number, start), end)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		n, found, err := s.lookupNack(g.o, g.g, streamIDOf(it.Key()))
		if err == nil && !found {
			err = s.readError(errCorruptRow)
		}
		if err != nil {
			return errors.Join(err, s.finish(it))
		}
		if left--; !fn(n.public()) || left == 0 {
			break
		}
	}
	return s.finish(it)
}

// PendingBounds returns the least and the greatest id that is pending; zero when none is.
func (g Group) PendingBounds() (first, last StreamID, err error) {
	if g.g.pending == 0 {
		return first, last, nil
	}
	if err := g.loadFew(); err != nil {
		return first, last, err
	}
	if g.g.complete() {
		low, _ := g.g.nacks.Min()
		high, _ := g.g.nacks.Max()
		return low.id, high.id, nil
	}
	s := g.s
	it, err := s.iterate(s.reader(g.o), appendNackKey(nil, g.g.id, g.g.lowMark()), appendElementPrefix(nil, rowElement, g.g.id+1))
	if err != nil {
		return first, last, err
	}
	if it.First() {
		first = streamIDOf(it.Key())
	}
	if it.Last() {
		last = streamIDOf(it.Key())
	}
	return first, last, s.finish(it)
}

// HasNew tells whether there are entries that were not handed to any consumer of the group.
func (g Group) HasNew() (bool, error) {
	b := g.o.stream
	from, ok := g.g.last.Next()
	if !ok || g.o.count == 0 || b.last.Less(from) {
		return false, nil
	}
	if err := g.s.fillAhead(g.o, g.g); err != nil {
		return false, err
	}
	return g.g.ahead.Len() > 0 || b.tail.Len() > 0 && g.g.last.Less(b.tail.Back().id), nil
}

// fillAhead reads entries behind the group's last one, unless some are there or tail has them.
func (s *Shard) fillAhead(o *object, g *streamGroup) error {
	b := o.stream
	from, ok := laterID(g.last, g.aheadTo).Next()
	if !ok || g.ahead.Len() > 0 || b.covers(from) {
		return nil
	}
	g.aheadTo = b.tailAfter
	_, err := s.entryRows(o, laterID(from, b.first), b.tailAfter, false, func(e streamEntry) bool {
		e.fields = append(make([]byte, 0, len(e.fields)), e.fields...)
		g.ahead.push(e)
		if g.ahead.Len() < streamWindowItems && g.ahead.bytes < streamWindowBytes/2 {
			return true
		}
		g.aheadTo = e.id
		return false
	})
	if err != nil {
		g.ahead.reset()
		g.aheadTo = StreamID{}
		return err
	}
	b.groupBytes += g.ahead.bytes
	s.cache.charge(o)
	return nil
}

// Deliver hands the group's next entries to the consumer, up to count, or all for 0, and calls fn for each. Unless noAck is
// set, they are pending from now on.
func (g Group) Deliver(c Consumer, count int64, noAck bool, nowMs int64, fn func(id StreamID, fields Fields)) error {
	b := g.o.stream
	if count <= 0 {
		count = math.MaxInt64
	}
	g.s.touchGroup(g.o, g.g)
	for count > 0 {
		if err := g.s.fillAhead(g.o, g.g); err != nil {
			return err
		}
		var e streamEntry
		if g.g.ahead.Len() > 0 {
			before := g.g.ahead.bytes
			e = g.g.ahead.popFront()
			b.groupBytes += g.g.ahead.bytes - before
		} else {
			i := b.tail.search(g.g.last)
			if i < b.tail.Len() && b.tail.At(i).id == g.g.last {
				i++
			}
			if i == b.tail.Len() {
				return nil
			}
			e = b.tail.At(i)
		}
		if err := g.deliver(c, e.id, noAck, nowMs); err != nil {
			return err
		}
		fn(e.id, fieldsOf(e.fields))
		count--
	}
	return nil
}

// deliver moves the group on to the entry.
func (g Group) deliver(c Consumer, id StreamID, noAck bool, nowMs int64) error {
	b := g.o.stream
	switch {
	case g.g.entriesRead != entriesReadUnknown && !b.deletedFrom(g.o, id):
		g.g.entriesRead++
	case b.added > 0:
		g.g.entriesRead = b.addedUpTo(g.o, id)
	}
	g.g.last = id
	if noAck {
		return nil
	}
	// Only a group that was set back can have the entry pending.
	return g.SetPending(c, id, nowMs, 1)
}

package shard

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/tidwall/btree"
)

// streamGroup is a consumer group. It is a collection of its own, with an id of its own, so that the entries which are
// pending in it are found by their id and by their consumer without a look at those of others, and so that destroying it is
// as cheap as deleting a key. Its own row stands under the stream's id and its name.
//
// Groups and consumers are written at the commit, once, however often a transaction changes them. A stream's groups are
// loaded all together, and a group's consumers as well: what is loaded is all there is.
type streamGroup struct {
	name         string
	id           uint64 // collection id
	last         StreamID
	entriesRead  int64 // -1: not known
	pending      int64
	consumers    int    // how many there are
	nextConsumer uint32 // number of the next one
	// top is not before, and mark not after, the id of any entry that is pending. What is new is above top, so it is not
	// looked for; iterators begin at mark, so they do not step over the tombstones of what was acknowledged.
	top, mark StreamID

	byName   map[string]*streamConsumer // nil: not loaded
	byNumber map[uint32]*streamConsumer

	// nacks caches pending entries; when there are as many as pending, it has all of them. acked are entries which
	// nacks did not have all around and that the transaction has acknowledged, for the store still has them.
	nacks *btree.BTreeG[nack]
	acked map[StreamID]struct{}

	// ahead are the entries behind last, up to and including aheadTo, as far as they were read before the stream's tail.
	ahead   streamWindow
	aheadTo StreamID

	touched, dirty, gone bool
	changed              []*streamConsumer
}

// streamConsumer is a consumer of a group, named by its number in rows.
type streamConsumer struct {
	name        string
	number      uint32
	pending     int64
	seenMs      int64
	dirty, gone bool
}

const (
	streamGroupOverhead    = 512
	streamConsumerOverhead = 192
	// entriesReadUnknown is what a group's count of entries read is when it can't be told.
	entriesReadUnknown = -1
)

func appendGroupKey(dst []byte, id uint64, name string) []byte {
	return append(appendElementPrefix(dst, rowGroup, id), name...)
}

func appendConsumerKey(dst []byte, group uint64, name string) []byte {
	return append(appendElementPrefix(dst, rowConsumer, group), name...)
}

// encode appends the group row's value: collection id · last id · entries read as a varint · pending, consumers, number of
// the next consumer as uvarints · top · mark.
func (g *streamGroup) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, g.id)
	dst = appendVarID(dst, g.last)
	dst = binary.AppendVarint(dst, g.entriesRead)
	dst = binary.AppendUvarint(dst, uint64(g.pending))
	dst = binary.AppendUvarint(dst, uint64(g.consumers))
	dst = binary.AppendUvarint(dst, uint64(g.nextConsumer))
	dst = appendVarID(dst, g.top)
	return appendVarID(dst, g.lowMark())
}

func decodeGroup(name string, val []byte) (*streamGroup, error) {
	r := varintReader{rest: val}
	g := &streamGroup{name: name, id: r.uvarint(), last: r.streamID(), entriesRead: r.varint(), pending: int64(r.uvarint()),
		consumers: int(r.uvarint()), nextConsumer: uint32(r.uvarint()), top: r.streamID(), mark: r.streamID(), nacks: newNackTree()}
	if r.bad {
		return nil, errCorruptRow
	}
	return g, nil
}

// encode appends the consumer row's value: number, pending, time of the last use in ms, as uvarints.
func (c *streamConsumer) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(c.number))
	dst = binary.AppendUvarint(dst, uint64(c.pending))
	return binary.AppendUvarint(dst, uint64(c.seenMs))
}

// loadGroups makes the stream's groups known.
func (s *Shard) loadGroups(o *object) error {
	b := o.stream
	if b.groups != nil {
		return nil
	}
	groups, size := make(map[string]*streamGroup, b.groupCount), 0
	if b.groupCount > 0 {
		// What the transaction has changed is loaded, so the rows in the store are all there is.
		it, err := s.iterate(s.db, appendGroupKey(nil, o.id, ""), appendGroupKey(nil, o.id+1, ""))
		if err != nil {
			return err
		}
		for ok := it.First(); ok && err == nil; ok = it.Next() {
			name := string(it.Key()[elementPrefixLen:])
			val, unread := it.ValueAndErr()
			if unread != nil {
				break
			}
			if groups[name], err = decodeGroup(name, val); err != nil {
				err = s.readError(err)
			}
			size += streamGroupOverhead + len(name)
		}
		if err = errors.Join(err, s.finish(it)); err != nil {
			return err
		}
	}
	b.groups, b.groupBytes = groups, size
	s.cache.charge(o)
	return nil
}

// loadConsumers makes the group's consumers known.
func (s *Shard) loadConsumers(o *object, g *streamGroup) error {
	if g.byName != nil {
		return nil
	}
	byName, byNumber := make(map[string]*streamConsumer, g.consumers), make(map[uint32]*streamConsumer, g.consumers)
	if g.consumers > 0 {
		it, err := s.iterate(s.db, appendConsumerKey(nil, g.id, ""), appendConsumerKey(nil, g.id+1, ""))
		if err != nil {
			return err
		}
		for ok := it.First(); ok && err == nil; ok = it.Next() {
			val, unread := it.ValueAndErr()
			if unread != nil {
				break
			}
			r := varintReader{rest: val}
			c := &streamConsumer{name: string(it.Key()[elementPrefixLen:]), number: uint32(r.uvarint()), pending: int64(r.uvarint()),
				seenMs: int64(r.uvarint())}
			if r.bad {
				err = s.readError(errCorruptRow)
			}
			byName[c.name], byNumber[c.number] = c, c
		}
		if err = errors.Join(err, s.finish(it)); err != nil {
			return err
		}
	}
	g.byName, g.byNumber = byName, byNumber
	for name := range byName {
		o.stream.groupBytes += streamConsumerOverhead + len(name)
	}
	s.cache.charge(o)
	return nil
}

// touchGroup notes that the transaction changes the group.
func (s *Shard) touchGroup(o *object, g *streamGroup) {
	s.changeStream(o, true)
	g.dirty = true
	if !g.touched {
		g.touched = true
		o.stream.touched = append(o.stream.touched, g)
	}
}

func (g *streamGroup) changeConsumer(c *streamConsumer) {
	if !c.dirty {
		c.dirty = true
		g.changed = append(g.changed, c)
	}
}

// flushGroups writes the rows of the groups and consumers that the transaction has changed.
func (s *Shard) flushGroups(o *object) {
	for _, g := range o.stream.touched {
		if g.gone || !g.dirty {
			continue
		}
		for _, c := range g.changed {
			if c.dirty = false; !c.gone {
				s.keyBuf = appendConsumerKey(s.keyBuf[:0], g.id, c.name)
				s.valBuf = c.encode(s.valBuf[:0])
				s.set(s.keyBuf, s.valBuf)
			}
		}
		clear(g.changed)
		g.changed, g.dirty = g.changed[:0], false
		s.keyBuf = appendGroupKey(s.keyBuf[:0], o.id, g.name)
		s.valBuf = g.encode(s.valBuf[:0])
		s.set(s.keyBuf, s.valBuf)
	}
}

// Group is a consumer group of a stream. A handle is valid until the group or the stream goes.
type Group struct {
	s *Shard
	o *object
	g *streamGroup
}

// Group returns the group of the name.
func (st Stream) Group(name []byte) (g Group, ok bool, err error) {
	if !st.Exists() || st.o.stream.groupCount == 0 {
		return Group{}, false, nil
	}
	if err := st.s.loadGroups(st.o); err != nil {
		return Group{}, false, err
	}
	found, ok := st.o.stream.groups[string(name)]
	return Group{st.s, st.o, found}, ok, nil
}

// Groups returns all groups, in the order of their names.
func (st Stream) Groups() (all []Group, err error) {
	if !st.Exists() {
		return nil, nil
	}
	if err := st.s.loadGroups(st.o); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(st.o.stream.groups)) {
		all = append(all, Group{st.s, st.o, st.o.stream.groups[name]})
	}
	return all, nil
}

// CreateGroup creates the group, whose consumers get what follows last, unless there is one of that name. The stream
// exists. entriesRead is how many entries were added up to last, -1 when that is not known.
func (st Stream) CreateGroup(name []byte, last StreamID, entriesRead int64) (created bool, err error) {
	s, o := st.s, st.o
	if err := s.loadGroups(o); err != nil {
		return false, err
	}
	b := o.stream
	if _, taken := b.groups[string(name)]; taken {
		return false, nil
	}
	s.changeStream(o, true)
	g := &streamGroup{name: string(name), id: s.state.nextID, last: last, entriesRead: entriesRead, mark: LastStreamID(),
		nacks: newNackTree(), byName: map[string]*streamConsumer{}, byNumber: map[uint32]*streamConsumer{}}
	s.state.nextID++
	b.groups[g.name] = g
	b.groupCount++
	b.groupBytes += streamGroupOverhead + len(g.name)
	s.touchGroup(o, g)
	return true, nil
}

// Name is the group's name.
func (g Group) Name() string { return g.g.name }

// Last is the id of the last entry that was handed to a consumer.
func (g Group) Last() StreamID { return g.g.last }

// Pending counts the entries that were delivered and not acknowledged.
func (g Group) Pending() int64 { return g.g.pending }

// Consumers counts the consumers.
func (g Group) Consumers() int { return g.g.consumers }

// SetLast makes the consumers go on after last; see CreateGroup for entriesRead.
func (g Group) SetLast(last StreamID, entriesRead int64) {
	g.s.touchGroup(g.o, g.g)
	g.g.last, g.g.entriesRead = last, entriesRead
	g.o.stream.forgetAhead(g.g)
}

// Raise makes the consumers go on after last if that is further on.
func (g Group) Raise(last StreamID) {
	if g.g.last.Less(last) {
		g.SetLast(last, g.g.entriesRead)
	}
}

// Destroy removes the group with its consumers. Those who wait for its entries are served: they learn that it is gone.
func (g Group) Destroy() {
	s, b := g.s, g.o.stream
	s.touchGroup(g.o, g.g)
	s.keyBuf = appendGroupKey(s.keyBuf[:0], g.o.id, g.g.name)
	s.delete(s.keyBuf)
	if n := g.g.pending + int64(g.g.consumers); n > 0 {
		s.dig(kindGroup, g.g.id, n)
	}
	delete(b.groups, g.g.name)
	b.groupCount--
	b.forgetGroup(g.g)
	g.g.gone, b.news = true, true
}

// EntriesRead is how many of the stream's entries the group has read; not ok when that can't be told.
func (g Group) EntriesRead() (n int64, ok bool) {
	return g.g.entriesRead, g.g.entriesRead != entriesReadUnknown
}

// Lag is how many entries the group has still to read; not ok when that can't be told.
func (g Group) Lag() (n int64, ok bool) {
	b := g.o.stream
	if b.added == 0 {
		return 0, true
	}
	if read, ok := g.EntriesRead(); ok && !b.deletedFrom(g.o, g.g.last) {
		return b.added - read, true
	}
	read := b.addedUpTo(g.o, g.g.last)
	return b.added - read, read != entriesReadUnknown
}

// deletedFrom tells whether an entry from id on, and behind the first one, may have been deleted: all that is known is the
// greatest deleted id.
func (b *streamBody) deletedFrom(o *object, id StreamID) bool {
	return o.count > 0 && !b.maxDeleted.IsZero() && !b.maxDeleted.Less(b.first) && !b.maxDeleted.Less(id)
}

// addedUpTo estimates how many entries were added up to id, the way Redis does: it is known at the ends of a stream and where
// nothing was deleted from the middle; entriesReadUnknown elsewhere.
func (b *streamBody) addedUpTo(o *object, id StreamID) int64 {
	switch {
	case b.added == 0:
		return 0
	case o.count == 0 && !b.last.Less(id):
		return b.added
	case id == b.last:
		return b.added
	case b.last.Less(id):
		return entriesReadUnknown
	case !b.maxDeleted.IsZero() && !b.maxDeleted.Less(b.first):
		return entriesReadUnknown
	case id.Less(b.first):
		return b.added - o.count
	case id == b.first:
		return b.added - o.count + 1
	}
	return entriesReadUnknown
}

// Consumer is a consumer of a group. A handle is valid until the consumer goes.
type Consumer struct{ c *streamConsumer }

// Name is the consumer's name.
func (c Consumer) Name() string { return c.c.name }

// Pending counts the entries that were delivered to the consumer and not acknowledged.
func (c Consumer) Pending() int64 { return c.c.pending }

// SeenMs is when the consumer last read or claimed something, in unix ms.
func (c Consumer) SeenMs() int64 { return c.c.seenMs }

// Consumer returns the consumer of the name.
func (g Group) Consumer(name []byte) (c Consumer, ok bool, err error) {
	if g.g.consumers == 0 {
		return Consumer{}, false, nil
	}
	if err := g.s.loadConsumers(g.o, g.g); err != nil {
		return Consumer{}, false, err
	}
	found, ok := g.g.byName[string(name)]
	return Consumer{found}, ok, nil
}

// EachConsumer calls fn for the consumers, in the order of their names.
func (g Group) EachConsumer(fn func(Consumer) error) error {
	if err := g.s.loadConsumers(g.o, g.g); err != nil {
		return err
	}
	all := slices.SortedFunc(maps.Values(g.g.byName), func(a, b *streamConsumer) int { return cmp.Compare(a.name, b.name) })
	for _, c := range all {
		if err := fn(Consumer{c}); err != nil {
			return err
		}
	}
	return nil
}

// See returns the consumer, created if there is none, and notes that it was seen now.
func (g Group) See(name []byte, nowMs int64) (c Consumer, created bool, err error) {
	if err := g.s.loadConsumers(g.o, g.g); err != nil {
		return Consumer{}, false, err
	}
	found, ok := g.g.byName[string(name)]
	g.s.touchGroup(g.o, g.g)
	if !ok {
		found = &streamConsumer{name: string(name), number: g.g.nextConsumer}
		g.g.nextConsumer++
		g.g.consumers++
		g.g.byName[found.name], g.g.byNumber[found.number] = found, found
		g.o.stream.groupBytes += streamConsumerOverhead + len(name)
	}
	found.seenMs = nowMs
	g.g.changeConsumer(found)
	return Consumer{found}, !ok, nil
}

// DeleteConsumer removes the consumer with what is pending for it, and returns how much that was.
func (g Group) DeleteConsumer(c Consumer) (pending int64, err error) {
	var mine []StreamID
	err = g.EachPending(&c, StreamID{}, LastStreamID(), func(p Pending) bool {
		mine = append(mine, p.ID)
		return true
	})
	if err != nil {
		return 0, err
	}
	g.s.touchGroup(g.o, g.g)
	for _, id := range mine {
		g.s.forgetNack(g.o, g.g, c.c, id)
	}
	g.s.keyBuf = appendConsumerKey(g.s.keyBuf[:0], g.g.id, c.c.name)
	g.s.delete(g.s.keyBuf)
	c.c.gone = true
	g.g.consumers--
	delete(g.g.byName, c.c.name)
	delete(g.g.byNumber, c.c.number)
	g.o.stream.groupBytes -= streamConsumerOverhead + len(c.c.name)
	return int64(len(mine)), nil
}

// digGroups turns the groups of a dead stream into dead collections. A later round clears them.
func (s *Shard) digGroups(id uint64) error {
	it, err := s.iterate(s.db, appendGroupKey(nil, id, ""), appendGroupKey(nil, id+1, ""))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		if g, err := decodeGroup("", val); err == nil {
			s.dig(kindGroup, g.id, g.pending+int64(g.consumers))
		}
	}
	return s.finish(it)
}

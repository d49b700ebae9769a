package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The janitor of a shard removes keys whose deadline has passed, clears what deletions left behind, and reads the names of keys: one
// goroutine a shard, which sleeps until the earliest deadline or until it is woken. Each of its rounds is a
// transaction like any other, so replaying the log repeats it, and is bounded, so that no client waits long.

const (
	expireBatch   = 200     // keys that one round removes
	expireBytes   = 4 << 20 // length of their names after which it removes no further one
	walkBatch     = 2000    // keys of a dead keyspace that one round looks at
	clearBatch    = 500     // rows that one round clears one by one
	clearBytes    = 1 << 20 // length of their keys after which it clears no further one
	buryDirect    = 128     // elements up to which a collection's rows are deleted with the key
	buryBytes     = 1 << 20 // length of a transaction's batch from which it leaves the rows to the janitor
	rangeDeleteAt = 500     // elements from which a dead collection is cleared with one range deletion
)

// bury gets rid of the rows of a collection whose key goes: a few at once, more by the janitor. A name may be as long as a
// transaction can be, so what can be deleted at once is a matter of bytes as well.
func (s *Shard) bury(o *object) error {
	groups := o.stream != nil && o.stream.groupCount > 0
	if groups {
		s.flushGroups(o) // so that the janitor finds what this transaction has changed
	}
	if !groups && o.count <= buryDirect && s.batch.Len() < buryBytes {
		done := s.buryCached(o)
		if !done {
			var err error
			if _, done, err = s.deleteRows(s.reader(o), o.grave(), o.id, buryBytes); err != nil {
				return err
			}
		}
		if done {
			return nil
		}
	}
	s.dig(o.grave(), o.id, o.count)
	return nil
}

// dig leaves the rows of a collection to the janitor.
func (s *Shard) dig(kind Kind, id uint64, count int64) {
	s.keyBuf = binary.BigEndian.AppendUint64(append(s.keyBuf[:0], rowDead), id)
	s.set(s.keyBuf, binary.AppendUvarint([]byte{byte(kind)}, uint64(count)))
	s.graves = true
	s.wakeJanitor()
}

// rowsOf lists the rows that a collection of the kind has under its id. A stream's groups are collections of their own.
func rowsOf(kind Kind) []byte {
	switch kind {
	case KindZSet:
		return []byte{rowElement, rowScore}
	case KindStream:
		return []byte{rowElement, rowGroup}
	case kindSlots:
		return []byte{rowElement, rowSlot}
	case kindGroup:
		return []byte{rowElement, rowScore, rowConsumer}
	}
	return []byte{rowElement}
}

// buryCached deletes the rows of a collection that is wholly cached and small, or of a string, without reading any.
func (s *Shard) buryCached(o *object) bool {
	if o.chunked == nil && o.footprint() > buryBytes {
		return false
	}
	drop := func(name string) {
		s.keyBuf = s.appendField(s.keyBuf[:0], o, []byte(name))
		s.delete(s.keyBuf)
	}
	switch {
	case o.chunked != nil:
		for n := range o.count { // which is not to say that there is a row, but costs less than to look
			s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, n)
			s.delete(s.keyBuf)
		}
	case o.kind == KindList && o.list.complete(o):
		for _, w := range []*listWindow{&o.list.front, &o.list.back} {
			for i := range w.Len() {
				s.dropItem(o, w.At(i))
			}
		}
	case o.kind == KindHash && o.hash.complete(o):
		for name, el := range o.hash.rows {
			if !el.dead {
				drop(name)
			}
		}
	case o.kind == KindSet && o.set.complete(o):
		for _, el := range o.set.order {
			drop(el.name)
		}
	case o.kind == KindZSet && o.zset.complete(o):
		for name, el := range o.zset.rows {
			if !el.dead {
				drop(name)
				s.keyBuf = appendScoreKey(s.keyBuf[:0], o.id, el.val, []byte(name))
				s.delete(s.keyBuf)
			}
		}
	case o.kind == KindStream && o.stream.whole():
		for i := range o.stream.tail.Len() {
			s.keyBuf = appendEntryKey(s.keyBuf[:0], o.id, o.stream.tail.At(i).id)
			s.delete(s.keyBuf)
		}
	default:
		return false
	}
	return true
}

// deleteRows deletes rows of the collection one by one, up to a length of their keys. It tells how many it deleted, and
// whether they were all.
func (s *Shard) deleteRows(r pebble.Reader, kind Kind, id uint64, bytes int) (n int, done bool, err error) {
	for _, row := range rowsOf(kind) {
		it, err := s.iterate(r, appendElementPrefix(nil, row, id), appendElementPrefix(nil, row, id+1))
		if err != nil {
			return n, false, err
		}
		ok := it.First()
		for ; ok && len(it.Key()) <= bytes; ok = it.Next() {
			bytes -= len(it.Key())
			s.delete(it.Key())
			n++
		}
		if err := s.finish(it); err != nil || ok {
			return n, false, err
		}
	}
	return n, true, nil
}

// janitor runs until the store closes.
func (s *Shard) janitor() {
	s.repeat(s.wake, "expiry and clearing stopped for a while", s.clean)
}

// repeat calls round when it is woken, and at the time that the round before has returned, until the store closes. An error of
// a round is logged as the complaint.
func (s *Shard) repeat(wake <-chan struct{}, complaint string, round func(tx *Tx) (again time.Time, err error)) {
	st := s.store
	tx := st.NewTx()
	timer := st.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-st.stop:
			return
		case <-wake:
		case <-timer.C():
		}
		again, err := round(tx)
		if err != nil {
			st.logger.Error(complaint, "shard", s.name, "err", err)
		}
		timer.ResetAt(again)
	}
}

// clean does one round and tells when the next is due. Rounds that find work follow each other at the configured
// interval, which bounds the janitor's share of the lock.
func (s *Shard) clean(tx *Tx) (again time.Time, err error) {
	clk := s.store.clock
	tx.Begin(MaskOf(s.ordinal))
	defer tx.End()
	read, written := s.stats.RowsRead, s.stats.RowsWritten
	defer func() { s.stats.RowsRead, s.stats.RowsWritten = read, written }() // of clients alone
	more, err := s.expire(tx.nowMs)
	if err == nil {
		err = tx.Commit() // what expired may leave graves, which are looked for among committed rows
	}
	if err == nil && s.graves {
		if err = s.clearGraves(); err == nil {
			err = tx.Commit()
		}
	}
	if err != nil {
		s.nextDeadlineMs, s.expiredToMs, s.graves, s.walked = 0, 0, true, nil // what was found may have been undone
		return clk.Now().Add(time.Second), err
	}
	unread, err := s.readNames()
	if err != nil {
		return clk.Now().Add(time.Second), err
	}
	if s.graves || more || unread {
		return clk.Now().Add(time.Millisecond), nil
	}
	longest := tx.nowMs + time.Hour.Milliseconds()
	if s.store.lazyExpiry.Load() {
		return time.UnixMilli(longest), nil
	}
	return time.UnixMilli(min(max(s.nextDeadlineMs, tx.nowMs+s.store.opts.ExpireInterval), longest)), nil
}

// expire removes up to expireBatch keys whose deadline has passed, and finds the next deadline.
func (s *Shard) expire(nowMs int64) (more bool, err error) {
	if s.nextDeadlineMs > nowMs || s.store.lazyExpiry.Load() {
		return false, nil
	}
	var due [][]byte
	it, err := s.iterate(s.db, appendDeadlineKey(nil, s.expiredToMs, 0, ""), []byte{rowDeadline + 1})
	if err != nil {
		return false, err
	}
	next, size := int64(math.MaxInt64), 0
	for ok := it.First(); ok; ok = it.Next() {
		at, _, _ := splitDeadlineKey(it.Key())
		if at > nowMs {
			next = at
			break
		}
		if len(due) == expireBatch || size > expireBytes {
			next, more = at, true
			break
		}
		due = append(due, append([]byte(nil), it.Key()...))
		size += len(it.Key())
	}
	if err := s.finish(it); err != nil {
		return false, err
	}
	for _, row := range due {
		if err := s.expireRow(row, nowMs); err != nil {
			return false, err
		}
	}
	s.nextDeadlineMs = next
	s.expiredToMs = min(next, nowMs)
	return more, nil
}

// expireRow removes the key that the deadline row names. A row whose database was emptied meanwhile names
// nothing any more.
func (s *Shard) expireRow(row []byte, nowMs int64) error {
	_, space, key := splitDeadlineKey(row)
	for db := range s.state.spaces {
		if s.state.spaces[db].id == space {
			if _, err := s.lookup(nowMs, db, key); err != nil {
				return err
			}
			s.delete(row)
			return nil
		}
	}
	s.delete(row)
	return nil
}

// Flush removes every key of the database.
func (d DB) Flush() error {
	for ordinal := range d.tx.store.shards {
		s, err := d.tx.shard(ordinal)
		if err != nil {
			return err
		}
		s.flush(d.n)
	}
	return nil
}

// flush gives the database a new keyspace, which is empty, and leaves the old one to the janitor.
func (s *Shard) flush(db int) {
	ks := &s.state.spaces[db]
	if ks.keys == 0 {
		return
	}
	s.touch()
	s.flushMeta() // so that the janitor finds collections that this transaction created
	s.notifyFlush(db)
	s.unlist(ks.id)
	s.set(binary.BigEndian.AppendUint32([]byte{rowDeadKeyspace}, ks.id), nil)
	kept := s.dirty[:0]
	for _, o := range s.dirty {
		if o.db.n == db {
			o.dirty = false
		} else {
			kept = append(kept, o)
		}
	}
	s.dirty = kept
	s.cache.dropDB(db)
	s.wiped = true
	*ks = keyspace{id: s.state.nextSpace}
	s.state.nextSpace++
	s.graves = true
	s.wakeJanitor()
}

// unlist deletes the rows of the registry that belong to a keyspace.
func (s *Shard) unlist(space uint32) {
	for k := range s.times.registry {
		if k.space == space {
			s.keyBuf = k.append(s.keyBuf[:0])
			s.delete(s.keyBuf)
		}
	}
	for _, k := range s.times.listed {
		if k.space == space {
			s.keyBuf = k.append(s.keyBuf[:0])
			s.delete(s.keyBuf)
		}
	}
}

// clearGraves clears part of what is dead: a keyspace first, since it leaves collections behind.
func (s *Shard) clearGraves() error {
	cleared, err := s.clearKeyspace()
	if err != nil || cleared {
		return err
	}
	cleared, err = s.clearCollections()
	if err == nil && !cleared {
		s.graves = false
	}
	return err
}

// clearKeyspace walks a part of a dead keyspace, turning its collections into dead ones. When it has come to the end, one
// range deletion removes all metadata rows, unless they were so few that one part was all: their range deletions would pile up where a
// database is emptied again and again. How far it has come is kept in memory: a walk that begins anew buries the same
// collections again, which does no harm.
func (s *Shard) clearKeyspace() (cleared bool, err error) {
	graves, err := s.iterate(s.db, []byte{rowDeadKeyspace}, []byte{rowDeadKeyspace + 1})
	if err != nil {
		return false, err
	}
	var grave []byte
	if graves.First() {
		grave = append(grave, graves.Key()...)
	}
	if err := s.finish(graves); err != nil || grave == nil {
		return false, err
	}
	start := append([]byte{rowMeta}, grave[1:]...)
	end, from := upperBound(start), start
	if bytes.HasPrefix(s.walked, start) {
		from = s.walked
	}
	it, err := s.iterate(s.db, from, end)
	if err != nil {
		return false, err
	}
	ok, fromStart := it.First(), len(from) == len(start)
	for n := 0; ok && n < walkBatch && s.batch.Len() < clearBytes; ok = it.Next() {
		n++
		var o object
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		if err := o.decode(val); err == nil && o.hasRows() {
			s.keyBuf = binary.BigEndian.AppendUint64(append(s.keyBuf[:0], rowDead), o.id)
			s.set(s.keyBuf, binary.AppendUvarint([]byte{byte(o.grave())}, uint64(o.count)))
		}
		if fromStart {
			s.delete(it.Key())
		}
	}
	if ok {
		s.walked = append(s.walked[:0], it.Key()...)
		return true, s.finish(it)
	}
	s.walked = s.walked[:0]
	if !fromStart {
		s.deleteRange(start, end)
	}
	s.delete(grave)
	return true, s.finish(it)
}

// clearCollections clears dead collections: a large one with a range deletion, small ones row by row, since
// range deletions are dear to every reader until they are compacted away.
func (s *Shard) clearCollections() (cleared bool, err error) {
	it, err := s.iterate(s.db, []byte{rowDead}, []byte{rowDead + 1})
	if err != nil {
		return false, err
	}
	rows := 0
	for ok := it.First(); ok && rows < clearBatch && s.batch.Len() < clearBytes; ok = it.Next() {
		cleared = true
		key := it.Key()
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		id := binary.BigEndian.Uint64(key[1:])
		count, _ := binary.Uvarint(val[1:])
		rows++
		kind, done := Kind(val[0]), false
		if kind == KindStream {
			if err := s.digGroups(id); err != nil {
				return false, errors.Join(err, s.finish(it))
			}
		}
		s.cache.ranks.drop(id)
		if count < rangeDeleteAt {
			var n int
			if n, done, err = s.deleteRows(s.db, kind, id, clearBytes); err != nil {
				return false, errors.Join(err, s.finish(it))
			}
			rows += n
		}
		if !done {
			for _, row := range rowsOf(kind) {
				s.deleteRange(appendElementPrefix(nil, row, id), appendElementPrefix(nil, row, id+1))
			}
		}
		s.delete(key)
	}
	return cleared, s.finish(it)
}

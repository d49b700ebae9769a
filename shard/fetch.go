package shard

import (
	"bytes"
	"errors"
	"slices"
)

// Elements that will be asked for one after the other are read together: one iterator over their rows, in order, costs a fraction of a
// look into the store for each, above all where many of them are neighbours, or are not there.

const (
	// fetchLeast is how many elements are worth an iterator.
	fetchLeast = 4
	// fetchBytes is how many bytes of values are read together: the shard is locked meanwhile.
	fetchBytes = 256 << 10
	// fetchStride rows between one that is wanted and the next cost about as much to step over as a seek. It is halved for a fetch each time
	// that they were more.
	fetchStride = 16
)

// Fetch has the cache answer for the fields, those of them that are on the shard of the first, unless they are very large together.
func (h Hash) Fetch(fields [][]byte) error { return h.fetch(fields, nil) }

// Fetch has the cache answer for the members, those of them that are on the shard of the first.
func (z ZSet) Fetch(members [][]byte) error { return z.fetch(members, nil) }

// fetch calls lacking, if there is one, for the fields of a hash that are not there, and then the cache need not answer for them.
func (h *handle) fetch(elements [][]byte, lacking func(element []byte)) error {
	if len(elements) < fetchLeast {
		return nil
	}
	s, o, err := h.home(elements[0])
	if err != nil {
		return err
	}
	rows, keys := make([]fetched, 0, len(elements)), s.fetchBuf[:0]
	for _, element := range elements {
		if h.partitioned && h.db.tx.homeOf(element) != s.ordinal {
			continue
		}
		if o.answers(element, lacking) {
			continue
		}
		start := len(keys)
		keys = s.appendField(keys, o, element)
		rows = append(rows, fetched{keys[start:], element})
	}
	if s.fetchBuf = keys; cap(keys) > fetchBytes {
		s.fetchBuf = nil
	}
	s.lookForRows(rows)
	unstaged := rows[:0] // in the store, or nowhere
	for _, row := range rows {
		val, deleted, staged := s.row(row.key)
		if !staged {
			unstaged = append(unstaged, row)
			continue
		}
		if o.answers(row.element, lacking) { // it is among them twice, or all that are there are cached by now
			continue
		}
		s.stats.RowsRead++
		if err := s.learn(o, row.element, val, !deleted, lacking); err != nil {
			return err
		}
	}
	if rows = unstaged; len(rows) > 0 {
		slices.SortFunc(rows, func(a, b fetched) int { return bytes.Compare(a.key, b.key) })
		rows = slices.CompactFunc(rows, func(a, b fetched) bool { return bytes.Equal(a.key, b.key) })
		err = s.fetch(o, rows, lacking)
	}
	s.cache.charge(o)
	return err
}

// fetched is an element that is to be read, and the key of its row.
type fetched struct{ key, element []byte }

// fetch reads the rows, which are in order, into the cache, as far as they are not too much at once.
func (s *Shard) fetch(o *object, rows []fetched, lacking func(element []byte)) error {
	it, err := s.iterateApplied(s.db, rows[0].key, append(bytes.Clone(rows[len(rows)-1].key), 0))
	if err != nil {
		return err
	}
	more, bytesRead, stride := it.First(), 0, fetchStride
	for _, row := range rows {
		for steps := 0; more && bytes.Compare(it.Key(), row.key) < 0; steps++ {
			if steps < stride {
				more = it.Next()
			} else {
				more, stride = it.SeekGE(row.key), stride/2
			}
		}
		if !more && it.Error() != nil {
			break // which is not to say that there is no such row
		}
		var val []byte
		found := more && bytes.Equal(it.Key(), row.key)
		if found {
			if val, err = it.ValueAndErr(); err != nil {
				break
			}
			bytesRead += len(val)
		}
		if err = s.learn(o, row.element, val, found, lacking); err != nil || bytesRead > fetchBytes {
			break
		}
	}
	return errors.Join(err, s.finish(it))
}

// knows tells whether the cache answers for an element of a hash or sorted set.
func (o *object) knows(element []byte) bool {
	switch {
	case o.hash != nil:
		return o.hash.find(element) != nil || o.hash.lacks(o, element)
	case o.zset != nil:
		return o.zset.find(element) != nil || o.zset.lacks(o, element)
	}
	return true // there is no such collection
}

// answers is knows; a field that is known not to be there is told to lacking, if that is not nil.
func (o *object) answers(element []byte, lacking func(element []byte)) bool {
	known := o.knows(element)
	if known && lacking != nil && (o.hash == nil || o.hash.alive(element) == nil) {
		lacking(element)
	}
	return known
}

// learn caches what was found of an element of a hash or sorted set: the value of its row, or that there is none, unless that is told
// to lacking.
func (s *Shard) learn(o *object, element, val []byte, found bool, lacking func(element []byte)) error {
	switch {
	case !found && lacking != nil:
		lacking(element)
	case o.hash != nil && found:
		o.hash.keep(element, fieldValue{text: append(make([]byte, 0, len(val)), val...)}, 0)
	case o.hash != nil:
		o.hash.absent(element)
	case found:
		_, _, err := s.learnScore(o, element, val)
		return err
	default:
		o.zset.absent(element)
	}
	return nil
}

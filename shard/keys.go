package shard

import (
	"bytes"
	"encoding/binary"
)

// keyNames is the names of all keys of a database on a shard, cached or not: a key that is not there need not be looked for in the
// store, where one that is not there costs most. Each commit says which came and which went. See ADR 0026.
type keyNames struct {
	names
	bytes int // what the cache has charged for them
}

const (
	// namesLeast keys or elements have to be missed before the names of all are read, or one of namesPart if that is more: a look into the
	// store takes about as long as reading so many names.
	namesLeast = 64
	namesPart  = 64
	// namesShare of the cache is what the names of all keys may take, or those of a collection's elements, as 1/n.
	namesShare = 2
	// namesRound is how many rows one round steps over, deleted ones included, about: the shard is locked meanwhile.
	namesRound = 2000
	// namesRounds is into how many parts the rows are cut at first, at least: there may be more deleted ones than others.
	namesRounds = 64
	// placeRange is how many places rows have.
	placeRange = 1 << (8 * hashLen)
)

// lacksKey tells whether there is surely no such key; row is the key of its metadata row.
func (k *keyNames) lacksKey(row []byte) bool {
	return k.covers(row) && k.set.lacks(row[metaPrefixLen:])
}

// missKey notes that a key of the database was looked for in vain.
func (s *Shard) missKey(d *cachedDB) {
	space := &s.state.spaces[d.n]
	if s.isMissedOften(&d.names.names, space.keys) {
		d.names.begin(appendSpacePrefix(nil, space.id), space.keys)
		s.cache.chargeNames(d)
		s.wakeJanitor()
	}
}

// missElement notes that an element of a hash, set or sorted set was looked for in vain. Rows that are in the tracker's order are not read:
// where many that stand side by side were deleted, nothing bounds how many a round steps over.
func (s *Shard) missElement(o *object, n *names) {
	if !o.ordered && s.isMissedOften(n, o.count) {
		n.begin(appendElementPrefix(nil, rowElement, o.id), o.count)
		s.unnamed = append(s.unnamed, o)
		s.wakeJanitor()
	}
}

// isMissedOften counts a name that was looked for in vain among all, and tells whether reading them is worth it, and there is room for them.
func (s *Shard) isMissedOften(n *names, all int64) bool {
	if n.set != nil || namesShare*(s.cache.nameBytes+tableBytes(all)) > s.cache.budget {
		return false
	}
	n.missed++
	return n.missed >= max(int64(s.store.opts.namesLeast), all/namesPart)
}

// settleName is called for each key that a commit has changed.
func (s *Shard) settleName(o *object) {
	if o.named == o.stored {
		return
	}
	o.named = o.stored
	k := &o.db.names
	if k.set == nil {
		return
	}
	if k.next != nil {
		s.keyBuf = appendMetaKey(s.keyBuf[:0], s.state.spaces[o.db.n].id, o.key)
		if !k.covers(s.keyBuf) {
			return
		}
	}
	if !o.stored {
		k.remove([]byte(o.key))
		s.cache.chargeNames(o.db)
	} else {
		s.cache.addName(o.db, []byte(o.key))
	}
}

// addName adds the name of a key, or forgets all when they take too much memory.
func (c *objectCache) addName(d *cachedDB, name []byte) {
	k := &d.names
	if full(k.set.n+1, len(k.set.cells)) && namesShare*(c.nameBytes+k.set.footprint()) > c.budget || !k.set.add(name) {
		k.names = names{}
	}
	c.chargeNames(d)
}

// chargeNames brings the share that the names of the database's keys have of the budget up to date.
func (c *objectCache) chargeNames(d *cachedDB) {
	by := d.names.set.footprint() - d.names.bytes
	c.bytes, d.bytes, c.nameBytes, d.names.bytes = c.bytes+by, d.bytes+by, c.nameBytes+by, d.names.bytes+by
}

// readNames reads some more names of the keys of each database and of the elements of one collection, where that was begun. It tells
// whether there are more.
func (s *Shard) readNames() (more bool, err error) {
	for _, d := range s.cache.dbs {
		if d.names.next == nil {
			continue
		}
		if err := s.readKeyNames(d); err != nil {
			d.names.names = names{}
			s.cache.chargeNames(d)
			return false, err
		}
		more = more || d.names.next != nil
	}
	for last := len(s.unnamed) - 1; last >= 0; last-- {
		o := s.unnamed[last]
		if n := o.names(); n != nil && n.next != nil && o.db.objects[o.key] == o {
			return true, s.readElementNames(o, n)
		}
		s.unnamed[last], s.unnamed = nil, s.unnamed[:last] // they are read, or it has gone or been evicted
	}
	return more, nil
}

// knowsName tells whether an element's name is among those that are known, or known not to be. It uses keyBuf while they are being read.
func (s *Shard) knowsName(n *names, o *object, name []byte) bool {
	if n.next == nil {
		return n.set != nil
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, name)
	return n.covers(s.keyBuf)
}

// readElementNames reads some more names of a collection's elements.
func (s *Shard) readElementNames(o *object, n *names) error {
	err := s.readRows(n, elementPrefixLen, func(row []byte) bool {
		n.add(fieldOf(row))
		return n.set != nil
	})
	if err != nil {
		*n = names{}
	}
	s.cache.charge(o)
	return err
}

// names is of the elements of a collection whose names may be known, and else nil.
func (o *object) names() *names {
	switch {
	case o.hash != nil:
		return &o.hash.names
	case o.set != nil:
		return &o.set.names
	case o.zset != nil:
		return &o.zset.names
	}
	return nil
}

// readKeyNames reads some more names of a database's keys.
func (s *Shard) readKeyNames(d *cachedDB) error {
	return s.readRows(&d.names.names, spacePrefixLen, func(row []byte) bool {
		s.cache.addName(d, row[metaPrefixLen:])
		return d.names.set != nil
	})
}

// readRows passes the rows of the next places to fn until it returns false, and notes how far it has come. Their keys have a prefix of a length,
// and then their place, by a hash, so that as many rows stand between any two places as between others.
func (s *Shard) readRows(n *names, prefix int, fn func(row []byte) bool) error {
	place := n.places
	if len(n.next) > prefix {
		place += uint64(binary.BigEndian.Uint32(n.next[prefix:]))
	}
	var next []byte
	if place < placeRange {
		next = binary.BigEndian.AppendUint32(bytes.Clone(n.next[:prefix]), uint32(place))
	}
	end := next
	if end == nil {
		end = upperBound(n.next[:prefix])
	}
	it, err := s.iterate(s.db, n.next, end)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && fn(it.Key()); {
		ok = it.Next()
	}
	if n.set != nil {
		n.next = next
		n.adapt(stepsOf(it))
	}
	return s.finish(it)
}

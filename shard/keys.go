package shard

import "bytes"

// keyNames knows the names of all keys of a database on a shard, cached or not, as the names of a large collection's elements are
// known: so a key that is not there need not be looked for in the store, where one that is not there is what costs most. See ADR 0026.
//
// It is begun when as many keys have been looked for in vain that reading the names of all is worth it. The janitor reads them, in the order of
// their rows; of those that it has passed, each commit says which came and which went.
type keyNames struct {
	set    *nameSet // nil: they are not known
	next   []byte   // the metadata row from which on they are not known yet; nil: all are
	missed int64    // keys that were looked for in the store in vain, while there is no set
	tooBig bool     // it is no use to begin
	bytes  int      // what the cache has charged for it
}

const (
	// namesLeast keys have to be missed before the names of all are read, or one of namesPart if that is more: a look into the
	// store takes about as long as reading so many names.
	namesLeast = 64
	namesPart  = 64
	// namesShare of the cache is what the names of keys may take, as 1/n.
	namesShare = 2
)

// lacks tells whether there is surely no such key; row is the key of its metadata row.
func (k *keyNames) lacks(row []byte) bool {
	return k.covers(row) && k.set.lacks(row[metaPrefixLen:])
}

// covers tells whether the names tell of the key whose metadata row it is.
func (k *keyNames) covers(row []byte) bool {
	return k.set != nil && (k.next == nil || bytes.Compare(row, k.next) < 0)
}

// miss notes that a key of the database was looked for in vain.
func (s *Shard) miss(d *cachedDB) {
	k, keys := &d.names, s.state.spaces[d.n].keys
	if k.set != nil || k.tooBig {
		return
	}
	if k.missed++; k.missed < max(int64(s.store.opts.namesLeast), keys/namesPart) {
		return
	}
	k.set, k.next, k.missed = newNameSet(0), appendSpacePrefix(nil, s.state.spaces[d.n].id), 0
	s.wakeJanitor()
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
		k.set.remove([]byte(o.key))
	} else {
		s.cache.addName(o.db, []byte(o.key))
	}
}

// addName adds the name of a key, or forgets all when they take too much memory.
func (c *objectCache) addName(d *cachedDB, name []byte) {
	k := &d.names
	switch n := k.set.footprint(); {
	case full(k.set.n+1, len(k.set.cells)) && namesShare*(c.nameBytes+n) > c.budget, !k.set.add(name):
		*k = keyNames{tooBig: true, bytes: k.bytes}
	}
	c.chargeNames(d)
}

// chargeNames brings the share that the names of the database's keys have of the budget up to date.
func (c *objectCache) chargeNames(d *cachedDB) {
	by := d.names.set.footprint() - d.names.bytes
	c.bytes, d.bytes, c.nameBytes, d.names.bytes = c.bytes+by, d.bytes+by, c.nameBytes+by, d.names.bytes+by
}

// readNames reads the names of up to limit more keys of each database, and tells whether there are more.
func (s *Shard) readNames(limit int) (more bool, err error) {
	for _, d := range s.cache.dbs {
		if d.names.next == nil {
			continue
		}
		if err := s.readNamesOf(d, limit); err != nil {
			d.names = keyNames{bytes: d.names.bytes}
			s.cache.chargeNames(d)
			return false, err
		}
		more = more || d.names.next != nil
	}
	return more, nil
}

func (s *Shard) readNamesOf(d *cachedDB, limit int) error {
	it, err := s.iterate(s.db, d.names.next, upperBound(appendSpacePrefix(nil, s.state.spaces[d.n].id)))
	if err != nil {
		return err
	}
	ok := it.First()
	for n := 0; ok && n < limit && !d.names.tooBig; ok = it.Next() {
		n++
		s.cache.addName(d, it.Key()[metaPrefixLen:])
	}
	if d.names.next = nil; ok && !d.names.tooBig {
		d.names.next = bytes.Clone(it.Key())
	}
	return s.finish(it)
}

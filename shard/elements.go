package shard

// elements caches the rows of a hash, set or sorted set by field or member. It is write-through: what the
// transaction has put or deleted is in it until the commit, so a point read never needs the batch. An entry
// that is dead was deleted by the transaction in progress, or is known not to exist. What else is cached exists, so when as many entries
// live as the collection counts, the cache is the whole collection and answers for absent elements too.
type elements[V any] struct {
	rows   map[string]element[V]
	killed []string // names of entries that the transaction has deleted; some may live again
	idle   []string // names of entries that are forgotten with the commit, see uncache
	dead   int      // entries that are dead
	bytes  int      // estimate of the resident bytes, without names
	names  *nameSet // of all elements, cached or not; nil if they are not known
}

type element[V any] struct {
	val  V
	dead bool
	name string // as it is in the map: who replaces the entry or forgets it later needs no copy
}

// elementOverhead is what a cached element costs in memory, about, besides its name and value.
const elementOverhead = 96

func newElements[V any]() elements[V] { return elements[V]{rows: make(map[string]element[V])} }

func (e *elements[V]) footprint() int { return e.bytes + e.names.footprint() }

// complete tells whether every element of the collection is cached.
func (e *elements[V]) complete(o *object) bool { return int64(e.live()) == o.count }

// lacks tells whether an element that has no entry is known not to be in the collection.
func (e *elements[V]) lacks(o *object, name []byte) bool { return e.complete(o) || e.names.lacks(name) }

// created notes that an element which was not there is now one of the collection.
func (e *elements[V]) created(name []byte) {
	if e.names != nil && !e.names.add(name) {
		e.names = nil
	}
}

// removed notes that an element is no longer one of the collection.
func (e *elements[V]) removed(name []byte) {
	if e.names != nil {
		e.names.remove(name)
	}
}

// has tells whether there is an entry, dead or alive.
func (e *elements[V]) has(name []byte) bool {
	_, ok := e.rows[string(name)]
	return ok
}

// live counts the entries that exist.
func (e *elements[V]) live() int { return len(e.rows) - e.dead }

// putNew adds the entry of an element that has none, and keeps its name.
func (e *elements[V]) putNew(name string, val V, size int) {
	e.rows[name] = element[V]{val: val, name: name}
	e.bytes += len(name) + elementOverhead + size
}

// put adds or replaces an entry; size and oldSize are the resident sizes of its new and old value. It returns the name as it is kept.
func (e *elements[V]) put(name []byte, val V, size, oldSize int) string {
	old, ok := e.rows[string(name)]
	switch {
	case !ok:
		own := string(name)
		e.putNew(own, val, size)
		return own
	case old.dead:
		e.dead--
		e.bytes += size
	default:
		e.bytes += size - oldSize
	}
	e.rows[old.name] = element[V]{val: val, name: old.name}
	return old.name
}

// kill marks the entry of an element that was there as deleted by the transaction; size is the resident size of the value that goes.
func (e *elements[V]) kill(name []byte, size int) {
	old, ok := e.rows[string(name)]
	if ok {
		e.bytes -= size
		if old.dead {
			return
		}
	} else {
		old.name = string(name)
		e.bytes += len(name) + elementOverhead
	}
	e.removed(name)
	e.rows[old.name] = element[V]{dead: true, name: old.name}
	e.dead++
	e.killed = append(e.killed, old.name)
}

// settle forgets what the transaction has deleted after its commit.
func (e *elements[V]) settle() {
	for _, name := range e.killed {
		if e.rows[name].dead {
			delete(e.rows, name)
			e.dead--
			e.bytes -= len(name) + elementOverhead
		}
	}
	e.killed = emptied(e.killed)
}

// uncache forgets the entry; size is the resident size of a value. If the transaction has changed the collection, that waits for the
// commit: until then the entry may be what the transaction has made it.
func (e *elements[V]) uncache(o *object, name []byte, size func(V) int) {
	el, ok := e.rows[string(name)]
	switch {
	case !ok:
	case o.dirty:
		e.idle = append(e.idle, el.name)
	default:
		e.drop(el.name, size)
	}
}

// settleIdle forgets after a commit what was to wait for it.
func (e *elements[V]) settleIdle(size func(V) int) {
	for _, name := range e.idle {
		e.drop(name, size)
	}
	e.idle = emptied(e.idle)
}

func (e *elements[V]) drop(name string, size func(V) int) {
	el, ok := e.rows[name]
	if !ok {
		return
	}
	delete(e.rows, name)
	e.bytes -= len(name) + elementOverhead
	if el.dead {
		e.dead--
	} else {
		e.bytes -= size(el.val)
	}
}

// maxKeptNames is how many names a collection keeps room for between transactions.
const maxKeptNames = 1 << 10

// emptied is the list for the names of the next transaction.
func emptied(names []string) []string {
	if cap(names) > maxKeptNames {
		return nil
	}
	clear(names)
	return names[:0]
}

// absent notes that there is no such element.
func (e *elements[V]) absent(name []byte) {
	if e.has(name) {
		return
	}
	own := string(name)
	e.rows[own] = element[V]{dead: true, name: own}
	e.dead++
	e.bytes += len(name) + elementOverhead
}

// thin keeps a quarter of the entries, those that the map yields first. The map is built anew, since a Go map never gives memory back;
// what is kept costs as much as as many entries that come. If all elements were cached, their names stay known, until there is no entry left to
// drop instead.
func (e *elements[V]) thin(o *object, size func(V) int) {
	switch {
	case len(e.rows) == 0:
		e.names = nil
	case e.names == nil && e.complete(o):
		e.names = newNameSet(len(e.rows))
		for name, el := range e.rows {
			if !el.dead {
				e.created([]byte(name))
			}
		}
	}
	keep := len(e.rows) / 4
	rows := make(map[string]element[V], keep)
	e.bytes = 0
	e.dead = 0
	for name, el := range e.rows {
		if len(rows) >= keep {
			break
		}
		if el.dead {
			continue
		}
		rows[name] = el
		e.bytes += len(name) + elementOverhead + size(el.val)
	}
	e.rows = rows
}

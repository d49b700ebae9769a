package shard

// elements caches the rows of a hash, set or sorted set by field or member. It is write-through: what the
// transaction has put or deleted is in it until the commit, so a point read never needs the batch. An entry
// that is dead was deleted by the transaction in progress, or is known not to exist. What else is cached exists, so when as many entries
// live as the collection counts, the cache is the whole collection and answers for absent elements too.
type elements[V any] struct {
	rows   map[string]*element[V]
	last   *element[V]   // that was asked for last, nil if there is none: what is done with an element often begins with a look at it
	killed []*element[V] // that the transaction has deleted; some may live again
	idle   []*element[V] // that are forgotten with the commit, see uncache
	dead   int           // entries that are dead
	bytes  int           // estimate of the resident bytes, without names
	names  names         // of all elements, cached or not
	spares []*element[V] // that were forgotten, to be used again
	common *string       // see textOf; the database's, or nil
}

type element[V any] struct {
	val  V
	name string // as it is in the map: who forgets the entry later needs no copy
	dead bool
	idle bool // it is among those that are idle
	lent bool // val is memory that is used again after the commit, when the entry is forgotten; of a hash
	kept bool // somebody may have kept val, see Hash.Get

	lacking Moment // see Hash.Note; of a hash
}

// elementOverhead is what a cached element costs in memory, about, besides its name and value.
const elementOverhead = 96

func newElements[V any](common *string) elements[V] {
	return elements[V]{rows: make(map[string]*element[V]), common: common}
}

func (e *elements[V]) footprint() int {
	return e.bytes + e.names.set.footprint() + len(e.spares)*elementOverhead
}

// complete tells whether every element of the collection is cached.
func (e *elements[V]) complete(o *object) bool { return int64(e.live()) == o.count }

// lacks tells whether an element that has no entry is known not to be in the collection.
func (e *elements[V]) lacks(o *object, name []byte) bool { return e.complete(o) || e.names.lacks(name) }

// created notes that an element which was not there is now one of the collection.
func (e *elements[V]) created(s *Shard, o *object, name []byte) {
	if s.knowsName(&e.names, o, name) {
		e.names.add(name)
	}
}

// removed notes that an element is no longer one of the collection.
func (e *elements[V]) removed(s *Shard, o *object, name []byte) {
	if s.knowsName(&e.names, o, name) {
		e.names.remove(name)
	}
}

// find returns the entry, dead or alive, nil if there is none. It is valid until it is forgotten.
func (e *elements[V]) find(name []byte) *element[V] {
	if e.last != nil && e.last.name == string(name) {
		return e.last
	}
	el := e.rows[string(name)]
	if el != nil {
		e.last = el
		e.share(el.name)
	}
	return el
}

// alive is find for an element that exists.
func (e *elements[V]) alive(name []byte) *element[V] {
	if el := e.find(name); el != nil && !el.dead {
		return el
	}
	return nil
}

// maxCommon is the length of names that collections may share.
const maxCommon = 64

// textOf is the name as a string. A database's collections have one in common, that of the name which one of them met last: a
// task's id goes into four of them one after the other, which so keep it once.
func (e *elements[V]) textOf(name []byte) string {
	if e.common != nil && *e.common == string(name) {
		return *e.common
	}
	text := string(name)
	e.share(text)
	return text
}

// share makes the name the one that the database's collections have in common.
func (e *elements[V]) share(name string) {
	if e.common != nil && len(name) <= maxCommon {
		*e.common = name
	}
}

// enter makes an entry where there is none, and keeps its name.
func (e *elements[V]) enter(name string) *element[V] {
	el := e.spare()
	el.name = name
	e.rows[name], e.last = el, el
	e.bytes += len(name) + elementOverhead
	return el
}

// spare is an entry without a name.
func (e *elements[V]) spare() *element[V] {
	last := len(e.spares) - 1
	if last < 0 {
		return new(element[V])
	}
	el := e.spares[last]
	e.spares[last], e.spares = nil, e.spares[:last]
	return el
}

// forget takes the entry out.
func (e *elements[V]) forget(el *element[V]) {
	delete(e.rows, el.name)
	if e.last == el {
		e.last = nil
	}
	if el.dead {
		e.dead--
	}
	e.bytes -= len(el.name) + elementOverhead
	*el = element[V]{} // neither dead nor idle, for it may be listed once more
	if len(e.spares) < min(len(e.rows), maxSpares) {
		e.spares = append(e.spares, el)
	}
}

// live counts the entries that exist.
func (e *elements[V]) live() int { return len(e.rows) - e.dead }

// putNew adds the entry of an element that has none, and keeps its name.
func (e *elements[V]) putNew(name string, val V, size int) *element[V] {
	el := e.enter(name)
	el.val = val
	e.bytes += size
	return el
}

// put adds or replaces an entry; size and oldSize are the resident sizes of its new and old value.
func (e *elements[V]) put(name []byte, val V, size, oldSize int) *element[V] {
	el := e.find(name)
	switch {
	case el == nil:
		return e.putNew(e.textOf(name), val, size)
	case el.dead:
		el.dead = false
		e.dead--
		e.bytes += size
	default:
		e.bytes += size - oldSize
	}
	el.val, el.lent, el.kept, el.lacking = val, false, false, 0
	return el
}

// kill marks the entry of an element that was there as deleted by the transaction; size is the resident size of the value that goes.
func (e *elements[V]) kill(s *Shard, o *object, name []byte, size int) {
	el := e.find(name)
	if el == nil {
		el = e.enter(e.textOf(name))
	} else {
		e.bytes -= size
		if el.dead {
			return
		}
	}
	e.removed(s, o, name)
	var none V
	el.val, el.dead, el.lent, el.kept = none, true, false, false
	e.dead++
	e.killed = append(e.killed, el)
}

// settle forgets what the transaction has deleted after its commit.
func (e *elements[V]) settle() {
	for _, el := range e.killed {
		if el.dead {
			e.forget(el)
		}
	}
	e.killed = emptied(e.killed)
}

// uncache forgets the entry; size is the resident size of a value. If the transaction has changed the collection, that waits for the
// commit: until then the entry may be what the transaction has made it.
func (e *elements[V]) uncache(o *object, name []byte, size func(V) int) {
	el := e.find(name)
	switch {
	case el == nil:
	case o.dirty:
		e.forgetLater(el)
	default:
		e.drop(el, size)
	}
}

// forgetLater has the entry forgotten with the commit.
func (e *elements[V]) forgetLater(el *element[V]) {
	if !el.idle {
		el.idle = true
		e.idle = append(e.idle, el)
	}
}

// settleIdle forgets after a commit what was to wait for it.
func (e *elements[V]) settleIdle(size func(V) int) {
	for _, el := range e.idle {
		if el.idle {
			e.drop(el, size)
		}
	}
	e.idle = emptied(e.idle)
}

func (e *elements[V]) drop(el *element[V], size func(V) int) {
	if !el.dead {
		e.bytes -= size(el.val)
	}
	e.forget(el)
}

// maxKeptEntries is how many entries a collection keeps room for between transactions.
const maxKeptEntries = 1 << 10

// emptied is the list for the entries of the next transaction.
func emptied[V any](entries []*element[V]) []*element[V] {
	if cap(entries) > maxKeptEntries {
		return nil
	}
	clear(entries)
	return entries[:0]
}

// absent notes that there is no such element.
func (e *elements[V]) absent(name []byte) {
	if e.find(name) == nil {
		e.enter(e.textOf(name)).dead = true
		e.dead++
	}
}

// thin keeps a quarter of the entries, those that the map yields first. The map is built anew, since a Go map never gives memory back;
// what is kept costs as much as as many entries that come. If all elements were cached, their names stay known, until there is no entry left to
// drop instead.
func (e *elements[V]) thin(o *object, size func(V) int) {
	switch {
	case len(e.rows) == 0:
		e.names = names{}
	case e.names.set == nil && e.complete(o):
		e.names = names{set: newNameSet(len(e.rows))}
		for name, el := range e.rows {
			if !el.dead && e.names.set != nil {
				e.names.add([]byte(name))
			}
		}
	}
	keep := len(e.rows) / 4
	rows := make(map[string]*element[V], keep)
	e.last, e.spares, e.bytes, e.dead = nil, nil, 0, 0
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

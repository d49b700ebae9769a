package shard

import "container/list"

// objectCache is a shard's write-through cache of objects, bounded in bytes and evicted least recently used
// first. It is guarded by the shard's lock. What a transaction has changed stays where it is until it ends, and what it has
// read as long as somebody may refer to it, see Tx.Check.
//
// Each database has a part of its own, so that emptying one and swapping two are single steps, whatever is cached.
type objectCache struct {
	dbs    []*cachedDB
	uses   uint64 // counts get and add, to compare how recently objects of different databases were used
	bytes  int
	budget int
	again  int // evictClean has nothing to do before bytes is more than that
	ranks  rankIndexes

	nameBytes int // of bytes, what the names of keys take

	spares []*object // for newObject
}

// cachedDB is what is cached of a database.
type cachedDB struct {
	n       int                // the number of the database
	objects map[string]*object // nil: the database was emptied since, and this is no longer part of the cache
	live    int64              // the objects that are not known to be absent
	recent  [16]*object        // of the objects, for get: of all keys whose length ends in the same four bits, the one that was found last
	root    object             // sentinel of the ring: root.next is the most recently used object
	bytes   int
	names   keyNames
	common  *string // see elements.textOf
}

func newCachedDB(n int) *cachedDB {
	d := &cachedDB{n: n, objects: make(map[string]*object), common: new(string)}
	d.root.prev, d.root.next = &d.root, &d.root
	return d
}

func newObjectCache(databases, budget int) *objectCache {
	c := &objectCache{dbs: make([]*cachedDB, databases), budget: budget}
	for i := range c.dbs {
		c.dbs[i] = newCachedDB(i)
	}
	c.ranks = rankIndexes{cache: c, byID: make(map[uint64]*list.Element)}
	return c
}

func (c *objectCache) get(db int, key []byte) *object {
	d := c.dbs[db]
	recent := &d.recent[len(key)%len(d.recent)]
	o := *recent
	if o == nil || o.key != string(key) {
		if o = d.objects[string(key)]; o == nil {
			return nil
		}
		*recent = o
	}
	c.refresh(o)
	return o
}

// refresh makes the object the most recently used one.
func (c *objectCache) refresh(o *object) {
	c.use(o)
	if d := o.db; d.root.next != o {
		o.unlink()
		d.pushFront(o)
	}
}

func (c *objectCache) use(o *object) {
	c.uses++
	o.used = c.uses
}

func (c *objectCache) add(o *object) {
	o.db.objects[o.key] = o
	if o.kind != KindNone {
		o.db.live++
	}
	c.use(o)
	o.db.pushFront(o)
	c.charge(o)
}

// maxSpares is how many objects are kept to be used again, and how many entries of a collection.
const maxSpares = 128

// spare takes an object that was dropped, and that nobody will look at any more, to be used again: leases come and go with each task.
func (c *objectCache) spare(o *object) {
	if *o = (object{}); len(c.spares) < maxSpares {
		c.spares = append(c.spares, o)
	}
}

// newObject is an object without a key.
func (c *objectCache) newObject() *object {
	last := len(c.spares) - 1
	if last < 0 {
		return new(object)
	}
	o := c.spares[last]
	c.spares[last], c.spares = nil, c.spares[:last]
	return o
}

// charge brings the object's share of the budget up to date.
func (c *objectCache) charge(o *object) {
	if o.db.objects == nil {
		return
	}
	n := o.footprint()
	c.bytes += n - o.bytes
	o.db.bytes += n - o.bytes
	o.bytes = n
}

func (c *objectCache) drop(o *object) {
	d := o.db
	if d.objects[o.key] != o {
		return
	}
	delete(d.objects, o.key)
	if recent := &d.recent[len(o.key)%len(d.recent)]; *recent == o {
		*recent = nil
	}
	if o.kind != KindNone {
		d.live--
	}
	o.unlink()
	c.bytes -= o.bytes
	d.bytes -= o.bytes
	o.bytes = 0
}

// dropDB forgets every object of one database.
func (c *objectCache) dropDB(db int) {
	d := c.dbs[db]
	c.bytes -= d.bytes
	c.nameBytes -= d.names.bytes
	d.objects = nil
	c.dbs[db] = newCachedDB(db)
}

func (c *objectCache) dropAll() {
	for db := range c.dbs {
		c.dropDB(db)
	}
}

// swap gives the cached objects of two databases to each other.
func (c *objectCache) swap(a, b int) {
	c.dbs[a], c.dbs[b] = c.dbs[b], c.dbs[a]
	c.dbs[a].n, c.dbs[b].n = a, b
}

// evict brings the cache back under its budget, at the end of a transaction.
func (c *objectCache) evict() {
	c.again = 0
	for c.bytes > c.budget {
		o := c.oldest()
		if o == nil {
			return
		}
		c.release(o)
	}
}

// evictStep is the part of the budget by which the cache grows in the middle of a transaction between one evictClean and the next,
// and the part that each of them passes over at most where it finds nothing to evict. So it costs little for each object that comes.
const evictStep = 16

// evictClean is evict in the middle of a transaction, which needs what it has changed.
func (c *objectCache) evictClean() {
	if c.bytes <= max(c.budget, c.again) {
		return
	}
	for kept := 0; c.bytes > c.budget && kept <= c.budget/evictStep; {
		o := c.oldest()
		switch {
		case o == nil:
			return
		case o.dirty:
			c.refresh(o) // it is not looked at again before all others
			kept += o.bytes
		default:
			c.release(o)
		}
	}
	c.again = c.bytes + c.budget/evictStep
}

// release takes memory from the object. One that alone takes half of the budget first loses most of its cached elements, so that
// the hottest collection of a shard is never the one that empties the cache.
func (c *objectCache) release(o *object) {
	if o.used == c.uses || o.bytes > c.budget/2 {
		before := o.bytes
		o.dropElements()
		c.charge(o)
		if o.bytes < before {
			return
		}
	}
	c.drop(o)
}

// oldest is the least recently used object, nil if there is none.
func (c *objectCache) oldest() (oldest *object) {
	for _, d := range c.dbs {
		if o := d.root.prev; o != &d.root && (oldest == nil || o.used < oldest.used) {
			oldest = o
		}
	}
	return oldest
}

func (d *cachedDB) pushFront(o *object) {
	o.prev, o.next = &d.root, d.root.next
	o.prev.next, o.next.prev = o, o
}

func (o *object) unlink() {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = nil, nil
}

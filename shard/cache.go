package shard

import "container/list"

// objectCache is a shard's write-through cache of objects, bounded in bytes and evicted least recently used
// first. It is guarded by the shard's lock. Evicting is only done between transactions, so what a transaction
// has read or written stays where it is until it ends.
type objectCache struct {
	dbs    []map[string]*object
	live   []int64 // by database: the cached objects that are not known to be absent
	root   object  // sentinel of the ring: root.next is the most recently used object
	bytes  int
	budget int
	ranks  rankIndexes
}

func newObjectCache(databases, budget int) *objectCache {
	c := &objectCache{dbs: make([]map[string]*object, databases), live: make([]int64, databases), budget: budget}
	for i := range c.dbs {
		c.dbs[i] = make(map[string]*object)
	}
	c.root.prev, c.root.next = &c.root, &c.root
	c.ranks = rankIndexes{cache: c, byID: make(map[uint64]*list.Element)}
	return c
}

func (c *objectCache) get(db int, key []byte) *object {
	o := c.dbs[db][string(key)]
	if o != nil && c.root.next != o {
		c.unlink(o)
		c.pushFront(o)
	}
	return o
}

func (c *objectCache) add(o *object) {
	c.dbs[o.db][o.key] = o
	if o.kind != KindNone {
		c.live[o.db]++
	}
	c.pushFront(o)
	c.charge(o)
}

// charge brings the object's share of the budget up to date.
func (c *objectCache) charge(o *object) {
	n := o.footprint()
	c.bytes += n - o.bytes
	o.bytes = n
}

func (c *objectCache) drop(o *object) {
	if c.dbs[o.db][o.key] != o {
		return
	}
	delete(c.dbs[o.db], o.key)
	if o.kind != KindNone {
		c.live[o.db]--
	}
	c.unlink(o)
	c.bytes -= o.bytes
	o.bytes = 0
}

// dropDB forgets every object of one database.
func (c *objectCache) dropDB(db int) {
	for _, o := range c.dbs[db] {
		c.unlink(o)
		c.bytes -= o.bytes
		o.bytes = 0
	}
	c.dbs[db] = make(map[string]*object)
	c.live[db] = 0
}

func (c *objectCache) dropAll() {
	for db := range c.dbs {
		c.dropDB(db)
	}
}

// evict brings the cache back under its budget. An object that alone takes half of it first loses half of
// its cached elements, so that the hottest collection of a shard is never the one that empties the cache.
func (c *objectCache) evict() {
	for c.bytes > c.budget && c.root.prev != &c.root {
		o := c.root.prev
		if o == c.root.next || o.bytes > c.budget/2 {
			before := o.bytes
			o.dropElements()
			c.charge(o)
			if o.bytes < before {
				continue
			}
		}
		c.drop(o)
	}
}

func (c *objectCache) pushFront(o *object) {
	o.prev, o.next = &c.root, c.root.next
	o.prev.next, o.next.prev = o, o
}

func (c *objectCache) unlink(o *object) {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = nil, nil
}

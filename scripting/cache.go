package scripting

import (
	"cmp"
	"crypto/sha1"
	"slices"
	"sync"
	"sync/atomic"

	"codeq/scripting/lua"
)

// shaKey is the SHA1 of a script's text in hexadecimal digits, its name.
type shaKey [2 * sha1.Size]byte

// script is a compiled script.
type script struct {
	sha    shaKey
	name   string // sha
	body   string
	flags  Flags
	proto  *lua.Proto
	loaded bool // stays until a flush
	// used is the cache's turn at which the script was last used.
	used atomic.Int64
}

// What a compiled script takes in memory, about: a multiple of its text besides what each takes.
const (
	scriptOverhead = 512
	scriptFactor   = 6
)

func (s *script) footprint() int64 { return scriptOverhead + scriptFactor*int64(len(s.body)) }

// cache keeps compiled scripts. Those that were loaded stay until a flush. Those that came with EVAL, of which a client may
// send any number, are bounded in bytes: when they exceed the bound, the least recently used are forgotten until a quarter of it
// is free. So the order of use has to be known only then, and using a script costs no lock that others wait for. The latest
// script always stays, so that the EVALSHA which follows an EVAL in a pipeline finds it.
type cache struct {
	limit func() int64 // bytes of scripts that are not loaded
	// turn counts the scripts that were put into the cache. Those that were used between two of them count as used at the
	// same time.
	turn atomic.Int64

	mu      sync.RWMutex
	scripts map[shaKey]*script
	bytes   int64 // of those that are not loaded
}

func newCache(limit func() int64) cache { return cache{limit: limit, scripts: map[shaKey]*script{}} }

// get finds a script and notes that it is used.
func (c *cache) get(key shaKey) *script {
	c.mu.RLock()
	s := c.scripts[key]
	c.mu.RUnlock()
	if s != nil && !s.loaded {
		// Scripts that are used all the time are not written to each time, which would cost other cores their copy.
		if turn := c.turn.Load(); s.used.Load() != turn {
			s.used.Store(turn)
		}
	}
	return s
}

// put adds a script, unless it is there already, and returns the one that is there. One that is loaded takes the place of one that
// is not.
func (c *cache) put(s *script) *script {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.scripts[s.sha]; ok {
		if known.loaded || !s.loaded {
			return known
		}
		c.bytes -= known.footprint()
	}
	c.scripts[s.sha] = s
	s.used.Store(c.turn.Add(1))
	if !s.loaded {
		c.bytes += s.footprint()
		if limit := c.limit(); c.bytes > limit {
			c.evict(limit-limit/4, s)
		}
	}
	return s
}

// evict forgets the least recently used scripts, but for one, until the rest takes no more than so many bytes.
func (c *cache) evict(bytes int64, but *script) {
	type candidate struct {
		*script
		used int64 // as it was when the candidates were sorted
	}
	var all []candidate
	for _, s := range c.scripts {
		if !s.loaded && s != but {
			all = append(all, candidate{s, s.used.Load()})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	for _, s := range all {
		if c.bytes <= bytes {
			break
		}
		delete(c.scripts, s.sha)
		c.bytes -= s.footprint()
	}
}

// len answers the number of scripts and the bytes of their texts.
func (c *cache) len() (scripts, bytes int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.scripts {
		bytes += len(s.body)
	}
	return len(c.scripts), bytes
}

// flush forgets all scripts.
func (c *cache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.scripts)
	c.bytes = 0
}

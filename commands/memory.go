package commands

import (
	"fmt"
	"math/bits"
	"runtime/debug"
	"runtime/metrics"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// memoryCommands tell of the memory that the server takes and of that which a key would take in Redis.
func memoryCommands() []Command {
	hints := []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}
	return []Command{
		{Command: spec.Command{Name: "memory", Group: spec.Server, Since: "4.0.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on memory."}},
		{Command: spec.Command{Name: "memory|doctor", Syntax: "MEMORY DOCTOR",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)",
			Differs: "Tells of the Go runtime, in words of our own.",
			Summary: "Sums up in words what the server's memory is used for.", Hints: hints},
			Run: memoryDoctorCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "memory|help", Syntax: "MEMORY HELP",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "memory|malloc-stats", Syntax: "MEMORY MALLOC-STATS",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)",
			Differs: "Tells of the Go runtime.",
			Summary: "Returns what the Go runtime tells of its memory.", Hints: hints},
			Run: memoryMallocStatsCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "memory|purge", Syntax: "MEMORY PURGE",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(N), where N is the size of what is in memory",
			Summary: "Collects garbage and gives free memory back to the system.",
			Hints:   []string{"request_policy:all_shards", "response_policy:all_succeeded"}},
			Run: memoryPurgeCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "memory|stats", Syntax: "MEMORY STATS",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)",
			Differs: "Tells of the Go runtime. `keys.count` is without the shards that do not answer within 100 ms.",
			Summary: "Returns sizes of the server's memory.", Hints: hints},
			Run: memoryStatsCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "memory|usage", Syntax: "MEMORY USAGE key [SAMPLES count]",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(N), where N is the number of samples",
			Differs: "An estimate of Redis' bytes, from the value as it is and without the groups of a stream.",
			Summary: "Estimates the bytes that Redis would take for the key and its value.",
			Flags:   spec.ReadOnly, Keys: spec.Keys{spec.KeyAt(2, spec.RO)}},
			Run: memoryUsageCommand},
	}
}

// MEMORY DOCTOR
func memoryDoctorCommand(c *Call) error {
	settings := c.server.config.Current()
	status := procFields("/proc/self/status")
	c.Out.Verbatim("txt", fmt.Sprintf("%s are in use, %s at most so far, of the %s that this machine has. "+
		"The data is on disk: memory goes to cache-size (%s), block-cache-size (%s) and memtable-size (%s for each of %d shards), "+
		"to clients and to garbage that is not collected yet. GOMEMLIMIT in the environment bounds the latter.\n",
		humanBytes(goMemory()), humanBytes(status["VmHWM"]), humanBytes(procFields("/proc/meminfo")["MemTotal"]),
		humanBytes(settings.CacheSize), humanBytes(settings.BlockCacheSize), humanBytes(settings.MemtableSize), c.server.store.Shards()))
	return nil
}

// MEMORY MALLOC-STATS
func memoryMallocStatsCommand(c *Call) error {
	var all []metrics.Sample
	for _, d := range metrics.All() {
		if d.Kind == metrics.KindUint64 {
			all = append(all, metrics.Sample{Name: d.Name})
		}
	}
	metrics.Read(all)
	var text []byte
	for _, sample := range all {
		text = fmt.Appendf(text, "%s %d\n", sample.Name, sample.Value.Uint64())
	}
	c.Out.Verbatim("txt", string(text))
	return nil
}

// MEMORY PURGE
func memoryPurgeCommand(c *Call) error {
	debug.FreeOSMemory()
	c.Out.OK()
	return nil
}

// MEMORY STATS. As with INFO, what nothing stands behind is left out, and the keys are those of shards that answer.
func memoryStatsCommand(c *Call) error {
	s := c.server
	var keys int64
	err := c.observe(s.store.All(), func(tx *shard.Tx) error {
		keys = 0
		for n := range s.config.Current().Databases {
			size, err := tx.DB(n).Size()
			if err != nil {
				return err
			}
			keys += size
		}
		return nil
	})
	if err != nil {
		return err
	}
	used, status := goMemory(), procFields("/proc/self/status")
	rss, peak := max(status["VmRSS"], used), max(status["VmHWM"], used)
	_, scripts := s.scripts.Len()
	out := c.Out
	number := func(name string, n int64) {
		out.BulkString(name)
		out.Int(n)
	}
	out.Map(10)
	number("peak.allocated", peak)
	number("total.allocated", used)
	number("replication.backlog", 0)
	number("lua.caches", int64(scripts))
	number("functions.caches", 0)
	number("keys.count", keys)
	out.BulkString("peak.percentage")
	out.Double(100 * float64(used) / float64(peak))
	number("allocator.resident", rss)
	out.BulkString("fragmentation")
	out.Double(float64(rss) / float64(used))
	number("fragmentation.bytes", rss-used)
	return nil
}

// usageSamples is how many elements MEMORY USAGE looks at when it is not told.
const usageSamples = 5

// MEMORY USAGE key [SAMPLES count]
func memoryUsageCommand(c *Call) error {
	samples := int64(usageSamples)
	for a := c.args(2); a.more(); {
		if len(a.rest) < 2 || !a.token("SAMPLES") {
			return resp.ErrSyntax
		}
		if samples = a.integer(); a.err != nil {
			return a.err
		}
		if samples < 0 {
			return resp.ErrSyntax
		}
	}
	key := c.Args[2]
	c.tx.CountLookups(false) // as in Redis
	o, err := c.describe(key)
	if err != nil {
		return err
	}
	if o.kind == shard.KindNone {
		c.Out.Null()
		return nil
	}
	size, err := o.usage(c, key, samples)
	if err != nil {
		return err
	}
	c.Out.Int(size + textSize(key) + dictEntrySize)
	return nil
}

// The sizes of Redis 7.0's structures on a 64-bit machine.
const (
	objectSize        = 16
	dictSize          = 56
	dictEntrySize     = 24
	dictSlotSize      = 8
	setOfScoresSize   = 16
	skiplistSize      = 32
	skiplistHeadSize  = 536
	skiplistNodeSize  = 53 // a node has 1.33 levels on average
	quicklistSize     = 40
	quicklistNodeSize = 32
	listpackHeadSize  = 7
	intsetHeadSize    = 8
	streamSize        = 608
	streamEntrySize   = 18      // besides its fields and values
	streamNodeSize    = 4 << 10 // what a stream takes for its entries at least
)

// allocated is what the allocator of Redis takes for n bytes: small sizes in steps of 16, larger ones in four steps to each
// power of two.
func allocated(n int64) int64 {
	step := int64(16)
	switch {
	case n <= 8:
		return 8
	case n > 128:
		step = 1 << (bits.Len64(uint64(n-1)) - 3)
	}
	return (n + step - 1) / step * step
}

// textSize is a string with the header that its length calls for.
func textSize(b []byte) int64 { return textSizeOf(int64(len(b))) }

func textSizeOf(length int64) int64 { return allocated(textHead(length) + length + 1) }

func textHead(length int64) int64 {
	switch {
	case length < 1<<5:
		return 1
	case length < 1<<8:
		return 3
	case length < 1<<16:
		return 5
	}
	return 9
}

// listpackEntry is an element of a listpack: integers are packed, and each entry's length follows it.
func listpackEntry(b []byte) int64 {
	size := int64(len(b))
	if n, ok := parseInt(b); ok {
		size = packedInt(n)
	} else {
		switch {
		case size < 1<<6:
			size++
		case size < 1<<12:
			size += 2
		default:
			size += 5
		}
	}
	return size + 1 + int64(bits.Len64(uint64(size))-1)/7
}

func packedInt(n int64) int64 {
	if n >= 0 && n < 1<<7 {
		return 1
	}
	width := int64(bits.Len64(uint64(n^n>>63))) + 1 // two's complement
	switch {
	case width <= 13:
		return 2
	case width <= 16:
		return 3
	case width <= 24:
		return 4
	case width <= 32:
		return 5
	}
	return 9
}

// usage estimates the bytes of the value from some of its elements.
func (o *description) usage(c *Call, key []byte, samples int64) (int64, error) {
	s := &sizes{limit: samples}
	if o.encoding == "listpack" || o.encoding == "intset" {
		s.limit = 0 // they are short, and have been looked at already
	}
	switch o.kind {
	case shard.KindString:
		return o.usageOfString(), nil
	case shard.KindList:
		return o.usageOfList(c, key, s)
	case shard.KindHash:
		return o.usageOfHash(c, key, s)
	case shard.KindSet:
		return o.usageOfSet(c, key, s)
	case shard.KindZSet:
		return o.usageOfZSet(c, key, s)
	case shard.KindStream:
		return o.usageOfStream(c, key, s)
	}
	return objectSize, nil
}

func (o *description) usageOfString() int64 {
	switch o.encoding {
	case "int":
		return objectSize
	case "embstr":
		return allocated(objectSize + 3 + o.length + 1)
	}
	return objectSize + textSizeOf(o.length)
}

// nodeBytes is the size of a node that list-max-listpack-size gives as a negative number.
func nodeBytes(setting int) int64 { return 4 << 10 << (min(-int64(setting), 5) - 1) }

func (o *description) usageOfList(c *Call, key []byte, s *sizes) (int64, error) {
	l, err := c.DB().List(key)
	if err != nil {
		return 0, err
	}
	last := o.count - 1
	if s.limit > 0 {
		last = min(last, s.limit-1)
	}
	if err := l.Range(0, last, func(val []byte) { s.add(listpackEntry(val)) }); err != nil {
		return 0, err
	}
	total, nodes := s.total(o.count), int64(1)
	switch setting := c.server.config.Current().ListMaxListpackSize; {
	case setting > 0:
		nodes = (o.count + int64(setting) - 1) / int64(setting)
	case setting < 0:
		nodes = (total + nodeBytes(setting) - 1) / nodeBytes(setting)
	default:
		nodes = o.count
	}
	return objectSize + quicklistSize + nodes*(quicklistNodeSize+allocated(listpackHeadSize+total/nodes)), nil
}

func (o *description) usageOfHash(c *Call, key []byte, s *sizes) (int64, error) {
	h, err := c.DB().Hash(key)
	if err != nil {
		return 0, err
	}
	if o.encoding == "listpack" {
		err = h.Each(func(field, val []byte) bool { return s.add(listpackEntry(field) + listpackEntry(val)) })
		return objectSize + allocated(listpackHeadSize+s.bytes), err
	}
	err = h.Each(func(field, val []byte) bool { return s.add(textSize(field) + textSize(val) + dictEntrySize) })
	return objectSize + o.tableSize() + s.total(o.count), err
}

func (o *description) usageOfSet(c *Call, key []byte, s *sizes) (int64, error) {
	set, err := c.DB().SetOf(key)
	if err != nil {
		return 0, err
	}
	if o.encoding == "intset" {
		width := int64(2)
		err = set.Each(func(member []byte) bool {
			n, _ := parseInt(member)
			switch {
			case n != int64(int32(n)):
				width = 8
			case n != int64(int16(n)):
				width = max(width, 4)
			}
			return true
		})
		return objectSize + allocated(intsetHeadSize+width*o.count), err
	}
	err = set.Each(func(member []byte) bool { return s.add(textSize(member) + dictEntrySize) })
	return objectSize + o.tableSize() + s.total(o.count), err
}

func (o *description) usageOfZSet(c *Call, key []byte, s *sizes) (int64, error) {
	z, err := c.DB().ZSet(key)
	if err != nil {
		return 0, err
	}
	if o.encoding == "listpack" {
		var text []byte
		err = z.Each(func(member []byte, score float64) bool {
			text = resp.AppendDouble(text[:0], score)
			return s.add(listpackEntry(member) + listpackEntry(text))
		})
		return objectSize + allocated(listpackHeadSize+s.bytes), err
	}
	err = z.Each(func(member []byte, _ float64) bool {
		return s.add(textSize(member) + dictEntrySize + skiplistNodeSize)
	})
	return objectSize + setOfScoresSize + skiplistSize + allocated(skiplistHeadSize) + o.tableSize() + s.total(o.count), err
}

// usageOfStream leaves out groups, whose pending entries are few beside the entries as a rule.
func (o *description) usageOfStream(c *Call, key []byte, s *sizes) (int64, error) {
	st, err := c.DB().Stream(key)
	if err != nil {
		return 0, err
	}
	info := st.Info()
	err = st.Range(info.First, info.Last, false, func(_ shard.StreamID, fields shard.Fields) bool {
		size := int64(streamEntrySize)
		for fields.Len() > 0 {
			size += listpackEntry(fields.Next())
		}
		return s.add(size)
	})
	return objectSize + streamSize + max(streamNodeSize, s.total(o.count)), err
}

// tableSize is a hash table without its entries: it has as many slots as the power of two that holds them.
func (o *description) tableSize() int64 {
	slots := int64(4)
	for slots < o.count {
		slots *= 2
	}
	return dictSize + slots*dictSlotSize
}

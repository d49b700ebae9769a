package commands

import (
	"math"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/resp"
	"codeq/shard"
)

// objectCommands tell how Redis would keep a value. Here all values are kept in one way, so what OBJECT ENCODING says is
// worked out from the value as it is and from the settings of the small encodings.
func objectCommands() []Command {
	key := spec.Keys{spec.KeyAt(2, spec.RO)}
	hints := []string{"nondeterministic_output"}
	return []Command{
		{Command: spec.Command{Name: "object", Group: spec.Generic, Since: "2.2.3", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on how values are kept."}},
		{Command: spec.Command{Name: "object|encoding", Syntax: "OBJECT ENCODING key",
			Group: spec.Generic, Since: "2.2.3", Complexity: "O(1); O(N) for collections of N elements that could have a small encoding",
			Differs: "Follows the value as it is; Redis keeps an encoding once it has converted to it, and a string that was " +
				"appended to is raw there.",
			Summary: "Returns the encoding that Redis would choose for the value.",
			Flags:   spec.ReadOnly, Keys: key, Hints: hints},
			Run: objectEncodingCommand},
		{Command: spec.Command{Name: "object|freq", Syntax: "OBJECT FREQ key",
			Group: spec.Generic, Since: "4.0.0", Complexity: "O(1)",
			Summary: "Refuses: how often a key is used is not tracked.",
			Flags:   spec.ReadOnly, Keys: key, Hints: hints},
			Run: objectFreqCommand},
		{Command: spec.Command{Name: "object|help", Syntax: "OBJECT HELP",
			Group: spec.Generic, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.",
			Flags:   spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "object|idletime", Syntax: "OBJECT IDLETIME key",
			Group: spec.Generic, Since: "2.2.3", Complexity: "O(1)",
			Differs: "Always 0.",
			Summary: "Returns 0, as for a key that was just used: when it was is not tracked.",
			Flags:   spec.ReadOnly, Keys: key, Hints: hints},
			Run: objectNumberCommand(0)},
		{Command: spec.Command{Name: "object|refcount", Syntax: "OBJECT REFCOUNT key",
			Group: spec.Generic, Since: "2.2.3", Complexity: "O(1)",
			Differs: "Always 1.",
			Summary: "Returns 1: values are not shared between keys.",
			Flags:   spec.ReadOnly, Keys: key, Hints: hints},
			Run: objectNumberCommand(1)},
	}
}

// OBJECT ENCODING key
func objectEncodingCommand(c *Call) error {
	o, err := c.describe(c.Args[2])
	if err != nil {
		return err
	}
	if o.kind == shard.KindNone {
		c.Out.Null()
		return nil
	}
	c.Out.BulkString(o.encoding)
	return nil
}

// OBJECT FREQ key
func objectFreqCommand(c *Call) error {
	found, err := c.DB().Exists(c.Args[2])
	if err != nil {
		return err
	}
	if found {
		return resp.ErrNoLFU
	}
	c.Out.Null()
	return nil
}

// OBJECT IDLETIME key
// OBJECT REFCOUNT key
func objectNumberCommand(n int64) Handler {
	return func(c *Call) error {
		found, err := c.DB().Exists(c.Args[2])
		if err != nil {
			return err
		}
		if found {
			c.Out.Int(n)
		} else {
			c.Out.Null()
		}
		return nil
	}
}

// maxEmbedded is the length up to which Redis keeps a string in one piece with its header.
const maxEmbedded = 44

// description is how Redis would keep a value.
type description struct {
	kind     shard.Kind
	encoding string
	// count is the number of elements, 0 for a string.
	count int64
	// length is that of a string.
	length int64
}

// describe finds out how Redis would keep the value at the key. It looks at the elements only as long as a small encoding is
// possible.
func (c *Call) describe(key []byte) (o description, err error) {
	db, settings := c.DB(), c.server.config.Current()
	if o.kind, err = db.Type(key); err != nil {
		return o, err
	}
	switch o.kind {
	case shard.KindString:
		err = o.describeString(db, key)
	case shard.KindList:
		var l shard.List
		if l, err = db.List(key); err == nil {
			o.encoding = "quicklist"
			o.count, err = l.Len()
		}
	case shard.KindHash:
		err = o.describeHash(db, key, settings)
	case shard.KindSet:
		err = o.describeSet(db, key, settings)
	case shard.KindZSet:
		err = o.describeZSet(db, key, settings)
	case shard.KindStream:
		var st shard.Stream
		if st, err = db.Stream(key); err == nil {
			o.encoding = "stream"
			o.count = st.Info().Length
		}
	}
	return o, err
}

func (o *description) describeString(db shard.DB, key []byte) error {
	t, err := db.StringOf(key)
	if err != nil {
		return err
	}
	o.length, o.encoding = t.Len(), "raw"
	if o.length > maxEmbedded {
		return nil
	}
	o.encoding = "embstr"
	val, err := t.Part(0, maxEmbedded)
	if _, ok := parseInt(val); ok {
		o.encoding = "int"
	}
	return err
}

func (o *description) describeHash(db shard.DB, key []byte, settings *config.Config) error {
	h, err := db.Hash(key)
	if err != nil {
		return err
	}
	if o.count, err = h.Len(); err != nil {
		return err
	}
	small := o.count <= int64(settings.HashMaxListpackEntries)
	if small {
		err = h.Each(func(field, val []byte) bool {
			small = int64(max(len(field), len(val))) <= settings.HashMaxListpackValue
			return small
		})
	}
	o.encoding = smallOr(small, "listpack", "hashtable")
	return err
}

func (o *description) describeSet(db shard.DB, key []byte, settings *config.Config) error {
	s, err := db.SetOf(key)
	if err != nil {
		return err
	}
	if o.count, err = s.Len(); err != nil {
		return err
	}
	small := o.count <= int64(settings.SetMaxIntsetEntries)
	if small {
		err = s.Each(func(member []byte) bool {
			_, small = parseInt(member)
			return small
		})
	}
	o.encoding = smallOr(small, "intset", "hashtable")
	return err
}

func (o *description) describeZSet(db shard.DB, key []byte, settings *config.Config) error {
	z, err := db.ZSet(key)
	if err != nil {
		return err
	}
	if o.count, err = z.Len(); err != nil {
		return err
	}
	small := o.count <= int64(settings.ZsetMaxListpackEntries)
	if small {
		err = z.Each(func(member []byte, _ float64) bool {
			small = int64(len(member)) <= settings.ZsetMaxListpackValue
			return small
		})
	}
	o.encoding = smallOr(small, "listpack", "skiplist")
	return err
}

func smallOr(small bool, encoding, otherwise string) string {
	if small {
		return encoding
	}
	return otherwise
}

// sizes adds up what elements take in memory.
type sizes struct {
	visited int64
	limit   int64 // elements to visit; 0: all
	bytes   int64
}

// add adds one element and tells whether another is wanted.
func (s *sizes) add(n int64) bool {
	s.visited++
	s.bytes += n
	return s.visited != s.limit
}

// total is what count elements take when those that were not visited are like the others.
func (s *sizes) total(count int64) int64 {
	if s.visited == 0 || s.visited == count {
		return s.bytes
	}
	return int64(math.Round(float64(s.bytes) / float64(s.visited) * float64(count)))
}

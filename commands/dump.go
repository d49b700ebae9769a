package commands

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"codeq/commands/spec"
	"codeq/rdb"
	"codeq/resp"
	"codeq/shard"
)

// DUMP and RESTORE: values in Redis' own serialization, which package rdb knows. A new type of value needs its case in
// readValue and in writeValue, which COPY and MOVE use as well.

func dumpCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "dump", Syntax: "DUMP key",
			Group: spec.Generic, Since: "2.6.0", Complexity: "O(N) where N is the size of the value",
			Differs: "Always written with Redis' default thresholds of the small encodings, and without deleted stream entries. " +
				"Refuses a value over 512 MiB, counted with 32 bytes for each element.",
			Summary: "Returns the value at a key in the form that RESTORE takes.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: dumpCommand},
		{Command: spec.Command{Name: "restore",
			Syntax: "RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
			Group:  spec.Generic, Since: "2.6.0", Complexity: "O(N) where N is the size of the value",
			Differs: "Takes payload versions up to 12 (Redis 7.0: 10), but neither 7.4's hashes whose fields expire nor " +
				"modules. Payloads are checked in full, for repeated elements too, which Redis does only with " +
				"`sanitize-dump-payload`. Refuses a value over 512 MiB, counted with 32 bytes for each element. IDLETIME " +
				"and FREQ are checked and have no effect. A partitioned key takes its own type only, and no deadline. A " +
				"consumer's active time, which 7.2 writes, is dropped.",
			Summary: "Creates a key from what DUMP returned.",
			Flags:   spec.Write | spec.DenyOOM, ACL: spec.CatDangerous | spec.CatKeyspace,
			Keys: spec.Keys{spec.FirstKey(spec.OW | spec.Update)}}, Run: restoreCommand},
		{Command: spec.Command{Name: "restore-asking",
			Syntax: "RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
			Group:  spec.Server, Since: "3.0.0", Complexity: "O(N) where N is the size of the value",
			Differs: "As RESTORE.",
			Summary: "RESTORE, as the nodes of a Redis cluster send it.",
			Flags:   spec.Write | spec.DenyOOM | spec.Asking, ACL: spec.CatDangerous | spec.CatKeyspace,
			Keys:     spec.Keys{spec.FirstKey(spec.OW | spec.Update)},
			DocFlags: spec.SysCmd}, Run: restoreCommand},
	}
}

// DUMP key
func dumpCommand(c *Call) error {
	v, ok, err := readValue(c.DB(), c.key())
	if err != nil {
		return err
	}
	if !ok {
		c.Out.Null()
		return nil
	}
	c.Out.Bulk(rdb.Encode(&v))
	return nil
}

// restoreOptions are those of RESTORE. That a key was idle or frequently used means nothing where no key is evicted.
type restoreOptions struct{ replace, absolute bool }

func parseRestoreOptions(a *arguments) (o restoreOptions, err error) {
	idle, freq := false, false
	for a.more() {
		switch {
		case a.token("REPLACE"):
			o.replace = true
		case a.token("ABSTTL"):
			o.absolute = true
		case !freq && len(a.rest) > 1 && a.token("IDLETIME"):
			if idle = true; a.integer() < 0 {
				a.fail(resp.ErrInvalidIdleTime)
			}
		case !idle && len(a.rest) > 1 && a.token("FREQ"):
			freq = true
			if n := a.integer(); n < 0 || n > math.MaxUint8 {
				a.fail(resp.ErrInvalidFreq)
			}
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	return o, a.done()
}

// RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
// RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
func restoreCommand(c *Call) error {
	o, err := parseRestoreOptions(c.args(3))
	if err != nil {
		return err
	}
	db, key := c.DB(), c.key()
	if !o.replace {
		taken, err := db.Exists(key)
		if err != nil {
			return err
		}
		if taken {
			return resp.ErrBusyKey
		}
	}
	a := c.args(1)
	ttl := a.integer()
	if a.err != nil {
		return a.err
	}
	if ttl < 0 {
		return resp.ErrInvalidTTL
	}
	v, err := rdb.Decode(a.bytes())
	if err != nil {
		return rdbError(err)
	}
	atMs := ttl
	if ttl != 0 && !o.absolute {
		atMs += db.Now() // what overflows has passed, as in Redis
	}
	if ttl != 0 && atMs <= db.Now() {
		deleted, err := db.Delete(key)
		if err != nil {
			return err
		}
		c.notifyIf(deleted, shard.NoteGeneric, eventDel, key)
	} else {
		if err := writeValue(db, key, &v, atMs); err != nil {
			return err
		}
		c.notify(shard.NoteGeneric, "restore", key)
	}
	c.Out.OK()
	return nil
}

// rdbError is what the client is told when a payload can't be read.
func rdbError(err error) error {
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return resp.ErrDumpPayload
	case errors.Is(err, rdb.ErrTooBig):
		return resp.ErrValueTooBig
	}
	return resp.ErrDumpFormat
}

// valueReader collects the elements of a value, copied, as long as they are within the limit.
type valueReader struct {
	value  rdb.Value
	budget rdb.Budget
	err    error
}

func (r *valueReader) add(items ...[]byte) (goOn bool) {
	for _, item := range items {
		if r.err = r.budget.Spend(item); r.err != nil {
			return false
		}
		r.value.Items = append(r.value.Items, bytes.Clone(item))
	}
	return true
}

// readValue reads the whole value at the key; not ok if there is none.
func readValue(db shard.DB, key []byte) (v rdb.Value, ok bool, err error) {
	kind, err := db.Type(key)
	if err != nil || kind == shard.KindNone {
		return v, false, err
	}
	r := &valueReader{budget: rdb.MaxSize}
	switch kind {
	case shard.KindString:
		r.value.Kind = rdb.String
		r.value.Str, _, err = db.Get(key)
	case shard.KindList:
		err = r.list(db, key)
	case shard.KindSet:
		err = r.set(db, key)
	case shard.KindZSet:
		err = r.sortedSet(db, key)
	case shard.KindHash:
		err = r.hash(db, key)
	case shard.KindStream:
		err = r.stream(db, key)
	default:
		err = fmt.Errorf("read a value of type %s", kind)
	}
	if r.err != nil {
		err = rdbError(r.err)
	}
	return r.value, err == nil, err
}

func (r *valueReader) list(db shard.DB, key []byte) error {
	r.value.Kind = rdb.List
	list, err := db.List(key)
	if err != nil {
		return err
	}
	n, err := list.Len()
	if err != nil {
		return err
	}
	return list.Range(0, n-1, func(val []byte) {
		if r.err == nil {
			r.add(val)
		}
	})
}

func (r *valueReader) set(db shard.DB, key []byte) error {
	r.value.Kind = rdb.Set
	set, err := db.SetOf(key)
	if err != nil {
		return err
	}
	return set.Each(func(member []byte) bool { return r.add(member) })
}

func (r *valueReader) hash(db shard.DB, key []byte) error {
	r.value.Kind = rdb.Hash
	hash, err := db.Hash(key)
	if err != nil {
		return err
	}
	return hash.Each(func(field, val []byte) bool { return r.add(field, val) })
}

func (r *valueReader) sortedSet(db shard.DB, key []byte) error {
	r.value.Kind = rdb.ZSet
	zset, err := db.ZSet(key)
	if err != nil {
		return err
	}
	n, err := zset.Len()
	if err != nil {
		return err
	}
	return zset.RangeByRank(0, n-1, false, func(member []byte, score float64) bool {
		r.value.Scores = append(r.value.Scores, score)
		return r.add(member)
	})
}

// stream reads a stream with its groups. The names of groups and consumers count as elements.
func (r *valueReader) stream(db shard.DB, key []byte) error {
	stream, err := db.Stream(key)
	if err != nil {
		return err
	}
	info := stream.Info()
	s := &rdb.Stream{LastID: rdbID(info.Last), MaxDeletedID: rdbID(info.MaxDeleted), Added: uint64(info.EntriesAdded)}
	r.value.Kind, r.value.Stream = rdb.StreamKind, s
	err = stream.Range(shard.StreamID{}, shard.LastStreamID(), false, func(id shard.StreamID, fields shard.Fields) bool {
		e := rdb.Entry{ID: rdbID(id)}
		for range fields.Len() {
			item := bytes.Clone(fields.Next())
			if r.err = r.budget.Spend(item); r.err != nil {
				return false
			}
			e.Fields = append(e.Fields, item)
		}
		s.Entries = append(s.Entries, e)
		return true
	})
	if err != nil || r.err != nil {
		return err
	}
	groups, err := stream.Groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := r.group(g); err != nil || r.err != nil {
			return err
		}
	}
	return nil
}

// group reads a consumer group.
func (r *valueReader) group(g shard.Group) error {
	read, known := g.EntriesRead()
	if !known {
		read = -1
	}
	out := rdb.Group{Name: []byte(g.Name()), LastID: rdbID(g.Last()), Read: read}
	places := make(map[string]int)
	err := g.EachConsumer(func(c shard.Consumer) error {
		places[c.Name()] = len(out.Consumers)
		out.Consumers = append(out.Consumers, rdb.Consumer{Name: []byte(c.Name()), SeenMs: c.SeenMs(), ActiveMs: c.SeenMs()})
		r.err = r.budget.Spend([]byte(c.Name()))
		return r.err
	})
	if err != nil {
		return err
	}
	err = g.EachPending(nil, shard.StreamID{}, shard.LastStreamID(), func(p shard.Pending) bool {
		out.Pending = append(out.Pending, rdb.Pending{
			ID: rdbID(p.ID), Consumer: places[p.Consumer], DeliveredMs: p.DeliveredMs, Deliveries: uint64(p.Deliveries),
		})
		r.err = r.budget.Spend(nil)
		return r.err == nil
	})
	r.value.Stream.Groups = append(r.value.Stream.Groups, out)
	return err
}

func rdbID(id shard.StreamID) rdb.ID { return rdb.ID{MS: id.Ms, Seq: id.Seq} }

func shardID(id rdb.ID) shard.StreamID { return shard.StreamID{Ms: id.MS, Seq: id.Seq} }

// storedKind is the store's word for the kind of a value.
func storedKind(v *rdb.Value) shard.Kind {
	switch v.Kind {
	case rdb.String:
		return shard.KindString
	case rdb.List:
		return shard.KindList
	case rdb.Set:
		return shard.KindSet
	case rdb.ZSet:
		return shard.KindZSet
	case rdb.Hash:
		return shard.KindHash
	case rdb.StreamKind:
		return shard.KindStream
	}
	return shard.KindNone
}

// writeValue puts the value at the key, whatever was there, with a deadline in unix ms, 0 for none.
func writeValue(db shard.DB, key []byte, v *rdb.Value, atMs int64) error {
	if err := db.CanHold(key, storedKind(v)); err != nil {
		return err
	}
	if err := db.CanExpire(key, atMs); err != nil {
		return err
	}
	if _, err := db.Delete(key); err != nil {
		return err
	}
	if v.Kind == rdb.String {
		return db.Set(key, v.Str, atMs)
	}
	var err error
	switch v.Kind {
	case rdb.List:
		err = writeList(db, key, v)
	case rdb.Set:
		err = writeSet(db, key, v)
	case rdb.ZSet:
		err = writeSortedSet(db, key, v)
	case rdb.Hash:
		err = writeHash(db, key, v)
	case rdb.StreamKind:
		err = writeStream(db, key, v.Stream)
	default:
		err = fmt.Errorf("write a value of kind %d", v.Kind)
	}
	if err != nil || atMs == 0 {
		return err
	}
	_, err = db.SetExpireAt(key, atMs)
	return err
}

func writeList(db shard.DB, key []byte, v *rdb.Value) error {
	list, err := db.List(key)
	for _, item := range v.Items {
		if err == nil {
			err = list.Push(shard.Tail, item)
		}
	}
	return err
}

func writeSet(db shard.DB, key []byte, v *rdb.Value) error {
	set, err := db.SetOf(key)
	for _, member := range v.Items {
		if err == nil {
			_, err = set.Add(member)
		}
	}
	return err
}

func writeSortedSet(db shard.DB, key []byte, v *rdb.Value) error {
	zset, err := db.ZSet(key)
	for i, member := range v.Items {
		if err == nil {
			_, err = zset.Set(member, v.Scores[i])
		}
	}
	return err
}

func writeHash(db shard.DB, key []byte, v *rdb.Value) error {
	hash, err := db.Hash(key)
	for i := 0; i < len(v.Items); i += 2 {
		if err == nil {
			_, err = hash.Set(v.Items[i], v.Items[i+1])
		}
	}
	return err
}

func writeStream(db shard.DB, key []byte, s *rdb.Stream) error {
	stream, err := db.Stream(key)
	if err == nil {
		err = stream.Create()
	}
	for _, e := range s.Entries {
		if err == nil {
			err = stream.Add(shardID(e.ID), e.Fields)
		}
	}
	if err != nil {
		return err
	}
	stream.SetLast(shardID(s.LastID))
	stream.SetMaxDeleted(shardID(s.MaxDeletedID))
	stream.SetEntriesAdded(int64(s.Added))
	for i := range s.Groups {
		if err := writeGroup(stream, &s.Groups[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeGroup(stream shard.Stream, g *rdb.Group) error {
	if _, err := stream.CreateGroup(g.Name, shardID(g.LastID), g.Read); err != nil {
		return err
	}
	group, _, err := stream.Group(g.Name)
	if err != nil {
		return err
	}
	consumers := make([]shard.Consumer, len(g.Consumers))
	for i, c := range g.Consumers {
		if consumers[i], _, err = group.See(c.Name, c.SeenMs); err != nil {
			return err
		}
	}
	for _, p := range g.Pending {
		if err := group.SetPending(consumers[p.Consumer], shardID(p.ID), p.DeliveredMs, int64(p.Deliveries)); err != nil {
			return err
		}
	}
	return nil
}

package rdb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Stream is the value of a stream.
type Stream struct {
	Entries []Entry // in the order of their ids
	// LastID is the greatest id that the stream ever had, MaxDeletedID the greatest that was deleted.
	LastID, MaxDeletedID ID
	// Added counts the entries that were ever added.
	Added  uint64
	Groups []Group
}

// ID is the id of an entry.
type ID struct{ MS, Seq uint64 }

// Compare orders ids.
func (a ID) Compare(b ID) int {
	if c := cmp.Compare(a.MS, b.MS); c != 0 {
		return c
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// Entry is one entry: its fields, each followed by its value.
type Entry struct {
	ID     ID
	Fields [][]byte
}

// Group is a consumer group.
type Group struct {
	Name   []byte
	LastID ID
	// Read counts the entries that the group has read, -1 if that is not known.
	Read      int64
	Pending   []Pending // in the order of their ids
	Consumers []Consumer
}

// Pending is an entry that was delivered to a consumer and is not acknowledged.
type Pending struct {
	ID          ID
	Consumer    int // its place among the group's consumers
	DeliveredMs int64
	Deliveries  uint64
}

// Consumer is a consumer of a group, and when it was seen and active last, in unix ms.
type Consumer struct {
	Name             []byte
	SeenMs, ActiveMs int64
}

// Entries stand in nodes, each a listpack under the id of its first entry, which is the master of the others:
//
//	living entries · deleted ones · number of fields · the master's fields · 0
//
// and then for each entry:
//
//	flags · ms and seq, less the master's · unless it has the master's fields: their number
//	fields and values in turn, or values alone · how many of these elements there were
const (
	entryDeleted    = 1
	entrySameFields = 2

	streamNodeBytes   = 4096 // stream-node-max-bytes
	streamNodeEntries = 100  // stream-node-max-entries
	idBytes           = 16
	noConsumer        = -1
	unknownRead       = -1
	// streamItemCost is what an entry, a pending entry or a consumer costs besides its bytes.
	streamItemCost = 64
)

// stream reads a stream behind its type.
func (r *reader) stream(kind byte) *Stream {
	s := new(Stream)
	for range r.len() {
		r.streamNode(s)
		if r.err != nil {
			return nil
		}
	}
	length := r.len()
	r.check(length == uint64(len(s.Entries)), "a stream's length is wrong")
	s.LastID = r.lenID()
	if kind == typeStream1 {
		s.Added = length
	} else {
		r.lenID() // of the first entry, which is there
		s.MaxDeletedID = r.lenID()
		s.Added = r.len()
	}
	r.check(s.Added <= math.MaxInt64, "a count is too great")
	if n := len(s.Entries); n > 0 {
		r.check(s.Entries[n-1].ID.Compare(s.LastID) <= 0, "a stream's last id is wrong")
	}
	for range r.len() {
		r.group(s, kind)
		if r.err != nil {
			return nil
		}
	}
	r.check(!hasRepeatedNames(s.Groups, func(g Group) []byte { return g.Name }), "two groups have one name")
	return s
}

// lenID is an id as two lengths; rawID is one in 16 big-endian bytes.
func (r *reader) lenID() ID {
	ms := r.len()
	return ID{ms, r.len()}
}

func (r *reader) rawID() ID {
	id, _ := parseID(r.take(idBytes))
	return id
}

func parseID(b []byte) (id ID, ok bool) {
	if len(b) != idBytes {
		return id, false
	}
	return ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// streamNode reads the entries of one node.
func (r *reader) streamNode(s *Stream) {
	master, ok := parseID(r.str())
	r.check(ok, "a stream's node has no id")
	b := r.str()
	if r.err != nil {
		return
	}
	l := newListpack(b)
	living := l.integer()
	l.integer()
	var fields [][]byte
	for range l.integer() {
		if !l.more() || r.err != nil {
			break
		}
		fields = append(fields, l.item())
		r.spend(elementCost)
	}
	l.integer()
	found := int64(0)
	for l.more() && r.err == nil {
		if e, ok := r.streamEntry(l, master, fields); ok {
			r.appendEntry(s, e)
			found++
		}
	}
	r.check(!l.bad && found == living, "a stream's node is damaged")
}

func (r *reader) appendEntry(s *Stream, e Entry) {
	if n := len(s.Entries); n > 0 && s.Entries[n-1].ID.Compare(e.ID) >= 0 {
		r.fail("a stream's entries are not in order")
	}
	s.Entries = append(s.Entries, e)
}

// streamEntry reads one entry of a node; not ok if it is deleted.
func (r *reader) streamEntry(l *listpack, master ID, fields [][]byte) (e Entry, ok bool) {
	flags := l.integer()
	e.ID.MS = master.MS + uint64(l.integer())
	e.ID.Seq = master.Seq + uint64(l.integer())
	count, same := int64(len(fields)), flags&entrySameFields != 0
	if !same {
		count = l.integer()
	}
	r.check(count > 0, "an entry has no fields")
	r.spend(streamItemCost)
	for i := int64(0); i < count && !l.bad && r.err == nil; i++ {
		var field []byte
		if same {
			field = fields[i]
		} else {
			field = l.item()
		}
		r.addField(&e, field)
		r.addField(&e, l.item())
	}
	l.integer()
	return e, flags&entryDeleted == 0
}

func (r *reader) addField(e *Entry, item []byte) {
	r.spend(len(item) + elementCost)
	e.Fields = append(e.Fields, item)
}

// group reads a consumer group.
func (r *reader) group(s *Stream, kind byte) {
	g := Group{Name: r.str(), LastID: r.lenID()}
	if kind == typeStream1 {
		g.Read = s.estimateRead(g.LastID)
	} else {
		g.Read = int64(r.len())
	}
	for range r.len() {
		p := Pending{ID: r.rawID(), Consumer: noConsumer, DeliveredMs: int64(r.uint64()), Deliveries: r.len()}
		r.check(p.Deliveries <= math.MaxInt64, "a count is too great")
		if r.spend(streamItemCost); r.err != nil {
			return
		}
		if n := len(g.Pending); n > 0 && g.Pending[n-1].ID.Compare(p.ID) >= 0 {
			r.fail("pending entries are not in order")
		}
		g.Pending = append(g.Pending, p)
	}
	for range r.len() {
		r.consumer(&g, kind)
		if r.err != nil {
			return
		}
	}
	r.check(!slices.ContainsFunc(g.Pending, func(p Pending) bool { return p.Consumer == noConsumer }),
		"a pending entry has no consumer")
	r.check(!hasRepeatedNames(g.Consumers, func(c Consumer) []byte { return c.Name }), "two consumers have one name")
	s.Groups = append(s.Groups, g)
}

// consumer reads a consumer and finds the pending entries that it owns.
func (r *reader) consumer(g *Group, kind byte) {
	c := Consumer{Name: r.str(), SeenMs: int64(r.uint64())}
	c.ActiveMs = c.SeenMs
	if kind == typeStream3 {
		c.ActiveMs = int64(r.uint64())
	}
	r.spend(len(c.Name) + streamItemCost)
	for range r.len() {
		id := r.rawID()
		if r.err != nil {
			return
		}
		at, ok := slices.BinarySearchFunc(g.Pending, id, func(p Pending, id ID) int { return p.ID.Compare(id) })
		if !ok || g.Pending[at].Consumer != noConsumer {
			r.fail("a consumer's pending entry is not its group's")
			return
		}
		g.Pending[at].Consumer = len(g.Consumers)
	}
	g.Consumers = append(g.Consumers, c)
}

func hasRepeatedNames[T any](all []T, name func(T) []byte) bool {
	names := make([][]byte, len(all))
	for i, t := range all {
		names[i] = name(t)
	}
	return hasRepeats(names, 1)
}

// estimateRead is how many entries a group with that last id has read, of a stream in which nothing was deleted but at
// its beginning; -1 if that can't be told.
func (s *Stream) estimateRead(last ID) int64 {
	added := int64(s.Added)
	switch c := last.Compare(s.LastID); {
	case added == 0:
		return 0
	case c == 0:
		return added
	case c > 0:
		return unknownRead
	}
	switch c := last.Compare(s.Entries[0].ID); {
	case c < 0:
		return added - int64(len(s.Entries))
	case c == 0:
		return added - int64(len(s.Entries)) + 1
	}
	return unknownRead
}

// stream writes a stream, cut into nodes as Redis does when entries are added one by one.
func (w *writer) stream(s *Stream) {
	nodes := streamNodes(s.Entries)
	w.len(uint64(len(nodes)))
	for _, node := range nodes {
		w.str(appendRawID(nil, node.master))
		w.str(node.body)
	}
	w.len(uint64(len(s.Entries)))
	first := ID{}
	if len(s.Entries) > 0 {
		first = s.Entries[0].ID
	}
	w.lenID(s.LastID)
	w.lenID(first)
	w.lenID(s.MaxDeletedID)
	w.len(s.Added)
	w.len(uint64(len(s.Groups)))
	groups := slices.Clone(s.Groups)
	slices.SortFunc(groups, func(a, b Group) int { return bytes.Compare(a.Name, b.Name) })
	for i := range groups {
		w.group(&groups[i])
	}
}

func (w *writer) lenID(id ID) {
	w.len(id.MS)
	w.len(id.Seq)
}

func appendRawID(dst []byte, id ID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, id.MS), id.Seq)
}

// streamNode is a node of a stream: the id of its first entry, and a listpack.
type streamNode struct {
	master ID
	body   []byte
}

func streamNodes(entries []Entry) (nodes []streamNode) {
	for len(entries) > 0 {
		n, body := packEntries(entries)
		nodes = append(nodes, streamNode{entries[0].ID, body})
		entries = entries[n:]
	}
	return nodes
}

// packEntries writes the first entries into a node, as many as it takes, and counts them.
func packEntries(entries []Entry) (n int, node []byte) {
	master := entries[0].Fields
	l := newListpackWriter()
	l.integer(0) // the number of entries, see below
	l.integer(0)
	l.integer(int64(len(master) / 2))
	for i := 0; i < len(master); i += 2 {
		l.item(master[i])
	}
	l.integer(0)
	for _, e := range entries[:min(len(entries), streamNodeEntries)] {
		size := 0
		for _, item := range e.Fields {
			size += len(item)
		}
		if n > 0 && l.size()+size >= streamNodeBytes {
			break
		}
		l.entry(&e, entries[0].ID, master)
		n++
	}
	l.b[lpHeader] = byte(n) // a node has so few entries that their number is all in the element's head
	return n, l.finish()
}

// entry adds an entry.
func (l *listpackWriter) entry(e *Entry, masterID ID, master [][]byte) {
	step, flags, before := 2, entrySameFields, l.count
	for i := 0; i < len(e.Fields); i += 2 {
		if len(master) != len(e.Fields) || !bytes.Equal(master[i], e.Fields[i]) {
			step, flags = 1, 0
			break
		}
	}
	l.integer(int64(flags))
	l.integer(int64(e.ID.MS - masterID.MS))
	l.integer(int64(e.ID.Seq - masterID.Seq))
	if flags == 0 {
		l.integer(int64(len(e.Fields) / 2))
	}
	for i := step - 1; i < len(e.Fields); i += step {
		l.item(e.Fields[i])
	}
	l.integer(int64(l.count - before))
}

// group writes a consumer group.
func (w *writer) group(g *Group) {
	w.str(g.Name)
	w.lenID(g.LastID)
	w.len(uint64(g.Read))
	w.len(uint64(len(g.Pending)))
	for _, p := range g.Pending {
		w.b = binary.LittleEndian.AppendUint64(appendRawID(w.b, p.ID), uint64(p.DeliveredMs))
		w.len(p.Deliveries)
	}
	order := make([]int, len(g.Consumers))
	pending := make([][]ID, len(g.Consumers))
	for i := range order {
		order[i] = i
	}
	for _, p := range g.Pending {
		pending[p.Consumer] = append(pending[p.Consumer], p.ID)
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(g.Consumers[a].Name, g.Consumers[b].Name) })
	w.len(uint64(len(order)))
	for _, i := range order {
		w.str(g.Consumers[i].Name)
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(g.Consumers[i].SeenMs))
		w.len(uint64(len(pending[i])))
		for _, id := range pending[i] {
			w.b = appendRawID(w.b, id)
		}
	}
}

package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// modelStream is a stream in plain Go values.
type modelStream struct {
	entries    []modelEntry
	last       StreamID
	maxDeleted StreamID
	added      int
	groups     map[string]*modelGroup
	expires    bool
}

type modelEntry struct {
	id  StreamID
	val string
}

type modelGroup struct {
	last      StreamID
	consumers map[string]int64 // when seen
	pending   map[StreamID]Pending
}

func (v *modelStream) clone() *modelStream {
	c := *v
	c.entries, c.groups = slices.Clone(v.entries), maps.Clone(v.groups)
	for name, g := range c.groups {
		c.groups[name] = &modelGroup{g.last, maps.Clone(g.consumers), maps.Clone(g.pending)}
	}
	return &c
}

// within returns the entries from … to.
func (v *modelStream) within(from, to StreamID) []modelEntry {
	var found []modelEntry
	for _, e := range v.entries {
		if !e.id.Less(from) && !to.Less(e.id) {
			found = append(found, e)
		}
	}
	return found
}

func (v *modelStream) find(id StreamID) (string, bool) {
	for _, e := range v.within(id, id) {
		return e.val, true
	}
	return "", false
}

// of returns what is pending for the consumer, or for all, in order.
func (g *modelGroup) of(consumer string, from, to StreamID) []Pending {
	var found []Pending
	for id, p := range g.pending {
		if (consumer == "" || p.Consumer == consumer) && !id.Less(from) && !to.Less(id) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Pending) int { return a.ID.Compare(b.ID) })
	return found
}

// streamMachine compares the streams of a store with the model over random transactions, aborts, restarts and power losses.
type streamMachine struct {
	fs          *vfs.MemFS
	clk         *clock.Manual
	cache       int
	st          *Store
	tx          *Tx
	model, next map[string]*modelStream // committed; with the transaction in progress
}

func (m *streamMachine) open(t *rapid.T) {
	opts := testOptions(m.fs, 2, m.clk)
	opts.CacheBytes = m.cache
	st, err := Open(opts)
	ok(t, err)
	m.st, m.tx = st, st.NewTx()
}

func (m *streamMachine) cloned() map[string]*modelStream {
	c := map[string]*modelStream{}
	for key, v := range m.model {
		c[key] = v.clone()
	}
	return c
}

func drawID(t *rapid.T, name string) StreamID {
	return StreamID{uint64(rapid.IntRange(0, 30).Draw(t, name+" ms")), uint64(rapid.IntRange(0, 3).Draw(t, name+" seq"))}
}

// drawKnown draws an id that often exists.
func drawKnown(t *rapid.T, v *modelStream) StreamID {
	if len(v.entries) > 0 && rapid.IntRange(0, 3).Draw(t, "known") > 0 {
		return rapid.SampledFrom(v.entries).Draw(t, "entry").id
	}
	return drawID(t, "unknown")
}

func drawInterval(t *rapid.T) (from, to StreamID) {
	if rapid.Bool().Draw(t, "all") {
		return StreamID{}, LastStreamID()
	}
	return drawID(t, "from"), drawID(t, "to")
}

var streamGroupNames = []string{"g", "h"}

func (m *streamMachine) step(t *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
	st, err := m.tx.DB(0).Stream([]byte(key))
	ok(t, err)
	v := m.next[key]
	equal(t, "exists", st.Exists(), v != nil)
	if v == nil {
		ok(t, st.Create())
		v = &modelStream{groups: map[string]*modelGroup{}}
		m.next[key] = v
	}
	switch rapid.IntRange(0, 15).Draw(t, "op") {
	case 0, 1, 2:
		m.add(t, st, v)
	case 3:
		m.remove(t, st, v)
	case 4:
		m.trim(t, st, v)
	case 5:
		m.setLast(t, st, v)
	case 6, 7:
		m.read(t, st, v)
	case 8:
		m.changeGroup(t, st, v)
	case 15:
		m.changeKey(t, key)
	default:
		m.useGroup(t, st, v)
	}
}

func (m *streamMachine) add(t *rapid.T, st Stream, v *modelStream) {
	n := rapid.IntRange(1, 30).Draw(t, "adds")
	if rapid.IntRange(0, 5).Draw(t, "many") == 0 {
		n *= 20
	}
	for range n {
		val := fmt.Sprint(v.added)
		if n <= 30 && rapid.IntRange(0, 3).Draw(t, "long") == 0 {
			val = strings.Repeat("v", 3000) + val
		}
		id := StreamID{v.last.Ms, v.last.Seq + 1}
		if n <= 30 && rapid.Bool().Draw(t, "next ms") {
			id = StreamID{v.last.Ms + 1, uint64(rapid.IntRange(0, 2).Draw(t, "seq"))}
		}
		ok(t, st.Add(id, [][]byte{[]byte("f"), []byte(val), []byte("")}))
		v.entries = append(v.entries, modelEntry{id, val})
		v.last, v.added = id, v.added+1
	}
}

func (m *streamMachine) remove(t *rapid.T, st Stream, v *modelStream) {
	for range rapid.IntRange(1, 8).Draw(t, "removes") {
		id := drawKnown(t, v)
		switch end := rapid.IntRange(0, 4).Draw(t, "end"); {
		case len(v.entries) == 0:
		case end == 0:
			id = v.entries[0].id
		case end == 1:
			id = v.entries[len(v.entries)-1].id
		}
		_, there := v.find(id)
		done, err := st.Delete(id)
		ok(t, err)
		equal(t, "deleted", done, there)
		if there {
			v.entries = slices.DeleteFunc(v.entries, func(e modelEntry) bool { return e.id == id })
			v.maxDeleted = laterID(v.maxDeleted, id)
		}
	}
}

func (m *streamMachine) trim(t *rapid.T, st Stream, v *modelStream) {
	trim := StreamTrim{MaxLen: int64(rapid.IntRange(0, 300).Draw(t, "maxlen")), Approximate: rapid.Bool().Draw(t, "about")}
	want := max(len(v.entries)-int(trim.MaxLen), 0)
	if rapid.Bool().Draw(t, "by id") {
		trim.MaxLen, trim.MinID = 1<<40, drawKnown(t, v)
		want = slices.IndexFunc(v.entries, func(e modelEntry) bool { return !e.id.Less(trim.MinID) })
		if want < 0 {
			want = len(v.entries)
		}
	}
	if trim.Approximate {
		if trim.Limit = int64(rapid.SampledFrom([]int{0, 50, 150, 1000}).Draw(t, "limit")); trim.Limit > 0 {
			want = min(want, int(trim.Limit))
		}
		if want < len(v.entries) {
			want -= want % StreamTrimBlock
		}
	}
	trimmed, err := st.Trim(trim)
	ok(t, err)
	equal(t, fmt.Sprintf("trimmed %+v", trim), trimmed, want)
	v.entries = slices.Clone(v.entries[want:])
}

func (m *streamMachine) setLast(t *rapid.T, st Stream, v *modelStream) {
	id := drawID(t, "last")
	if n := len(v.entries); n > 0 {
		id = v.entries[n-1].id
		id.Ms += uint64(rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "ahead"))
	}
	st.SetLast(id)
	v.last = id
}

func (m *streamMachine) read(t *rapid.T, st Stream, v *modelStream) {
	from, to := drawInterval(t)
	rev, limit := rapid.Bool().Draw(t, "rev"), rapid.SampledFrom([]int{1, 5, 1000}).Draw(t, "limit")
	want := v.within(from, to)
	if rev {
		slices.Reverse(want)
	}
	want = want[:min(limit, len(want))]
	var got []modelEntry
	ok(t, st.Range(from, to, rev, func(id StreamID, fields Fields) bool {
		got = append(got, modelEntry{id, value(&fields)})
		return len(got) < limit
	}))
	equal(t, fmt.Sprint("range ", from, to, rev), got, want)
	id := drawKnown(t, v)
	val, there := v.find(id)
	fields, found, err := st.Get(id)
	ok(t, err)
	equal(t, "get", []any{found, value(&fields)}, []any{there, val})
	found, err = st.Has(id)
	ok(t, err)
	equal(t, "has", found, there)
	end, found, err := st.LastEntry()
	ok(t, err)
	equal(t, "has a last entry", found, len(v.entries) > 0)
	if found {
		equal(t, "last entry", end, v.entries[len(v.entries)-1].id)
	}
	m.checkInfo(t, st, v)
}

// value reads fields that add has written.
func value(fields *Fields) string {
	if fields.Len() != 3 {
		return ""
	}
	if name := string(fields.Next()); name != "f" {
		return "wrong field " + name
	}
	val := string(fields.Next())
	return val + string(fields.Next())
}

func (m *streamMachine) checkInfo(t *rapid.T, st Stream, v *modelStream) {
	want := StreamInfo{Length: int64(len(v.entries)), Last: v.last, MaxDeleted: v.maxDeleted, EntriesAdded: int64(v.added),
		Groups: len(v.groups)}
	if len(v.entries) > 0 {
		want.First = v.entries[0].id
	}
	equal(t, "info", st.Info(), want)
}

func (m *streamMachine) changeGroup(t *rapid.T, st Stream, v *modelStream) {
	name := rapid.SampledFrom(streamGroupNames).Draw(t, "group")
	g := v.groups[name]
	group, found, err := st.Group([]byte(name))
	ok(t, err)
	equal(t, "group", found, g != nil)
	switch {
	case g == nil:
		last := drawID(t, "last")
		created, err := st.CreateGroup([]byte(name), last, -1)
		ok(t, err)
		equal(t, "created", created, true)
		v.groups[name] = &modelGroup{last, map[string]int64{}, map[StreamID]Pending{}}
	case rapid.IntRange(0, 2).Draw(t, "destroy") == 0:
		group.Destroy()
		delete(v.groups, name)
	default:
		g.last = drawID(t, "last")
		group.SetLast(g.last, -1)
		id := drawID(t, "raise")
		group.Raise(id)
		g.last = laterID(g.last, id)
	}
}

func (m *streamMachine) useGroup(t *rapid.T, st Stream, v *modelStream) {
	name := rapid.SampledFrom(streamGroupNames).Draw(t, "group")
	g := v.groups[name]
	if g == nil {
		m.changeGroup(t, st, v)
		return
	}
	group, _, err := st.Group([]byte(name))
	ok(t, err)
	consumer := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "consumer")
	switch rapid.IntRange(0, 7).Draw(t, "group op") {
	case 0, 1, 2:
		m.deliver(t, group, g, v, consumer)
	case 3, 4:
		for range rapid.IntRange(1, 10).Draw(t, "acks") {
			id := drawKnown(t, v)
			_, pending := g.pending[id]
			acked, err := group.Ack(id)
			ok(t, err)
			equal(t, "acked", acked, pending)
			delete(g.pending, id)
		}
	case 5:
		for range rapid.IntRange(1, 5).Draw(t, "claims") {
			id := drawKnown(t, v)
			p, found, err := group.PendingEntry(id)
			ok(t, err)
			want, pending := g.pending[id]
			equal(t, "pending", []any{p, found}, []any{want, pending})
			m.see(t, group, g, consumer)
			c, _, err := group.Consumer([]byte(consumer))
			ok(t, err)
			ok(t, group.SetPending(c, id, m.clk.NowMs(), p.Deliveries+1))
			g.pending[id] = Pending{id, consumer, m.clk.NowMs(), p.Deliveries + 1}
		}
	case 6:
		c, found, err := group.Consumer([]byte(consumer))
		ok(t, err)
		_, there := g.consumers[consumer]
		equal(t, "consumer", found, there)
		if found {
			n, err := group.DeleteConsumer(c)
			ok(t, err)
			equal(t, "pending of the consumer", n, len(g.of(consumer, StreamID{}, LastStreamID())))
			maps.DeleteFunc(g.pending, func(_ StreamID, p Pending) bool { return p.Consumer == consumer })
			delete(g.consumers, consumer)
		}
	default:
		m.checkGroup(t, group, g)
	}
}

func (m *streamMachine) see(t *rapid.T, group Group, g *modelGroup, consumer string) Consumer {
	c, created, err := group.See([]byte(consumer), m.tx.DB(0).Now())
	ok(t, err)
	_, there := g.consumers[consumer]
	equal(t, "created", created, !there)
	g.consumers[consumer] = m.tx.DB(0).Now()
	return c
}

func (m *streamMachine) deliver(t *rapid.T, group Group, g *modelGroup, v *modelStream, consumer string) {
	limit, noAck := rapid.SampledFrom([]int{0, 1, 2, 10}).Draw(t, "count"), rapid.IntRange(0, 3).Draw(t, "no ack") == 0
	from, _ := g.last.Next()
	want := v.within(from, LastStreamID())
	fresh, err := group.HasNew()
	ok(t, err)
	equal(t, "has new", fresh, len(want) > 0)
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	c := m.see(t, group, g, consumer)
	var got []modelEntry
	ok(t, group.Deliver(c, int64(limit), noAck, m.tx.DB(0).Now(), func(id StreamID, fields Fields) {
		got = append(got, modelEntry{id, value(&fields)})
	}))
	equal(t, "delivered", got, want)
	for _, e := range want {
		g.last = e.id
		if !noAck {
			g.pending[e.id] = Pending{e.id, consumer, m.tx.DB(0).Now(), 1}
		}
	}
}

func (m *streamMachine) checkGroup(t *rapid.T, group Group, g *modelGroup) {
	equal(t, "last", group.Last(), g.last)
	equal(t, "pending", group.Pending(), len(g.pending))
	equal(t, "consumers", group.Consumers(), len(g.consumers))
	all := g.of("", StreamID{}, LastStreamID())
	first, last, err := group.PendingBounds()
	ok(t, err)
	if len(all) > 0 {
		equal(t, "bounds", []StreamID{first, last}, []StreamID{all[0].ID, all[len(all)-1].ID})
	}
	from, to := drawInterval(t)
	limit := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "limit")
	check := func(of *Consumer, name string) {
		want := g.of(name, from, to)
		var got []Pending
		ok(t, group.EachPending(of, from, to, func(p Pending) bool {
			got = append(got, p)
			return len(got) < limit
		}))
		equal(t, fmt.Sprint("pending of ", name, from, to), got, want[:min(limit, len(want))])
	}
	check(nil, "")
	var names []string
	ok(t, group.EachConsumer(func(c Consumer) error {
		names = append(names, c.Name())
		equal(t, "seen", c.SeenMs(), g.consumers[c.Name()])
		equal(t, "pending", c.Pending(), len(g.of(c.Name(), StreamID{}, LastStreamID())))
		check(&c, c.Name())
		return nil
	}))
	equal(t, "names", names, slices.Sorted(maps.Keys(g.consumers)))
}

func (m *streamMachine) changeKey(t *rapid.T, key string) {
	d := m.tx.DB(0)
	switch rapid.IntRange(0, 5).Draw(t, "key op") {
	case 0:
		existed, err := d.Delete([]byte(key))
		ok(t, err)
		equal(t, "deleted", existed, true)
		delete(m.next, key)
	case 1:
		ok(t, d.Flush())
		clear(m.next)
	case 2, 3, 4: // "b" is on another shard than "a" and "c"
		dst := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "dst")
		ok(t, d.Rename([]byte(key), []byte(dst)))
		v := m.next[key]
		delete(m.next, key)
		m.next[dst] = v
	default:
		exists, err := d.SetExpireAt([]byte(key), d.Now()+1)
		ok(t, err)
		equal(t, "exists", exists, true)
		m.next[key].expires = true // the clock is moved on after every transaction
	}
}

// checkAll compares every stream.
func (m *streamMachine) checkAll(t *rapid.T) {
	m.tx.Begin(m.st.All())
	for _, key := range slices.Sorted(maps.Keys(m.model)) {
		st, err := m.tx.DB(0).Stream([]byte(key))
		ok(t, err)
		v := m.model[key]
		m.checkInfo(t, st, v)
		m.read(t, st, v)
		groups, err := st.Groups()
		ok(t, err)
		var names []string
		for _, g := range groups {
			names = append(names, g.Name())
			m.checkGroup(t, g, v.groups[g.Name()])
		}
		equal(t, "groups", names, slices.Sorted(maps.Keys(v.groups)))
	}
	m.tx.End()
}

func TestStreamModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &streamMachine{fs: vfs.NewCrashableMem(), clk: clock.NewManual(testStart), model: map[string]*modelStream{}}
		m.cache = rapid.SampledFrom([]int{1, 8, 64, 4096}).Draw(t, "cache") << 10
		m.open(t)
		for range rapid.IntRange(1, 40).Draw(t, "transactions") {
			m.next = m.cloned()
			m.tx.Begin(m.st.All())
			for range rapid.IntRange(1, 6).Draw(t, "steps") {
				m.step(t)
				ok(t, m.tx.Check())
			}
			if rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
				m.tx.Abort()
			} else {
				ok(t, m.tx.Commit())
				maps.DeleteFunc(m.next, func(_ string, v *modelStream) bool { return v.expires })
				m.model = m.next
			}
			ok(t, m.st.Wait(m.tx.End()))
			m.clk.Advance(1e6 * 10)
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				ok(t, m.st.Close())
				m.open(t)
			case 1:
				crashed := m.fs.CrashClone(vfs.CrashCloneCfg{})
				ok(t, m.st.Close())
				m.fs = crashed
				m.open(t)
			case 2:
				m.checkAll(t)
			}
		}
		m.checkAll(t)
		ok(t, m.st.Close())
	})
}

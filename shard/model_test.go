package shard

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// The model: what a database holds, in plain Go values.
type modelValue struct {
	kind     Kind
	str      string
	list     []string
	hash     map[string]string
	set      map[string]bool
	zset     map[string]float64
	expireAt int64
}

func (v *modelValue) clone() *modelValue {
	c := *v
	c.list, c.hash, c.set, c.zset = slices.Clone(v.list), maps.Clone(v.hash), maps.Clone(v.set), maps.Clone(v.zset)
	return &c
}

func (v *modelValue) empty() bool {
	return v.kind != KindString && len(v.list)+len(v.hash)+len(v.set)+len(v.zset) == 0
}

func (v *modelValue) ordered() []scored {
	var all []scored
	for m, s := range v.zset {
		all = append(all, scored{s, m})
	}
	slices.SortFunc(all, compareScored)
	return all
}

type modelDB map[string]*modelValue

func (m modelDB) clone() modelDB {
	c := make(modelDB, len(m))
	for k, v := range m {
		c[k] = v.clone()
	}
	return c
}

// storeMachine compares a store with the model over random transactions, restarts and power losses.
type storeMachine struct {
	fs    *vfs.MemFS
	clk   *clock.Manual
	st    *Store
	tx    *Tx
	model []modelDB // committed
	next  []modelDB // with the transaction in progress
	n     int
}

func (m *storeMachine) open(t *rapid.T) {
	opts := testOptions(m.fs, m.n, m.clk)
	opts.stringBytes, opts.chunkBits, opts.manyRows = modelStringBytes, modelChunkBits, modelManyRows
	opts.Tracker = orderTracker{}
	st, err := Open(opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.st, m.tx = st, st.NewTx()
}

func (m *storeMachine) close(t *rapid.T) {
	if err := m.st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func cloneAll(dbs []modelDB) []modelDB {
	c := make([]modelDB, len(dbs))
	for i := range dbs {
		c[i] = dbs[i].clone()
	}
	return c
}

// settle forgets the deadline of a value that has become empty: an element that comes later begins a new key.
func (v *modelValue) settle() {
	if v.empty() {
		v.expireAt = 0
	}
}

func (m *storeMachine) drop(db int, key string) {
	if v := m.next[db][key]; v != nil && v.empty() {
		delete(m.next[db], key)
	}
}

var modelKeys = []string{"a", "b", "c", "d", "part:h", "part:s", "part:z"}

func drawMember(t *rapid.T) string {
	if rapid.IntRange(0, 20).Draw(t, "long") == 0 {
		return strings.Repeat("m", 200) + fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "member"))
	}
	return fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "member"))
}

// value returns the model's value of the kind at the key, or false where the store has to say ErrWrongType.
func (m *storeMachine) value(t *rapid.T, db int, key string, kind Kind, err error) (*modelValue, bool) {
	v := m.next[db][key]
	wrong := v != nil && v.kind != kind
	if strings.HasPrefix(key, "part:") {
		p, _ := testPlacer{m.n}.Place(db, []byte(key))
		wrong = p.Kind != kind
	}
	if wrong {
		if err != ErrWrongType {
			t.Fatalf("%q: got error %v for a wrong kind", key, err)
		}
		return nil, false
	}
	if err != nil {
		t.Fatalf("%q: %v", key, err)
	}
	if v == nil {
		v = &modelValue{kind: kind, hash: map[string]string{}, set: map[string]bool{}, zset: map[string]float64{}}
		m.next[db][key] = v
	}
	return v, true
}

func equal(t *rapid.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func ok(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *storeMachine) step(t *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(t, "db")
	key := rapid.SampledFrom(modelKeys).Draw(t, "key")
	d := m.tx.DB(db)
	ops := []func(*rapid.T, DB, int, string){m.stepList, m.stepList, m.stepHash, m.stepSet, m.stepZSet, m.stepZSet, m.stepKey}
	rapid.SampledFrom(ops).Draw(t, "op")(t, d, db, key)
}

func (m *storeMachine) stepList(t *rapid.T, d DB, db int, key string) {
	l, err := d.List([]byte(key))
	v, is := m.value(t, db, key, KindList, err)
	if !is {
		return
	}
	defer m.drop(db, key)
	end := End(rapid.IntRange(0, 1).Draw(t, "end"))
	val := drawMember(t)
	switch rapid.IntRange(0, 7).Draw(t, "list op") {
	case 0, 1:
		for i := range rapid.IntRange(1, 40).Draw(t, "pushes") {
			val := fmt.Sprint(val, i%7)
			ok(t, l.Push(end, []byte(val)))
			if end == Head {
				v.list = slices.Insert(v.list, 0, val)
			} else {
				v.list = append(v.list, val)
			}
		}
	case 2, 3:
		for range rapid.IntRange(1, 60).Draw(t, "pops") {
			got, found, err := l.Pop(end)
			ok(t, err)
			equal(t, "pop found", found, len(v.list) > 0)
			if !found {
				return
			}
			want := v.list[0]
			if end == Tail {
				want = v.list[len(v.list)-1]
				v.list = v.list[:len(v.list)-1]
			} else {
				v.list = v.list[1:]
			}
			equal(t, "pop", string(got), want)
		}
	case 4:
		m.stepListRemove(t, l, v)
	case 5:
		before := rapid.Bool().Draw(t, "before")
		if len(v.list) > 0 {
			val = rapid.SampledFrom(v.list).Draw(t, "pivot")
		}
		at := slices.Index(v.list, val)
		done, err := l.Insert(before, []byte(val), []byte("new"))
		ok(t, err)
		equal(t, "insert", done, at >= 0)
		if at >= 0 {
			if !before {
				at++
			}
			v.list = slices.Insert(v.list, at, "new")
		}
	case 6:
		i := rapid.IntRange(-40, 40).Draw(t, "index")
		at := i
		if at < 0 {
			at += len(v.list)
		}
		exists := at >= 0 && at < len(v.list)
		got, found, err := l.Index(int64(i))
		ok(t, err)
		equal(t, "index found", found, exists)
		done, err := l.Set(int64(i), []byte(val))
		ok(t, err)
		equal(t, "set", done, exists)
		if exists {
			equal(t, "index", string(got), v.list[at])
			v.list[at] = val
		}
	case 7:
		if len(v.list) == 0 {
			return
		}
		start := rapid.IntRange(0, len(v.list)-1).Draw(t, "start")
		stop := rapid.IntRange(start, len(v.list)-1).Draw(t, "stop")
		var got []string
		ok(t, l.Range(int64(start), int64(stop), func(val []byte) { got = append(got, string(val)) }))
		equal(t, "range", got, v.list[start:stop+1])
		if rapid.IntRange(0, 3).Draw(t, "trim") == 0 {
			ok(t, l.Trim(int64(start), int64(stop)))
			v.list = slices.Clone(v.list[start : stop+1])
		}
	}
}

func (m *storeMachine) stepListRemove(t *rapid.T, l List, v *modelValue) {
	val := "x"
	if len(v.list) > 0 {
		val = rapid.SampledFrom(v.list).Draw(t, "value")
	}
	count := rapid.IntRange(-3, 3).Draw(t, "count")
	limit, removed := count, 0
	if limit < 0 {
		limit = -limit
	}
	keep := func(list []string) (kept []string) {
		for _, x := range list {
			if x == val && (limit == 0 || removed < limit) {
				removed++
				continue
			}
			kept = append(kept, x)
		}
		return kept
	}
	if count < 0 {
		slices.Reverse(v.list)
		v.list = keep(v.list)
		slices.Reverse(v.list)
	} else {
		v.list = keep(v.list)
	}
	n, err := l.Remove(int64(count), []byte(val))
	ok(t, err)
	equal(t, "remove", n, removed)
}

func (m *storeMachine) stepHash(t *rapid.T, d DB, db int, key string) {
	h, err := d.Hash([]byte(key))
	v, is := m.value(t, db, key, KindHash, err)
	if !is {
		return
	}
	defer m.drop(db, key)
	for range rapid.IntRange(1, 30).Draw(t, "times") {
		field := drawMember(t)
		old, had := v.hash[field]
		got, found, err := h.Get([]byte(field))
		ok(t, err)
		equal(t, "get", []any{string(got), found}, []any{old, had})
		switch rapid.IntRange(0, 4).Draw(t, "hash op") {
		case 0, 1:
			done, err := h.Delete([]byte(field))
			ok(t, err)
			equal(t, "delete", done, had)
			delete(v.hash, field)
			v.settle()
			continue
		case 2:
			ok(t, h.Fetch(drawMembers(t)))
			continue
		}
		val := drawMember(t)
		set := rapid.SampledFrom([]func(Hash, []byte, []byte) (bool, error){Hash.Set, Hash.SetIdle}).Draw(t, "set")
		created, err := set(h, []byte(field), []byte(val))
		ok(t, err)
		equal(t, "created", created, !had)
		v.hash[field] = val
		if rapid.Bool().Draw(t, "uncache") {
			ok(t, h.Uncache([]byte(field)))
		}
	}
	m.checkHash(t, h, v)
}

func (m *storeMachine) checkHash(t *rapid.T, h Hash, v *modelValue) {
	got := map[string]string{}
	ok(t, h.Each(func(f, val []byte) bool {
		got[string(f)] = string(val)
		return true
	}))
	equal(t, "hash", got, v.hash)
	n, err := h.Len()
	ok(t, err)
	equal(t, "len", n, len(v.hash))
}

func (m *storeMachine) stepSet(t *rapid.T, d DB, db int, key string) {
	s, err := d.SetOf([]byte(key))
	v, is := m.value(t, db, key, KindSet, err)
	if !is {
		return
	}
	defer m.drop(db, key)
	for range rapid.IntRange(1, 30).Draw(t, "times") {
		member := drawMember(t)
		has, err := s.Has([]byte(member))
		ok(t, err)
		equal(t, "has", has, v.set[member])
		switch rapid.IntRange(0, 5).Draw(t, "set op") {
		case 0, 1:
			done, err := s.Remove([]byte(member))
			ok(t, err)
			equal(t, "remove", done, v.set[member])
			delete(v.set, member)
			v.settle()
		case 2:
			n := rapid.IntRange(0, 5).Draw(t, "n")
			want := min(n, len(v.set))
			ok(t, s.Pop(n, func(m []byte) {
				if !v.set[string(m)] {
					t.Fatalf("popped %q, which is not a member", m)
				}
				delete(v.set, string(m))
				want--
			}))
			equal(t, "pops missing", want, 0)
			v.settle()
		default:
			added, err := s.Add([]byte(member))
			ok(t, err)
			equal(t, "added", added, !v.set[member])
			v.set[member] = true
		}
	}
	n := rapid.IntRange(1, 70).Draw(t, "random")
	seen := map[string]bool{}
	ok(t, s.Random(n, func(m []byte) {
		if !v.set[string(m)] || seen[string(m)] {
			t.Fatalf("random member %q is none or comes twice", m)
		}
		seen[string(m)] = true
	}))
	equal(t, "random members", len(seen), min(n, len(v.set)))
	m.checkSet(t, s, v)
}

func (m *storeMachine) checkSet(t *rapid.T, s Set, v *modelValue) {
	got := map[string]bool{}
	ok(t, s.Each(func(m []byte) bool {
		got[string(m)] = true
		return true
	}))
	equal(t, "set", got, v.set)
}

func (m *storeMachine) stepZSet(t *rapid.T, d DB, db int, key string) {
	z, err := d.ZSet([]byte(key))
	v, is := m.value(t, db, key, KindZSet, err)
	if !is {
		return
	}
	defer m.drop(db, key)
	for range rapid.IntRange(1, 30).Draw(t, "times") {
		member := drawMember(t)
		old, had := v.zset[member]
		got, found, err := z.Score([]byte(member))
		ok(t, err)
		equal(t, "score", []any{got, found}, []any{old, had})
		switch rapid.IntRange(0, 16).Draw(t, "zset op") {
		case 0, 6:
			done, err := z.Remove([]byte(member))
			ok(t, err)
			equal(t, "remove", done, had)
			delete(v.zset, member)
			v.settle()
		case 1, 2, 4, 5:
			highest := rapid.Bool().Draw(t, "highest")
			all := v.ordered()
			member, score, found, err := z.Pop(highest)
			ok(t, err)
			equal(t, "pop found", found, len(all) > 0)
			if found {
				want := all[0]
				if highest {
					want = all[len(all)-1]
				}
				equal(t, "pop", scored{score, string(member)}, want)
				delete(v.zset, want.member)
				v.settle()
			}
		case 3:
			m.stepRemoveRange(t, z, v)
		case 7, 8:
			ok(t, z.Fetch(drawMembers(t)))
		default:
			score := float64(rapid.IntRange(-10, 10).Draw(t, "score")) / 2
			if key == "c" { // as for ranges of names
				score = 1
			}
			added, err := z.Set([]byte(member), score)
			ok(t, err)
			equal(t, "added", added, !had)
			v.zset[member] = score
			if rapid.Bool().Draw(t, "uncache") {
				ok(t, z.Uncache([]byte(member)))
			}
		}
	}
	m.checkZSet(t, z, v)
}

// stepRemoveRange removes what stands together, often most of it.
func (m *storeMachine) stepRemoveRange(t *rapid.T, z ZSet, v *modelValue) {
	all := v.ordered()
	if len(all) == 0 {
		return
	}
	start, stop := rapid.IntRange(0, len(all)-1).Draw(t, "start"), len(all)-1
	if rapid.Bool().Draw(t, "from the start") {
		start = min(start, rapid.IntRange(0, 3).Draw(t, "first"))
	}
	if rapid.Bool().Draw(t, "not to the end") {
		stop = rapid.IntRange(start, stop).Draw(t, "stop")
	}
	var n int64
	var err error
	gone := all[start : stop+1]
	switch low, high := all[start], all[stop]; rapid.IntRange(0, 2).Draw(t, "by") {
	case 0:
		n, err = z.RemoveByRank(int64(start), int64(stop))
	case 1:
		r := ScoreRange{Min: low.score, Max: high.score, MaxEx: rapid.Bool().Draw(t, "maxex")}
		gone = slices.DeleteFunc(all, func(e scored) bool { return e.score < r.Min || e.score > r.Max || r.MaxEx && e.score == r.Max })
		n, err = z.RemoveByScore(r)
	default: // which says little where scores differ, so it is held against the listing
		r := LexRange{Min: []byte(low.member), Max: []byte(high.member), MaxEx: rapid.Bool().Draw(t, "maxex")}
		gone = nil
		ok(t, z.RangeByLex(r, false, func(member []byte, score float64) bool {
			gone = append(gone, scored{score, string(member)})
			return true
		}))
		n, err = z.RemoveByLex(r)
	}
	ok(t, err)
	equal(t, "removed", n, len(gone))
	for _, e := range gone {
		delete(v.zset, e.member)
	}
	v.settle()
}

func (m *storeMachine) checkZSet(t *rapid.T, z ZSet, v *modelValue) {
	all := v.ordered()
	rev := rapid.Bool().Draw(t, "rev")
	r := ScoreRange{Min: float64(rapid.IntRange(-12, 12).Draw(t, "min")) / 2, Max: float64(rapid.IntRange(-12, 12).Draw(t, "max")) / 2,
		MinEx: rapid.Bool().Draw(t, "minex"), MaxEx: rapid.Bool().Draw(t, "maxex")}
	if rapid.IntRange(0, 3).Draw(t, "open") == 0 {
		r.Max = math.Inf(1)
	}
	if rapid.IntRange(0, 3).Draw(t, "open") == 0 {
		r.Min = math.Inf(-1)
	}
	var want, got []scored
	for _, e := range all {
		if e.score < r.Min || e.score > r.Max || r.MinEx && e.score == r.Min || r.MaxEx && e.score == r.Max {
			continue
		}
		want = append(want, e)
	}
	n, err := z.Count(r)
	ok(t, err)
	equal(t, fmt.Sprintf("count %+v", r), n, len(want))
	if rev {
		slices.Reverse(want)
	}
	take := func(m []byte, s float64) bool {
		got = append(got, scored{s, string(m)})
		return true
	}
	ok(t, z.RangeByScore(r, rev, take))
	equal(t, fmt.Sprintf("by score %+v rev %v", r, rev), got, want)
	if len(all) == 0 {
		return
	}
	start := rapid.IntRange(0, len(all)-1).Draw(t, "start")
	stop := rapid.IntRange(start, len(all)-1).Draw(t, "stop")
	if rev {
		slices.Reverse(all)
	}
	got = nil
	ok(t, z.RangeByRank(int64(start), int64(stop), rev, take))
	equal(t, "by rank", got, all[start:stop+1])
	rank, score, found, err := z.Rank([]byte(all[start].member), rev)
	ok(t, err)
	equal(t, "rank", []any{rank, score, found}, []any{start, all[start].score, true})
	scores := map[string]float64{}
	ok(t, z.Each(func(m []byte, s float64) bool {
		scores[string(m)] = s
		return true
	}))
	equal(t, "zset", scores, v.zset)
}

func (m *storeMachine) stepKey(t *rapid.T, d DB, db int, key string) {
	model := m.next[db]
	v := model[key]
	switch rapid.IntRange(0, 7).Draw(t, "key op") {
	case 0:
		existed, err := d.Delete([]byte(key))
		ok(t, err)
		equal(t, "delete", existed, v != nil)
		delete(model, key)
	case 1:
		if strings.HasPrefix(key, "part:") {
			return
		}
		val := drawMember(t)
		if rapid.IntRange(0, 2).Draw(t, "part") > 0 {
			m.stepString(t, d, model, key)
			return
		}
		val = strings.Repeat(val, rapid.IntRange(0, 4).Draw(t, "repeat"))
		ok(t, d.Set([]byte(key), []byte(val), 0))
		model[key] = &modelValue{kind: KindString, str: val}
	case 2:
		at := d.Now() + rapid.Int64Range(-1000, 5000).Draw(t, "ttl")
		exists, err := d.SetExpireAt([]byte(key), at)
		if at > d.Now() && strings.HasPrefix(key, "part:") {
			equal(t, "expire", err, ErrNoDeadline)
			return
		}
		ok(t, err)
		equal(t, "expire", exists, v != nil)
		if v != nil {
			if v.expireAt = at; at <= d.Now() {
				delete(model, key)
			}
		}
	case 3:
		exists, err := d.SetExpireAt([]byte(key), 0)
		ok(t, err)
		equal(t, "persist", exists, v != nil)
		if v != nil {
			v.expireAt = 0
		}
	case 4:
		m.stepRename(t, d, model, key)
	case 5:
		if rapid.IntRange(0, 5).Draw(t, "flush") == 0 {
			ok(t, d.Flush())
			clear(model)
		}
	default:
		var got []string
		ok(t, d.Keys(func(k []byte, kind Kind) { got = append(got, string(k)+" "+kind.String()) }))
		m.checkKeys(t, got, model)
		got = nil
		cursor := uint64(0)
		for {
			next, err := d.Scan(cursor, 2, func(k []byte, kind Kind) { got = append(got, string(k)+" "+kind.String()) })
			ok(t, err)
			if cursor = next; cursor == 0 {
				break
			}
		}
		m.checkKeys(t, got, model)
		key, found, err := d.RandomKey()
		ok(t, err)
		if found && model[string(key)] == nil || !found && len(model) > 0 {
			t.Fatalf("random key %q %v", key, found)
		}
	}
}

// Strings of the model are short enough to be drawn and long enough to be in chunks, and what goes at once is many rows.
const (
	modelStringBytes = 24
	modelChunkBits   = 3
	modelManyRows    = 7
)

// stepString writes a few parts of a string, some of them behind its end, and reads parts.
func (m *storeMachine) stepString(t *rapid.T, d DB, model modelDB, key string) {
	v := model[key]
	s, err := d.StringOf([]byte(key))
	if v != nil && v.kind != KindString {
		equal(t, "string", err, ErrWrongType)
		return
	}
	ok(t, err)
	equal(t, "exists", s.Exists(), v != nil)
	for range rapid.IntRange(1, 4).Draw(t, "writes") {
		if v == nil {
			v = &modelValue{kind: KindString}
			model[key] = v
		}
		at := len(v.str)
		switch rapid.IntRange(0, 3).Draw(t, "where") {
		case 0:
			at = rapid.IntRange(0, at).Draw(t, "at")
		case 1:
			at += rapid.IntRange(0, 60).Draw(t, "beyond")
		}
		part := rapid.SampledFrom([]string{"x", "abcdefg", "\x00", strings.Repeat("\x00", 20), strings.Repeat("0123456789", 4)}).Draw(t, "part")
		ok(t, s.Write(int64(at), []byte(part)))
		long := v.str + strings.Repeat("\x00", max(0, at+len(part)-len(v.str)))
		v.str = long[:at] + part + long[at+len(part):]
		equal(t, "length", s.Len(), len(v.str))
		m.checkParts(t, s, v.str)
	}
}

// checkParts reads a part of the string in one piece and in several.
func (m *storeMachine) checkParts(t *rapid.T, s String, want string) {
	first := rapid.IntRange(0, len(want)-1).Draw(t, "first")
	last := rapid.IntRange(first, len(want)+5).Draw(t, "last")
	got, err := s.Part(int64(first), int64(last))
	ok(t, err)
	last = min(last, len(want)-1)
	equal(t, "part", got, []byte(want[first:last+1]))
	pieces := make([]byte, last-first+1)
	next := int64(first)
	ok(t, s.Pieces(int64(first), int64(last), func(at int64, piece []byte) bool {
		if at < next || len(piece) == 0 {
			t.Fatalf("a piece of %d bytes at %d, behind %d", len(piece), at, next)
		}
		next = at + int64(copy(pieces[at-int64(first):], piece))
		return true
	}))
	equal(t, "pieces", pieces, []byte(want[first:last+1]))
}

func (m *storeMachine) checkKeys(t *rapid.T, got []string, model modelDB) {
	var want []string
	for k, v := range model {
		want = append(want, k+" "+v.kind.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(t, "keys", got, want)
}

func (m *storeMachine) stepRename(t *rapid.T, d DB, model modelDB, key string) {
	v := model[key]
	dst := rapid.SampledFrom(modelKeys).Draw(t, "dst")
	if v == nil || dst == key {
		return
	}
	p, _ := testPlacer{m.n}.Place(0, []byte(dst))
	err := d.Rename([]byte(key), []byte(dst))
	if p.Partitioned && p.Kind != v.kind {
		equal(t, "rename", err, ErrWrongType)
		return
	}
	if p.Partitioned && v.expireAt != 0 {
		equal(t, "rename", err, ErrNoDeadline)
		return
	}
	ok(t, err)
	delete(model, key)
	model[dst] = v
}

// forgetExpired removes from the model what has expired, as the store does on access.
func (m *storeMachine) forgetExpired() {
	now := m.clk.NowMs()
	for _, db := range m.next {
		maps.DeleteFunc(db, func(_ string, v *modelValue) bool { return v.expireAt != 0 && v.expireAt <= now })
	}
}

func (m *storeMachine) checkAll(t *rapid.T) {
	m.tx.Begin(m.st.All())
	for n, model := range m.next {
		d := m.tx.DB(n)
		keys := slices.SortedFunc(maps.Keys(model), cmp.Compare)
		for _, key := range keys {
			v := model[key]
			kind, err := d.Type([]byte(key))
			ok(t, err)
			equal(t, "type of "+key, kind, v.kind)
			at, _, err := d.ExpireAt([]byte(key))
			ok(t, err)
			equal(t, "deadline of "+key, at, v.expireAt)
			m.checkValue(t, d, key, v)
		}
		var got []string
		ok(t, d.Keys(func(k []byte, kind Kind) { got = append(got, string(k)+" "+kind.String()) }))
		m.checkKeys(t, got, model)
	}
	m.tx.End()
}

func (m *storeMachine) checkValue(t *rapid.T, d DB, key string, v *modelValue) {
	switch v.kind {
	case KindString:
		got, _, err := d.Get([]byte(key))
		ok(t, err)
		if !bytes.Equal(got, []byte(v.str)) {
			t.Fatalf("%q: got %q, want %q", key, got, v.str)
		}
	case KindList:
		l, err := d.List([]byte(key))
		ok(t, err)
		var got []string
		ok(t, l.Range(0, int64(len(v.list)-1), func(val []byte) { got = append(got, string(val)) }))
		equal(t, key, got, v.list)
	case KindHash:
		h, err := d.Hash([]byte(key))
		ok(t, err)
		m.checkHash(t, h, v)
	case KindSet:
		s, err := d.SetOf([]byte(key))
		ok(t, err)
		m.checkSet(t, s, v)
	case KindZSet:
		z, err := d.ZSet([]byte(key))
		ok(t, err)
		m.checkZSet(t, z, v)
	}
}

// TestModel draws transactions over one or more shards, some of them aborted, restarts and power losses, and
// holds every answer and the final state against the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &storeMachine{fs: vfs.NewCrashableMem(), clk: clock.NewManual(testStart), n: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "shards")}
		m.model = []modelDB{{}, {}}
		m.open(t)
		for range rapid.IntRange(1, 25).Draw(t, "transactions") {
			m.next = cloneAll(m.model)
			m.tx.Begin(m.st.All())
			m.forgetExpired()
			for range rapid.IntRange(1, 5).Draw(t, "steps") {
				m.step(t)
				ok(t, m.tx.Check())
			}
			abort := rapid.IntRange(0, 4).Draw(t, "abort") == 0
			if abort {
				m.tx.Abort()
			} else {
				ok(t, m.tx.Commit())
				m.model = cloneAll(m.next)
			}
			ok(t, m.st.Wait(m.tx.End()))
			m.clk.Advance(1e6 * 100 * 3)
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				m.close(t)
				m.open(t)
			case 1:
				crashed := m.fs.CrashClone(vfs.CrashCloneCfg{})
				m.close(t)
				m.fs = crashed
				m.open(t)
			}
		}
		m.next = cloneAll(m.model)
		m.forgetExpired()
		m.checkAll(t)
		m.close(t)
	})
}

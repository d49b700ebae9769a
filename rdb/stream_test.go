package rdb

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"codeq/internal/peer"
)

func sampleStream() *Stream {
	id := func(ms, seq uint64) ID { return ID{ms, seq} }
	text := func(items ...string) (out [][]byte) {
		for _, item := range items {
			out = append(out, []byte(item))
		}
		return out
	}
	return &Stream{
		Entries: []Entry{
			{id(1, 1), text("a", "1", "b", "x")}, {id(1, 2), text("a", "2", "b", "y")}, {id(5, 0), text("c", "3")},
		},
		LastID: id(9, 9), MaxDeletedID: id(4, 0), Added: 7,
		Groups: []Group{{
			Name: []byte("g"), LastID: id(1, 2), Read: 2,
			Pending:   []Pending{{id(1, 1), 1, 1000, 1}, {id(1, 2), 0, 2000, 300}},
			Consumers: []Consumer{{[]byte("one"), 5, 5}, {[]byte("two"), 6, 6}},
		}, {Name: []byte("h"), Read: -1}},
	}
}

// fillStream puts a random stream at the key and tells whether entries were deleted, which leaves traces in Redis' form.
func (r reference) fillStream(rng *rand.Rand, key string) (deleted bool) {
	r.do("DEL", key)
	for i := range 1 + rng.IntN(300) {
		id := strconv.Itoa(1000+10*i+rng.IntN(10)) + "-" + strconv.Itoa(rng.IntN(3))
		args := []string{"XADD", key, id}
		for range 1 + rng.IntN(4)/3 {
			args = append(args, []string{"field", "other", "1"}[rng.IntN(3)], item(rng))
		}
		r.do(args...)
		if rng.IntN(50) == 0 {
			r.do("XGROUP", "CREATE", key, "g"+strconv.Itoa(i), []string{"0", "$", id}[rng.IntN(3)])
			r.do("XGROUP", "CREATECONSUMER", key, "g"+strconv.Itoa(i), "idle")
		}
	}
	for _, group := range r.do("XINFO", "GROUPS", key).Elems {
		name := group.Elems[1].Str
		for i := range rng.IntN(3) {
			r.do("XREADGROUP", "GROUP", name, "c"+strconv.Itoa(i), "COUNT", strconv.Itoa(1+rng.IntN(20)), "STREAMS", key, ">")
		}
	}
	entries := r.do("XRANGE", key, "-", "+").Elems
	for range []int{0, 0, 5, 20}[rng.IntN(4)] {
		if len(entries) > 1 {
			deleted = true
			r.do("XDEL", key, entries[rng.IntN(len(entries))].Elems[0].Str)
		}
	}
	return deleted
}

// shape is what XINFO tells of a stream, without what depends on the nodes and on the time of asking.
func (r reference) shape(key string) peer.Reply {
	reply := r.do("XINFO", "STREAM", key, "FULL", "COUNT", "0")
	var kept []peer.Reply
	for i := 0; i < len(reply.Elems); i += 2 {
		switch reply.Elems[i].Str {
		case "radix-tree-keys", "radix-tree-nodes":
		default:
			kept = append(kept, reply.Elems[i:i+2]...)
		}
	}
	reply.Elems = kept
	return reply
}

// TestRedisStreams reads what redis-server dumps of streams, and lets it restore what Encode writes.
func TestRedisStreams(t *testing.T) {
	r := newReference(t)
	rng := rand.New(rand.NewPCG(4, 4))
	for round := range 60 {
		if round == 30 {
			r.do("CONFIG", "SET", "stream-node-max-entries", "7", "stream-node-max-bytes", "300")
		}
		deleted := r.fillStream(rng, "k")
		dump := []byte(r.do("DUMP", "k").Str)
		got, err := Decode(dump)
		if err != nil {
			t.Fatalf("dump %q: %v", dump, err)
		}
		encoded := Encode(&got)
		if !deleted && round < 30 && !bytes.Equal(encoded, dump) {
			t.Fatalf("encoded\n%q, want\n%q", encoded, dump)
		}
		r.do("RESTORE", "copy", "0", string(encoded), "REPLACE")
		if want, copied := r.shape("k"), r.shape("copy"); !reflect.DeepEqual(copied, want) {
			t.Fatalf("restored\n%v, want\n%v", copied, want)
		}
		entries := r.do("XRANGE", "k", "-", "+")
		if copied := r.do("XRANGE", "copy", "-", "+"); !reflect.DeepEqual(copied, entries) {
			t.Fatalf("restored\n%v, want\n%v", copied, entries)
		}
		if len(entries.Elems) != len(got.Stream.Entries) {
			t.Fatalf("%d entries, want %d", len(got.Stream.Entries), len(entries.Elems))
		}
		for i, e := range got.Stream.Entries {
			have := fmt.Sprintf("%d-%d %q", e.ID.MS, e.ID.Seq, e.Fields)
			want := entries.Elems[i]
			if text := fmt.Sprintf("%s %q", want.Elems[0].Str, want.Elems[1].Strings()); have != text {
				t.Fatalf("entry %s, want %s", have, text)
			}
		}
	}
}

// otherStream writes a stream as another version does: the first one without what came later, the third one with when
// consumers were active.
func otherStream(kind byte, s *Stream) []byte {
	w := new(writer)
	nodes := streamNodes(s.Entries)
	w.len(uint64(len(nodes)))
	for _, node := range nodes {
		w.str(appendRawID(nil, node.master))
		w.str(node.body)
	}
	w.len(uint64(len(s.Entries)))
	w.lenID(s.LastID)
	if kind != typeStream1 {
		w.lenID(s.Entries[0].ID)
		w.lenID(s.MaxDeletedID)
		w.len(s.Added)
	}
	w.len(uint64(len(s.Groups)))
	for _, g := range s.Groups {
		w.str(g.Name)
		w.lenID(g.LastID)
		if kind != typeStream1 {
			w.len(uint64(g.Read))
		}
		w.len(0)
		w.len(uint64(len(g.Consumers)))
		for _, c := range g.Consumers {
			w.str(c.Name)
			w.b = appendLittleEndian(w.b, c.SeenMs, 8)
			if kind == typeStream3 {
				w.b = appendLittleEndian(w.b, c.ActiveMs, 8)
			}
			w.len(0)
		}
	}
	return seal(kind, w.b)
}

// TestOldStreams makes up for what the first form lacks as redis-server does.
func TestOldStreams(t *testing.T) {
	r := newReference(t)
	s := sampleStream()
	for _, empty := range []bool{false, true} {
		for _, last := range []ID{{0, 0}, {0, 5}, {1, 1}, {1, 2}, {5, 0}, {9, 9}, {10, 0}} {
			for _, top := range []ID{{5, 0}, {9, 9}} {
				group := Group{Name: []byte("g"), LastID: last, Consumers: s.Groups[0].Consumers}
				old := &Stream{Entries: s.Entries, LastID: top, Groups: []Group{group}}
				if empty {
					old.Entries = nil
				}
				payload := otherStream(typeStream1, old)
				got, err := Decode(payload)
				if err != nil {
					t.Fatal(err)
				}
				r.do("RESTORE", "k", "0", string(payload), "REPLACE")
				want, err := Decode([]byte(r.do("DUMP", "k").Str))
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("empty %v, last %v, group %v:\n%+v, redis has\n%+v", empty, top, last, got.Stream, want.Stream)
				}
			}
		}
	}
}

// TestNewStreams reads the form that knows when consumers were active.
func TestNewStreams(t *testing.T) {
	s := sampleStream()
	s.Groups[0].Pending = nil
	s.Groups[0].Consumers[1].ActiveMs = 77
	got, err := Decode(otherStream(typeStream3, s))
	if err != nil || !reflect.DeepEqual(got.Stream, s) {
		t.Errorf("%+v, want %+v, %v", got.Stream, s, err)
	}
}

// TestHostileStreams wants an error for streams that contradict themselves.
func TestHostileStreams(t *testing.T) {
	for name, spoil := range map[string]func(s *Stream){
		"entries out of order":         func(s *Stream) { s.Entries[1].ID = s.Entries[0].ID },
		"last id before an entry":      func(s *Stream) { s.LastID = ID{1, 1} },
		"pending entries out of order": func(s *Stream) { s.Groups[0].Pending[1].ID = ID{} },
		"two groups of one name":       func(s *Stream) { s.Groups[1].Name = s.Groups[0].Name },
		"two consumers of one name":    func(s *Stream) { s.Groups[0].Consumers[1].Name = s.Groups[0].Consumers[0].Name },
	} {
		s := sampleStream()
		if _, err := Decode(Encode(&Value{Kind: StreamKind, Stream: s})); err != nil {
			t.Fatal(err)
		}
		spoil(s)
		if v, err := Decode(Encode(&Value{Kind: StreamKind, Stream: s})); err == nil {
			t.Errorf("%s: %+v", name, v.Stream)
		}
	}
}

// TestStreamNodes cuts nodes where redis-server does, to the byte.
func TestStreamNodes(t *testing.T) {
	r := newReference(t)
	for size := range 120 {
		r.do("DEL", "k")
		for i := range 4 {
			r.do("XADD", "k", fmt.Sprint(1, "-", i+1), "f", string(bytes.Repeat([]byte{'x'}, 1300+size)))
		}
		dump := []byte(r.do("DUMP", "k").Str)
		v, err := Decode(dump)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(Encode(&v), dump) {
			t.Errorf("entries of %d bytes stand in other nodes", 1300+size)
		}
	}
}

package shard

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// BenchmarkStream measures what a queue on a stream does, one transaction each: adding an entry, adding with a bounded
// length, and handing an entry to a consumer that acknowledges the one before.
func BenchmarkStream(b *testing.B) {
	fields := [][]byte{[]byte("field"), make([]byte, 100)}
	add := func(s Stream, i int) error { return s.Add(StreamID{Ms: uint64(i) + 1}, fields) }
	ops := []struct {
		name string
		op   func(s Stream, i int) error
	}{
		{"add", add},
		{"add bounded", func(s Stream, i int) error {
			err := add(s, i)
			if err == nil {
				_, err = s.Trim(StreamTrim{MaxLen: 1000})
			}
			return err
		}},
		{"deliver and acknowledge", func(s Stream, i int) error {
			if err := add(s, i); err != nil {
				return err
			}
			g, _, err := s.Group([]byte("g"))
			if err != nil {
				return err
			}
			c, _, err := g.See([]byte("c"), 1)
			if err != nil {
				return err
			}
			if err := g.Deliver(c, 1, false, 1, func(StreamID, Fields) {}); err != nil {
				return err
			}
			_, err = g.Ack(StreamID{Ms: uint64(i)})
			return err
		}},
	}
	for _, bench := range ops {
		b.Run(bench.name, func(b *testing.B) { benchmarkOnStream(b, bench.op) })
	}
}

func benchmarkOnStream(b *testing.B, op func(s Stream, i int) error) {
	opts := testOptions(vfs.Default, 1, clock.System())
	opts.Dir, opts.Fsync = b.TempDir(), FsyncEverySec
	opts.CacheBytes, opts.BlockCache, opts.MemtableBytes = 32<<20, 128<<20, 16<<20
	opts.LogSegment, opts.LogMax = 64<<20, 512<<20
	st, err := Open(opts)
	if err != nil {
		b.Fatal(err)
	}
	defer closeTest(b, st)
	tx := st.NewTx()
	transaction := func(fn func(s Stream) error) {
		tx.Begin(st.All())
		s, err := tx.DB(0).Stream([]byte("stream"))
		if err == nil {
			err = fn(s)
		}
		if err == nil {
			err = tx.Commit()
		}
		if pos := tx.End(); err == nil {
			err = st.Wait(pos)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	transaction(func(s Stream) error {
		if err := s.Create(); err != nil {
			return err
		}
		_, err := s.CreateGroup([]byte("g"), StreamID{}, 0)
		return err
	})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		transaction(func(s Stream) error { return op(s, i) })
	}
}

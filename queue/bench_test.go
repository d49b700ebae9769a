package queue

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
	"codeq/shard"
	"codeq/supplier"
)

// BenchmarkLife measures tasks from their enqueueing to their end, so many at a time: three transactions for them all, as pipelines of
// clients make them, with 200 bytes of payload, on the operating system's file system under everysec.
func BenchmarkLife(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			topology := supplier.Topology{Default: 2}
			s, err := supplier.NewRegistry().New("hash", supplier.Options{Topology: topology})
			if err != nil {
				b.Fatal(err)
			}
			router, err := supplier.NewRouter(supplier.RouterConfig{Topology: topology, Supplier: s})
			if err != nil {
				b.Fatal(err)
			}
			policies := NewPolicies(func(Name) Policy { return DefaultPolicy() })
			queues := New(Options{Router: router, Logger: slog.New(slog.DiscardHandler), Policies: func() *Policies { return policies }})
			st, err := shard.Open(shard.Options{
				Dir: b.TempDir(), FS: vfs.Default, Names: topology.Names(), DefaultShards: topology.Default, Databases: 1, Placer: benchPlacer{placer{router}},
				Tracker: queues, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), Fsync: shard.FsyncEverySec,
				CacheBytes: 32 << 20, BlockCache: 128 << 20, MemtableBytes: 16 << 20, LogSegment: 64 << 20, LogMax: 512 << 20,
				ExpireInterval: 100, Fatal: func(err error) { panic(err) },
			})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := st.Close(); err != nil {
					b.Error(err)
				}
			}()
			life(b, st, queues, batch)
		})
	}
}

// benchPlacer is the placer without the map that it makes for each answer.
type benchPlacer struct{ placer }

func (p benchPlacer) Place(db int, key []byte) (shard.Placement, error) {
	route := p.Route(db, key)
	at := shard.Placement{Shard: route.Shard, Partitioned: route.Kind == supplier.Partitioned}
	switch route.Type {
	case supplier.PartitionHash:
		at.Kind = shard.KindHash
	case supplier.PartitionZSet:
		at.Kind = shard.KindZSet
	}
	return at, route.Err
}

func life(b *testing.B, st *shard.Store, queues *Queues, batch int) {
	var payloads, ids [][]byte
	for range batch {
		payloads, ids = append(payloads, bytes.Repeat([]byte("x"), 200)), append(ids, nil)
	}
	name := Name{Command: []byte("render")}
	enqueue := &Enqueue{Queue: name, Priority: 5}
	claim := &Claim{Worker: []byte("worker"), Queues: []Name{name}, Count: batch}
	mask, err := queues.Shards(0, name)
	if err != nil {
		b.Fatal(err)
	}
	tx, t := st.NewTx(), queues.NewTx()
	step := func(fn func() error) {
		tx.Begin(mask)
		err := t.On(tx.DB(0))
		if err == nil {
			err = fn()
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
	for b.Loop() {
		n := 0
		step(func() error { return t.Enqueue(enqueue, payloads, func([]byte) {}) })
		step(func() error {
			_, err := t.Claim(claim, func(v *View) {
				v.Each(func(m Value) {
					if string(m.Name) == "id" {
						ids[n] = append(ids[n][:0], m.Text...)
						n++
					}
				})
			})
			return err
		})
		step(func() error {
			for _, id := range ids[:n] {
				if err := t.On(tx.DB(0)); err != nil {
					return err
				}
				if err := t.Submit(claim.Worker, id, Submission{Result: []byte(`{"ok":true}`)}); err != nil {
					return err
				}
			}
			return nil
		})
		if n != batch {
			b.Fatalf("claimed %d of %d", n, batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/task")
}

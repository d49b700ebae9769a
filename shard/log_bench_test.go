package shard

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkLogCommit measures append and wait on the real file system: 200 bytes on one shard.
func BenchmarkLogCommit(b *testing.B) {
	for _, policy := range []fsyncPolicy{fsyncAlways, fsyncEverySec, fsyncNo} {
		name := map[fsyncPolicy]string{fsyncAlways: "always", fsyncEverySec: "everysec", fsyncNo: "no"}[policy]
		for _, goroutines := range []int{1, 8, 50} {
			b.Run(fmt.Sprintf("%s/%d", name, goroutines), func(b *testing.B) {
				opts := logTestOptions(vfs.Default, policy, nil)
				opts.Dir, opts.SegmentSize, opts.Ticker = b.TempDir()+"/log", 0, nil
				benchmarkLogCommit(b, opts, goroutines)
			})
		}
	}
}

func benchmarkLogCommit(b *testing.B, opts logOptions, goroutines int) {
	l, err := openLog(opts, func([]logPart) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	repr := make([]byte, 200)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var frame logFrame
			for n := uint64(1); left.Add(-1) >= 0; n++ {
				pos, err := l.append([]logPart{{number: n, repr: repr}}, &frame)
				if err == nil {
					err = l.wait(pos)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := l.close(); err != nil {
		b.Fatal(err)
	}
}

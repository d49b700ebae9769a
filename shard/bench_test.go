package shard

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// BenchmarkCommit measures transactions of one and of sixteen commands, from lock to acknowledgement, on the
// operating system's file system under everysec.
func BenchmarkCommit(b *testing.B) {
	val := make([]byte, 100)
	ops := map[string]func(d DB, i int) error{
		"set": func(d DB, i int) error { return d.Set([]byte("key:000000000001"), val, 0) },
		"lpush": func(d DB, i int) error {
			l, err := d.List([]byte("mylist"))
			if err != nil {
				return err
			}
			return l.Push(Head, val)
		},
		"rpop": func(d DB, i int) error {
			l, err := d.List([]byte("filled"))
			if err != nil {
				return err
			}
			_, _, err = l.Pop(Tail)
			return err
		},
		"zadd": func(d DB, i int) error {
			z, err := d.ZSet([]byte("zset"))
			if err != nil {
				return err
			}
			_, err = z.Set(fmt.Appendf(nil, "element:%012d", i), float64(i))
			return err
		},
		"zpopmin": func(d DB, i int) error {
			z, err := d.ZSet([]byte("zset"))
			if err != nil {
				return err
			}
			_, _, _, err = z.Pop(false)
			return err
		},
	}
	for _, name := range []string{"set", "lpush", "rpop", "zadd", "zpopmin"} {
		for _, run := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", name, run), func(b *testing.B) {
				opts := testOptions(vfs.Default, 1, clock.System())
				opts.Dir, opts.Fsync = b.TempDir(), FsyncEverySec
				opts.CacheBytes, opts.BlockCache, opts.MemtableBytes = 32<<20, 128<<20, 16<<20
				opts.LogSegment, opts.LogMax = 64<<20, 512<<20
				st := openTest(b, opts)
				defer closeTest(b, st)
				tx := st.NewTx()
				commit := func(n int, op func(d DB, i int) error) {
					tx.Begin(st.All())
					for i := range n {
						if err := op(tx.DB(0), i); err != nil {
							b.Fatal(err)
						}
					}
					if err := tx.Commit(); err != nil {
						b.Fatal(err)
					}
					if err := st.Wait(tx.End()); err != nil {
						b.Fatal(err)
					}
				}
				if name == "rpop" {
					for left := b.N * 2; left > 0; left -= 1000 {
						commit(1000, func(d DB, i int) error {
							l, err := d.List([]byte("filled"))
							if err != nil {
								return err
							}
							return l.Push(Head, val)
						})
					}
				}
				if name == "zpopmin" {
					for left := b.N * 2; left > 0; left -= 1000 {
						commit(1000, func(d DB, i int) error { return ops["zadd"](d, left*1000+i) })
					}
				}
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; i < b.N; i += run {
					commit(run, func(d DB, k int) error { return ops[name](d, i+k) })
				}
			})
		}
	}
}

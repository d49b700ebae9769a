package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// logCrashes gives the ways to lose power: nothing unsynced survives, some blocks and names do, all do.
func logCrashes(seed uint64) map[string]vfs.CrashCloneCfg {
	configs := map[string]vfs.CrashCloneCfg{"0 percent": {}}
	for _, percent := range []int{10, 50, 90, 100} {
		for i := range seeds(3) {
			name := fmt.Sprintf("%d percent, seed %d", percent, seed+i)
			configs[name] = vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed+i, 1))}
		}
	}
	return configs
}

// logCrashVerify opens a file system after a crash, twice: commits 1 to at least durable must be there, whole.
func logCrashVerify(t *testing.T, name string, fs *vfs.MemFS, durable, appended uint64) {
	t.Helper()
	last := uint64(0)
	for i := range 2 {
		var numbers []uint64
		l, err := openLog(logTestOptions(fs, fsyncAlways, nil), logTestReplay(&numbers))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n := uint64(len(numbers))
		if n < durable || n > appended || n > 0 && numbers[0] != 1 || i == 1 && n != last {
			t.Fatalf("%s: replay %d gave %v; commits up to %d of %d are durable", name, i, numbers, durable, appended)
		}
		last = n
		clone := fs.CrashClone(vfs.CrashCloneCfg{}) // What was replayed once stays, also when power is lost again.
		logTestClose(t, l)
		fs = clone
	}
}

// TestLogPowerLoss loses power before every write, fsync and close, and after every commit, under every policy. Rotations
// are among them, since segments are small.
func TestLogPowerLoss(t *testing.T) {
	for i := range 6 {
		policy, follows := []fsyncPolicy{fsyncAlways, fsyncEverySec, fsyncNo}[i/2], i%2 == 0
		if testing.Short() && i%2 != i/2%2 {
			continue // one of the two for each policy
		}
		mem := logTestFS(t)
		var durable, appended, seed uint64
		crash := func(string, string) error {
			seed += 10
			for name, cfg := range logCrashes(seed) {
				logCrashVerify(t, name, mem.CrashClone(cfg), durable, appended)
			}
			return nil
		}
		ticks := make(chan time.Time)
		opts := logTestOptions(logHookFS{mem, crash}, policy, ticks)
		opts.SegmentSize = 6000 // More than a block of the crashable file system, which loses blocks one by one.
		if !follows {           // Then every rotation has to wait for the one before.
			opts.Later = func(func()) {}
		}
		l, _ := logTestOpen(t, opts)
		for range 12 {
			parts := []logPart{logTestPart(0, appended+1), logTestPart(logTestBigShard, appended+1)}
			appended++ // It may survive from here on.
			pos, err := l.append(parts, new(logFrame))
			if err = errors.Join(err, l.wait(pos)); err != nil {
				t.Fatal(err)
			}
			switch {
			case policy == fsyncAlways:
				durable = appended
			case policy == fsyncEverySec && appended%4 == 0:
				ticks <- time.Time{}
				ticks <- time.Time{} // taken when the first tick has been dealt with
				durable = appended
			}
			_ = crash("", "")
		}
		logTestClose(t, l)
		durable = appended
		_ = crash("", "")
	}
}

// TestLogReplayIsDurableBeforeApply loses power while records that were never fsynced are replayed, and again later: what
// one shard was given must not vanish for the others.
func TestLogReplayIsDurableBeforeApply(t *testing.T) {
	mem := logTestFS(t)
	opts := logTestOptions(mem, fsyncNo, nil)
	opts.SegmentSize = 1 << 20
	l, _ := logTestOpen(t, opts)
	logTestAppend(t, l, 1, 10)
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
	logTestClose(t, l)
	// Nothing of the image is fsynced but the directory, as after kill -9.
	planted := logTestFS(t)
	if err := planted.MkdirAll(logTestDir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := planted.Create(logTestPath(1), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(logWrite(f, logTestRead(t, killed, logTestPath(1))), f.Close(), logSyncDir(planted, logTestDir))
	if err != nil {
		t.Fatal(err)
	}
	opts.FS = planted
	l, err = openLog(opts, func([]logPart) error {
		logCrashVerify(t, "during replay", planted.CrashClone(vfs.CrashCloneCfg{}), 10, 10)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	logTestClose(t, l)
}

// TestLogTrimRemovesOneByOne watches the file system: each removal is durable before the next one, oldest first, or power
// loss could leave a gap. (The crashable file system undoes all removals or none, so it can't show this.)
func TestLogTrimRemovesOneByOne(t *testing.T) {
	var operations []string
	fs := errorfs.Wrap(logTestFS(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRemove || op.Kind == errorfs.OpFileSync {
			operations = append(operations, op.Path)
		}
		return nil
	}))
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	logTestAppend(t, l, 1, 13)
	operations = nil
	if err := l.trim(func(uint16) uint64 { return 6 }); err != nil {
		t.Fatal(err)
	}
	want := []string{logTestPath(1), logTestDir, logTestPath(2), logTestDir, logTestPath(3), logTestDir}
	if !slices.Equal(operations, want) {
		t.Fatalf("operations %v, want %v", operations, want)
	}
	logTestClose(t, l)
}

// TestLogConcurrent has many goroutines commit under the race detector, each on a shard of its own, while others fsync,
// tick, trim and take images of the file system. Each image must hold what was acknowledged before it was taken.
func TestLogConcurrent(t *testing.T) {
	const shards, commits = 12, 150
	mem := logTestFS(t)
	ticks := make(chan time.Time)
	opts := logTestOptions(mem, fsyncAlways, ticks)
	opts.SegmentSize, opts.Later = 20_000, nil
	l, _ := logTestOpen(t, opts)
	var acknowledged [shards]atomic.Uint64
	var trimmed atomic.Uint64
	var appenders, others sync.WaitGroup
	for shard := range uint16(shards) {
		appenders.Go(func() { logConcurrentAppend(t, l, shard, commits, &acknowledged[shard]) })
	}
	stop := make(chan struct{})
	every := func(f func()) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	every(func() {
		if err := l.sync(); err != nil {
			t.Error(err)
		}
		ticks <- time.Time{}
	})
	every(func() {
		low := acknowledged[0].Load()
		for shard := range acknowledged {
			low = min(low, acknowledged[shard].Load())
		}
		trimmed.Store(low / 2)
		if err := l.trim(func(uint16) uint64 { return low / 2 }); err != nil {
			t.Error(err)
		}
		if l.size() < logHeaderSize {
			t.Error("the size is wrong")
		}
	})
	seed := uint64(0)
	every(func() {
		var want [shards]uint64
		for shard := range acknowledged {
			want[shard] = acknowledged[shard].Load()
		}
		seed++
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed % 3 * 40), RNG: rand.New(rand.NewPCG(seed, 2))})
		logConcurrentVerify(t, clone, want[:], trimmed.Load())
	})
	appenders.Wait()
	close(stop)
	others.Wait()
	logTestClose(t, l)
	want := make([]uint64, shards)
	for i := range want {
		want[i] = commits
	}
	logConcurrentVerify(t, mem.CrashClone(vfs.CrashCloneCfg{}), want, trimmed.Load())
}

// logConcurrentAppend commits on one shard and notes what was acknowledged.
func logConcurrentAppend(t *testing.T, l *commitLog, shard uint16, commits uint64, acknowledged *atomic.Uint64) {
	for n := uint64(1); n <= commits; n++ {
		pos, err := l.append([]logPart{logTestPart(shard, n)}, new(logFrame))
		if err = errors.Join(err, l.wait(pos)); err != nil {
			t.Error(err)
			return
		}
		acknowledged.Store(n)
	}
}

// logConcurrentVerify checks that an image holds each shard's commits, contiguous, from behind trimmed to want at least.
func logConcurrentVerify(t *testing.T, fs *vfs.MemFS, want []uint64, trimmed uint64) {
	last := make([]uint64, len(want))
	l, err := openLog(logTestOptions(fs, fsyncAlways, nil), func(parts []logPart) error {
		p := parts[0]
		if err := logTestCheck(p); err != nil {
			return err
		}
		if n := last[p.shard]; n == 0 && p.number > trimmed+1 || n > 0 && p.number != n+1 {
			return fmt.Errorf("shard %d: commit %d follows %d; trimmed to %d", p.shard, p.number, n, trimmed)
		}
		last[p.shard] = p.number
		return nil
	})
	if err != nil {
		t.Error(err)
		return
	}
	for shard := range want {
		if last[shard] < want[shard] && want[shard] > trimmed {
			t.Errorf("shard %d ends at commit %d; %d was acknowledged", shard, last[shard], want[shard])
		}
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// TestLogLosesPowerInAFullSegment: while a full segment is being fsynced, and records are written to the next one, none of them says that it is on disk.
func TestLogLosesPowerInAFullSegment(t *testing.T) {
	for seed := range 20 * seeds(5) {
		fs := logTestFS(t)
		var work sync.WaitGroup
		var once sync.Once
		reached, lost := make(chan struct{}), make(chan struct{})
		opts := logTestOptions(logHookFS{fs, func(op, path string) error {
			if op == "fsync" && path == logTestPath(1) {
				once.Do(func() {
					close(reached)
					<-lost
				})
			}
			return nil
		}}, fsyncNo, nil)
		opts.Later = func(fn func()) { work.Go(fn) }
		l, _ := logTestOpen(t, opts)
		n := uint64(0)
		for l.active.number == 1 {
			n++
			logTestAppend(t, l, n, n)
		}
		<-reached
		logTestAppend(t, l, n+1, n+1) // one more would rotate, and wait
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 3))})
		close(lost)
		work.Wait()
		logTestClose(t, l)
		l, _ = logTestOpen(t, logTestOptions(clone, fsyncNo, nil))
		logTestClose(t, l)
	}
}

package shard

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// logModel is what the log must hold: commits trimmed+1 to appended may be there; those up to durable must survive power
// loss, those up to written must survive kill -9.
type logModel struct {
	fs     *vfs.MemFS
	log    *commitLog
	opts   logOptions
	left   func() // what rotations have left, or nil
	ticks  chan time.Time
	policy fsyncPolicy

	trimmed, durable, written, appended uint64
	positions                           map[uint64]uint64 // of the commits appended since the log was opened
}

func (m *logModel) commit(rt *rapid.T) {
	shard := rapid.SampledFrom([]uint16{1, logTestBigShard}).Draw(rt, "shard")
	n := m.appended + 1
	pos, err := m.log.append([]logPart{logTestPart(0, n), logTestPart(shard, n)}, new(logFrame))
	if err != nil {
		rt.Fatal(err)
	}
	m.appended = n
	m.positions[n] = pos
}

func (m *logModel) wait(rt *rapid.T) {
	first := m.appended - uint64(len(m.positions)) + 1
	if first > m.appended {
		rt.Skip("nothing appended")
	}
	n := rapid.Uint64Range(first, m.appended).Draw(rt, "commit")
	if err := m.log.wait(m.positions[n]); err != nil {
		rt.Fatal(err)
	}
	m.written = max(m.written, n)
	if m.policy == fsyncAlways {
		m.durable = max(m.durable, n)
	}
}

func (m *logModel) sync(rt *rapid.T) {
	if err := m.log.sync(); err != nil {
		rt.Fatal(err)
	}
	m.written, m.durable = m.appended, m.appended
}

func (m *logModel) tick(*rapid.T) {
	m.ticks <- time.Time{}
	m.ticks <- time.Time{} // taken when the first tick has been dealt with
	if m.policy == fsyncEverySec {
		m.written, m.durable = m.appended, m.appended
	}
}

// follow does what rotations have left.
func (m *logModel) follow(rt *rapid.T) {
	if m.left == nil {
		rt.Skip("no rotation")
	}
	m.left()
	m.left = nil
}

func (m *logModel) setPolicy(rt *rapid.T) {
	m.policy = rapid.SampledFrom([]fsyncPolicy{fsyncAlways, fsyncEverySec, fsyncNo}).Draw(rt, "policy")
	m.opts.Policy = m.policy
	m.log.setPolicy(m.policy)
}

func (m *logModel) trim(rt *rapid.T) {
	n := rapid.Uint64Range(0, m.durable).Draw(rt, "durable")
	if err := m.log.trim(func(uint16) uint64 { return n }); err != nil {
		rt.Fatal(err)
	}
	m.trimmed = max(m.trimmed, n)
}

func (m *logModel) closeAndOpen(rt *rapid.T) {
	if err := m.log.close(); err != nil {
		rt.Fatal(err)
	}
	before := logTestRecordBytes(m.log)
	m.open(rt, m.fs, m.appended)
	if after := logTestRecordBytes(m.log); after != before {
		rt.Fatalf("%d bytes of records, but %d when they are opened again", before, after)
	}
}

// kill keeps all that was handed to the file system and loses the process' memory.
func (m *logModel) kill(rt *rapid.T) {
	m.crash(rt, vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}, m.written)
}

func (m *logModel) losePower(rt *rapid.T) {
	percent := rapid.SampledFrom([]int{0, 20, 80}).Draw(rt, "percent")
	seed := rapid.Uint64().Draw(rt, "seed")
	m.crash(rt, vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))}, m.durable)
}

func (m *logModel) crash(rt *rapid.T, cfg vfs.CrashCloneCfg, atLeast uint64) {
	clone := m.fs.CrashClone(cfg)
	if err := m.log.close(); err != nil { // The image is taken: this only ends the goroutine.
		rt.Fatal(err)
	}
	m.open(rt, clone, atLeast)
}

// open opens the log and compares. What was replayed is durable from now on.
func (m *logModel) open(rt *rapid.T, fs *vfs.MemFS, atLeast uint64) {
	var numbers []uint64
	m.fs, m.opts.FS, m.left = fs, fs, nil
	var size int64
	check := logTestReplay(&numbers)
	l, err := openLog(m.opts, func(parts []logPart) error {
		size += logTestFullSize(parts)
		return check(parts)
	})
	if err != nil {
		rt.Fatal(err)
	}
	if bytes := logTestRecordBytes(l); bytes != size {
		rt.Fatalf("%d bytes of records, but %d were replayed", bytes, size)
	}
	m.log, m.positions = l, make(map[uint64]uint64)
	last := m.trimmed
	if n := len(numbers); n > 0 {
		if numbers[0] > m.trimmed+1 {
			rt.Fatalf("replayed %v, but only commits up to %d were trimmed", numbers, m.trimmed)
		}
		last = max(last, numbers[n-1])
	}
	if last < atLeast || last > m.appended {
		rt.Fatalf("replayed %v; at least %d must survive, %d were appended", numbers, atLeast, m.appended)
	}
	m.appended, m.written, m.durable = last, last, last
}

// logTestRecordBytes is the size of the records in a log that has nothing pending.
func logTestRecordBytes(l *commitLog) int64 { return l.size() - int64(len(l.segments)+1)*logHeaderSize }

// logTestFullSize is the size of a record of parts that logTestPart made, before compression.
func logTestFullSize(parts []logPart) int64 {
	size := int64(logFrameSize + logCountSize + len(parts)*logPartHeadSize + logTailSize)
	for _, p := range parts {
		size += int64(len(logTestPart(p.shard, p.number).repr))
	}
	return size
}

func TestLogModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ticks := make(chan time.Time)
		m := &logModel{ticks: ticks, opts: logTestOptions(nil, fsyncAlways, ticks)}
		m.opts.Later = func(work func()) { m.left = work }
		m.opts.SegmentSize = rapid.SampledFrom([]int64{64, 1000, 9000}).Draw(rt, "segment size")
		m.open(rt, logTestFS(t), 0)
		actions := map[string]func(*rapid.T){
			"wait": m.wait, "sync": m.sync, "tick": m.tick, "policy": m.setPolicy, "follow": m.follow, "trim": m.trim,
			"reopen": m.closeAndOpen, "kill": m.kill, "lose power": m.losePower,
		}
		for _, name := range []string{"commit", "commit 2", "commit 3", "commit 4"} {
			actions[name] = m.commit // the most frequent action
		}
		rt.Repeat(actions)
		m.closeAndOpen(rt)
		if err := m.log.close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestLogReplayTwice replays the same log again and again: the same commits, and no growth.
func TestLogReplayTwice(t *testing.T) {
	fs := logTestFS(t)
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	logTestAppend(t, l, 1, 30)
	logTestClose(t, l)
	var before []uint64
	var size int64
	for i := range 3 {
		l, numbers := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
		logTestSpan(t, numbers, 1, 30)
		if i > 0 && (!slices.Equal(numbers, before) || l.size() != size) {
			t.Fatalf("replay %d differs: %d bytes, %v", i, l.size(), numbers)
		}
		before, size = numbers, l.size()
		logTestClose(t, l)
	}
}

package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minlz"
)

const logTestDir = "data/log"

// logTestFS is an empty crashable file system whose "data" directory is durable, as the server's is.
func logTestFS(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	if err := errors.Join(fs.MkdirAll("data", 0o755), logSyncDir(fs, "/")); err != nil {
		t.Fatal(err)
	}
	return fs
}

// logTestOptions uses segments of a few records, a ticker that the test drives, and does what a rotation leaves at once.
func logTestOptions(fs vfs.FS, policy fsyncPolicy, ticks chan time.Time) logOptions {
	return logOptions{
		FS: fs, Dir: logTestDir, Create: true, Policy: policy, SegmentSize: 512,
		Ticker: func(time.Duration) (<-chan time.Time, func()) { return ticks, func() {} },
		Logger: slog.New(slog.DiscardHandler),
		Later:  func(work func()) { work() },
	}
}

// logTestBigShard is a shard whose parts are so large that the 4 KB blocks, by which power loss is played, cut them.
const logTestBigShard = 8

// logTestPart makes a part whose bytes follow from its shard and number, so that a reader can check it alone. Of the large ones, every
// second can be compressed.
func logTestPart(shard uint16, number uint64) logPart {
	r := rand.New(rand.NewPCG(uint64(shard), number))
	size, mask := 100, byte(0xff)
	if shard == logTestBigShard {
		size = 4 * logPackLeast
		if number%2 == 0 {
			mask = 7
		}
	}
	return logPart{shard: shard, number: number, repr: logTestBytes(r, r.IntN(size), mask)}
}

// logTestBytes makes so many random bytes, of which those bits alone are set that the mask has.
func logTestBytes(r *rand.Rand, n int, mask byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32()) & mask
	}
	return b
}

// logTestCommit makes a commit of the given number on two shards.
func logTestCommit(number uint64) []logPart {
	return []logPart{logTestPart(0, number), logTestPart(7, number)}
}

// logTestReplay collects the numbers of commits that have the same number on two shards, and checks that they
// are whole and contiguous.
func logTestReplay(numbers *[]uint64) func([]logPart) error {
	return func(parts []logPart) error {
		if len(parts) != 2 || parts[0].number != parts[1].number || parts[0].shard == parts[1].shard {
			return fmt.Errorf("a commit isn't whole: %+v", parts)
		}
		if err := errors.Join(logTestCheck(parts[0]), logTestCheck(parts[1])); err != nil {
			return err
		}
		if n := len(*numbers); n > 0 && parts[0].number != (*numbers)[n-1]+1 {
			return fmt.Errorf("commit %d follows %d", parts[0].number, (*numbers)[n-1])
		}
		*numbers = append(*numbers, parts[0].number)
		return nil
	}
}

// logTestCheck compares a part with what logTestPart made.
func logTestCheck(p logPart) error {
	if batch, err := p.batch(new([]byte)); err != nil || !bytes.Equal(batch, logTestPart(p.shard, p.number).repr) {
		return fmt.Errorf("the part of shard %d, commit %d, differs from what was appended", p.shard, p.number)
	}
	return nil
}

func logTestOpen(t testing.TB, opts logOptions) (*commitLog, []uint64) {
	t.Helper()
	var numbers []uint64
	l, err := openLog(opts, logTestReplay(&numbers))
	if err != nil {
		t.Fatal(err)
	}
	return l, numbers
}

// logTestAppend appends the commits from first to last and waits for them.
func logTestAppend(t testing.TB, l *commitLog, first, last uint64) {
	t.Helper()
	for n := first; n <= last; n++ {
		pos, err := l.append(logTestCommit(n), new(logFrame))
		if err == nil {
			err = l.wait(pos)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func logTestClose(t testing.TB, l *commitLog) {
	t.Helper()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// logTestSpan checks that the numbers are first to last.
func logTestSpan(t testing.TB, numbers []uint64, first, last uint64) {
	t.Helper()
	if last < first && len(numbers) == 0 {
		return
	}
	if len(numbers) == 0 || numbers[0] != first || numbers[len(numbers)-1] != last {
		t.Fatalf("replayed %v, want %d to %d", numbers, first, last)
	}
}

// logHookFS calls hook before each write, fsync and close of a file. What the hook returns is the result; errLogShort
// makes a write stop in the middle without an error of its own.
type logHookFS struct {
	vfs.FS
	hook func(op, path string) error
}

var errLogShort = errors.New("short")

type logHookFile struct {
	vfs.File
	path string
	hook func(op, path string) error
}

func (fs logHookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	return logHookFile{f, name, fs.hook}, err
}

func (fs logHookFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, opts...)
	return logHookFile{f, name, fs.hook}, err
}

func (fs logHookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, opts...)
	return logHookFile{f, name, fs.hook}, err
}

func (f logHookFile) Write(b []byte) (int, error) {
	err := f.hook("write", f.path)
	if err == errLogShort {
		return f.File.Write(b[:len(b)/2])
	}
	if err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f logHookFile) Sync() error {
	if err := f.hook("fsync", f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f logHookFile) SyncData() error {
	if err := f.hook("fsync", f.path); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f logHookFile) Close() error { return errors.Join(f.hook("close", f.path), f.File.Close()) }

// logGate lets a test hold one kind of operation.
type logGate struct {
	op      string
	on      atomic.Bool
	release chan struct{}
	count   map[string]*atomic.Int64
}

func newLogGate(op string) *logGate {
	return &logGate{op: op, release: make(chan struct{}),
		count: map[string]*atomic.Int64{"write": new(atomic.Int64), "fsync": new(atomic.Int64), "close": new(atomic.Int64)}}
}

func (g *logGate) hook(op, _ string) error {
	g.count[op].Add(1)
	if op == g.op && g.on.Load() {
		<-g.release
	}
	return nil
}

func TestLogReopen(t *testing.T) {
	for _, policy := range []fsyncPolicy{fsyncAlways, fsyncEverySec, fsyncNo} {
		fs := logTestFS(t)
		last := uint64(0)
		for range 4 {
			l, numbers := logTestOpen(t, logTestOptions(fs, policy, nil))
			logTestSpan(t, numbers, 1, last)
			if l.recovered.Records != int(last) || l.recovered.Dropped != 0 {
				t.Fatalf("recovered %+v after %d commits", l.recovered, last)
			}
			logTestAppend(t, l, last+1, last+20)
			last += 20
			logTestClose(t, l)
		}
	}
}

func TestLogReopenWithoutCommitsKeepsOneSegment(t *testing.T) {
	fs := logTestFS(t)
	for range 3 {
		l, _ := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
		if l.size() != logHeaderSize {
			t.Fatalf("size %d", l.size())
		}
		logTestClose(t, l)
	}
	if names, _ := fs.List(logTestDir); len(names) != 2 { // and the one that is next
		t.Fatalf("files %v", names)
	}
}

func TestLogSizeAndTrim(t *testing.T) {
	fs := logTestFS(t)
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	logTestAppend(t, l, 1, 40)
	if got, want := l.size(), logTestDirSize(t, fs); got != want {
		t.Fatalf("size %d, files have %d", got, want)
	}
	// A segment goes only when all shards have its commits: shard 7 holds it back.
	if err := l.trim(func(shard uint16) uint64 { return map[uint16]uint64{0: 40, 7: 0}[shard] }); err != nil {
		t.Fatal(err)
	}
	if got := len(l.segments); got < 5 {
		t.Fatalf("%d closed segments left", got)
	}
	if err := l.trim(func(uint16) uint64 { return 21 }); err != nil {
		t.Fatal(err)
	}
	if got, want := l.size(), logTestDirSize(t, fs); got != want {
		t.Fatalf("size %d, files have %d", got, want)
	}
	logTestClose(t, l)
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	if numbers[0] > 22 || numbers[0] < 15 {
		t.Fatalf("after the trim the log starts at %d", numbers[0])
	}
	logTestSpan(t, numbers, numbers[0], 40)
	// What was replayed can be trimmed too, down to the active segment.
	if err := l.trim(func(uint16) uint64 { return 40 }); err != nil {
		t.Fatal(err)
	}
	if l.size() != logHeaderSize || logTestDirSize(t, fs) != logHeaderSize {
		t.Fatalf("size %d, files have %d", l.size(), logTestDirSize(t, fs))
	}
	logTestAppend(t, l, 41, 42)
	logTestClose(t, l)
	l, numbers = logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	logTestSpan(t, numbers, 41, 42)
	logTestClose(t, l)
}

// TestLogRecordLongerThanSegment has segments that hold one record each, and none that is empty.
func TestLogRecordLongerThanSegment(t *testing.T) {
	opts := logTestOptions(logTestFS(t), fsyncNo, nil)
	opts.SegmentSize = 1
	l, _ := logTestOpen(t, opts)
	logTestAppend(t, l, 1, 5)
	if n := len(l.segments); n != 4 {
		t.Fatalf("%d closed segments after 5 commits", n)
	}
	logTestClose(t, l)
	l, numbers := logTestOpen(t, opts)
	logTestSpan(t, numbers, 1, 5)
	logTestClose(t, l)
}

func logTestDirSize(t *testing.T, fs vfs.FS) (size int64) {
	t.Helper()
	names, err := fs.List(logTestDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := fs.Stat(fs.PathJoin(logTestDir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

func TestLogRefusesBadCommits(t *testing.T) {
	fs := logTestFS(t)
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	if _, err := l.append([]logPart{{number: 1, repr: make([]byte, logMaxRecord)}}, new(logFrame)); err != errLogRecordTooLarge {
		t.Fatalf("too large: %v", err)
	}
	if _, err := l.append(nil, new(logFrame)); err == nil {
		t.Fatal("a commit without parts was accepted")
	}
	if _, err := l.append(make([]logPart, logMaxParts+1), new(logFrame)); err == nil {
		t.Fatal("a commit with too many parts was accepted")
	}
	if _, err := l.append([]logPart{{shard: 3}}, new(logFrame)); err == nil || !strings.Contains(err.Error(), "shard 3") {
		t.Fatalf("number 0: %v", err)
	}
	if err := l.wait(1); err == nil {
		t.Fatal("a position that was never given out was acknowledged")
	}
	logTestAppend(t, l, 1, 1) // None of them has harmed the log.
	logTestClose(t, l)
	if _, err := l.append(logTestCommit(2), new(logFrame)); err != errLogClosed {
		t.Fatalf("append after close: %v", err)
	}
	if err := errors.Join(l.close(), l.sync()); err != nil {
		t.Fatal(err)
	}
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	logTestSpan(t, numbers, 1, 1)
	logTestClose(t, l)
}

func TestLogAppendCopies(t *testing.T) {
	fs := logTestFS(t)
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	parts := logTestCommit(1)
	pos, err := l.append(parts, new(logFrame))
	if err != nil {
		t.Fatal(err)
	}
	clear(parts[0].repr)
	clear(parts)
	if err := l.wait(pos); err != nil {
		t.Fatal(err)
	}
	logTestClose(t, l)
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	logTestSpan(t, numbers, 1, 1)
	logTestClose(t, l)
}

// TestLogGroupCommit holds the first write: all who come meanwhile share the second one, and its fsync.
func TestLogGroupCommit(t *testing.T) {
	for _, policy := range []fsyncPolicy{fsyncAlways, fsyncEverySec} {
		synctest.Test(t, func(t *testing.T) {
			gate := newLogGate("write")
			opts := logTestOptions(logHookFS{logTestFS(t), gate.hook}, policy, nil)
			opts.SegmentSize = 1 << 20
			l, _ := logTestOpen(t, opts)
			gate.on.Store(true)
			gate.count["write"].Store(0)
			gate.count["fsync"].Store(0)
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() { logTestAppend(t, l, uint64(i+1), uint64(i+1)) })
				synctest.Wait()
			}
			if n := gate.count["write"].Load(); n != 1 {
				t.Errorf("%d writes began, want the first one only", n)
			}
			gate.on.Store(false)
			close(gate.release)
			group.Wait()
			wantSyncs := map[fsyncPolicy]int64{fsyncAlways: 2, fsyncEverySec: 0}[policy]
			if w, s := gate.count["write"].Load(), gate.count["fsync"].Load(); w != 2 || s != wantSyncs {
				t.Errorf("policy %d: %d writes, %d fsyncs; want 2 and %d", policy, w, s, wantSyncs)
			}
			logTestClose(t, l)
		})
	}
}

// TestLogTickerDoesNotDelay holds the ticker's fsync: appends and their waits go on meanwhile.
func TestLogTickerDoesNotDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newLogGate("fsync")
		ticks := make(chan time.Time)
		opts := logTestOptions(logHookFS{logTestFS(t), gate.hook}, fsyncEverySec, ticks)
		opts.SegmentSize = 1 << 20
		l, _ := logTestOpen(t, opts)
		logTestAppend(t, l, 1, 1)
		gate.on.Store(true)
		gate.count["fsync"].Store(0)
		ticks <- time.Time{}
		synctest.Wait()
		if gate.count["fsync"].Load() != 1 {
			t.Error("the tick has not begun an fsync")
		}
		logTestAppend(t, l, 2, 20)
		if l.synced.Load() != 0 {
			t.Error("synced before the fsync returned")
		}
		gate.on.Store(false)
		close(gate.release)
		synctest.Wait()
		if s, w := l.synced.Load(), l.written.Load(); s == 0 || s >= w {
			t.Errorf("synced %d of %d: the fsync covers what was written when it began", s, w)
		}
		logTestClose(t, l)
	})
}

func TestLogPolicyChange(t *testing.T) {
	gate := newLogGate("")
	l, _ := logTestOpen(t, logTestOptions(logHookFS{logTestFS(t), gate.hook}, fsyncNo, nil))
	gate.count["fsync"].Store(0)
	pos, err := l.append(logTestCommit(1), new(logFrame))
	if err != nil {
		t.Fatal(err)
	}
	if l.acknowledged(pos) {
		t.Fatal("acknowledged before it was written")
	}
	if err := l.wait(pos); err != nil || !l.acknowledged(pos) || gate.count["fsync"].Load() != 0 {
		t.Fatalf("policy no: %v, %d fsyncs", err, gate.count["fsync"].Load())
	}
	l.setPolicy(fsyncAlways)
	if l.acknowledged(pos) {
		t.Fatal("policy always acknowledges what was only written")
	}
	if err := l.wait(pos); err != nil || !l.acknowledged(pos) || gate.count["fsync"].Load() != 1 {
		t.Fatalf("policy always: %v, %d fsyncs", err, gate.count["fsync"].Load())
	}
	logTestClose(t, l)
}

// TestLogPendingIsBounded holds the writes: an append beyond the limit waits until there is room, also if it is compressed to next to nothing.
func TestLogPendingIsBounded(t *testing.T) {
	huge := []logPart{{number: 1, repr: make([]byte, logMaxPending)}}
	logTestPendingIsBounded(t, huge)
	huge = nil
	for shard := range uint16(logMaxPending / minlz.MaxBlockSize) {
		huge = append(huge, logPart{shard: shard, number: 1, repr: make([]byte, minlz.MaxBlockSize)})
	}
	logTestPendingIsBounded(t, huge)
}

func logTestPendingIsBounded(t *testing.T, huge []logPart) {
	synctest.Test(t, func(t *testing.T) {
		gate := newLogGate("write")
		l, _ := logTestOpen(t, logTestOptions(logHookFS{vfs.NewMem(), gate.hook}, fsyncNo, nil))
		gate.on.Store(true)
		var group sync.WaitGroup
		appended := new(atomic.Int64)
		for range 3 {
			group.Go(func() {
				pos, err := l.append(huge, new(logFrame))
				appended.Add(1)
				if err = errors.Join(err, l.wait(pos)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if n := appended.Load(); n != 2 {
			t.Errorf("%d appends returned; want one in flight and one pending", n)
		}
		gate.on.Store(false)
		close(gate.release)
		group.Wait()
		if got := cap(l.spare.buf) + cap(l.pending.buf); got > 2*logKeepBuffer {
			t.Errorf("%d bytes of buffer are kept after huge commits", got)
		}
		logTestClose(t, l)
	})
}

func TestLogHeaderLayout(t *testing.T) {
	b := logHeader{logFormatVersion, logOpenEnd, 258, 772}.encode()
	want := append([]byte("codeqlog"), 3, 0, 1, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0)
	if !bytes.Equal(b[:28], want) || len(b) != logHeaderSize {
		t.Fatalf("header % x", b)
	}
	record := logTestRecord(t, []logPart{{shard: 5, number: 6, repr: []byte("ab")}}, 9)
	want = []byte{34, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 'a', 'b', 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0}
	copy(want[4:8], record[4:8])
	if !bytes.Equal(record, want) {
		t.Fatalf("record % x", record)
	}
	record = logTestRecord(t, []logPart{{shard: 5, number: 6, repr: make([]byte, logPackLeast)}}, 9)
	length := binary.LittleEndian.Uint32(record[20:])
	packed := record[24 : len(record)-logTailSize]
	batch, err := minlz.Decode(nil, packed)
	if err != nil || length != uint32(len(packed))|1<<31 || !bytes.Equal(batch, make([]byte, logPackLeast)) {
		t.Fatalf("compressed record % x: %v", record, err)
	}
}

// logTestRecord encodes a record as append does when the one before is on disk.
func logTestRecord(t *testing.T, parts []logPart, sequence uint64) []byte {
	t.Helper()
	f := new(logFrame)
	if err := f.encode(parts, new(sync.Pool)); err != nil {
		t.Fatal(err)
	}
	record := f.appendRecord(nil, sequence, sequence-1)
	if f.size != int64(len(record)) {
		t.Fatalf("a record of %d bytes was announced as %d", len(record), f.size)
	}
	return record
}

// TestLogPacks appends commits of batches that are compressed, that can't be, that are too short or too long for it, and of several together.
func TestLogPacks(t *testing.T) {
	fs := logTestFS(t)
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	r := rand.New(rand.NewPCG(27, 27))
	packs := logTestBytes(r, 100<<10, 3)
	noise := logTestBytes(r, 100<<10, 0xff)
	var commits [][]logPart
	for _, c := range []struct {
		batches [][]byte
		packed  bool // into less than three quarters
	}{
		{[][]byte{packs}, true},
		{[][]byte{noise}, false},
		{[][]byte{packs[:logPackLeast]}, true},
		{[][]byte{packs[:logPackLeast-1]}, false},
		{[][]byte{make([]byte, minlz.MaxBlockSize)}, true},
		{[][]byte{make([]byte, minlz.MaxBlockSize+1)}, false},
		{[][]byte{packs, noise[:100], packs[1:], nil, packs[2:]}, true},
	} {
		var parts []logPart
		size := 0
		for i, batch := range c.batches {
			parts = append(parts, logPart{shard: uint16(i), number: uint64(len(commits) + 1), repr: batch})
			size += len(batch)
		}
		before := l.pending.end
		pos, err := l.append(parts, new(logFrame))
		if err == nil {
			err = l.wait(pos)
		}
		if stored := int(pos - before); err != nil || stored < size*3/4 != c.packed {
			t.Fatalf("commit %d: %d bytes are stored as %d, %v", len(commits), size, stored, err)
		}
		commits = append(commits, parts)
	}
	logTestClose(t, l)
	var buf []byte // for all of them, one after the other
	for range 2 {  // the second time from segments that were rewritten
		replayed := 0
		l, err := openLog(logTestOptions(fs, fsyncNo, nil), func(parts []logPart) error {
			if !slices.EqualFunc(parts, commits[replayed], func(a, b logPart) bool {
				batch, err := a.batch(&buf)
				return err == nil && a.shard == b.shard && a.number == b.number && bytes.Equal(batch, b.repr)
			}) {
				return fmt.Errorf("commit %d differs from what was appended", replayed)
			}
			replayed++
			return nil
		})
		if err != nil || replayed != len(commits) || cap(buf) < minlz.MaxBlockSize {
			t.Fatalf("%d commits were replayed, with %d bytes of memory, %v", replayed, cap(buf), err)
		}
		logTestClose(t, l)
	}
}

// TestLogSizeIsBeforeCompression has a log of what is compressed to nearly nothing rotate, and count for trimming, as if it were not: how
// long replaying takes is what both are for.
func TestLogSizeIsBeforeCompression(t *testing.T) {
	fs := logTestFS(t)
	opts := logTestOptions(fs, fsyncNo, nil)
	opts.SegmentSize = 250 << 10
	l, _ := logTestOpen(t, opts)
	const commits, size = 40, 100 << 10
	for n := range uint64(commits) {
		pos, err := l.append([]logPart{{number: n + 1, repr: make([]byte, size)}}, new(logFrame))
		if err = errors.Join(err, l.wait(pos)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // as it is written, and as it is opened again
		if files := logTestDirSize(t, fs); files > commits*size/20 || l.size() < commits*size || l.size() > commits*(size+100) {
			t.Fatalf("size %d, files have %d", l.size(), files)
		}
		if n := len(l.segments); n < commits/2-1 || n > commits/2 {
			t.Fatalf("%d segments of two commits are closed", n)
		}
		logTestClose(t, l)
		var err error
		if l, err = openLog(opts, func([]logPart) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.trim(func(uint16) uint64 { return commits }); err != nil || l.size() != logHeaderSize {
		t.Fatalf("size %d behind it all, %v", l.size(), err)
	}
	logTestClose(t, l)
}

// TestLogFrameAfterRefusal appends with a frame that has failed to take a commit of several parts.
func TestLogFrameAfterRefusal(t *testing.T) {
	fs := logTestFS(t)
	l, _ := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	f := new(logFrame)
	refused := logTestCommit(2)
	refused[1].number = 0
	for n := uint64(1); n <= 3; n++ {
		if _, err := l.append(refused, f); err == nil {
			t.Fatal("a part with number 0 was accepted")
		}
		if _, err := l.append(logTestCommit(n), f); err != nil {
			t.Fatal(err)
		}
	}
	logTestClose(t, l)
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncNo, nil))
	logTestSpan(t, numbers, 1, 3)
	logTestClose(t, l)
}

// TestLogFrameKeepsNothing has a frame without a record's batches, and without the memory of compressing them, behind each.
func TestLogFrameKeepsNothing(t *testing.T) {
	f, packers := new(logFrame), &sync.Pool{New: func() any { return new(logPacker) }}
	for _, size := range []int{logPackLeast, logKeepBuffer + 1} {
		if err := f.encode([]logPart{{number: 1, repr: make([]byte, size)}}, packers); err != nil {
			t.Fatal(err)
		}
		if f.reset(packers); f.packer != nil || len(f.batches) > 0 || f.batches[:1][0] != nil {
			t.Errorf("after a batch of %d bytes the frame has %d batches and %v", size, len(f.batches), f.packer)
		}
	}
	if p := packers.Get().(*logPacker); len(p.packed) > 0 || cap(p.packed) > logKeepBuffer {
		t.Errorf("%d bytes are kept, and memory for %d", len(p.packed), cap(p.packed))
	}
}

// TestLogAppendGrowsOnce appends a record of several large parts, which would be copied with each part if the buffer grew with it.
func TestLogAppendGrowsOnce(t *testing.T) {
	var parts []logPart
	noise := logTestBytes(rand.New(rand.NewPCG(1, 1)), 1<<20, 0xff)
	for n := range uint16(4) {
		parts = append(parts, logPart{shard: n, number: 1, repr: noise})
	}
	f := new(logFrame)
	if err := f.encode(parts, new(sync.Pool)); err != nil {
		t.Fatal(err)
	}
	// The race detector's slices.Grow allocates twice; growing with each part takes as many times as there are parts.
	if n := testing.AllocsPerRun(1, func() { f.appendRecord(nil, 1, 0) }); n > 2 {
		t.Errorf("the buffer was allocated %v times", n)
	}
}

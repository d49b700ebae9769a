package shard

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

var errLogInjected = errors.New("injected")

// logFault makes the operation of the given kind and index fail, and counts the operations of that kind.
type logFault struct {
	kind  string
	index int
	err   error
	seen  atomic.Int64
}

func (f *logFault) check(kind string) error {
	if kind == f.kind && int(f.seen.Add(1)) == f.index+1 {
		return f.err
	}
	return nil
}

func (f *logFault) hit() bool { return int(f.seen.Load()) > f.index }

var logFaultKinds = map[errorfs.OpKind]string{
	errorfs.OpCreate: "create", errorfs.OpOpen: "open", errorfs.OpOpenDir: "open directory",
	errorfs.OpRemove: "remove", errorfs.OpRename: "rename", errorfs.OpMkdirAll: "mkdir", errorfs.OpList: "list",
	errorfs.OpFileRead: "read", errorfs.OpFileStat: "stat", errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync data",
}

// logFaultFS puts the fault into a file system. Writes and closes go through logHookFS, which knows short writes.
func logFaultFS(fs vfs.FS, fault *logFault) vfs.FS {
	inner := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error { return fault.check(logFaultKinds[op.Kind]) }))
	return logHookFS{inner, func(op, _ string) error {
		if op == "fsync" {
			return nil // errorfs has it.
		}
		return fault.check(op)
	}}
}

// logFaultRun is a life of the log: two openings with commits and trims. It notes what was acknowledged.
type logFaultRun struct {
	appended, acknowledged, trimmed uint64
}

func (run *logFaultRun) live(opts logOptions) (err error) {
	for range 2 {
		l, err := openLog(opts, func([]logPart) error { return nil })
		if err != nil {
			return err
		}
		if err := errors.Join(run.commits(l), l.close()); err != nil {
			return err
		}
	}
	return nil
}

func (run *logFaultRun) commits(l *commitLog) error {
	for range 13 {
		pos, err := l.append(logTestCommit(run.appended+1), new(logFrame))
		if err != nil {
			return errors.Join(err, logFaultIsFinal(l))
		}
		run.appended++
		if err := l.wait(pos); err != nil {
			return errors.Join(err, logFaultIsFinal(l))
		}
		run.acknowledged = run.appended
	}
	run.trimmed = run.acknowledged - 5
	if err := l.trim(func(uint16) uint64 { return run.trimmed }); err != nil {
		if l.failed() != nil {
			return errors.Join(err, logFaultIsFinal(l))
		}
		// A removal that failed may be tried again.
		return errors.Join(err, l.trim(func(uint16) uint64 { return run.trimmed }), l.sync())
	}
	return nil
}

// logFaultIsFinal returns an error unless all calls report the failure and what to do about it.
func logFaultIsFinal(l *commitLog) error {
	_, appendErr := l.append(logTestCommit(1), new(logFrame))
	for _, err := range []error{appendErr, l.wait(0), l.wait(1 << 40), l.sync(), l.trim(func(uint16) uint64 { return 0 })} {
		if len(l.segments) == 0 && err == nil {
			continue // A trim without anything to do.
		}
		if err == nil || !strings.Contains(err.Error(), "stop the server, repair the disk, start again") {
			return fmt.Errorf("not final: %v", err)
		}
	}
	return nil
}

// TestLogFaults lets every single operation of the file system fail in turn. Each failure must surface, and whatever
// was acknowledged must be there when the log is opened again, after kill -9 and after power loss.
func TestLogFaults(t *testing.T) {
	kinds := map[string]error{"write": errLogInjected, "short write": errLogShort, "close": errLogInjected}
	for _, kind := range logFaultKinds {
		kinds[kind] = errLogInjected
	}
	for kind, injected := range kinds {
		t.Run(kind, func(t *testing.T) {
			hits := 0
			for index := 0; ; index++ {
				fs := logTestFS(t)
				fault := &logFault{kind: strings.TrimPrefix(kind, "short "), index: index, err: injected}
				run := new(logFaultRun)
				opts := logTestOptions(logFaultFS(fs, fault), fsyncAlways, nil)
				if index%2 == 1 { // Every rotation then has to do it.
					opts.Later = func(func()) {}
				}
				err := run.live(opts)
				if !fault.hit() {
					if err != nil {
						t.Fatalf("without a fault: %v", err)
					}
					break
				}
				hits++
				if err == nil || strings.Contains(err.Error(), "not final") {
					t.Fatalf("fault %d: the run ended with %v", index, err)
				}
				run.verify(t, fs)
				run.verify(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			}
			if hits == 0 {
				t.Fatal("the log never does this")
			}
		})
	}
}

// verify opens the log without faults, twice.
func (run *logFaultRun) verify(t *testing.T, fs vfs.FS) {
	t.Helper()
	var before []uint64
	for range 2 {
		l, numbers := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
		logTestClose(t, l)
		if n := len(numbers); run.acknowledged > run.trimmed &&
			(n == 0 || numbers[0] > run.trimmed+1 || numbers[n-1] < run.acknowledged || numbers[n-1] > run.appended) {
			t.Fatalf("replayed %v after %+v", numbers, *run)
		}
		if before != nil && !slices.Equal(numbers, before) {
			t.Fatalf("replayed %v, then %v", before, numbers)
		}
		before = numbers
	}
}

// TestLogFailureReachesFollowers holds a write that then fails: its leader, its followers and the next batch all fail.
func TestLogFailureReachesFollowers(t *testing.T) {
	for _, op := range []string{"write", "fsync"} {
		synctest.Test(t, func(t *testing.T) {
			gate, on := make(chan struct{}), new(atomic.Bool)
			fs := logHookFS{logTestFS(t), func(o, _ string) error {
				if o != op || !on.Load() {
					return nil
				}
				<-gate
				return errLogInjected
			}}
			l, _ := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
			on.Store(true)
			results := make(chan error, 20)
			for i := range cap(results) {
				pos, err := l.append(logTestCommit(uint64(i+1)), new(logFrame))
				if err != nil {
					t.Fatal(err)
				}
				go func() { results <- l.wait(pos) }()
				synctest.Wait()
			}
			close(gate)
			for range cap(results) {
				if err := <-results; !errors.Is(err, errLogInjected) {
					t.Errorf("a wait returned %v", err)
				}
			}
			if err := logFaultIsFinal(l); err != nil {
				t.Error(err)
			}
			if err := l.close(); !errors.Is(err, errLogInjected) {
				t.Errorf("close returned %v", err)
			}
		})
	}
}

// TestLogTickerFailureIsFinal lets the ticker's fsync fail: everysec promised it, so nothing is acknowledged any more.
func TestLogTickerFailureIsFinal(t *testing.T) {
	ticks := make(chan time.Time)
	fault := &logFault{kind: "sync data", err: errLogInjected}
	l, _ := logTestOpen(t, logTestOptions(logFaultFS(logTestFS(t), fault), fsyncEverySec, ticks))
	pos, err := l.append(logTestCommit(1), new(logFrame))
	if err = errors.Join(err, l.wait(pos)); err != nil {
		t.Fatal(err)
	}
	ticks <- time.Time{}
	ticks <- time.Time{} // taken when the first tick has been dealt with
	if err := l.wait(pos); !errors.Is(err, errLogInjected) {
		t.Fatalf("wait returned %v", err)
	}
	if err := logFaultIsFinal(l); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); !errors.Is(err, errLogInjected) {
		t.Fatalf("close returned %v", err)
	}
}

// TestLogReadFault lets each read of a long segment fail, also with an early end: that is an error, never a torn tail.
func TestLogReadFault(t *testing.T) {
	fs := logTestFS(t)
	opts := logTestOptions(fs, fsyncNo, nil)
	opts.SegmentSize = 16 << 20
	l, _ := logTestOpen(t, opts)
	huge := 2 * logKeepBuffer
	noise := logTestBytes(rand.New(rand.NewPCG(1, 2)), huge, 0xff) // which can't be compressed
	for n := range uint64(40) {
		repr := noise[:20_000]
		if n == 20 {
			repr = noise
		}
		if _, err := l.append([]logPart{{number: n + 1, repr: repr}}, new(logFrame)); err != nil {
			t.Fatal(err)
		}
	}
	logTestClose(t, l)
	for _, injected := range []error{errLogInjected, io.EOF} {
		for index := 0; ; index++ {
			fault := &logFault{kind: "read", index: index, err: injected}
			faulty := opts
			faulty.FS = logFaultFS(fs, fault)
			l, err := openLog(faulty, func([]logPart) error { return nil })
			if !fault.hit() {
				logTestClose(t, l)
				if l.recovered.Records != 40 || l.recovered.Bytes < int64(huge)+39*20_000 || index < 5 {
					t.Fatalf("recovered %+v after %d faults", l.recovered, index)
				}
				break
			}
			if err == nil {
				t.Fatalf("opened in spite of fault %d", index)
			}
		}
	}
}

func TestLogLeftoverCannotBeRemoved(t *testing.T) {
	segments, _ := logTestSegments(t, fsyncAlways)
	fs := logTestPlant(t, segments)
	logTestWrite(t, fs, logTestPath(3)+logTempSuffix, nil)
	fault := &logFault{kind: "remove", err: errLogInjected}
	_, err := openLog(logTestOptions(logFaultFS(fs, fault), fsyncNo, nil), func([]logPart) error { return nil })
	if !errors.Is(err, errLogInjected) {
		t.Fatalf("opened with error %v", err)
	}
}

// TestLogDefaults runs on the real file system, with the defaults for what may be left out.
func TestLogDefaults(t *testing.T) {
	opts := logOptions{FS: vfs.Default, Dir: t.TempDir() + "/log", Create: true, Policy: fsyncEverySec}
	for last := uint64(0); last < 60; last += 20 {
		l, numbers := logTestOpen(t, opts)
		logTestSpan(t, numbers, 1, last)
		logTestAppend(t, l, last+1, last+20)
		logTestClose(t, l)
	}
}

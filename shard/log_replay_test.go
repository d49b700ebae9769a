package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logTestRead and logTestWrite handle a whole file.
func logTestRead(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func logTestWrite(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Clone(b))
	if err = errors.Join(err, f.Sync(), f.Close(), logSyncDir(fs, logTestDir)); err != nil {
		t.Fatal(err)
	}
}

func logTestPath(number int) string { return fmt.Sprintf("%s/%010d.log", logTestDir, number) }

// logTestSegments makes a log and returns the contents of its segments and the number of the last commit of each. Under fsyncAlways each
// record says that the one before was on disk. Under the others, a segment is put on disk when the second one behind it is begun, as late as it
// may be, so that no record says anything of the last two.
func logTestSegments(t *testing.T, policy fsyncPolicy) (segments [][]byte, lasts []uint64) {
	t.Helper()
	return logTestSegmentsLater(t, policy, func(func()) {})
}

// logTestSegmentsLater has a function that is to do what rotations leave.
func logTestSegmentsLater(t *testing.T, policy fsyncPolicy, later func(work func())) (segments [][]byte, lasts []uint64) {
	t.Helper()
	fs := logTestFS(t)
	opts := logTestOptions(fs, policy, nil)
	opts.Later = later
	l, _ := logTestOpen(t, opts)
	logTestAppend(t, l, 1, 13) // The last segment then has more than one.
	all := slices.Clone(l.segments)
	if l.retired != nil {
		all = append(all, l.retired)
	}
	for _, s := range append(all, l.active) {
		lasts = append(lasts, s.first+s.records-1)
		segments = append(segments, logTestRead(t, fs, s.path))
	}
	logTestClose(t, l)
	if len(segments) < 3 || lasts[len(lasts)-1]-lasts[len(lasts)-2] < 2 {
		t.Fatalf("segments end at commits %v: the test wants three, the last one with two commits", lasts)
	}
	return segments, lasts
}

// logTestPlant puts segments 1, 2, … durably onto a new file system; a nil one is left out.
func logTestPlant(t testing.TB, segments [][]byte) *vfs.MemFS {
	t.Helper()
	fs := logTestFS(t)
	if err := fs.MkdirAll(logTestDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, b := range segments {
		if b != nil {
			logTestWrite(t, fs, logTestPath(i+1), b)
		}
	}
	return fs
}

// logTestRecordEnds returns the offsets at which the records of a segment end, the header's end first.
func logTestRecordEnds(segment []byte) []int {
	ends := []int{logHeaderSize}
	for end := logHeaderSize; end < len(segment); {
		end += logFrameSize + int(binary.LittleEndian.Uint32(segment[end:]))
		ends = append(ends, end)
	}
	return ends
}

// logTestRefused opens the log, which must fail with all of the texts, and must fail again, since nothing was changed.
func logTestRefused(t *testing.T, fs vfs.FS, texts ...string) {
	t.Helper()
	for range 2 {
		_, err := openLog(logTestOptions(fs, fsyncAlways, nil), func(parts []logPart) error {
			_, err := parts[0].batch(new([]byte))
			return err
		})
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Fatalf("opened with error %v, want one that says %q", err, text)
			}
		}
	}
}

// TestLogTornTail cuts the last segment at every byte of its records, and damages every byte of its records in turn.
func TestLogTornTail(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncNo)
	n := len(segments)
	tail, before := segments[n-1], lasts[n-2]
	ends := logTestRecordEnds(tail)
	for at := range logHeaderSize {
		logTestTail(t, slices.Concat(segments[:n-1], [][]byte{tail[:at]}), before, int64(at))
		damaged := slices.Clone(tail)
		damaged[at] ^= 0x10
		logTestRefused(t, logTestPlant(t, slices.Concat(segments[:n-1], [][]byte{damaged})), logTestPath(n), "header", "from a backup")
	}
	zeros := slices.Concat(make([]byte, logHeaderSize), tail[logHeaderSize:])
	logTestTail(t, slices.Concat(segments[:n-1], [][]byte{zeros}), before, int64(len(zeros)))
	for at := logHeaderSize; at < len(tail); at++ {
		last, end := before, 0 // of the records that end at or before the byte
		for i := range ends {
			if ends[i] <= at {
				last, end = before+uint64(i), ends[i]
			}
		}
		cut := slices.Concat(segments[:n-1], [][]byte{tail[:at]})
		logTestTail(t, cut, last, int64(at-end))
		damaged := slices.Clone(tail)
		damaged[at] ^= 0x10
		logTestTail(t, slices.Concat(segments[:n-1], [][]byte{damaged}), last, int64(len(tail)-end))
	}
}

// TestLogTornEndBefore does the same to the segment before the last one, which was written without an fsync in between: the log
// ends there. When the last one says that there was an fsync, it is damage.
func TestLogTornEndBefore(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncNo)
	n := len(segments)
	torn, behind, before := segments[n-2], int64(len(segments[n-1])), lasts[n-3]
	ends := logTestRecordEnds(torn)
	with := func(b []byte) [][]byte { return slices.Concat(segments[:n-2], [][]byte{b, segments[n-1]}) }
	header, err := logDecodeHeader(segments[n-1], uint64(n))
	if err != nil {
		t.Fatal(err)
	}
	header.flags = 0
	synced := slices.Concat(header.encode(), segments[n-1][logHeaderSize:])
	for at := range torn {
		damaged := slices.Clone(torn)
		damaged[at] ^= 0x10
		if at < logHeaderSize {
			logTestRefused(t, logTestPlant(t, with(damaged)), logTestPath(n-1), "header", "from a backup")
			logTestTail(t, with(torn[:at]), before, int64(at)+behind)
			continue
		}
		last, end := before, 0
		for i := range ends {
			if ends[i] <= at {
				last, end = before+uint64(i), ends[i]
			}
		}
		logTestTail(t, with(damaged), last, int64(len(torn)-end)+behind)
		logTestTail(t, with(torn[:at]), last, int64(at-end)+behind)
		for _, b := range [][]byte{damaged, torn[:at]} {
			logTestRefused(t, logTestPlant(t, slices.Concat(segments[:n-2], [][]byte{b, synced})), "from a backup")
		}
	}
}

// TestLogDamagedEnd has bytes that are wrong in the last two segments in front of a record that says that they were on disk: no loss of power
// explains them, so nothing is cut. Of the last record nothing says that.
func TestLogDamagedEnd(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncAlways)
	n := len(segments)
	for i := n - 2; i < n; i++ {
		ends := logTestRecordEnds(segments[i])
		for at := logHeaderSize; at < len(segments[i]); at++ {
			planted := slices.Clone(segments)
			planted[i] = slices.Clone(segments[i])
			planted[i][at] ^= 0x10
			if i == n-1 && at >= ends[len(ends)-2] {
				logTestTail(t, planted, lasts[i]-1, int64(len(segments[i])-ends[len(ends)-2]))
				continue
			}
			logTestRefused(t, logTestPlant(t, planted), logTestPath(i+1), "was on disk when record", "from a backup")
			if i == n-2 {
				planted[i] = segments[i][:at]
				logTestRefused(t, logTestPlant(t, planted), logTestPath(i+1), "was on disk when record", "from a backup")
			}
		}
	}
	for at := range logHeaderSize { // a segment that has lost its header, and what was behind it
		planted := slices.Clone(segments)
		planted[n-2] = segments[n-2][:at]
		logTestRefused(t, logTestPlant(t, planted), logTestPath(n-1), "header", "was on disk when record", "from a backup")
	}
	withoutHeader := slices.Concat(make([]byte, logHeaderSize), segments[n-2][logHeaderSize:])
	for at := logHeaderSize; at < len(segments[n-1]); at++ { // and one whose own records say that its first was on disk
		planted := slices.Concat(segments[:n-2], [][]byte{withoutHeader, segments[n-1][:at]})
		logTestRefused(t, logTestPlant(t, planted), logTestPath(n-1), "header", "was on disk when record", "from a backup")
	}
	planted := slices.Clone(segments)
	planted[n-1] = slices.Concat(make([]byte, logHeaderSize), segments[n-1][logHeaderSize:])
	logTestRefused(t, logTestPlant(t, planted), logTestPath(n-1), "was on disk when record", "from a backup")
}

// TestLogDamagedFullSegment has bytes that are wrong in a full segment that was put on disk when it was left, under the policies that fsync no
// commit: the second record of the next one says so.
func TestLogDamagedFullSegment(t *testing.T) {
	for _, policy := range []fsyncPolicy{fsyncEverySec, fsyncNo} {
		segments, lasts := logTestSegmentsLater(t, policy, func(work func()) { work() })
		n := len(segments)
		for at := range segments[n-2] {
			planted := slices.Clone(segments)
			planted[n-2] = slices.Clone(segments[n-2])
			planted[n-2][at] ^= 0x10
			for range 2 {
				logTestRefused(t, logTestPlant(t, planted), logTestPath(n-1), "from a backup")
				planted[n-2] = segments[n-2][:at]
			}
		}
		planted := slices.Clone(segments)
		planted[n-2] = slices.Concat(make([]byte, logHeaderSize), segments[n-2][logHeaderSize:])
		logTestRefused(t, logTestPlant(t, planted), logTestPath(n-1), "was on disk when record", "from a backup")
		planted = slices.Clone(segments)
		planted[n-1] = segments[n-1][:logHeaderSize+1] // of which no record says it
		logTestTail(t, planted, lasts[n-2], 1)
	}
}

// logTestTail opens a log whose end may be torn, commits once more, and opens it again after power loss.
func logTestTail(t *testing.T, segments [][]byte, last uint64, dropped int64) {
	t.Helper()
	fs := logTestPlant(t, segments)
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	logTestSpan(t, numbers, 1, last)
	if l.recovered.Dropped != dropped {
		t.Fatalf("reported %d bytes dropped, want %d", l.recovered.Dropped, dropped)
	}
	logTestAppend(t, l, last+1, last+1)
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	logTestClose(t, l)
	l, numbers = logTestOpen(t, logTestOptions(clone, fsyncAlways, nil))
	logTestSpan(t, numbers, 1, last+1)
	logTestClose(t, l)
}

// TestLogDamageInEarlierSegment damages every byte of an earlier segment in turn, and cuts it short at every byte.
func TestLogDamageInEarlierSegment(t *testing.T) {
	segments, _ := logTestSegments(t, fsyncAlways)
	ends := logTestRecordEnds(segments[1])
	for at := range len(segments[1]) {
		damaged := slices.Clone(segments)
		damaged[1] = slices.Clone(segments[1])
		damaged[1][at] ^= 0x10
		logTestRefused(t, logTestPlant(t, damaged), logTestPath(2), "from a backup")
		damaged[1] = segments[1][:at]
		text := logTestPath(2)
		if slices.Contains(ends, at) {
			text = "the segment before ends with record"
		}
		logTestRefused(t, logTestPlant(t, damaged), text, "from a backup")
	}
	damaged := slices.Clone(segments)
	damaged[1] = slices.Clone(segments[1])
	damaged[1][logHeaderSize+20] ^= 1
	logTestRefused(t, logTestPlant(t, damaged), "offset 32: the record's checksum is wrong")
}

func TestLogRefusesWrongDirectory(t *testing.T) {
	segments, _ := logTestSegments(t, fsyncAlways)
	with := func(number int, b []byte) *vfs.MemFS {
		changed := slices.Clone(segments)
		changed[number-1] = b
		return logTestPlant(t, changed)
	}
	last := len(segments)

	logTestRefused(t, with(2, nil), logTestPath(2), "missing")
	logTestRefused(t, with(2, segments[0]), logTestPath(2), "the header says segment 1")
	logTestRefused(t, with(last, segments[0]), logTestPath(last), "the header says segment 1")

	// A bad header in front of records is damage also in the last segment: it was on disk before they were written.
	damaged := slices.Clone(segments[last-1])
	damaged[3] ^= 1
	logTestRefused(t, with(last, damaged), logTestPath(last), "header", "from a backup")

	// A record lost between two segments shows in the sequence.
	ends := logTestRecordEnds(segments[1])
	logTestRefused(t, with(2, segments[1][:ends[len(ends)-2]]), logTestPath(3),
		"the segment before ends with record 3 of the log, this one begins with 5")

	fs := with(1, segments[0])
	logTestWrite(t, fs, logTestDir+"/12.log", nil)
	logTestRefused(t, fs, `"12.log" is not the name of a segment`)
}

// TestLogSenselessRecord has a record with the right checksum and wrong contents, which is never taken for a torn one.
func TestLogSenselessRecord(t *testing.T) {
	for _, body := range [][]byte{
		append([]byte{0, 0}, make([]byte, 14)...),                       // no parts
		append([]byte{2, 0}, make([]byte, 14)...),                       // two parts in the space of one
		append(append([]byte{1, 0}, make([]byte, 10)...), 9, 0, 0, 0),   // a batch longer than the record
		append([]byte{1, 0}, make([]byte, 20)...),                       // bytes behind the parts
		append(append([]byte{1, 0}, make([]byte, 10)...), 0, 0, 0, 128), // no compressed batch
	} {
		logTestRefused(t, logTestPlant(t, [][]byte{logTestSegmentOf(body)}), "offset 32", "part", "damaged")
	}
}

// TestLogUnpacksWhatIsRead has a batch that can't be decompressed: only reading it fails, as a log is opened without decompressing what
// the shards have already.
func TestLogUnpacksWhatIsRead(t *testing.T) {
	body := append(append([]byte{1, 0}, make([]byte, 10)...), 3, 0, 0, 128, 0, 99, 99)
	fs := logTestPlant(t, [][]byte{logTestSegmentOf(body)})
	logTestRefused(t, fs, "record that ends at offset", "decompressed", "damaged")
	l, err := openLog(logTestOptions(fs, fsyncAlways, nil), func([]logPart) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	logTestClose(t, l)
}

// logTestSegmentOf makes a segment of one record with the given contents.
func logTestSegmentOf(body []byte) []byte {
	record := binary.LittleEndian.AppendUint32(nil, uint32(len(body)+logTailSize))
	record = append(record, 0, 0, 0, 0)
	record = append(record, body...)
	record = binary.LittleEndian.AppendUint64(record, 1)
	record = binary.LittleEndian.AppendUint64(record, 0)
	binary.LittleEndian.PutUint32(record[4:], logChecksum(record))
	return append(logHeader{logFormatVersion, 0, 1, 1}.encode(), record...)
}

// TestLogVersions has segments of older versions, which are read, and of a newer one, which are refused.
func TestLogVersions(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncAlways)
	n := len(segments)
	as := func(version uint16) [][]byte {
		planted := slices.Clone(segments)
		for i, segment := range planted {
			header, err := logDecodeHeader(segment, uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			header.version = version
			planted[i] = append(header.encode(), logTestRecordsAs(header, segment)...)
		}
		return planted
	}
	for version := uint16(logOldestVersion); version <= logFormatVersion; version++ {
		planted := as(version)
		fs := logTestPlant(t, planted)
		for range 2 { // Opening rewrites the last segments in their version.
			l, numbers := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
			logTestSpan(t, numbers, 1, lasts[n-1])
			logTestClose(t, l)
		}
		l, _ := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
		logTestAppend(t, l, lasts[n-1]+1, lasts[n-1]+1)
		logTestClose(t, l)
		if version < logMarksVersion {
			planted[n-1][logHeaderSize+20] ^= 1
			logTestTail(t, planted, lasts[n-2], int64(len(planted[n-1])-logHeaderSize))
		}
	}
	logTestRefused(t, logTestPlant(t, as(0)), "format version 0", "reads 1 to 3")
	logTestRefused(t, logTestPlant(t, as(4)), "format version 4", "reads 1 to 3", "use the version that wrote it")
	if _, err := openLog(logTestOptions(logTestPlant(t, as(4)), fsyncAlways, nil), nil); strings.Contains(err.Error(), "damaged") {
		t.Errorf("a newer version is refused as damage: %v", err)
	}
}

// TestLogOldVersionWithoutHeader: a segment of version 2 whose header never reached the disk is cut, though the ends of its batches, here the row of
// a shard whose databases were swapped, would say as version 3 that its first record was on disk.
func TestLogOldVersionWithoutHeader(t *testing.T) {
	state := newShardState(2)
	state.spaces = []keyspace{{id: 1, keys: 3}, {id: 0}}
	state.nextID, state.nextSpace = 100, 2
	fs := logTestFS(t)
	opts := logTestOptions(fs, fsyncNo, nil)
	opts.Later = func(func()) {}
	l, _ := logTestOpen(t, opts)
	for l.active.number < 3 {
		state.number++
		pos, err := l.append([]logPart{{number: state.number, repr: state.encode(make([]byte, 100))}}, new(logFrame))
		if err := errors.Join(err, l.wait(pos)); err != nil {
			t.Fatal(err)
		}
	}
	var planted [][]byte
	for number := 1; number <= 3; number++ {
		segment := logTestRead(t, fs, logTestPath(number))
		header, err := logDecodeHeader(segment, uint64(number))
		if err != nil {
			t.Fatal(err)
		}
		header.version = 2
		planted = append(planted, append(header.encode(), logTestRecordsAs(header, segment)...))
	}
	logTestClose(t, l)
	clear(planted[1][:logHeaderSize])
	l, err := openLog(logTestOptions(logTestPlant(t, planted), fsyncNo, nil), func([]logPart) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	logTestClose(t, l)
}

// logTestRecordsAs returns the records of a segment as they are behind such a header.
func logTestRecordsAs(header logHeader, segment []byte) (records []byte) {
	ends := logTestRecordEnds(segment)
	for i, end := range ends[1:] {
		record := slices.Clone(segment[ends[i] : end-logTailSize+int(header.tailSize())])
		binary.LittleEndian.PutUint32(record, uint32(len(record)-logFrameSize))
		binary.LittleEndian.PutUint32(record[4:], logChecksum(record))
		records = append(records, record...)
	}
	return records
}

// TestLogStaleRecord has a valid record of another place behind the last one: the sequence tells.
func TestLogStaleRecord(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncAlways)
	n := len(segments)
	first := segments[0][logHeaderSize:logTestRecordEnds(segments[0])[1]]
	segments[n-1] = slices.Concat(segments[n-1], first)
	logTestTail(t, segments, lasts[n-1], int64(len(first)))
}

// TestLogHugeLength has a length field that promises a gigabyte: it is judged by the file's size, not allocated.
func TestLogHugeLength(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncAlways)
	n := len(segments)
	for _, length := range []uint32{0, uint32(logHeader{version: logFormatVersion}.minLength() - 1), logMaxRecord - 8, logMaxRecord, 1<<32 - 1} {
		tail := append(binary.LittleEndian.AppendUint32(nil, length), make([]byte, 100)...)
		planted := slices.Clone(segments)
		planted[n-1] = slices.Concat(segments[n-1], tail)
		logTestTail(t, planted, lasts[n-1], int64(len(tail)))
	}
}

func TestLogCrashedRewriting(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncAlways)
	fs := logTestPlant(t, segments)
	logTestWrite(t, fs, logTestPath(len(segments))+logTempSuffix, []byte("half a segment"))
	logTestWrite(t, fs, logTestDir+"/operator's notes", nil)
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	logTestSpan(t, numbers, 1, lasts[len(lasts)-1])
	logTestClose(t, l)
	names, err := fs.List(logTestDir)
	leftover := slices.ContainsFunc(names, func(s string) bool { return strings.HasSuffix(s, logTempSuffix) })
	if err != nil || len(names) != len(segments)+3 || leftover { // the notes, the new segment and the next
		t.Fatalf("files %v, %v", names, err)
	}
}

func TestLogApplyError(t *testing.T) {
	segments, lasts := logTestSegments(t, fsyncAlways)
	fs := logTestPlant(t, segments)
	refused, applied := errors.New("refused"), 0
	_, err := openLog(logTestOptions(fs, fsyncAlways, nil), func([]logPart) error {
		if applied++; applied == 3 {
			return refused
		}
		return nil
	})
	if !errors.Is(err, refused) || applied != 3 {
		t.Fatalf("%d applied, error %v", applied, err)
	}
	l, numbers := logTestOpen(t, logTestOptions(fs, fsyncAlways, nil))
	logTestSpan(t, numbers, 1, lasts[len(lasts)-1])
	logTestClose(t, l)
}

// logStuckFS takes the pages of every file that existed before for clean, as a kernel may after a failed fsync.
type logStuckFS struct{ vfs.FS }

type logStuckFile struct{ vfs.File }

func (logStuckFile) Sync() error     { return nil }
func (logStuckFile) SyncData() error { return nil }

func (fs logStuckFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, opts...)
	return logStuckFile{f}, err
}

// TestLogReplayDoesNotTrustCleanPages replays records that an fsync of their file would not make durable.
func TestLogReplayDoesNotTrustCleanPages(t *testing.T) {
	fs := logTestFS(t)
	opts := logTestOptions(fs, fsyncNo, nil)
	opts.SegmentSize = 1 << 20
	opts.FS = logStuckFS{fs}
	l, _ := logTestOpen(t, opts)
	logTestAppend(t, l, 1, 10)
	logTestClose(t, l)
	if lost, numbers := logTestOpen(t, logTestOptions(fs.CrashClone(vfs.CrashCloneCfg{}), fsyncNo, nil)); len(numbers) > 0 {
		t.Fatal("the test's fsync isn't stuck")
	} else {
		logTestClose(t, lost)
	}
	l, numbers := logTestOpen(t, opts)
	logTestSpan(t, numbers, 1, 10)
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	logTestClose(t, l)
	l, numbers = logTestOpen(t, logTestOptions(clone, fsyncNo, nil))
	logTestSpan(t, numbers, 1, 10)
	logTestClose(t, l)
}

// TestLogLosesItsOnlySegment: a log whose records are in one segment is not opened without it, or with nothing in it.
func TestLogLosesItsOnlySegment(t *testing.T) {
	for name, lose := range map[string]func(fs vfs.FS, path string) error{
		"removed": func(fs vfs.FS, path string) error { return fs.Remove(path) },
		"emptied": func(fs vfs.FS, path string) error { return fs.Rename(path+".empty", path) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := logTestFS(t)
			opts := logTestOptions(fs, fsyncAlways, nil)
			opts.SegmentSize = 1 << 20
			l, _ := logTestOpen(t, opts)
			logTestAppend(t, l, 1, 10)
			logTestClose(t, l)
			path := l.segmentPath(1)
			logTestWrite(t, fs, path+".empty", nil)
			kept := logTestRead(t, fs, path)
			if err := lose(fs, path); err != nil {
				t.Fatal(err)
			}
			opts.Create = false
			for range 2 {
				if _, err := openLog(opts, func([]logPart) error { return nil }); err == nil || !strings.Contains(err.Error(), "has a header") {
					t.Fatalf("opened: %v", err)
				}
			}
			logTestWrite(t, fs, path, kept)
			l, numbers := logTestOpen(t, opts)
			logTestSpan(t, numbers, 1, 10)
			logTestClose(t, l)
		})
	}
}

// TestLogTrimLeavesAHeader: after a trim and a loss of power there is a segment left that has a header.
func TestLogTrimLeavesAHeader(t *testing.T) {
	fs := logTestFS(t)
	opts := logTestOptions(fs, fsyncEverySec, nil)
	l, _ := logTestOpen(t, opts)
	logTestAppend(t, l, 1, 20)
	everything := func(uint16) uint64 { return 20 }
	if err := l.trim(everything); err != nil {
		t.Fatal(err)
	}
	crashed := logTestOptions(fs.CrashClone(vfs.CrashCloneCfg{}), fsyncEverySec, nil)
	crashed.Create = false
	after, err := openLog(crashed, func([]logPart) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	logTestClose(t, after)
	if err := errors.Join(l.sync(), l.trim(everything)); err != nil {
		t.Fatal(err)
	}
	if len(l.segments) > 0 {
		t.Errorf("%d closed segments are left when the active one's header is on disk", len(l.segments))
	}
	logTestClose(t, l)
}

// TestLogLosesItsFirstSegment: one that others were to be read behind is no torn end when nothing is before it.
func TestLogLosesItsFirstSegment(t *testing.T) {
	fs := logTestFS(t)
	opts := logTestOptions(fs, fsyncAlways, nil)
	l, _ := logTestOpen(t, opts)
	for n := uint64(1); l.active.number == 1; n++ {
		logTestAppend(t, l, n, n)
	}
	logTestClose(t, l)
	logTestWrite(t, fs, l.segmentPath(1), nil)
	opts.Create = false
	if _, err := openLog(opts, func([]logPart) error { return nil }); err == nil || !strings.Contains(err.Error(), "has a header") {
		t.Fatalf("opened: %v", err)
	}
}

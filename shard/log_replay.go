package shard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Opening a commit log:
//
//  1. Segments at the end without a header are removed: they have no records. There is always one with a header, or something is lost,
//     and the start stops.
//  2. The last segment, and the one before it if that may have a torn end, are written anew, up to the last whole record,
//     under a temporary name, fsynced, and put in the place of the old ones. Where the records stop to be whole and
//     contiguous, the log ends: what is behind was not fsynced when power was lost, and is removed first, the last segment
//     before the others. If a record that is whole says that it was fsynced, it is damage, and stops the start (ADR 0031). All of this is done to segments that look whole as well: after a failed fsync the kernel may
//     show pages that never reached the disk and take them for clean, so a second fsync of the same file could do nothing.
//  3. All segments are replayed, oldest first. By now each must be whole, and numbers and sequences contiguous;
//     anything else is damage and stops the start. Nothing is applied before it is durable here, since a shard may
//     write what it applied to disk at any time, and the rest of the same transaction must not be lost then.
//  4. A new segment is started. A last segment without records is replaced, so that restarts don't pile up files.
//
// Every step can be cut short by a crash and done again.

// logReadBuffer is the size of the read buffer during replay. Apart from it, memory is bounded by the longest record, by the
// longest batch that is decompressed, and by what is behind the log's end.
const logReadBuffer = 256 << 10

// logRecovery says what opening a log found.
type logRecovery struct {
	Segments int   // replayed
	Records  int   // replayed
	Bytes    int64 // of the segments replayed, before compression
	Dropped  int64 // bytes behind the last whole record that were cut
}

// logDefect is a place where a segment stops to make sense: in the last segment the end of the log, elsewhere damage.
type logDefect struct {
	offset int64
	reason string
}

func (d *logDefect) Error() string { return fmt.Sprintf("offset %d: %s", d.offset, d.reason) }

// openLog opens or creates the log in opts.Dir and gives every record to apply, in the order of appending. The parts are
// valid until apply returns. Apply skips the parts that the shard already has, checks that the others are contiguous, and has them
// decompressed (logPart.batch).
func openLog(opts logOptions, apply func(parts []logPart) error) (*commitLog, error) {
	l := newCommitLog(opts)
	fs := l.opts.FS
	if opts.Create {
		if err := fs.MkdirAll(opts.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("commit log: create %s: %w", opts.Dir, err)
		}
		if err := logSyncDir(fs, fs.PathDir(opts.Dir)); err != nil {
			return nil, fmt.Errorf("commit log: fsync the directory above %s: %w", opts.Dir, err)
		}
	}
	numbers, err := l.listSegments()
	if err != nil {
		return nil, err
	}
	if len(numbers) > 0 {
		if numbers, err = l.repairEnd(numbers); err != nil {
			return nil, err
		}
	} else if !opts.Create {
		return nil, fmt.Errorf("commit log: %s has no segment, and the commits in them would be lost: "+
			"mount or put back what was there, or restore the whole data directory from a backup", opts.Dir)
	}
	for _, number := range numbers {
		if err := l.replaySegment(number, apply); err != nil {
			return nil, fmt.Errorf("commit log: replay %s: %w", l.segmentPath(number), err)
		}
	}
	if err := l.startSegment(); err != nil {
		return nil, err
	}
	l.opts.Logger.Info("commit log opened", "dir", opts.Dir, "segments", l.recovered.Segments,
		"records", l.recovered.Records, "bytes", l.recovered.Bytes, "dropped_bytes", l.recovered.Dropped)
	ticks, stop := l.opts.Ticker(logSyncInterval)
	go l.tick(ticks, stop) // until close
	l.opts.Later(l.followRotation)
	return l, nil
}

func newCommitLog(opts logOptions) *commitLog {
	if opts.SegmentSize == 0 {
		opts.SegmentSize = logDefaultSegmentSize
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Rotated == nil {
		opts.Rotated = func() {}
	}
	if opts.Failed == nil {
		opts.Failed = func(error) {}
	}
	if opts.Ticker == nil {
		opts.Ticker = func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTicker(d)
			return t.C, t.Stop
		}
	}
	rotated := make(chan struct{}, 1)
	if opts.Later == nil {
		opts.Later = func(func()) { // which the ticker's goroutine knows
			select {
			case rotated <- struct{}{}:
			default:
			}
		}
	}
	l := &commitLog{
		opts:       opts,
		pending:    new(logBatch),
		sequence:   1,
		rotated:    rotated,
		stopTicker: make(chan struct{}),
		tickerDone: make(chan struct{}),
	}
	l.setPolicy(opts.Policy)
	return l
}

// listSegments returns the numbers of the segments, which must be without a gap, and removes what an interrupted
// rewriting left behind.
func (l *commitLog) listSegments() ([]uint64, error) {
	names, err := l.opts.FS.List(l.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("commit log: list %s: %w", l.opts.Dir, err)
	}
	var numbers []uint64
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, logSuffix):
			number, err := logSegmentNumber(name)
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, number)
		case strings.HasSuffix(name, logSuffix+logTempSuffix):
			if err := l.opts.FS.Remove(l.opts.FS.PathJoin(l.opts.Dir, name)); err != nil {
				return nil, fmt.Errorf("commit log: remove %s: %w", name, err)
			}
		}
	}
	slices.Sort(numbers)
	for i := 1; i < len(numbers); i++ {
		if numbers[i] != numbers[i-1]+1 {
			return nil, fmt.Errorf("commit log: %s is missing: restore the file, or the data directory from a backup",
				l.segmentPath(numbers[i-1]+1))
		}
	}
	return numbers, nil
}

// startSegment creates the segment that new records go to.
func (l *commitLog) startSegment() error {
	number := uint64(1)
	if n := len(l.segments); n > 0 {
		last := l.segments[n-1]
		number = last.number + 1
		if last.records == 0 {
			number = last.number
			l.segments = l.segments[:n-1]
			l.bytes.Add(-last.size)
		}
	}
	active := &logSegment{number: number, path: l.segmentPath(number), first: l.sequence, begun: true}
	if err := l.createSegment(active, true); err != nil {
		return fmt.Errorf("commit log: create %s: %w", active.path, err)
	}
	l.active = active
	l.bytes.Add(active.size)
	l.writtenRecord.Store(l.sequence - 1) // Whatever was replayed has been made durable before.
	l.syncedRecord.Store(l.sequence - 1)
	return nil
}

// repairEnd makes the end of the log durable up to its last whole record, and returns the numbers of the segments that stay.
func (l *commitLog) repairEnd(numbers []uint64) ([]uint64, error) {
	n := len(numbers)
	last, err := l.readHeader(numbers[n-1])
	for ; n > 1 && errors.Is(err, errLogNoHeader); n-- {
		last, err = l.readHeader(numbers[n-2])
	}
	if errors.Is(err, errLogNoHeader) {
		return nil, l.lost(numbers[len(numbers)-1])
	}
	if err != nil {
		return nil, err
	}
	if last.flags&logOpenEnd != 0 && n > 1 {
		fits, err := l.repairSegment(numbers[n-2], numbers[n-1:], last.first)
		if errors.Is(err, errLogNoHeader) && n == 2 {
			return nil, l.lost(numbers[0] + 1)
		}
		if errors.Is(err, errLogNoHeader) {
			return numbers[:n-2], l.cutWithoutHeader(numbers[n-3], numbers[n-2:], last.marks())
		}
		if err != nil || !fits {
			return numbers[:n-1], err
		}
	}
	_, err = l.repairSegment(numbers[n-1], numbers[n:], 0)
	return numbers[:n], err
}

// cutWithoutHeader removes a segment whose header never reached the disk, and what is behind it, unless something there says that the first
// record behind the segment before did: the header is in one block with it.
func (l *commitLog) cutWithoutHeader(before uint64, numbers []uint64, marks bool) error {
	if !marks { // Records of older versions say nothing of others.
		return l.cut(numbers)
	}
	first, err := l.endOf(before)
	if err != nil {
		return fmt.Errorf("commit log: %s: %w", l.segmentPath(before), logDamaged(err))
	}
	if err := l.tornNotDamaged(numbers[0], 0, numbers[1:], first); err != nil {
		return fmt.Errorf("commit log: %s: %w: %w", l.segmentPath(numbers[0]), errLogNoHeader, logDamaged(err))
	}
	return l.cut(numbers)
}

// endOf returns the sequence of the record that comes behind a segment, which must be whole.
func (l *commitLog) endOf(number uint64) (sequence uint64, err error) {
	r, err := l.openReader(number)
	defer func() { err = errors.Join(err, r.close()) }()
	for err == nil {
		err = r.next()
	}
	if err != io.EOF {
		return 0, err
	}
	return r.sequence, nil
}

// lost is why a log is not opened in which no segment is whole: there was one before the segment of the number.
func (l *commitLog) lost(before uint64) error {
	return fmt.Errorf("commit log: no segment in %s has a header that says where the log begins, so the last one that had, before %s, is missing, "+
		"or what it had is: put it back, or restore the whole data directory from a backup", l.opts.Dir, l.segmentPath(before))
}

// readHeader returns the header of a segment, or errLogNoHeader.
func (l *commitLog) readHeader(number uint64) (logHeader, error) {
	r, err := l.openReader(number)
	if closing := r.close(); closing != nil {
		err = closing
	}
	if err != nil && err != errLogNoHeader {
		err = fmt.Errorf("commit log: %s: %w", l.segmentPath(number), logDamaged(err))
	}
	return r.header, err
}

// cut removes segments behind the end of the log, the last one first, so that what is left after a crash looks the same.
func (l *commitLog) cut(numbers []uint64) error {
	for _, number := range slices.Backward(numbers) {
		path := l.segmentPath(number)
		info, err := l.opts.FS.Stat(path)
		if err != nil {
			return fmt.Errorf("commit log: %w", err)
		}
		if err := errors.Join(l.opts.FS.Remove(path), logSyncDir(l.opts.FS, l.opts.Dir)); err != nil {
			return fmt.Errorf("commit log: remove %s, which is behind the end of the log: %w", path, err)
		}
		if info.Size() > 0 {
			l.dropped(path, 0, info.Size(), "the log ends before")
		}
	}
	return nil
}

// dropped notes bytes behind the end of the log.
func (l *commitLog) dropped(path string, offset, size int64, reason string) {
	l.recovered.Dropped += size
	l.opts.Logger.Warn("commit log: cut the torn end, as a loss of power leaves it of what was not fsynced; if there was none, the disk has damaged the log",
		"path", path, "offset", offset, "bytes", size, "reason", reason)
}

// repairSegment rewrites a segment without its torn tail and makes it durable. If its records don't end where those of the
// segments behind begin, which follows says, these are removed first, and fits is false. Nothing is changed if the tail was on disk once, and so
// is damaged.
func (l *commitLog) repairSegment(number uint64, behind []uint64, follows uint64) (fits bool, err error) {
	path := l.segmentPath(number)
	r, err := l.openReader(number)
	defer func() {
		if err = errors.Join(err, r.close()); err != nil && !errors.Is(err, errLogNoHeader) {
			err = fmt.Errorf("commit log: repair %s: %w", path, err)
		}
	}()
	if err != nil {
		return false, logDamaged(err)
	}

	temp := path + logTempSuffix
	w, err := l.opts.FS.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false, err
	}
	err = logCopyWhole(w, r)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return false, err
	}
	fits = r.sequence == follows
	if !fits {
		if r.header.marks() {
			if err := l.tornNotDamaged(number, r.offset, behind, r.sequence); err != nil {
				return false, logDamaged(fmt.Errorf("%w: %w", r.ending(), err))
			}
		}
		if err := l.cut(behind); err != nil {
			return false, err
		}
	}
	if err := errors.Join(l.opts.FS.Rename(temp, path), logSyncDir(l.opts.FS, l.opts.Dir)); err != nil {
		return false, err
	}
	if rest := r.size - r.offset; rest > 0 {
		l.dropped(path, r.offset, rest, r.defect.reason)
	}
	return fits, nil
}

// ending is where the whole records of a segment end, and why.
func (r *logReader) ending() error {
	if r.defect != nil {
		return r.defect
	}
	return &logDefect{offset: r.offset, reason: "the segment ends"}
}

// logCopyWhole writes the header and the whole records of r to w. The first defect ends the records.
func logCopyWhole(w io.Writer, r *logReader) error {
	out := bufio.NewWriterSize(w, logReadBuffer)
	if err := logWrite(out, r.header.encode()); err != nil {
		return err
	}
	for {
		err := r.next()
		if err == io.EOF || r.defect != nil {
			return out.Flush()
		}
		if err != nil {
			return logDamaged(err)
		}
		if err := logWrite(out, r.record); err != nil {
			return err
		}
	}
}

// tornNotDamaged returns an error if something behind the log's end says that the record of the sequence, with which the end begins, was on
// disk: a loss of power leaves that as it is. It looks at a segment from the offset on and at the segments behind it.
func (l *commitLog) tornNotDamaged(number uint64, offset int64, behind []uint64, sequence uint64) error {
	for {
		b, err := l.readFrom(number, offset)
		if err != nil {
			return err
		}
		if later := logMarkOf(b, sequence); later != 0 {
			return fmt.Errorf("record %d was on disk when record %d was written, so no loss of power has torn it", sequence, later)
		}
		if len(behind) == 0 {
			return nil
		}
		number, offset, behind = behind[0], 0, behind[1:]
	}
}

// readFrom reads a segment from an offset to its end.
func (l *commitLog) readFrom(number uint64, offset int64) ([]byte, error) {
	file, err := l.opts.FS.Open(l.segmentPath(number))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	b := make([]byte, info.Size()-offset)
	_, err = file.ReadAt(b, offset)
	if err == io.EOF && len(b) == 0 {
		err = nil
	}
	return b, errors.Join(err, file.Close())
}

// logMarkOf looks, at every byte of b, for a whole record that says that the record of the sequence was on disk before it, and returns its
// sequence, or 0.
func logMarkOf(b []byte, sequence uint64) (later uint64) {
	for ; len(b) >= logFrameSize+logTailSize; b = b[1:] {
		length := uint64(binary.LittleEndian.Uint32(b))
		if length < logTailSize || length > uint64(len(b)-logFrameSize) {
			continue
		}
		record := b[:logFrameSize+length]
		tail := record[len(record)-logTailSize:]
		own, synced := binary.LittleEndian.Uint64(tail), binary.LittleEndian.Uint64(tail[logSequenceSize:])
		if synced < sequence || own <= synced || own-sequence > 1<<32 { // Few bytes by chance get past this.
			continue
		}
		if logChecksum(record) == binary.LittleEndian.Uint32(record[4:]) {
			return own
		}
	}
	return 0
}

// logChecksum is the checksum of a record with its framing.
func logChecksum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[:4], logCRC), logCRC, record[logFrameSize:])
}

// replaySegment gives the records of one segment to apply.
func (l *commitLog) replaySegment(number uint64, apply func(parts []logPart) error) (err error) {
	r, err := l.openReader(number)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return logDamaged(err)
	}
	s := &logSegment{number: number, path: l.segmentPath(number), first: r.header.first}
	if len(l.segments) > 0 && s.first != l.sequence {
		return logDamaged(fmt.Errorf("the segment before ends with record %d of the log, this one begins with %d",
			l.sequence-1, s.first))
	}
	for {
		err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return logDamaged(err)
		}
		if err := apply(r.parts); err != nil {
			return fmt.Errorf("apply the record that ends at offset %d: %w", r.offset, err)
		}
		for i := range r.parts {
			s.greatest = logRaise(s.greatest, r.parts[i].shard, r.parts[i].number)
		}
		s.records++
	}
	s.size = r.size + r.saved
	l.sequence = s.first + s.records
	l.segments = append(l.segments, s)
	l.bytes.Add(s.size)
	l.recovered.Segments++
	l.recovered.Records += int(s.records)
	l.recovered.Bytes += s.size
	return nil
}

// logDamaged tells the operator what to do about a segment that can't be read.
func logDamaged(err error) error {
	if errors.Is(err, errLogVersion) {
		return err
	}
	return fmt.Errorf("%w; the log is damaged or unreadable there, and commits after it would be lost: "+
		"repair the disk, or restore the data directory from a backup", err)
}

// logReader reads the records of one segment.
type logReader struct {
	file     vfs.File // nil if it couldn't be opened
	in       *bufio.Reader
	size     int64
	header   logHeader
	offset   int64      // after the last whole record
	sequence uint64     // of the next record
	record   []byte     // the last record with its framing, valid until next
	parts    []logPart  // the same, decoded
	saved    int64      // bytes by which compression has made the records so far shorter
	defect   *logDefect // what stopped next, if it is neither the end nor a read error
}

func (r *logReader) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// openReader opens a segment and reads its header. The reader is never nil, and is to be closed after an error too. The error
// is errLogNoHeader if there is none.
func (l *commitLog) openReader(number uint64) (*logReader, error) {
	r := new(logReader)
	file, err := l.opts.FS.Open(l.segmentPath(number))
	if err != nil {
		return r, err
	}
	r.file = file
	info, err := file.Stat()
	if err != nil {
		return r, err
	}
	r.size = info.Size()
	r.in = bufio.NewReaderSize(file, logReadBuffer)
	header := make([]byte, min(r.size, logHeaderSize))
	if _, err := io.ReadFull(r.in, header); err != nil {
		return r, err
	}
	if r.header, err = logDecodeHeader(header, number); err != nil {
		return r, err
	}
	r.offset, r.sequence = logHeaderSize, r.header.first
	return r, nil
}

// next reads one record. It returns io.EOF at the end of the segment, a *logDefect for what isn't a record, and another
// error if reading failed or a record with the right checksum makes no sense, which no crash explains.
func (r *logReader) next() error {
	rest := r.size - r.offset
	if rest == 0 {
		return io.EOF
	}
	if rest < logFrameSize+r.header.minLength() {
		return r.stop("%d bytes are left, fewer than a record has", rest)
	}
	frame, err := r.in.Peek(logFrameSize)
	if err != nil {
		return r.readError(err)
	}
	length := int64(binary.LittleEndian.Uint32(frame))
	if length < r.header.minLength() || length > logMaxRecord-logFrameSize {
		return r.stop("a record can't have a length of %d", length)
	}
	if length > rest-logFrameSize {
		return r.stop("the record has %d bytes, but %d are left", length+logFrameSize, rest)
	}
	if cap(r.record) > logKeepBuffer {
		r.record = nil
	}
	r.record = slices.Grow(r.record[:0], int(logFrameSize+length))[:logFrameSize+length]
	if _, err := io.ReadFull(r.in, r.record); err != nil {
		return r.readError(err)
	}
	if logChecksum(r.record) != binary.LittleEndian.Uint32(r.record[4:]) {
		return r.stop("the record's checksum is wrong")
	}
	body := r.record[logFrameSize:]
	content := body[:int64(len(body))-r.header.tailSize()]
	if sequence := binary.LittleEndian.Uint64(body[len(content):]); sequence != r.sequence {
		return r.stop("the record should be %d of the log, but is %d", r.sequence, sequence)
	}
	if err := r.decodeParts(content); err != nil {
		return fmt.Errorf("offset %d: %w", r.offset, err)
	}
	r.offset += int64(len(r.record))
	r.sequence++
	return nil
}

// readError names the offset of a failed read. The size was known, so an early end is no clean end.
func (r *logReader) readError(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("offset %d: %w", r.offset, err)
}

// stop notes that no record begins at the current offset.
func (r *logReader) stop(format string, args ...any) error {
	r.defect = &logDefect{offset: r.offset, reason: fmt.Sprintf(format, args...)}
	return r.defect
}

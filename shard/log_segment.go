package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minlz"
)

// The disk format of the commit log, version 3. Numbers are little-endian, checksums are CRC-32C (Castagnoli).
//
// The directory holds segments, named by their number in ten or more decimal digits with ".log" behind. Numbers are
// contiguous; the oldest need not be 1, since trimming removes from that end. There is always at least one. "<segment>.tmp"
// is a segment that was being made or rewritten when the process ended; opening removes it. The last one may be empty: it
// was to be next.
//
// A segment is a header and records, without padding:
//
//	offset  size
//	     0     8  magic "codeqlog"
//	     8     2  format version, 1 to 3
//	    10     2  flags; 1: the end of the segment before may not have been on disk when records were written to this one
//	    12     8  segment number, as in the file's name
//	    20     8  sequence of the first record
//	    28     4  checksum of bytes 0 to 27
//
// A record:
//
//	offset  size
//	     0     4  length: bytes after the checksum, at least 32
//	     4     4  checksum of the length and of all bytes after the checksum
//	     8     2  n, the number of parts, at least 1
//	    10  14 n  per part: shard ordinal (2), commit number (8), length of its batch (4), with the highest bit if it is compressed
//	        ...   the n batches, one behind the other
//	  end-16   8  sequence
//	   end-8   8  the sequence of the last record that was known to be on disk when this one was appended; 0 if none was
//
// Sequences are contiguous over all segments, so a stale or misplaced record never passes for a valid one. They
// come last because they are known only under the log's mutex: the checksum of all before them is computed outside. What a record
// says of those before it tells damage from the torn end that a loss of power leaves (ADR 0031).
//
// A batch that is compressed is a block of MinLZ (github.com/minio/minlz, SPEC.md). Version 2 ends a record with its sequence, and
// version 1 has no compressed batches; else they are the same.
//
// A segment's name is on disk before its first record is written. The header is written right before that record, to the same
// block, so power loss leaves both, or zeros, or a file without them; and when a disk is full, a part of the header may be all
// that is in the file. Any other header is damage.

const (
	logMagic         = "codeqlog"
	logFormatVersion = 3
	logOldestVersion = 1 // that is read
	logMarksVersion  = 3 // the first whose records say what was on disk before them
	logHeaderSize    = 32
	logFrameSize     = 8
	logCountSize     = 2
	logPartHeadSize  = 14
	logPacked        = 1 << 31 // of a batch's length: it is compressed
	logSequenceSize  = 8
	logTailSize      = 2 * logSequenceSize
	logSuffix        = ".log"
	logTempSuffix    = ".tmp"
)

// logOpenEnd is the flag of a segment that the one before may have a torn end.
const logOpenEnd = 1

var logCRC = crc32.MakeTable(crc32.Castagnoli)

// logSegment is one file of the log. An open one is written by the leader; a closed one is constant.
type logSegment struct {
	number   uint64
	path     string
	first    uint64   // sequence of the first record
	flags    uint16   // of the header
	records  uint64   // written to it
	size     int64    // bytes before compression; 0 as long as it has no header
	greatest []uint64 // by shard: the greatest commit number in the segment, 0 if there is none
	begins   uint64   // the position in the log where it begins
	begun    bool     // its header is on disk; guarded by commitLog.mu while the segment is active

	file vfs.File // for writing; nil when closed
	// syncer is a second handle on the same file, for fsyncs: a vfs.File doesn't allow writes and fsyncs at a time.
	syncer vfs.File
}

// close closes both handles, if they are open.
func (s *logSegment) close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), s.syncer.Close())
	s.file, s.syncer = nil, nil
	if err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// durable reports whether the shards hold all of the segment's commits on disk.
func (s *logSegment) durable(durable func(shard uint16) uint64) bool {
	for shard, number := range s.greatest {
		if number > 0 && number > durable(uint16(shard)) {
			return false
		}
	}
	return true
}

// begin writes the header, if that has not been done.
func (s *logSegment) begin() error {
	if s.size > 0 {
		return nil
	}
	if err := logWrite(s.file, logHeader{logFormatVersion, s.flags, s.number, s.first}.encode()); err != nil {
		return err
	}
	s.size = logHeaderSize
	return nil
}

// rotate retires the active segment and goes on in the next one. Only the leader calls it. It waits only if the disk has
// not yet taken the segment that was retired before.
func (l *commitLog) rotate() error {
	l.mu.Lock()
	late := l.retired != nil
	l.mu.Unlock()
	if late {
		l.syncMu.Lock()
		_, err := l.syncRetired()
		l.syncMu.Unlock()
		if err != nil {
			return err
		}
	}
	next, err := l.prepareNext()
	if err != nil {
		return err
	}
	old := l.active
	next.first, next.flags, next.begins = old.first+old.records, logOpenEnd, l.written.Load()
	l.mu.Lock()
	l.retired, l.active, l.next = old, next, nil
	l.mu.Unlock()
	l.opts.Later(l.followRotation)
	return nil
}

// followRotation does what a rotation leaves: it puts the retired segment on disk and makes the segment that is next. Its
// failures stick.
func (l *commitLog) followRotation() {
	l.syncMu.Lock()
	_, err := l.syncRetired()
	l.syncMu.Unlock()
	if err == nil {
		_, _ = l.prepareNext()
	}
}

// syncRetired puts the retired segment, if there is one, on disk, closes it, and returns the active one. The caller holds
// syncMu.
func (l *commitLog) syncRetired() (active *logSegment, err error) {
	l.mu.Lock()
	s, active := l.retired, l.active
	l.mu.Unlock()
	if err := l.failed(); err != nil || s == nil {
		return active, err
	}
	if err := s.syncer.SyncData(); err != nil {
		return nil, l.fail("fsync", s.path, err)
	}
	l.noteSynced(s.first + s.records - 1) // What is before the segment was on disk when it was retired.
	if err := s.close(); err != nil {
		return nil, l.fail("close", s.path, err)
	}
	l.mu.Lock()
	l.retired = nil
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	l.opts.Rotated()
	return active, nil
}

// prepareNext returns the segment behind the active one, empty and with its name on disk, and makes it if need be.
func (l *commitLog) prepareNext() (*logSegment, error) {
	l.nextMu.Lock()
	defer l.nextMu.Unlock()
	l.mu.Lock()
	next, number := l.next, l.active.number+1
	l.mu.Unlock()
	if err := l.failed(); err != nil || next != nil {
		return next, err
	}
	next = &logSegment{number: number, path: l.segmentPath(number)}
	if err := l.createSegment(next, false); err != nil {
		return nil, l.fail("create", next.path, err)
	}
	l.mu.Lock()
	l.next = next
	l.mu.Unlock()
	return next, nil
}

// createSegment makes a segment without records, in the place of one that may be there, with its name on disk, and its header
// if it is to be begun.
func (l *commitLog) createSegment(s *logSegment, begun bool) (err error) {
	temp := s.path + logTempSuffix
	if s.file, err = l.opts.FS.Create(temp, vfs.WriteCategoryUnspecified); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.file.Close())
		}
	}()
	if begun {
		if err := errors.Join(s.begin(), s.file.Sync()); err != nil {
			return err
		}
	}
	if err := l.opts.FS.Rename(temp, s.path); err != nil {
		return err
	}
	if err := logSyncDir(l.opts.FS, l.opts.Dir); err != nil {
		return err
	}
	s.syncer, err = l.opts.FS.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	return err
}

// trim removes the oldest segments for as long as the shards hold all of their commits on disk: as long as every shard's
// greatest commit number there is at most durable(shard). The active segment stays, and the one before until the active one's header is on
// disk: a log without any header has lost something. An error of a removal leaves the segment in place, for the next trim to remove.
func (l *commitLog) trim(durable func(shard uint16) uint64) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	l.mu.Lock()
	segments := l.segments
	if n := len(segments); n > 0 && !l.active.begun {
		segments = segments[:n-1]
	}
	l.mu.Unlock()
	for _, s := range segments {
		if err := l.failed(); err != nil {
			return err
		}
		if !s.durable(durable) {
			return nil
		}
		if err := l.opts.FS.Remove(s.path); err != nil {
			return fmt.Errorf("commit log: remove %s: %w", s.path, err)
		}
		// One by one: were several removals pending, power loss could undo an earlier one and leave a gap.
		if err := logSyncDir(l.opts.FS, l.opts.Dir); err != nil {
			return l.fail("fsync", l.opts.Dir, err)
		}
		l.bytes.Add(-s.size)
		l.mu.Lock()
		l.segments = l.segments[1:]
		l.mu.Unlock()
	}
	return nil
}

// trimmable tells whether there is a segment that trim may remove once the shards have its commits on disk.
func (l *commitLog) trimmable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.segments) > 0
}

func (l *commitLog) segmentPath(number uint64) string {
	return l.opts.FS.PathJoin(l.opts.Dir, fmt.Sprintf("%010d%s", number, logSuffix))
}

// logSegmentNumber is the inverse of segmentPath for a name without its directory.
func logSegmentNumber(name string) (uint64, error) {
	digits := strings.TrimSuffix(name, logSuffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || number == 0 || fmt.Sprintf("%010d", number) != digits {
		return 0, fmt.Errorf("commit log: %q is not the name of a segment: move the file elsewhere", name)
	}
	return number, nil
}

// logHeader is what a segment begins with.
type logHeader struct {
	version uint16
	flags   uint16
	number  uint64 // of the segment
	first   uint64 // sequence of the first record
}

func (h logHeader) encode() []byte {
	b := make([]byte, 0, logHeaderSize)
	b = append(b, logMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.version)
	b = binary.LittleEndian.AppendUint16(b, h.flags)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.first)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, logCRC))
}

// marks tells whether the segment's records say what was on disk before them.
func (h logHeader) marks() bool { return h.version >= logMarksVersion }

// tailSize is the number of bytes that end a record behind its batches.
func (h logHeader) tailSize() int64 {
	if h.marks() {
		return logTailSize
	}
	return logSequenceSize
}

// minLength is the least length that a record can have.
func (h logHeader) minLength() int64 { return logCountSize + logPartHeadSize + h.tailSize() }

var (
	errLogBadHeader = errors.New("the checksum of the segment's header is wrong")
	errLogNoHeader  = errors.New("the segment's header is missing")
	errLogVersion   = errors.New("use the version that wrote it")
)

// logDecodeHeader decodes the header of the segment with the number. The error is errLogNoHeader if it was not written yet.
func logDecodeHeader(b []byte, number uint64) (logHeader, error) {
	if len(b) < logHeaderSize || len(bytes.Trim(b, "\x00")) == 0 {
		return logHeader{}, errLogNoHeader
	}
	if crc32.Checksum(b[:28], logCRC) != binary.LittleEndian.Uint32(b[28:]) ||
		string(b[:8]) != logMagic {
		return logHeader{}, errLogBadHeader
	}
	h := logHeader{
		version: binary.LittleEndian.Uint16(b[8:]), flags: binary.LittleEndian.Uint16(b[10:]),
		number: binary.LittleEndian.Uint64(b[12:]), first: binary.LittleEndian.Uint64(b[20:]),
	}
	if h.version < logOldestVersion || h.version > logFormatVersion {
		return h, fmt.Errorf("the segment has format version %d, this program reads %d to %d: %w",
			h.version, logOldestVersion, logFormatVersion, errLogVersion)
	}
	if h.number != number {
		return h, fmt.Errorf("the header says segment %d: the file was renamed", h.number)
	}
	return h, nil
}

// decodeParts cuts a record's body, whose checksum was right, into r.parts, which alias it.
func (r *logReader) decodeParts(body []byte) error {
	r.parts = r.parts[:0]
	n := int(binary.LittleEndian.Uint16(body))
	heads := body[logCountSize:]
	if n == 0 || len(heads) < n*logPartHeadSize {
		return fmt.Errorf("a record of %d bytes can't have %d parts", len(body), n)
	}
	batches := heads[n*logPartHeadSize:]
	for i := range n {
		head := heads[i*logPartHeadSize:]
		length := binary.LittleEndian.Uint32(head[10:])
		size := length &^ logPacked
		if uint64(size) > uint64(len(batches)) {
			return fmt.Errorf("part %d of a record is longer than the record", i)
		}
		p := logPart{
			shard: binary.LittleEndian.Uint16(head), number: binary.LittleEndian.Uint64(head[2:]),
			repr: batches[:size:size], packed: length&logPacked != 0,
		}
		full, err := p.full()
		if err != nil {
			return fmt.Errorf("part %d of a record: %w", i, err)
		}
		r.saved += int64(full) - int64(size)
		r.parts = append(r.parts, p)
		batches = batches[size:]
	}
	if len(batches) != 0 {
		return fmt.Errorf("a record has %d bytes behind its parts", len(batches))
	}
	return nil
}

// full is the length of the batch before compression.
func (p *logPart) full() (int, error) {
	if !p.packed {
		return len(p.repr), nil
	}
	full, err := minlz.DecodedLen(p.repr)
	if err != nil {
		return 0, fmt.Errorf("a batch can't be decompressed: %w", err)
	}
	return full, nil
}

// batch returns the batch itself: repr, or what that is decompressed to, in buf, which is made anew if it is too small.
func (p *logPart) batch(buf *[]byte) ([]byte, error) {
	if !p.packed {
		return p.repr, nil
	}
	batch, err := minlz.AppendDecoded((*buf)[:0], p.repr)
	if err != nil {
		return nil, logDamaged(fmt.Errorf("a batch can't be decompressed: %w", err))
	}
	*buf = batch
	return batch, nil
}

// logWrite writes all of b. A vfs.File may change b meanwhile.
func logWrite(w io.Writer, b []byte) error {
	n, err := w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// logSyncDir makes the names in a directory durable.
func logSyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The disk format of the commit log, version 1. Numbers are little-endian, checksums are CRC-32C (Castagnoli).
//
// The directory holds segments, named by their number in ten or more decimal digits with ".log" behind. Numbers are
// contiguous; the oldest need not be 1, since trimming removes from that end. There is always at least one. "<segment>.tmp"
// is a segment that was being made or rewritten when the process ended; opening removes it.
//
// A segment is a header and records, without padding:
//
//	offset  size
//	     0     8  magic "codeqlog"
//	     8     4  format version, 1
//	    12     8  segment number, as in the file's name
//	    20     8  sequence of the first record
//	    28     4  checksum of bytes 0 to 27
//
// A record:
//
//	offset  size
//	     0     4  length: bytes after the checksum, at least 24
//	     4     4  checksum of the length and of all bytes after the checksum
//	     8     2  n, the number of parts, at least 1
//	    10  14 n  per part: shard ordinal (2), commit number (8), length of its batch (4)
//	        ...   the n batches, one behind the other
//	   end-8   8  sequence
//
// Sequences are contiguous over all segments, so a stale or misplaced record never passes for a valid one. The sequence
// comes last because it is known only under the log's mutex: the checksum of all before it is computed outside.
//
// The header is on disk before the file gets its name, and the name before the first record is written, so a bad header is
// damage.

const (
	logMagic         = "codeqlog"
	logFormatVersion = 1
	logHeaderSize    = 32
	logFrameSize     = 8
	logCountSize     = 2
	logPartHeadSize  = 14
	logSequenceSize  = 8
	logMinLength     = logCountSize + logPartHeadSize + logSequenceSize
	logSuffix        = ".log"
	logTempSuffix    = ".tmp"
)

var logCRC = crc32.MakeTable(crc32.Castagnoli)

// logSegment is one file of the log. An open one is written by the leader; a closed one is constant.
type logSegment struct {
	number   uint64
	path     string
	first    uint64   // sequence of the first record
	records  uint64   // written to it
	size     int64    // bytes
	greatest []uint64 // by shard: the greatest commit number in the segment, 0 if there is none

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

// rotate makes the active segment durable, closes it and starts the next one. Only the leader calls it.
func (l *commitLog) rotate() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	old := l.active
	if err := old.syncer.SyncData(); err != nil {
		return l.fail("fsync", old.path, err)
	}
	l.synced.Store(l.written.Load())
	if err := old.close(); err != nil {
		return l.fail("close", old.path, err)
	}
	l.mu.Lock()
	l.segments = append(l.segments, old)
	l.mu.Unlock()
	next, err := l.createSegment(old.number+1, old.first+old.records)
	if err != nil {
		return l.fail("create", l.segmentPath(old.number+1), err)
	}
	l.active = next
	l.opts.Rotated()
	return nil
}

// createSegment makes an empty segment, durable with its header and its name, in the place of one that may be there.
func (l *commitLog) createSegment(number, first uint64) (_ *logSegment, err error) {
	s := &logSegment{number: number, path: l.segmentPath(number), first: first, size: logHeaderSize}
	temp := s.path + logTempSuffix
	if s.file, err = l.opts.FS.Create(temp, vfs.WriteCategoryUnspecified); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.file.Close())
		}
	}()
	if err := logWrite(s.file, logEncodeHeader(number, first)); err != nil {
		return nil, err
	}
	if err := s.file.Sync(); err != nil {
		return nil, err
	}
	if err := l.opts.FS.Rename(temp, s.path); err != nil {
		return nil, err
	}
	if err := logSyncDir(l.opts.FS, l.opts.Dir); err != nil {
		return nil, err
	}
	if s.syncer, err = l.opts.FS.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified); err != nil {
		return nil, err
	}
	l.bytes.Add(s.size)
	return s, nil
}

// trim removes the oldest segments for as long as the shards hold all of their commits on disk: as long as every shard's
// greatest commit number there is at most durable(shard). The active segment stays. An error of a removal leaves the
// segment in place, for the next trim to remove.
func (l *commitLog) trim(durable func(shard uint16) uint64) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.mu.Lock()
	segments := l.segments
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

func logEncodeHeader(number, first uint64) []byte {
	b := make([]byte, 0, logHeaderSize)
	b = append(b, logMagic...)
	b = binary.LittleEndian.AppendUint32(b, logFormatVersion)
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint64(b, first)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, logCRC))
}

var errLogBadHeader = errors.New("the segment's header is incomplete or its checksum is wrong")

// logDecodeHeader returns the sequence of the segment's first record.
func logDecodeHeader(b []byte, number uint64) (first uint64, err error) {
	if len(b) < logHeaderSize || crc32.Checksum(b[:28], logCRC) != binary.LittleEndian.Uint32(b[28:]) ||
		string(b[:8]) != logMagic {
		return 0, errLogBadHeader
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != logFormatVersion {
		return 0, fmt.Errorf("the segment has format version %d, this program reads %d: use the version that wrote it",
			v, logFormatVersion)
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != number {
		return 0, fmt.Errorf("the header says segment %d: the file was renamed", n)
	}
	return binary.LittleEndian.Uint64(b[20:]), nil
}

// logDecodeParts cuts a record's body into its parts, which alias it. The body's checksum was right.
func logDecodeParts(parts []logPart, body []byte) ([]logPart, error) {
	parts = parts[:0]
	n := int(binary.LittleEndian.Uint16(body))
	heads := body[logCountSize:]
	if n == 0 || len(heads) < n*logPartHeadSize {
		return nil, fmt.Errorf("a record of %d bytes can't have %d parts", len(body), n)
	}
	batches := heads[n*logPartHeadSize:]
	for i := range n {
		head := heads[i*logPartHeadSize:]
		size := binary.LittleEndian.Uint32(head[10:])
		if uint64(size) > uint64(len(batches)) {
			return nil, fmt.Errorf("part %d of a record is longer than the record", i)
		}
		parts = append(parts, logPart{
			shard:  binary.LittleEndian.Uint16(head),
			number: binary.LittleEndian.Uint64(head[2:]),
			repr:   batches[:size:size],
		})
		batches = batches[size:]
	}
	if len(batches) != 0 {
		return nil, fmt.Errorf("a record has %d bytes behind its parts", len(batches))
	}
	return parts, nil
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

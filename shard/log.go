package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minlz"
)

// The commit log makes commits durable for all shards together. The stores run without a write-ahead log of their own;
// one commit, over one or over many shards, is one record here, so that it is whole or absent after any crash.
//
// Files: log.go appends, writes and acknowledges; log_segment.go holds the disk format, rotation and trimming;
// log_replay.go opens a log again. The log knows nothing of keys, rows or Pebble: a part is bytes with a number.
//
// # How a commit travels
//
//  1. append compresses what is worth it (ADR 0027), copies the record into the pending batch, under mu, and gives back its position: the
//     offset of its end in the stream of all records appended since the log was opened. The caller then releases its own locks.
//  2. wait: the first goroutine that waits for a batch leads it. It lets the batch before finish, takes the pending
//     batch (appends go on into a fresh one), writes it with one write, fsyncs under "always", and wakes the followers
//     of its batch. Whoever waits for the next batch is not woken, apart from that batch's leader.
//  3. Under "everysec" a ticker fsyncs what has been written, on a file handle of its own and holding neither mu nor the
//     lead, so that appends and writes go on meanwhile.
//  4. A leader that finds the active segment full retires it and goes on in the next one, which is there already. The
//     ticker's goroutine then fsyncs and closes the retired one, and makes the segment that will be next. So no commit
//     waits for that, unless the disk takes longer for a segment than the writers do.
//
// # Invariants
//
//   - flushed <= written <= appended and synced <= written. Each of them only grows.
//   - Only the leader writes to the active segment or replaces it, the latter with mu held.
//   - At most one segment is retired: written, and not known to be on disk. It is fsynced before the active one is, and
//     before that one is retired in its turn. So only the last two segments with records can be torn, and what is on disk
//     is whole up to a point.
//   - The first failure of a write or fsync is final. After a failed fsync the kernel may have dropped the pages and
//     report success for the next one, so that trying again would acknowledge what is lost. The failure sticks until
//     the process ends; opening the log again writes the last segment anew (see log_replay.go).
//
// Locks, in order: trimMu, syncMu or nextMu, mu. mu is never held during input or output, and the leader waits for syncMu only when
// it has to fsync.
// Goroutine: one ticker, started by openLog and stopped by close.
//
// Rejected: a writer goroutine (two context switches for every commit of a lone client), one file per shard (an
// fsync each, and transactions over shards in two pieces), a sync.Cond for all waiters (every flush would wake everybody
// who waits for the next one), preallocated segments (no difference beyond noise with fallocate on ext4), segments written over again
// (half the time of a write, 2 µs for 4 KiB where it is 4; but where memory is short, whoever overwrites a part of a page that was
// dropped waits for the disk to read it first, and that would be commits; in whole blocks, which are never read, a third for 30 KiB, but
// twice for 200 bytes, and no more tasks a second), segments mapped into memory whose pages are made ahead by a goroutine (a commit
// copies 4 KiB in 0.3 µs, but a task took 39 µs of processor time where it took 33).

// Limits of the commit log. A batch in memory exceeds logMaxPending by one record at most.
const (
	logMaxRecord          = 1 << 30   // bytes of one record on disk, with its framing
	logMaxParts           = 1<<16 - 1 // shards that one record can touch
	logMaxPending         = 64 << 20  // bytes, before compression, appended but not handed to a write: more makes append wait
	logKeepBuffer         = 4 << 20   // a buffer that grew beyond this is given back after use
	logPackLeast          = 2 << 10   // bytes of a batch that is compressed
	logDefaultSegmentSize = 64 << 20  // bytes, before compression, after which the next segment starts
	logSyncInterval       = time.Second
)

var (
	errLogClosed         = errors.New("commit log: closed")
	errLogRecordTooLarge = fmt.Errorf("commit log: a commit may have %d bytes at most: split the transaction", logMaxRecord)
)

// fsyncPolicy says what acknowledged means; the values are those of Redis' appendfsync.
type fsyncPolicy int32

const (
	fsyncAlways   fsyncPolicy = iota // on disk
	fsyncEverySec                    // with the operating system, on disk a second later
	fsyncNo                          // with the operating system
)

// logOptions are the surroundings of a commit log.
type logOptions struct {
	FS          vfs.FS
	Dir         string      // belongs to the log alone
	Create      bool        // the log may be missing; otherwise that is an error
	Policy      fsyncPolicy // at the start; see setPolicy
	SegmentSize int64       // 0 means logDefaultSegmentSize
	// Ticker gives a channel that ticks at the interval, and the function that stops it. Nil means the wall clock.
	Ticker func(time.Duration) (<-chan time.Time, func())
	Logger *slog.Logger // nil means slog.Default
	// Rotated is called when a segment has been closed, which trim may remove one day, and Failed once, when a failure has
	// ended the log. Both are called with locks held: they must neither block nor call the log. Nil means nobody.
	Rotated func()
	Failed  func(error)
	// Later sees to it that work which a rotation leaves is done, once for each call or for several together. Nil means on
	// the ticker's goroutine; tests choose the moment.
	Later func(work func())
}

// logPart is one shard's share of a commit.
type logPart struct {
	shard  uint16 // ordinal
	number uint64 // the shard's commit number: contiguous, the first is 1
	repr   []byte // the representation of a Pebble batch; opaque here
	packed bool   // repr is compressed, as it is when it was read: see batch
}

// logFrame is a record on its way into the log. Its owner uses it for one append at a time.
type logFrame struct {
	head    []byte     // the framing, up to the first batch
	batches [][]byte   // as they are stored
	packer  *logPacker // has those that are compressed; nil if there are none
	size    int64      // of the whole record as it is stored
	full    int64      // of the same before compression
	sum     uint32     // checksum of all but the sequence, which is known only under the log's mutex
}

// logPacker is memory that batches are compressed to.
type logPacker struct{ packed []byte }

// commitLog is the shared log. Its methods are safe for concurrent use.
type commitLog struct {
	opts      logOptions
	recovered logRecovery // what openLog found; constant afterwards

	policy  atomic.Int32
	failure atomic.Pointer[error] // the first failed write or fsync; never cleared
	written atomic.Uint64         // position up to which records are with the operating system
	synced  atomic.Uint64         // position up to which records are on disk
	bytes   atomic.Int64          // size of all segments, before compression

	writtenRecord atomic.Uint64 // sequence of the last record that is with the operating system
	syncedRecord  atomic.Uint64 // sequence of the last record that is on disk for all that is known

	packers sync.Pool // of *logPacker: few commits need one at a time, however many transactions there are

	trimMu sync.Mutex // serialises trims

	syncMu sync.Mutex // serialises fsyncs and the closing of segments
	nextMu sync.Mutex // serialises the making of the next segment

	mu       sync.Mutex  // guards what follows
	active   *logSegment // written by the leader only, who needs no lock to read this
	retired  *logSegment // the segment before, until it is on disk; or nil
	next     *logSegment // the segment behind, empty; nil until it is made
	pending  *logBatch   // collects appends; never nil
	inFlight *logBatch   // being written by its leader, or nil
	spare    *logBatch   // the buffer that is neither pending nor in flight, or nil
	flushed  uint64      // end of the last batch that its leader has finished with
	sequence uint64      // of the next record
	closed   bool
	segments []*logSegment // closed ones, oldest first, numbered without a gap

	rotated    chan struct{} // asks the ticker's goroutine for the work that a rotation leaves; capacity 1
	stopTicker chan struct{} // closed by close
	tickerDone chan struct{} // closed when the ticker has ended
}

// logBatch is a run of records that share one write. commitLog.mu guards it until it is in flight; then what it says of its
// records belongs to the leader.
type logBatch struct {
	buf      []byte
	end      uint64        // position after the last record
	full     int64         // bytes of buf before compression
	records  uint64        // in buf
	greatest []uint64      // by shard: the greatest commit number in buf, 0 if there is none
	led      bool          // somebody has undertaken to write this batch
	done     chan struct{} // closed when it is finished; nil while nobody follows
}

// doneChan returns the channel that followers wait on. The caller holds commitLog.mu.
func (b *logBatch) doneChan() chan struct{} {
	if b.done == nil {
		b.done = make(chan struct{})
	}
	return b.done
}

// append puts one record into the log and returns its position for wait. It copies the parts. The record isn't durable
// in any sense before wait says so; after a crash it may be there or not, but never in part. After errLogRecordTooLarge
// the log goes on without the commit; an error of the disk is final.
func (l *commitLog) append(parts []logPart, f *logFrame) (pos uint64, err error) {
	defer f.reset(&l.packers)
	if err := f.encode(parts, &l.packers); err != nil {
		return 0, err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending.full >= logMaxPending && l.failed() == nil {
		end := l.pending.end
		l.mu.Unlock()
		_ = l.flushTo(end) // A failure sticks and is reported below.
		l.mu.Lock()
	}
	if err := l.failed(); err != nil {
		return 0, err
	}
	if l.closed {
		return 0, errLogClosed
	}
	b := l.pending
	b.buf = f.appendRecord(b.buf, l.sequence, l.syncedRecord.Load())
	b.end += uint64(f.size)
	b.full += f.full
	b.records++
	for i := range parts {
		b.greatest = logRaise(b.greatest, parts[i].shard, parts[i].number)
	}
	l.sequence++
	return b.end, nil
}

// acknowledged is the one place that decides whether a commit may be confirmed to a client. The guarantee, by policy:
//
//   - always: every record up to pos has been fsynced; it survives power loss.
//   - everysec, no: every record up to pos has been handed to the operating system; it survives kill -9. Under everysec
//     the ticker fsyncs it within a second, so power loss costs a second at most.
//
// All earlier records survive with it, and a record survives whole or not at all, over all its shards. Once a write or
// an fsync has failed nothing is acknowledged any more.
func (l *commitLog) acknowledged(pos uint64) bool {
	if l.failure.Load() != nil {
		return false
	}
	if fsyncPolicy(l.policy.Load()) == fsyncAlways {
		return l.synced.Load() >= pos
	}
	return l.written.Load() >= pos
}

// wait returns nil when everything up to pos is acknowledged under the policy in force. After an error it is unknown
// whether the record survives, and the error is final.
func (l *commitLog) wait(pos uint64) error {
	if l.acknowledged(pos) {
		return nil
	}
	if err := l.flushTo(pos); err != nil {
		return err
	}
	if l.acknowledged(pos) {
		return nil
	}
	// It was written under another policy, which has changed to always since.
	return l.fsync(pos)
}

// sync writes and fsyncs every record appended so far, whatever the policy.
func (l *commitLog) sync() error {
	l.mu.Lock()
	pos := l.pending.end
	l.mu.Unlock()
	if err := l.flushTo(pos); err != nil {
		return err
	}
	return l.fsync(pos)
}

// setPolicy changes what later calls of wait acknowledge.
func (l *commitLog) setPolicy(p fsyncPolicy) { l.policy.Store(int32(p)) }

// size is the number of bytes that the log would take on disk if nothing were compressed. What replaying it takes goes by that.
func (l *commitLog) size() int64 { return l.bytes.Load() }

// flushTo returns when the batch that holds pos is finished: written, and fsynced under always.
func (l *commitLog) flushTo(pos uint64) error {
	l.mu.Lock()
	if err := l.failed(); err != nil || pos <= l.flushed {
		l.mu.Unlock()
		return err
	}
	b := l.inFlight
	if b == nil || pos > b.end {
		b = l.pending
		if pos > b.end {
			l.mu.Unlock()
			return fmt.Errorf("commit log: wait for position %d, but the log ends at %d", pos, b.end)
		}
		if !b.led {
			l.lead(b)
			l.mu.Unlock()
			return l.failed()
		}
	}
	done := b.doneChan()
	l.mu.Unlock()
	<-done
	return l.failed()
}

// lead writes the pending batch b, which nobody leads yet, once the batch before it is finished. The caller holds mu,
// which is released meanwhile.
func (l *commitLog) lead(b *logBatch) {
	b.led = true
	if before := l.inFlight; before != nil {
		done := before.doneChan()
		l.mu.Unlock()
		<-done
		l.mu.Lock()
	}
	l.inFlight = b
	l.pending, l.spare = l.spare, nil
	if l.pending == nil {
		l.pending = new(logBatch)
	}
	l.pending.end = b.end
	l.mu.Unlock()

	if l.writeBatch(b) == nil && fsyncPolicy(l.policy.Load()) == fsyncAlways {
		_ = l.fsync(b.end) // A failure sticks: the leader and its followers see it there.
	}

	l.mu.Lock()
	l.inFlight = nil
	l.flushed = b.end
	if b.done != nil {
		close(b.done)
	}
	b.reset()
	l.spare = b
}

// reset makes the batch empty for its next use and gives back an uncommonly large buffer.
func (b *logBatch) reset() {
	buf := b.buf[:0]
	if cap(buf) > logKeepBuffer {
		buf = nil
	}
	*b = logBatch{buf: buf, greatest: b.greatest[:0]}
}

// writeBatch hands the batch to the operating system, in the next segment if this one is full. Only the leader calls it.
func (l *commitLog) writeBatch(b *logBatch) error {
	if err := l.failed(); err != nil {
		return err
	}
	if l.active.size > logHeaderSize && l.active.size+b.full > l.opts.SegmentSize {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	before := l.active.size
	if err := l.active.begin(); err != nil {
		return l.fail("write", l.active.path, err)
	}
	if err := logWrite(l.active.file, b.buf); err != nil {
		return l.fail("write", l.active.path, err)
	}
	l.active.size += b.full
	l.active.records += b.records
	for shard, number := range b.greatest {
		l.active.greatest = logRaise(l.active.greatest, uint16(shard), number)
	}
	l.bytes.Add(l.active.size - before)
	l.writtenRecord.Store(l.active.first + l.active.records - 1)
	l.written.Store(b.end)
	return nil
}

// fsync returns when everything up to pos, which has been written, is on disk.
func (l *commitLog) fsync(pos uint64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.failed(); err != nil || l.synced.Load() >= pos {
		return err
	}
	// Whatever is written by now lies in the segments that are retired and active after this, or before them.
	written, record := l.written.Load(), l.writtenRecord.Load()
	active, err := l.syncRetired()
	if err != nil {
		return err
	}
	if err := active.syncer.SyncData(); err != nil {
		return l.fail("fsync", active.path, err)
	}
	l.synced.Store(written)
	l.noteSynced(record)
	l.mu.Lock()
	active.begun = active.begun || written > active.begins
	l.mu.Unlock()
	return nil
}

// noteSynced notes that the records up to one are on disk, for those to come to say so. The caller holds syncMu.
func (l *commitLog) noteSynced(record uint64) {
	l.syncedRecord.Store(max(l.syncedRecord.Load(), record))
}

// tick fsyncs once a second what has been written, until close. The lost second of everysec is the time between ticks.
// Between ticks it does what rotations leave.
func (l *commitLog) tick(ticks <-chan time.Time, stop func()) {
	defer close(l.tickerDone)
	defer stop()
	for {
		select {
		case <-l.stopTicker:
			return
		case <-l.rotated:
			l.followRotation()
		case <-ticks:
			if fsyncPolicy(l.policy.Load()) == fsyncEverySec {
				_ = l.sync() // A failure sticks: every later call reports it.
			}
		}
	}
}

// close fsyncs what has been appended and closes the files. Appends fail from now on. A second close does nothing.
func (l *commitLog) close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()

	close(l.stopTicker)
	<-l.tickerDone
	err := l.sync()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err == nil {
		_, err = l.syncRetired()
	}
	for _, s := range []*logSegment{l.retired, l.active, l.next} {
		if s != nil {
			err = errors.Join(err, s.close())
		}
	}
	return err
}

// failed returns the error that ended the log, or nil.
func (l *commitLog) failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail ends the log and returns the error that ended it: this one, or an earlier one.
func (l *commitLog) fail(operation, path string, cause error) error {
	err := fmt.Errorf("commit log: %s %s: %w; no commit is accepted any more: stop the server, repair the disk, start again",
		operation, path, cause)
	if l.failure.CompareAndSwap(nil, &err) {
		l.opts.Logger.Error("commit log failed", "operation", operation, "path", path, "error", cause)
		l.opts.Failed(err)
	}
	return l.failed()
}

// refuse ends the log for a reason that is not its own.
func (l *commitLog) refuse(err error) { l.failure.CompareAndSwap(nil, &err) }

// encode makes the framing of a record, and compresses its batches.
func (f *logFrame) encode(parts []logPart, packers *sync.Pool) error {
	if len(parts) == 0 || len(parts) > logMaxParts {
		return fmt.Errorf("commit log: a commit of %d parts: it must have 1 to %d", len(parts), logMaxParts)
	}
	f.size = logFrameSize + logCountSize + int64(len(parts))*logPartHeadSize + logTailSize
	f.full = f.size
	head := append(f.head[:0], make([]byte, logFrameSize)...)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(parts)))
	for i := range parts {
		p := &parts[i]
		if p.number == 0 {
			return fmt.Errorf("commit log: shard %d commits number 0: the first is 1", p.shard)
		}
		batch, form := f.pack(p.repr, packers)
		if f.size += int64(len(batch)); f.size > logMaxRecord {
			return errLogRecordTooLarge
		}
		f.full += int64(len(p.repr))
		f.batches = append(f.batches, batch)
		head = binary.LittleEndian.AppendUint16(head, p.shard)
		head = binary.LittleEndian.AppendUint64(head, p.number)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(batch))|form)
	}
	binary.LittleEndian.PutUint32(head, uint32(f.size-logFrameSize))
	f.sum = crc32.Update(0, logCRC, head[:4])
	f.sum = crc32.Update(f.sum, logCRC, head[logFrameSize:])
	for _, batch := range f.batches {
		f.sum = crc32.Update(f.sum, logCRC, batch)
	}
	f.head = head
	return nil
}

// pack returns a batch as it is stored, and in which form: compressed, if it is worth it.
func (f *logFrame) pack(batch []byte, packers *sync.Pool) (stored []byte, form uint32) {
	if len(batch) < logPackLeast || len(batch) > minlz.MaxBlockSize {
		return batch, 0
	}
	if f.packer == nil {
		if f.packer, _ = packers.Get().(*logPacker); f.packer == nil {
			f.packer = new(logPacker)
		}
	}
	p := f.packer
	// Batches before this one stay where they are. Growing would copy them, and keep the old array besides the new one.
	if room := minlz.MaxEncodedLen(len(batch)); room > cap(p.packed)-len(p.packed) {
		p.packed = make([]byte, 0, max(room, min(2*max(room, cap(p.packed)), logKeepBuffer)))
	}
	packed := minlz.TryEncode(p.packed[len(p.packed):], batch, minlz.LevelFastest)
	if packed == nil { // it would be no smaller
		return batch, 0
	}
	p.packed = p.packed[:len(p.packed)+len(packed)]
	return packed, logPacked
}

// appendRecord appends the whole record to buf and completes its checksum with the sequence, and with that of the last record on disk. buf
// grows once, and not with each part.
func (f *logFrame) appendRecord(buf []byte, sequence, synced uint64) []byte {
	start := len(buf)
	buf = append(slices.Grow(buf, int(f.size)), f.head...)
	for _, batch := range f.batches {
		buf = append(buf, batch...)
	}
	buf = binary.LittleEndian.AppendUint64(buf, sequence)
	buf = binary.LittleEndian.AppendUint64(buf, synced)
	sum := crc32.Update(f.sum, logCRC, buf[len(buf)-logTailSize:])
	binary.LittleEndian.PutUint32(buf[start+4:], sum)
	return buf
}

// reset drops what the frame has of a record.
func (f *logFrame) reset(packers *sync.Pool) {
	clear(f.batches)
	f.batches = f.batches[:0]
	if p := f.packer; p != nil && cap(p.packed) <= logKeepBuffer {
		p.packed = p.packed[:0]
		packers.Put(p)
	}
	f.packer = nil
}

// logRaise notes a shard's commit number in a table of the greatest ones by shard.
func logRaise(greatest []uint64, shard uint16, number uint64) []uint64 {
	for len(greatest) <= int(shard) {
		greatest = append(greatest, 0)
	}
	greatest[shard] = max(greatest[shard], number)
	return greatest
}

package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// Placement says where a key lives.
type Placement struct {
	// Shard is the ordinal of the key's shard; unused for a partitioned key.
	Shard int
	// Partitioned keys are one logical collection of a fixed kind with a fragment on every shard, named ones
	// included; an element's home is Placer.Home of it.
	Partitioned bool
	Kind        Kind
}

// Placer tells the store where keys live. It must be deterministic and safe for concurrent use.
type Placer interface {
	Place(db int, key []byte) (Placement, error)
	// Partitioned lists the keys of the database that are placed in fragments, without those of groups.
	Partitioned(db int) [][]byte
	// PartitionsGroups tells whether keys of groups, see Tracking, are placed in fragments.
	PartitionsGroups(db int) bool
	// GroupKeys lists those keys of a group that hold what it is for: as a rule they are placed alike.
	GroupKeys(group []byte) [][]byte
	// Abandoned lists those keys of a group that may be on the shard and that were of use there under the former placement, but are no longer,
	// whether they would be placed there or not, for other keys are looked at now in place of them.
	Abandoned(db, ordinal int, group []byte, before Former) ([][]byte, error)
	Home(element []byte) int
}

// Former is how the keys of a database were placed before.
type Former struct {
	Placement   string // see Options; empty: it is not known, or has not changed
	Shards      int    // how many there were
	Pinned      bool   // all keys were on one shard
	Partitioned bool   // keys of groups were placed in fragments
}

// FsyncPolicy is Redis' appendfsync: what an acknowledged write survives.
type FsyncPolicy = fsyncPolicy

// The policies, see commitLog.
const (
	FsyncAlways   = fsyncAlways
	FsyncEverySec = fsyncEverySec
	FsyncNo       = fsyncNo
)

// Options say what a store consists of. Fields without a note are required.
type Options struct {
	Dir            string
	FS             vfs.FS   // nil: the operating system's
	Names          []string // of the shards, by ordinal
	DefaultShards  int      // the first so many names are the default group
	Databases      int
	KeyPatterns    []string // by which Placer goes, as text; a directory keeps those that it was made with
	Placer         Placer
	Placement      string  // by what Placer goes for groups of keys, as text; a directory is not opened with one under which it would look elsewhere for them
	Tracker        Tracker // nil: no key is tracked
	Clock          clock.Clock
	Logger         *slog.Logger
	Fsync          FsyncPolicy
	CacheBytes     int   // object cache, over all shards
	BlockCache     int64 // Pebble's block cache, over all shards; memtables come on top
	MemtableBytes  int   // of one shard
	OpenTables     int   // files of Pebble's tables that are kept open, over all shards; 0: DefaultOpenTables
	LogSegment     int64 // bytes, before compression, after which the log begins a new file
	LogMax         int64 // bytes of log, before compression, after which shards are flushed so that it can be cut
	DiskLimit      int64 // bytes; with less room on the disk, DiskLow says so; 0: never
	ExpireInterval int64 // ms between two rounds of the active expiry of a shard
	// Random is the source of the random members of sets and keys. Nil: seeded by the runtime.
	Random rand.Source
	// Fatal is called once, on a goroutine of its own, when the store can't go on: nothing is committed or acknowledged any
	// more, and what was acknowledged is in the log. The process is expected to end soon, since a goroutine that ran into the
	// failure may be stuck for ever with locks held; the others return errors, which their clients can be told.
	Fatal func(error)

	// For tests; 0: the constants of their names.
	stageBytes   int   // bytes of rows that fill a stage of a shard
	pendingBytes int   // bytes of rows that wake the stager of a shard
	stringBytes  int   // length up to which a string is kept whole
	chunkBits    uint8 // logarithm of a chunk's size
	manyRows     int64 // rows that have to go at once for a range deletion
	slotStep     int   // elements of an old list that one transaction indexes by slot
	namesLeast   int   // keys that are missed before the names of all are read
}

// Store is the shards of one server, their common log and the directory that holds them:
//
//	DIR/LOCK            held while a server uses the directory
//	DIR/FORMAT          what the directory is, see format
//	DIR/log/            the commit log
//	DIR/shards/NAME/    one Pebble store a shard
type Store struct {
	opts    Options
	fs      vfs.FS
	clock   clock.Clock
	placer  Placer
	tracker Tracker
	logger  *slog.Logger
	rand    *rand.Rand // safe for concurrent use
	shards  []*Shard
	log     *commitLog
	// opened is the log once it is open: Pebble flushes while the log is still being replayed.
	opened     atomic.Pointer[commitLog]
	lock       io.Closer
	cache      *pebble.Cache
	fileCache  *pebble.FileCache
	disk       diskRoom
	failure    atomic.Pointer[error]
	turns      atomic.Uint64 // see object.turn
	rotors     rotors
	told       told
	flushed    chan struct{}    // tells the trimmer that a shard was flushed or a log segment closed; capacity 1
	saves      chan func(error) // asks the trimmer for a Save; capacity 1
	noted      atomic.Uint32    // the classes of keyspace events that are wanted
	listener   atomic.Pointer[func(pos uint64, notes []Note)]
	lazyExpiry atomic.Bool // keys expire when they are looked up only
	stop       chan struct{}
	goroutines sync.WaitGroup // the trimmer, who watches the disk, and the shards' janitors, timekeepers and stagers, ended by stop
}

// Open opens the store, creating it in a directory that holds none, and replays what the log has and the shards
// lack. A directory that is in use, of another format or of other shards, or that lacks a part, is refused.
func Open(opts Options) (_ *Store, err error) {
	st := &Store{
		opts: opts, fs: opts.FS, clock: opts.Clock, placer: opts.Placer, logger: opts.Logger,
		flushed: make(chan struct{}, 1), saves: make(chan func(error), 1), rotors: newRotors(),
		told: told{shards: make([]Stats, len(opts.Names))}, stop: make(chan struct{}),
	}
	if st.fs == nil {
		st.fs = vfs.Default
	}
	st.opts.stageBytes = cmp.Or(opts.stageBytes, min(stageBytes, opts.MemtableBytes/stagePart))
	st.opts.pendingBytes = cmp.Or(opts.pendingBytes, st.opts.stageBytes/pendingPart)
	st.opts.stringBytes = cmp.Or(opts.stringBytes, stringBytes)
	st.opts.chunkBits = cmp.Or(opts.chunkBits, chunkBits)
	st.opts.manyRows = cmp.Or(opts.manyRows, manyRows)
	st.opts.slotStep = cmp.Or(opts.slotStep, slotStep)
	st.opts.namesLeast = cmp.Or(opts.namesLeast, namesLeast)
	if st.tracker = opts.Tracker; st.tracker == nil {
		st.tracker = noTracker{}
	}
	if opts.Random == nil {
		opts.Random = runtimeSource{}
	}
	st.rand = rand.New(&lockedSource{src: opts.Random})
	defer func() {
		if err != nil {
			st.goroutines.Wait() // those that apply what was replayed
			st.release()
		}
	}()
	if err := st.mkdir(opts.Dir); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", opts.Dir, err)
	}
	st.lock, err = st.fs.Lock(st.path("LOCK"))
	if unopened := new(fs.PathError); errors.As(err, &unopened) {
		return nil, fmt.Errorf("data directory %s can't be written: %w", opts.Dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s is in use by another process (or can't be locked): stop that server or choose another directory with --data: %w", opts.Dir, err)
	}
	f, err := st.openFormat()
	if err != nil {
		return nil, err
	}
	if err := st.openShards(f); err != nil {
		return nil, err
	}
	if err := st.openLog(f.Created == 0); err != nil {
		return nil, err
	}
	if err := st.checkPlacement(&f); err != nil {
		return nil, err
	}
	if err := st.addShards(f); err != nil {
		return nil, err
	}
	st.goroutines.Go(st.trimLoop) // stopped by Close
	if st.disk.limit.Store(opts.DiskLimit); st.lookAtDisk() {
		st.goroutines.Go(st.watchDisk) // stopped by Close
	}
	for _, s := range st.shards {
		s.graves = true // there may be some from before
		s.nextDeadlineMs = 0
		s.compactions.begin()
		st.goroutines.Go(s.janitor)   // stopped by Close
		st.goroutines.Go(s.keepTime)  // stopped by Close
		st.goroutines.Go(s.runStager) // stopped by Close
	}
	return st, nil
}

// runtimeSource draws from the runtime's generator.
type runtimeSource struct{}

func (runtimeSource) Uint64() uint64 { return rand.Uint64() }

// lockedSource makes a source safe for concurrent use.
type lockedSource struct {
	mu  sync.Mutex
	src rand.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Uint64()
}

func (st *Store) path(elem ...string) string {
	return st.fs.PathJoin(append([]string{st.opts.Dir}, elem...)...)
}

// mkdir creates the directory and makes its entry in its parent durable, without which a power loss could
// take the directory with all that is in it.
func (st *Store) mkdir(path string) error {
	if err := st.fs.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return st.syncDir(st.fs.PathDir(path))
}

func (st *Store) syncDir(path string) error {
	dir, err := st.fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// openShards opens the shards that the directory had before.
func (st *Store) openShards(f format) error {
	st.cache = pebble.NewCache(st.opts.BlockCache + st.memtableRoom())
	st.fileCache = pebble.NewFileCache(fileCacheShards, cmp.Or(st.opts.OpenTables, DefaultOpenTables))
	return eachShard(st.nextShards(f), func(s *Shard) error { return s.open(f) })
}

// addShards opens the shards that the directory gets with this start, after the log was replayed, which has nothing of them. Then all are created.
func (st *Store) addShards(f format) error {
	err := eachShard(st.nextShards(f), func(s *Shard) error {
		if err := s.open(f); err != nil {
			return err
		}
		return s.loadTimetable()
	})
	if err != nil {
		return err
	}
	return st.created(f)
}

// nextShards adds the shards that the directory has and the store has not yet, and returns them.
func (st *Store) nextShards(f format) []*Shard {
	first := len(st.shards)
	for n, name := range f.Names[first:] {
		st.shards = append(st.shards, &Shard{
			store: st, ordinal: first + n, name: name, wake: make(chan struct{}, 1),
			cache:          newObjectCache(st.opts.Databases, st.opts.CacheBytes/len(st.opts.Names)),
			nextDeadlineMs: math.MaxInt64, staged: newStage(), times: newTimetable(st.tracker.Listed), pending: pending{wake: make(chan struct{}, 1)},
		})
	}
	return st.shards[first:]
}

// eachShard calls fn for all of the shards at a time, and returns the error of the first shard that has one. A start is mostly that: each
// store has some ten fsyncs to wait for, which a busy disk makes a second for four of them, and what is tracked to read.
func eachShard(shards []*Shard, fn func(s *Shard) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(shards))
	for n, s := range shards {
		all.Go(func() { errs[n] = fn(s) }) // waited for below
	}
	all.Wait()
	for n, err := range errs {
		if err != nil {
			return fmt.Errorf("shard %s: %w", shards[n].name, err)
		}
	}
	return nil
}

// open opens the shard's store, which must be there if it was ever created.
func (s *Shard) open(f format) error {
	st := s.store
	path, options := st.path("shards", s.name), st.pebbleOptions(s)
	if s.ordinal < f.Created {
		if err := st.mustExist(path); err != nil {
			return err
		}
		options.ErrorIfNotExists = true
	} else if err := errors.Join(st.mkdir(st.path("shards")), st.mkdir(path)); err != nil {
		return err
	}
	db, err := pebble.Open(path, options)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return st.missing(path, err)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	s.db = db
	s.batch = db.NewBatch(pebble.WithMaxRetainedSizeBytes(maxKeptBatch))
	if err := s.checkValues(path); err != nil {
		return err
	}
	if err := s.identify(f); err != nil {
		return err
	}
	s.cuts.stale.Store(1)
	return s.loadState()
}

// memtableRoom is what the memtables of all shards take as a rule: one that is written and one that is being flushed. Pebble charges
// them to the block cache, so it is made so much larger: with less, memtables alone fill it, and each Get reads
// the table's filter and index from the file again.
func (st *Store) memtableRoom() int64 {
	return 2 * int64(st.opts.MemtableBytes) * int64(len(st.opts.Names))
}

// DefaultOpenTables is how many files of tables are kept open over all shards if Options does not say.
const DefaultOpenTables = 1024

const fileCacheShards = 2

// Long values stand apart from their keys, in files that compactions leave alone as a rule; see ADR 0024.
const (
	apartBytes   = 128 // the shortest value that does
	apartDepth   = 40  // layers of files that the values of one table may lie in: twice what a compaction of L0 adds, see layersL0
	apartGarbage = 0.5 // the part of all values that may be of no more use until files are written anew
	apartAge     = 30 * time.Second
)

// layersL0 is how many layers of overlapping tables have L0 compacted. Nearly every flush makes one. A compaction writes the tables of the
// next level anew, whether one flush has touched them or twenty.
const layersL0 = 20

// flushTables is more than the tables that a flush makes, but for those that cuts add: their number is not to have L0 compacted before its layers.
const flushTables = 16

// pebbleOptions departs from Pebble's defaults where they were measured to hurt: larger memtables, a later
// start of L0 compactions and none for tombstones' sake alone, a larger level below L0 and tables that leave out what waits (ADR 0030), bloom
// filters but for the last level, long values apart, the compression that is the fastest to undo (MinLZ; snappy where that has no
// assembly). There is no WAL: the store's own log stands in for it (ADR 0002).
func (st *Store) pebbleOptions(s *Shard) *pebble.Options {
	guard := &flushGuard{store: st, shard: s.name}
	o := &pebble.Options{
		FS:                          &dataFS{FS: st.fs, beforeTable: guard.pause, beforeSync: st.syncLog, room: st.roomToCompact},
		Cache:                       st.cache,
		FileCache:                   st.fileCache,
		FormatMajorVersion:          pebble.FormatValueSeparation,
		DisableWAL:                  true,
		MemTableSize:                uint64(st.opts.MemtableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2 * layersL0, // Pebble counts a layer twice
		L0CompactionFileThreshold:   layersL0 * (maxCuts + flushTables),
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               256 << 20,
		Logger:                      &pebbleLogger{store: st, shard: s.name},
		EventListener: &pebble.EventListener{
			FlushEnd:        guard.flushEnded,
			BackgroundError: guard.backgroundError,
			CompactionEnd: func(info pebble.CompactionInfo) {
				s.cuts.compacted(info)
				s.compactions.ended(info.Err)
			},
			BlobFileRewriteEnd: func(info pebble.BlobFileRewriteInfo) { s.compactions.ended(info.Err) },
		},
	}
	s.compactions = newCompactions(st.clock)
	o.Experimental.CompactionScheduler = s.compactions
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	o.Experimental.TombstoneDenseCompactionThreshold = -1 // never: see ADR 0023
	o.Experimental.SpanPolicyFunc = s.cuts.policy
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: apartBytes, MaxBlobReferenceDepth: apartDepth,
			RewriteMinimumAge: apartAge, TargetGarbageRatio: apartGarbage}
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy // Pebble asks none there
	return o
}

func (s *Shard) loadState() error {
	s.state = newShardState(s.store.opts.Databases)
	raw, ok, err := s.get([]byte{rowState})
	if err != nil || !ok {
		return err
	}
	if s.state, err = decodeState(raw, s.store.opts.Databases); err != nil {
		return fmt.Errorf("state row: %w", err)
	}
	return nil
}

// openLog replays the log: every part of a commit that its shard does not have yet is applied.
func (st *Store) openLog(create bool) error {
	if !create {
		if err := st.mustExist(st.path("log")); err != nil {
			return err
		}
	}
	r := replay{store: st, last: make([]uint64, len(st.shards))}
	log, err := openLog(logOptions{
		FS: st.fs, Dir: st.path("log"), Create: create, Policy: st.opts.Fsync, SegmentSize: st.opts.LogSegment,
		Logger: st.logger, Rotated: st.nudgeTrimmer, Failed: func(err error) { _ = st.fail(err) },
	}, r.apply)
	if err != nil {
		return err
	}
	st.log = log
	st.opened.Store(log)
	if err := r.checkEnd(); err != nil {
		return err
	}
	return eachShard(st.shards, func(s *Shard) error {
		if err := s.loadState(); err != nil {
			return err
		}
		if err := s.loadTimetable(); err != nil {
			return fmt.Errorf("what is tracked: %w", err)
		}
		return nil
	})
}

// replay brings the shards up to the end of the log.
type replay struct {
	store *Store
	last  []uint64 // by shard, the last of its commits in the log; 0 for none
	buf   []byte   // the last batch that was compressed
}

func (r *replay) apply(parts []logPart) error {
	st := r.store
	for _, p := range parts {
		if int(p.shard) >= len(st.shards) {
			return fmt.Errorf("the log has a commit of shard number %d, which does not exist", p.shard)
		}
		s := st.shards[p.shard]
		r.last[p.shard] = p.number
		if p.number <= s.state.number {
			continue
		}
		if p.number != s.state.number+1 {
			return fmt.Errorf("shard %s stands at commit %d and the log goes on at %d: a log file or the shard's files are missing, restore both from one backup",
				s.name, s.state.number, p.number)
		}
		s.compactions.begin() // many flushes wait for them
		batch, err := p.batch(&r.buf)
		if err == nil {
			err = s.replay(batch)
		}
		if err != nil {
			return fmt.Errorf("shard %s: replay commit %d: %w", s.name, p.number, err)
		}
		s.state.number = p.number
	}
	return nil
}

// checkEnd refuses a log that ends before what is in a shard's tables. Since nothing gets there before the log is durable,
// the end of the log is gone then, and with it what was only there.
func (r *replay) checkEnd() error {
	for i, s := range r.store.shards {
		if last := r.last[i]; last != 0 && last < s.state.number {
			return fmt.Errorf("shard %s stands at commit %d and the log ends at %d: the last log files are missing, or older ones in their place; restore both from one backup",
				s.name, s.state.number, last)
		}
	}
	return nil
}

// syncLog makes the log durable. It runs before Pebble makes a table durable: data must never be on disk
// without the log record it came from, or a power loss could leave a part of a transaction.
func (st *Store) syncLog() error {
	log := st.opened.Load()
	if log == nil { // while the log is being replayed all of it is durable already
		return nil
	}
	return log.sync()
}

// Wait returns once everything up to the log position is acknowledged under the fsync policy. It is the one
// place that every reply to a client has to pass.
func (st *Store) Wait(pos uint64) error { return st.log.wait(pos) }

// SetFsync changes the fsync policy.
func (st *Store) SetFsync(p FsyncPolicy) { st.log.setPolicy(p) }

// Shards is how many shards there are.
func (st *Store) Shards() int { return len(st.shards) }

// All is the set of all shards.
func (st *Store) All() Mask { return MaskUpTo(len(st.shards)) }

// Err tells why the store has failed, or nil.
func (st *Store) Err() error {
	if p := st.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops the store for good: the log has failed, a commit that reached the log could not be applied, or the tables can't
// be written. It closes the log to all that follows before the caller gives up its locks, since what a shard has in memory may
// not be what the log says.
func (st *Store) fail(err error) error {
	if st.failure.CompareAndSwap(nil, &err) {
		st.logger.Error("the store has failed", "err", err)
		if log := st.opened.Load(); log != nil {
			log.refuse(err)
		}
		go st.opts.Fatal(err) // ends when Fatal returns
	}
	return err
}

func (st *Store) nudgeTrimmer() {
	select {
	case st.flushed <- struct{}{}:
	default:
	}
}

// trimLoop deletes log files that no shard needs any more, and flushes shards when the log grows too long or SaveSoon asks.
func (st *Store) trimLoop() {
	for {
		select {
		case <-st.stop:
			return
		case <-st.flushed:
			st.lookAtDisk()
		case done := <-st.saves:
			done(st.Save())
			continue
		}
		if err := st.trim(); err != nil {
			st.logger.Error("log not trimmed", "err", err)
		}
	}
}

func (st *Store) trim() error {
	durable := make([]uint64, len(st.shards))
	for n, s := range st.shards {
		var err error
		if durable[n], err = s.durableNumber(); err != nil {
			return err
		}
	}
	if err := st.log.trim(func(shard uint16) uint64 { return durable[shard] }); err != nil {
		return err
	}
	// A flush is of no use to the file that is being written: one great commit may make it longer than LogMax.
	if st.log.size() <= st.logRoom() || !st.log.trimmable() {
		return nil
	}
	for _, s := range st.shards {
		if _, err := s.beginFlush(); err != nil {
			return err
		}
	}
	return nil
}

// durableNumber is the number of the last commit that is in the shard's tables, and so survives without the
// log.
func (s *Shard) durableNumber() (uint64, error) {
	it, err := s.db.NewIterWithContext(context.Background(), &pebble.IterOptions{
		LowerBound: []byte{rowState}, UpperBound: []byte{rowState + 1}, OnlyReadGuaranteedDurable: true,
	})
	if err != nil {
		return 0, s.readError(err)
	}
	st := shardState{}
	if it.First() {
		var val []byte
		if val, err = it.ValueAndErr(); err == nil {
			st, err = decodeState(val, s.store.opts.Databases)
		}
	}
	if closing := it.Close(); closing != nil { // not finish, which counts what is read under the shard's lock
		err = errors.Join(err, s.readError(closing))
	}
	return st.number, err
}

// Close flushes every shard, so that the next start has nothing to replay, and closes the store. No
// transaction may be in progress or begin.
func (st *Store) Close() error {
	close(st.stop)
	st.goroutines.Wait()
	var errs []error
	// Tables can't be written any more once the log has failed, since none may be ahead of it.
	err := st.log.failed()
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, st.flushAll(nil), st.trim())
	}
	return errors.Join(append(errs, st.release())...)
}

// flushAll writes everything that is committed into tables. Flushes that fail are tried again and again, so giving up ends the
// waiting.
func (st *Store) flushAll(giveUp <-chan struct{}) (err error) {
	var begun []<-chan struct{}
	for _, s := range st.shards {
		ended, failed := s.beginFlush()
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("shard %s: flush: %w", s.name, failed))
			continue
		}
		begun = append(begun, ended)
	}
	for _, ended := range begun {
		select {
		case <-ended:
		case <-giveUp:
			return errors.Join(err, errClosing)
		}
	}
	return err
}

// beginFlush begins to write everything that is committed into tables. The channel is closed when that has ended.
func (s *Shard) beginFlush() (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unstage(); err != nil {
		return nil, err
	}
	return s.db.AsyncFlush()
}

// release closes what is open, in the order in which it may be closed.
func (st *Store) release() error {
	var errs []error
	for _, s := range st.shards {
		if s.db == nil { // it could not be opened
			continue
		}
		s.mu.Lock()
		s.closeOverlay()
		errs = append(errs, s.batch.Close(), s.db.Close())
		s.mu.Unlock()
	}
	if st.log != nil {
		errs = append(errs, st.log.close())
	}
	if st.fileCache != nil {
		st.fileCache.Unref()
	}
	if st.cache != nil {
		st.cache.Unref()
	}
	if st.lock != nil {
		errs = append(errs, st.lock.Close())
	}
	return errors.Join(errs...)
}

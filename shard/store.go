package shard

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

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
	// Partitioned lists the keys of the database that are placed in fragments.
	Partitioned(db int) [][]byte
	Home(element []byte) int
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
	Placer         Placer
	Clock          clock.Clock
	Logger         *slog.Logger
	Fsync          FsyncPolicy
	CacheBytes     int   // object cache, over all shards
	BlockCache     int64 // Pebble's block cache, over all shards; memtables are charged to it as well
	MemtableBytes  int   // of one shard
	LogSegment     int64 // bytes after which the log begins a new file
	LogMax         int64 // bytes of log after which shards are flushed so that it can be cut
	ExpireInterval int64 // ms between two rounds of the active expiry of a shard
	// Random is the source of the random members of sets and keys. Nil: seeded by the runtime.
	Random rand.Source
	// Fatal is called when the store can't go on, after which it serves nothing. It must not return
	// normally where Pebble calls it: the process is expected to end.
	Fatal func(error)
}

// Store is the shards of one server, their common log and the directory that holds them:
//
//	DIR/LOCK            held while a server uses the directory
//	DIR/FORMAT          what the directory is, see format
//	DIR/log/            the commit log
//	DIR/shards/NAME/    one Pebble store a shard
type Store struct {
	opts   Options
	fs     vfs.FS
	clock  clock.Clock
	placer Placer
	logger *slog.Logger
	rand   *rand.Rand // safe for concurrent use
	shards []*Shard
	log    *commitLog
	// opened is the log once it is open: Pebble flushes while the log is still being replayed.
	opened     atomic.Pointer[commitLog]
	lock       io.Closer
	cache      *pebble.Cache
	fileCache  *pebble.FileCache
	failure    atomic.Pointer[error]
	turns      atomic.Uint64 // see object.turn
	flushed    chan struct{} // tells the trimmer that a shard was flushed or the log is long; capacity 1
	stop       chan struct{}
	goroutines sync.WaitGroup // the trimmer and the shards' janitors, ended by stop
}

// formatVersion is the version of the layout on disk as a whole. A change of it needs an ADR and a migration
// or a refusal that says what to do.
const formatVersion = 1

// format is the content of DIR/FORMAT, and with name and ordinal each shard's identity row.
type format struct {
	Version       int      `json:"version"`
	Cluster       string   `json:"cluster"`
	DefaultShards int      `json:"default_shards"`
	Names         []string `json:"names"`
}

type identity struct {
	Version   int    `json:"version"`
	Cluster   string `json:"cluster"`
	Name      string `json:"name"`
	Ordinal   int    `json:"ordinal"`
	GroupSize int    `json:"group_size"`
}

// Open opens the store, creating it if the directory is empty, and replays what the log has and the shards
// lack. A directory that is in use, of another format or of other shards is refused.
func Open(opts Options) (_ *Store, err error) {
	st := &Store{
		opts: opts, fs: opts.FS, clock: opts.Clock, placer: opts.Placer, logger: opts.Logger,
		flushed: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if st.fs == nil {
		st.fs = vfs.Default
	}
	if opts.Random == nil {
		opts.Random = runtimeSource{}
	}
	st.rand = rand.New(&lockedSource{src: opts.Random})
	defer func() {
		if err != nil {
			st.release()
		}
	}()
	if err := st.mkdir(opts.Dir); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", opts.Dir, err)
	}
	if st.lock, err = st.fs.Lock(st.path("LOCK")); err != nil {
		return nil, fmt.Errorf("data directory %s is in use by another process (or can't be locked): stop that server or choose another directory with --data: %w", opts.Dir, err)
	}
	f, err := st.openFormat()
	if err != nil {
		return nil, err
	}
	if err := st.openShards(f); err != nil {
		return nil, err
	}
	if err := st.openLog(); err != nil {
		return nil, err
	}
	st.goroutines.Go(st.trimLoop) // stopped by Close
	for _, s := range st.shards {
		s.graves = true // there may be some from before
		s.nextDeadlineMs = 0
		st.goroutines.Go(s.janitor) // stopped by Close
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

// openFormat reads DIR/FORMAT and holds it against the options, or writes it.
func (st *Store) openFormat() (format, error) {
	want := format{Version: formatVersion, DefaultShards: st.opts.DefaultShards, Names: st.opts.Names}
	f, err := st.fs.Open(st.path("FORMAT"))
	if errors.Is(err, fs.ErrNotExist) {
		return st.createFormat(want)
	}
	if err != nil {
		return want, fmt.Errorf("data directory: %w", err)
	}
	raw, err := io.ReadAll(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return want, fmt.Errorf("data directory: read FORMAT: %w", err)
	}
	var have format
	if err := json.Unmarshal(raw, &have); err != nil {
		return want, fmt.Errorf("data directory %s: FORMAT is not readable (%w): restore it from a backup", st.opts.Dir, err)
	}
	return st.checkFormat(have, want)
}

func (st *Store) checkFormat(have, want format) (format, error) {
	switch {
	case have.Version != want.Version:
		return have, fmt.Errorf("data directory %s has format %d, this server reads format %d: use the codeq version that wrote it",
			st.opts.Dir, have.Version, want.Version)
	case have.DefaultShards != want.DefaultShards:
		return have, fmt.Errorf("data directory %s has %d shards, the configuration says %d: start with --shards %d, or choose another directory with --data",
			st.opts.Dir, have.DefaultShards, want.DefaultShards, have.DefaultShards)
	case len(have.Names) > len(want.Names):
		return have, fmt.Errorf("data directory %s has shard %q, which the configuration lacks: name it under named-shards",
			st.opts.Dir, have.Names[len(want.Names)])
	}
	for i, name := range have.Names {
		if want.Names[i] != name {
			return have, fmt.Errorf("data directory %s has shard %q at place %d, the configuration has %q: keep the order of named-shards and add new ones at its end",
				st.opts.Dir, name, i, want.Names[i])
		}
	}
	if len(want.Names) > len(have.Names) {
		have.Names = want.Names
		return have, st.writeFormat(have)
	}
	return have, nil
}

func (st *Store) createFormat(f format) (format, error) {
	var id [16]byte
	if _, err := cryptorand.Read(id[:]); err != nil {
		return f, fmt.Errorf("cluster id: %w", err)
	}
	f.Cluster = hex.EncodeToString(id[:])
	return f, st.writeFormat(f)
}

// writeFormat replaces DIR/FORMAT atomically and durably.
func (st *Store) writeFormat(f format) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	tmp := st.path("FORMAT.tmp")
	file, err := st.fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write FORMAT: %w", err)
	}
	_, err = file.Write(append(raw, '\n'))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		if err = st.fs.Rename(tmp, st.path("FORMAT")); err == nil {
			err = st.syncDir(st.opts.Dir)
		}
	}
	if err != nil {
		return fmt.Errorf("write FORMAT: %w", err)
	}
	return nil
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

func (st *Store) openShards(f format) error {
	st.cache = pebble.NewCache(st.opts.BlockCache)
	st.fileCache = pebble.NewFileCache(fileCacheShards, max(fileCacheSize, 64*len(st.opts.Names)))
	if err := st.mkdir(st.path("shards")); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for n, name := range st.opts.Names {
		s := &Shard{
			store: st, ordinal: n, name: name, wake: make(chan struct{}, 1),
			cache:          newObjectCache(st.opts.Databases, st.opts.CacheBytes/len(st.opts.Names)),
			nextDeadlineMs: math.MaxInt64,
		}
		db, err := pebble.Open(st.path("shards", name), st.pebbleOptions(s))
		if err != nil {
			return fmt.Errorf("shard %s: open %s: %w", name, st.path("shards", name), err)
		}
		s.db = db
		s.batch = db.NewBatch(pebble.WithMaxRetainedSizeBytes(maxKeptBatch))
		st.shards = append(st.shards, s)
		if err := s.identify(f); err != nil {
			return err
		}
		if err := s.loadState(); err != nil {
			return err
		}
	}
	return nil
}

const (
	fileCacheShards = 2
	fileCacheSize   = 1024
)

// pebbleOptions departs from Pebble's defaults where they were measured to hurt: larger memtables, a later
// start of L0 compactions, bloom filters. There is no WAL: the store's own log stands in for it (ADR 0002).
func (st *Store) pebbleOptions(s *Shard) *pebble.Options {
	guard := &flushGuard{store: st, shard: s.name}
	o := &pebble.Options{
		FS:                          &dataFS{FS: st.fs, beforeTable: guard.pause, beforeSync: st.syncLog},
		Cache:                       st.cache,
		FileCache:                   st.fileCache,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		DisableWAL:                  true,
		MemTableSize:                uint64(st.opts.MemtableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                fileCacheSize,
		Logger:                      &pebbleLogger{logger: st.logger, shard: s.name, fatal: st.opts.Fatal},
		EventListener: &pebble.EventListener{
			FlushEnd:        guard.flushEnded,
			BackgroundError: guard.backgroundError,
		},
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// identify checks the store's identity row, or writes it into a new store.
func (s *Shard) identify(f format) error {
	want := identity{Version: f.Version, Cluster: f.Cluster, Name: s.name, Ordinal: s.ordinal, GroupSize: f.DefaultShards}
	raw, ok, err := s.get([]byte{rowIdentity})
	if err != nil {
		return err
	}
	if ok {
		var have identity
		if err := json.Unmarshal(raw, &have); err != nil {
			return fmt.Errorf("shard %s: identity row: %w", s.name, err)
		}
		if have != want {
			return fmt.Errorf("shard %s: the store in its directory is shard %q, number %d of %d, of data directory %s, not of this one (%s): put each shard's files back where they came from",
				s.name, have.Name, have.Ordinal, have.GroupSize, have.Cluster, want.Cluster)
		}
		return nil
	}
	if raw, err = json.Marshal(want); err != nil {
		return err
	}
	if err := s.db.Set([]byte{rowIdentity}, raw, pebble.NoSync); err != nil {
		return fmt.Errorf("shard %s: write identity: %w", s.name, err)
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("shard %s: write identity: %w", s.name, err)
	}
	return nil
}

func (s *Shard) loadState() error {
	s.state = newShardState(s.store.opts.Databases)
	raw, ok, err := s.get([]byte{rowState})
	if err != nil || !ok {
		return err
	}
	if s.state, err = decodeState(raw, s.store.opts.Databases); err != nil {
		return fmt.Errorf("shard %s: state row: %w", s.name, err)
	}
	return nil
}

// openLog replays the log: every part of a commit that its shard does not have yet is applied.
func (st *Store) openLog() error {
	log, err := openLog(logOptions{
		FS: st.fs, Dir: st.path("log"), Policy: st.opts.Fsync, SegmentSize: st.opts.LogSegment, Logger: st.logger,
	}, st.replay)
	if err != nil {
		return err
	}
	st.log = log
	st.opened.Store(log)
	for _, s := range st.shards {
		if err := s.loadState(); err != nil {
			return err
		}
	}
	return nil
}

func (st *Store) replay(parts []logPart) error {
	for _, p := range parts {
		if int(p.shard) >= len(st.shards) {
			return fmt.Errorf("the log has a commit of shard number %d, which does not exist", p.shard)
		}
		s := st.shards[p.shard]
		if p.number <= s.state.number {
			continue
		}
		if p.number != s.state.number+1 {
			return fmt.Errorf("shard %s stands at commit %d and the log goes on at %d: a log file or the shard's files are missing, restore both from one backup",
				s.name, s.state.number, p.number)
		}
		b := s.db.NewBatch()
		err := b.SetRepr(append([]byte(nil), p.repr...))
		if err == nil {
			err = s.db.Apply(b, pebble.NoSync)
		}
		if err = errors.Join(err, b.Close()); err != nil {
			return fmt.Errorf("shard %s: replay commit %d: %w", s.name, p.number, err)
		}
		s.state.number = p.number
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

// fail stops the store for good after a commit that reached the log could not be applied.
func (st *Store) fail(err error) error {
	if st.failure.CompareAndSwap(nil, &err) {
		st.logger.Error("the store has failed", "err", err)
		st.opts.Fatal(err)
	}
	return err
}

func (st *Store) nudgeTrimmer() {
	select {
	case st.flushed <- struct{}{}:
	default:
	}
}

// trimLoop deletes log files that no shard needs any more, and flushes shards when the log grows too long.
func (st *Store) trimLoop() {
	for {
		select {
		case <-st.stop:
			return
		case <-st.flushed:
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
	if st.log.size() <= st.opts.LogMax || !st.log.trimmable() {
		return nil
	}
	for _, s := range st.shards {
		if _, err := s.db.AsyncFlush(); err != nil {
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
		st, err = decodeState(it.Value(), s.store.opts.Databases)
	}
	return st.number, errors.Join(err, s.finish(it))
}

// Close flushes every shard, so that the next start has nothing to replay, and closes the store. No
// transaction may be in progress or begin.
func (st *Store) Close() error {
	close(st.stop)
	st.goroutines.Wait()
	var errs []error
	// Tables can't be written any more once the log has failed, since none may be ahead of it.
	err := errors.Join(st.Err(), st.log.failed())
	errs = append(errs, err)
	if err == nil {
		for _, s := range st.shards {
			if err := s.db.Flush(); err != nil {
				errs = append(errs, fmt.Errorf("shard %s: flush: %w", s.name, err))
			}
		}
		errs = append(errs, st.trim())
	}
	return errors.Join(append(errs, st.release())...)
}

// release closes what is open, in the order in which it may be closed.
func (st *Store) release() error {
	var errs []error
	for _, s := range st.shards {
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

package shard

import (
	cryptorand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// What the data directory consists of, and how it is made. DIR/FORMAT is written before anything else, with the names of all
// shards, and says how many of them have been created. Only these may hold data, so a part that has not been created
// may be missing or half made, after a crash in between, and is made now; one that has been created must be there. Otherwise
// a disk that is not mounted or a directory that was moved would come back as an empty shard, and its data be gone
// without a word. Steps, each durable before the next:
//
//  1. FORMAT, with the names of the new shards.
//  2. The stores of the new shards, each with its identity row, and with the first of them the log.
//  3. FORMAT again: these shards are created.
//
// A directory that has data is opened as it was before the first of these steps, and checked: with more shards some keys may be looked for
// where they are not, and once the names are in FORMAT there is no way back. See checkPlacement, which then takes that step.

// formatVersion is the version of the layout on disk as a whole. A change of it needs an ADR and a migration
// or a refusal that says what to do. Version 2: ADR 0010. Version 3: ADRs 0012 and 0013; a directory of version 2 is one of
// version 3 that has no strings in chunks yet and was made without key patterns, so it becomes one by the first start. Version 4: ADR 0016;
// groups of keys are whole in a directory of version 3, and how they were placed is not known. Version 5: ADR 0017; one of version 4
// has no list yet that is indexed by slot.
const (
	formatVersion = 5
	oldestFormat  = 2
)

// format is the content of DIR/FORMAT, and with name and ordinal each shard's identity row.
type format struct {
	Version       int      `json:"version"`
	Cluster       string   `json:"cluster"`
	DefaultShards int      `json:"default_shards"`
	Names         []string `json:"names"`
	Created       int      `json:"created"` // the first so many shards have been created, and if any, the log
	KeyPatterns   []string `json:"key_patterns"`
	Placement     string   `json:"placement"` // see checkPlacement
	Partitioned   bool     `json:"partitioned"`
}

type identity struct {
	Version   int    `json:"version"` // that the shard was made with
	Cluster   string `json:"cluster"`
	Name      string `json:"name"`
	Ordinal   int    `json:"ordinal"`
	GroupSize int    `json:"group_size"`
}

// openFormat reads DIR/FORMAT and holds it against the options, or writes it.
func (st *Store) openFormat() (format, error) {
	want := format{Version: formatVersion, DefaultShards: st.opts.DefaultShards, Names: st.opts.Names, KeyPatterns: st.opts.KeyPatterns,
		Placement: st.opts.Placement, Partitioned: st.placer.PartitionsGroups(noDatabase)}
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
	case have.Version < oldestFormat || have.Version > formatVersion:
		return have, fmt.Errorf("data directory %s has format %d, this server reads formats %d to %d: use the codeq version that wrote it",
			st.opts.Dir, have.Version, oldestFormat, formatVersion)
	case have.DefaultShards != want.DefaultShards:
		return have, fmt.Errorf("data directory %s has %d shards, the configuration says %d: start with --shards %d, or choose another directory with --data",
			st.opts.Dir, have.DefaultShards, want.DefaultShards, have.DefaultShards)
	case !slices.Equal(have.KeyPatterns, want.KeyPatterns):
		return have, fmt.Errorf("data directory %s keeps keys where the key patterns %q put them, the configuration has %q: set key-patterns to the former, or choose another directory with --data",
			st.opts.Dir, have.KeyPatterns, want.KeyPatterns)
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
	if have.Version < formatVersion {
		have.Version = formatVersion
		return have, st.writeFormat(have)
	}
	return have, nil
}

// createFormat begins a new data directory. One that has data but no FORMAT is none.
func (st *Store) createFormat(f format) (format, error) {
	for _, part := range []string{"shards", "log"} {
		if _, err := st.fs.Stat(st.path(part)); err == nil {
			return f, fmt.Errorf("data directory %s has %s, but its file FORMAT is missing: restore it from a backup, or choose another directory with --data",
				st.opts.Dir, part)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("data directory: %w", err)
		}
	}
	var id [16]byte
	if _, err := cryptorand.Read(id[:]); err != nil {
		return f, fmt.Errorf("cluster id: %w", err)
	}
	f.Cluster = hex.EncodeToString(id[:])
	return f, st.writeFormat(f)
}

// created notes that all parts are there, which they have to be from now on.
func (st *Store) created(f format) error {
	if f.Created == len(f.Names) {
		return nil
	}
	f.Created = len(f.Names)
	return st.writeFormat(f)
}

// mustExist refuses to go on without a part that was created.
func (st *Store) mustExist(path string) error {
	_, err := st.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return st.missing(path, err)
	}
	return err
}

func (st *Store) missing(path string, err error) error {
	return fmt.Errorf("%s is missing or empty, though the data directory was created with it (%w): "+
		"mount or put back what was there, or restore the whole data directory from a backup", path, err)
}

// checkValues refuses to go on without the files that hold long values apart (ADR 0024): Pebble looks whether its tables are there, but for these only
// when a value is read. It goes by their number and size, as Pebble does not tell their names, so files of no more use that are still to be removed can make up for
// what is missing. Nothing may add such files meanwhile, as compactions do; one that only deletes may come in between, so what is live is asked last.
func (s *Shard) checkValues(path string) error {
	st := s.store
	names, err := st.fs.List(path)
	if err != nil {
		return err
	}
	var files, size uint64
	for _, name := range names {
		if !strings.HasSuffix(name, valuesSuffix) {
			continue
		}
		info, err := st.fs.Stat(st.fs.PathJoin(path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // It is of no more use.
		}
		if err != nil {
			return err
		}
		files++
		size += uint64(info.Size())
	}
	live := s.db.Metrics().BlobFiles
	if files < live.LiveCount || size < live.LiveSize {
		return fmt.Errorf("%s has %d files *%s with %d bytes, where %d with %d bytes should be: what is missing holds values of keys: put it back, "+
			"or restore the whole data directory from a backup", path, files, valuesSuffix, size, live.LiveCount, live.LiveSize)
	}
	return nil
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
			return fmt.Errorf("identity row: %w", err)
		}
		if have.Version >= oldestFormat && have.Version < want.Version {
			have.Version = want.Version // FORMAT is what counts
		}
		if have != want {
			return fmt.Errorf("the store in its directory is shard %q, number %d of %d, of data directory %s, not of this one (%s): put each shard's files back where they came from",
				have.Name, have.Ordinal, have.GroupSize, have.Cluster, want.Cluster)
		}
		return nil
	}
	if s.ordinal < f.Created {
		return s.store.missing(s.store.path("shards", s.name), errNoIdentity)
	}
	if raw, err = json.Marshal(want); err != nil {
		return err
	}
	if err := s.db.Set([]byte{rowIdentity}, raw, pebble.NoSync); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

var errNoIdentity = errors.New("it holds a store without identity")

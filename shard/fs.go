package shard

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// dataFS is the file system that Pebble's stores use. Before a table becomes durable it makes the commit log
// durable, so that the tables never hold a commit which the log could still lose.
type dataFS struct {
	vfs.FS
	beforeTable func() // before a table is made; see flushGuard
	beforeSync  func() error
	room        func() error // for a compaction to go on
}

// Create wraps new tables; every other file passes through.
func (fs *dataFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isTable(name) {
		fs.beforeTable()
	}
	f, err := fs.FS.Create(name, category)
	if err != nil || !isTable(name) {
		return f, err
	}
	t := &tableFile{File: f, beforeSync: fs.beforeSync}
	if category == compactionCategory || category == rewriteCategory {
		t.room = fs.room
	}
	return t, nil
}

// Unwrap is part of vfs.FS.
func (fs *dataFS) Unwrap() vfs.FS { return fs.FS }

// valuesSuffix is that of files that hold long values apart.
const valuesSuffix = ".blob"

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, valuesSuffix)
}

// The categories by which Pebble tells what it writes a table for, besides flushes.
const (
	compactionCategory vfs.DiskWriteCategory = "pebble-compaction"
	rewriteCategory    vfs.DiskWriteCategory = "pebble-blob-file-rewrite"
)

// roomInterval is the bytes of a table between two looks whether there is room for more of it.
const roomInterval = 1 << 20

type tableFile struct {
	vfs.File
	beforeSync func() error
	room       func() error // nil: nobody asks
	unasked    int          // bytes that may be written before it is asked
}

func (f *tableFile) Write(b []byte) (int, error) {
	if f.unasked -= len(b); f.room != nil && f.unasked < 0 {
		if err := f.room(); err != nil {
			return 0, err
		}
		f.unasked = roomInterval
	}
	return f.File.Write(b)
}

func (f *tableFile) Sync() error {
	if err := f.beforeSync(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *tableFile) SyncData() error {
	if err := f.beforeSync(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// pebbleLogger passes on what Pebble has to say: its chatter at debug level.
type pebbleLogger struct {
	store *Store
	shard string
}

func (l *pebbleLogger) Infof(format string, args ...any) {
	l.store.logger.Debug("pebble", "shard", l.shard, "text", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.store.logger.Error("pebble", "shard", l.shard, "text", fmt.Sprintf(format, args...))
}

// Fatalf is called for errors on which Pebble can't go on, such as a failed write of its manifest. It may not return; the
// process ends meanwhile.
func (l *pebbleLogger) Fatalf(format string, args ...any) {
	_ = l.store.fail(fmt.Errorf("shard %s: pebble: %s", l.shard, fmt.Sprintf(format, args...)))
	select {}
}

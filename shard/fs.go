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
	return &tableFile{File: f, beforeSync: fs.beforeSync}, nil
}

// Unwrap is part of vfs.FS.
func (fs *dataFS) Unwrap() vfs.FS { return fs.FS }

// valuesSuffix is that of files that hold long values apart.
const valuesSuffix = ".blob"

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, valuesSuffix)
}

type tableFile struct {
	vfs.File
	beforeSync func() error
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

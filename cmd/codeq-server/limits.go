package main

import (
	"log/slog"
	"math"
	"syscall"

	"codeq/config"
	"codeq/resp"
	"codeq/shard"
)

// newLimits are the bounds of the protocol by the configuration.
func newLimits(c *config.Config) *resp.Limits {
	limits := resp.NewLimits()
	limits.MaxInline.Store(c.MaxInlineSize)
	limits.MaxArgs.Store(int64(c.MaxArgs))
	setLimits(limits, c)
	return limits
}

// setLimits stores the bounds that CONFIG SET can change, but for maxclients.
func setLimits(limits *resp.Limits, c *config.Config) {
	limits.MaxBulkLen.Store(c.ProtoMaxBulkLen)
	limits.MaxQueryBuffer.Store(c.ClientQueryBufferLimit)
	limits.MaxOutputBuffer.Store(c.ClientOutputBufferLimit.Normal.Hard)
	limits.OutputSoft.Store(c.ClientOutputBufferLimit.Normal.Soft)
	limits.OutputPatience.Store(int64(c.ClientOutputBufferLimit.Normal.SoftTime))
	limits.PostHard.Store(c.ClientOutputBufferLimit.PubSub.Hard)
	limits.PostSoft.Store(c.ClientOutputBufferLimit.PubSub.Soft)
	limits.PostPatience.Store(int64(c.ClientOutputBufferLimit.PubSub.SoftTime))
	limits.IdleTimeout.Store(int64(c.Timeout))
	limits.TCPKeepAlive.Store(int64(c.TCPKeepAlive))
}

const (
	// tablesOf is how many files of a shard's tables are kept open, if that is more than shard.DefaultOpenTables.
	tablesOf = 64
	// otherFiles are the files that may be open besides those and the clients: the log's, those that are being written, listeners.
	otherFiles = 128
)

// files divides the files that the process may have open.
type files struct {
	tables int                  // for the store's tables
	raise  func(wanted int) int // raises the limit if it is lower, as far as it can, and returns what it is then
	log    *slog.Logger
}

// newFiles sees to it that clients and the store's tables can be open together. If the limit of open files is too low for that, and stays so, the store
// has to make do with an eighth of it: it opens files again that it has closed.
func newFiles(clients, shards int, raise func(wanted int) int, log *slog.Logger) files {
	f := files{max(shard.DefaultOpenTables, tablesOf*shards), raise, log}
	if needed := f.needed(clients); raise(needed) < needed {
		f.tables = min(f.tables, raise(needed)/8)
	}
	return f
}

// needed is how many files may be open with so many clients.
func (f files) needed(clients int) int { return clients + f.tables + otherFiles }

// setMaxClients has as many clients accepted as there are files for, since a store that can't open its files is worse than a client that is
// turned away.
func (f files) setMaxClients(limits *resp.Limits, clients int) {
	needed := f.needed(clients)
	if have := f.raise(needed); have < needed {
		accepted := max(1, have-f.needed(0))
		f.log.Warn("fewer clients than maxclients are accepted; raise the limit of open files (ulimit -n) to change that",
			"maxclients", clients, "accepted", accepted, "open_files", have, "needed", needed)
		clients = accepted
	}
	limits.MaxClients.Store(int64(clients))
}

// raiseOpenFiles is files.raise for this process. Go raises the soft limit to the hard one at start; raising the hard one takes
// privileges, so it may fail.
func raiseOpenFiles(log *slog.Logger) func(wanted int) int {
	return func(wanted int) int {
		var have syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
			log.Warn("cannot read the limit of open files", "error", err)
			return wanted
		}
		if want := uint64(wanted); have.Cur < want {
			raised := syscall.Rlimit{Cur: want, Max: max(have.Max, want)}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil {
				return wanted
			}
		}
		return int(min(have.Cur, math.MaxInt))
	}
}

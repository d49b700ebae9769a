package main

import (
	"log/slog"
	"syscall"

	"codeq/config"
	"codeq/resp"
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

// reservedFiles are the open files that are kept for the data and the log: what the store's cache of open files may hold, and
// some for everything else.
const reservedFiles = 1024 + 128

// setMaxClients sees to it that so many connections can be open beside the files of the store. Go raises the soft limit
// of open files to the hard one at start; raising the hard one takes privileges, so it may fail. Then fewer clients are
// accepted, since a store that can't open its files is worse than a client that is turned away.
func setMaxClients(limits *resp.Limits, clients int, log *slog.Logger) {
	want := uint64(clients) + reservedFiles
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		log.Warn("cannot read the limit of open files", "error", err)
		have.Cur = want
	}
	if have.Cur < want {
		raised := syscall.Rlimit{Cur: want, Max: max(have.Max, want)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
			accepted := max(1, int(have.Cur)-reservedFiles)
			log.Warn("fewer clients than maxclients are accepted; raise the limit of open files (ulimit -n) to change that",
				"maxclients", clients, "accepted", accepted, "open_files", have.Cur, "needed", want)
			clients = accepted
		}
	}
	limits.MaxClients.Store(int64(clients))
}

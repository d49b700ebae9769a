package resp

import (
	"sync/atomic"
	"time"
)

// Defaults of Limits. Where Redis has the same limit, the value is that of Redis 7.0 unless the comment says otherwise.
const (
	// DefaultMaxBulkLen is Redis' proto-max-bulk-len.
	DefaultMaxBulkLen = 512 << 20
	// DefaultMaxArgs bounds the arguments of one command. Redis 7.0 takes 2147483647; older versions took this value.
	DefaultMaxArgs = 1 << 20
	// DefaultMaxInline is Redis' PROTO_INLINE_MAX_SIZE.
	DefaultMaxInline = 64 << 10
	// DefaultMaxArgsUnauth is Redis' fixed limit for clients that have not authenticated.
	DefaultMaxArgsUnauth = 10
	// DefaultMaxBulkUnauth is Redis' fixed limit for clients that have not authenticated.
	DefaultMaxBulkUnauth = 16384
	// DefaultMaxQueryBuffer is Redis' client-query-buffer-limit.
	DefaultMaxQueryBuffer = 1 << 30
	// DefaultMaxOutputBuffer bounds the replies that wait for one client. Redis' client-output-buffer-limit has no
	// bound for normal clients by default; one pipeline of large reads would then exhaust the memory.
	DefaultMaxOutputBuffer = 1 << 30
	// DefaultPostHard, DefaultPostSoft and DefaultPostPatience are Redis' client-output-buffer-limit of pub/sub clients.
	DefaultPostHard     = 32 << 20
	DefaultPostSoft     = 8 << 20
	DefaultPostPatience = 60 * time.Second
	// DefaultMaxBatchCommands bounds how long one session's pipeline may keep others from a shard.
	DefaultMaxBatchCommands = 1024
	// DefaultMaxBatchBytes bounds what one session's pipeline holds in memory besides its last command.
	DefaultMaxBatchBytes = 1 << 20
	// DefaultMaxClients is Redis' maxclients.
	DefaultMaxClients = 10000
	// DefaultTCPKeepAlive is Redis' tcp-keepalive.
	DefaultTCPKeepAlive = 300 * time.Second
	// DefaultWriteTimeout bounds how long one write of replies may take. Redis has no such limit; it would keep a
	// client that stopped reading until the output buffer limit is reached.
	DefaultWriteTimeout = 60 * time.Second
)

// Limits holds every bound of this package. All fields may change while the server runs; a change takes effect with the
// next command, reply or connection that it concerns. The zero value refuses everything: use NewLimits.
type Limits struct {
	MaxBulkLen       atomic.Int64 // bytes of one argument (proto-max-bulk-len, 512 MB)
	MaxArgs          atomic.Int64 // arguments of one command, its name included (1048576)
	MaxInline        atomic.Int64 // bytes of one inline command or one length header (64 KB, fixed in Redis)
	MaxArgsUnauth    atomic.Int64 // MaxArgs before authentication (10, fixed in Redis)
	MaxBulkUnauth    atomic.Int64 // MaxBulkLen before authentication (16384, fixed in Redis)
	MaxQueryBuffer   atomic.Int64 // bytes of one command as it is sent (client-query-buffer-limit, 1 GB)
	MaxOutputBuffer  atomic.Int64 // bytes of replies that wait to be written; 0 is no limit (client-output-buffer-limit)
	OutputSoft       atomic.Int64 // bytes of replies that a socket does not take, for the time of OutputPatience; 0 is no limit
	OutputPatience   atomic.Int64 // nanoseconds that OutputSoft may be exceeded
	PostHard         atomic.Int64 // bytes of posted messages that a client has not read; 0 is no limit (client-output-buffer-limit pubsub)
	PostSoft         atomic.Int64 // the same, for the time of PostPatience
	PostPatience     atomic.Int64 // nanoseconds that PostSoft may be exceeded
	MaxBatchCommands atomic.Int64 // commands that one ReadBatch returns
	MaxBatchBytes    atomic.Int64 // bytes after which ReadBatch adds no further command to a batch

	MaxClients   atomic.Int64 // connections at one time (maxclients, 10000)
	IdleTimeout  atomic.Int64 // nanoseconds without a command after which a client is closed; 0 is never (timeout, 0)
	WriteTimeout atomic.Int64 // nanoseconds that one write of replies may take; 0 is for ever
	TCPKeepAlive atomic.Int64 // nanoseconds between probes of new connections; 0 turns probes off (tcp-keepalive, 300 s)
}

// NewLimits returns the defaults.
func NewLimits() *Limits {
	l := &Limits{}
	l.MaxBulkLen.Store(DefaultMaxBulkLen)
	l.MaxArgs.Store(DefaultMaxArgs)
	l.MaxInline.Store(DefaultMaxInline)
	l.MaxArgsUnauth.Store(DefaultMaxArgsUnauth)
	l.MaxBulkUnauth.Store(DefaultMaxBulkUnauth)
	l.MaxQueryBuffer.Store(DefaultMaxQueryBuffer)
	l.MaxOutputBuffer.Store(DefaultMaxOutputBuffer)
	l.PostHard.Store(DefaultPostHard)
	l.PostSoft.Store(DefaultPostSoft)
	l.PostPatience.Store(int64(DefaultPostPatience))
	l.MaxBatchCommands.Store(DefaultMaxBatchCommands)
	l.MaxBatchBytes.Store(DefaultMaxBatchBytes)
	l.MaxClients.Store(DefaultMaxClients)
	l.WriteTimeout.Store(int64(DefaultWriteTimeout))
	l.TCPKeepAlive.Store(int64(DefaultTCPKeepAlive))
	return l
}

package commands

import (
	"sync/atomic"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Command is a declaration with the handler that carries it out. A container such as CONFIG has none.
type Command struct {
	spec.Command
	Run Handler
	// Scope says which shards the command needs and in whose company it runs.
	Scope Scope
	// Shards tells which shards a call without keys needs, as far as the arguments tell.
	Shards func(ss *session, args [][]byte) (shard.Mask, error)
	// Turns tells of a call that it is carried out in turns, see inTurns: as one of scopeSession then, except in EXEC and scripts.
	Turns func(ss *session, args [][]byte) bool
	// Reads says of a command that writes that the keys it looks up count as hits and misses, as in Redis. Those of read-only
	// commands do anyway.
	Reads bool
	// Effects says of a command that is not one that writes that a script which may not write may not issue it either: in Redis
	// a replica would have to learn of it.
	Effects bool
	// Moves says of a command that it takes out as much as it adds: only a disk that is all but full bars it, whether or not Redis refuses it when
	// memory is short.
	Moves bool
	// Bar says why the session may not use the command, by the configuration; then MULTI does not queue it. Nil, it may.
	Bar func(ss *session) error

	// What follows is set by the registry.

	storesUnread bool // a call that Reads may have keys that it only stores to
	stats        *commandStats
}

// diskBars says why the room on the disk bars the command, if it does.
func (cmd *Command) diskBars(st *shard.Store) error {
	switch {
	case !cmd.Has(spec.DenyOOM) && !cmd.Moves, !st.DiskLow():
		return nil
	case st.DiskSpent():
		return resp.ErrDiskSpent
	case !cmd.Moves:
		return resp.ErrDiskLow
	}
	return nil
}

// Scope says which shards a command needs and in whose company it runs.
type Scope uint8

const (
	// scopeKeys is a command on its keys; what else it touches is locked on demand. It shares a transaction with
	// the commands around it in a pipeline, and may run again before anything of it is seen.
	scopeKeys Scope = iota
	// scopeAll is the same for a command that looks at, or empties, all shards: DBSIZE, KEYS, FLUSHALL.
	scopeAll
	// scopeOwn has its keys' shards and a transaction of its own: what precedes it is committed before. A script that
	// fails can so be undone, and EXEC is one commit.
	scopeOwn
	// scopeSession runs once and outside of transactions, so it has no DB: it changes the session or the server, as
	// SELECT and CONFIG SET do, or must get through while others wait for locks, as SCRIPT KILL does. Queued by
	// MULTI, it runs within EXEC's transaction, and may run again.
	scopeSession
	// scopeApart is a command that runs once and outside of transactions as well, and takes the locks of its keys'
	// shards when it needs them. It refuses to run in EXEC and in scripts.
	scopeApart
)

// commandStats is what INFO and LATENCY HISTOGRAM tell of one command.
type commandStats struct {
	took     durations    // of those that were carried out, so that it counts them, too
	nanos    atomic.Int64 // spent in the handler
	failed   atomic.Int64 // carried out, and replied with an error
	rejected atomic.Int64 // refused before they began
}

// reset sets everything back to zero.
func (st *commandStats) reset() {
	st.took.reset()
	st.nanos.Store(0)
	st.failed.Store(0)
	st.rejected.Store(0)
}

// Handler carries out one command: it parses the arguments, calls typed collections on the transaction and
// writes exactly one reply. An error that it returns is the reply instead; what it had written is taken back.
// It validates before it writes to the database, so that a failing command leaves nothing behind.
type Handler func(*Call) error

// Call is one command being carried out. It is only valid until the handler returns.
type Call struct {
	// Args are the command's words, its name first. They are only valid until the handler returns.
	Args [][]byte
	// Out takes the reply.
	Out *resp.Writer

	cmd     *Command
	session *session
	server  *Server
	tx      *shard.Tx // nil for scopeSession, scopeApart and what is carried out in turns, outside of EXEC
	db      int       // the selected database
	script  bool      // issued by a script
	exec    bool      // carried out by EXEC
	parsing arguments // what args returned last
}

// Server is the server that carries out the call.
func (c *Call) Server() *Server { return c.server }

// DB is the selected database within the call's transaction.
func (c *Call) DB() shard.DB { return c.tx.DB(c.db) }

// DBAt is another database within the call's transaction.
func (c *Call) DBAt(n int) shard.DB { return c.tx.DB(n) }

// selectDB selects another database: for the session, or within a script for the rest of its run.
func (c *Call) selectDB(n int) {
	c.db = n
	if c.script {
		return
	}
	c.session.selectDB(n)
}

// key is the first argument, which the arity guarantees.
func (c *Call) key() []byte { return c.Args[1] }

// args returns the arguments behind the first skip ones. The name is not among them. They are valid until args is called again.
func (c *Call) args(skip int) *arguments {
	c.parsing = arguments{rest: c.Args[1+skip:]}
	return &c.parsing
}

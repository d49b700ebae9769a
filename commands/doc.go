// Package commands carries out commands: it owns their registry, the sessions' state, the way of a request from the words
// of a client to a committed transaction, MULTI and WATCH, and what the scripts engine needs of a server.
//
// It must not know Pebble or rows (package shard), sockets or the framing of requests (package resp), Lua (package
// scripting) or how a key yields a shard (package supplier).
//
// # Where things are
//
// One file per family declares its commands in a table at its head, with the handlers behind it in the table's order. A
// new command is one entry and one handler there; arity check, COMMAND, routing, and what MULTI and scripts may run follow
// from the entry. registry.go gathers the families; dispatch.go says who may run what, and turns errors into replies; route.go
// finds the shards of a call; run.go is the request path: the place where commands meet locks, commits and
// acknowledgements, and turns.go what goes from shard to shard. transactions.go and scripts.go are families of their own.
//
// # Goroutines and locks
//
// The package starts no goroutine: everything runs on the goroutine of the session that sent the command, but for the end of a
// BGSAVE, which the store tells on its own. The locks of shards are taken, through a shard.Tx, only by run.go, by turns.go, by observe.go, by
// (*session).unwatch, by MIGRATE (see migrate.go) and, at the start, by loadScripts and loadLibraries. session.mu,
// savedScripts.mu and the mutexes of the statistics (errorCounts, slowLog, latencyMonitor, counters, saves) are leaves: nothing
// is locked while they are held. So are those of audiences, monitors and pause, but for what Post and Wake of a resp.Session
// lock.
package commands

// Package shard keeps the data: Pebble stores, one a shard, their common commit log, rows, typed collections and
// transactions over one or many shards.
//
// It owns the data directory and everything in it. It must not know commands, replies, connections or how a key is
// routed: a Placer tells it where keys live.
//
// # How to read it
//
//	row.go       the rows of a store, byte by byte
//	object.go    what a shard knows of a key; cache.go keeps such objects
//	list.go …    the typed collections: List, Hash, Set, ZSet, Stream; db.go, rename.go, swapdb.go, walk.go: keys and databases
//	merge.go     partitioned sorted sets, walked as one; list_spread.go: partitioned lists; narrow.go: one fragment alone
//	tx.go        Tx: locks, commit, abort; watch.go: WATCH; note.go: what a commit tells
//	shard.go     what one shard does in a transaction
//	log*.go      the commit log
//	janitor.go   expiry and clearing in the background
//	track.go     keys that mean something to a Tracker, and when something is due; timekeeper.go has it done
//	stats.go     what is counted for INFO, and saving on demand
//	store.go     opening, replay, trimming, closing; format.go: what the data directory consists of; compactions.go: how many run at a time
//
// # Locks
//
// A shard has one lock, which a Tx takes alone and holds to its end; several are taken in the order of their ordinals,
// others only by TryLock. Below it come, in this order, Pebble's own locks and the log's. A goroutine that waits for the
// log (Store.Wait) holds no shard's lock.
//
// # Goroutines
//
// For each shard a janitor and a timekeeper, for the store a trimmer of the log, which saves as well, for the log a ticker. Close stops them.
// One that runs Options.Fatal when the store fails. While a shard's lock is taken, up to maxProbes that wait for it on behalf of
// BeginWithin and of timekeepers.
//
// # Errors
//
// An error that a client caused is one of the package's variables. An error of reading is returned, and the transaction
// with it is to be aborted. A failed write of the log is final, see commitLog, and ends the store, through Options.Fatal, as
// does an error after a commit has reached the log.
package shard

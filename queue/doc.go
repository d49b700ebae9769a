// Package queue owns the life of a task: what a task's JSON, rows and places become when it is enqueued, claimed, given back,
// ended, when its time has come or its lease has run out. It keeps them as codeQ's Redis client does, so that clients of
// both kinds work on one queue at once.
//
// It must not know commands, replies or connections: it works on a transaction that it is given, and hands back tasks.
//
// It starts no goroutine and has no lock. A Queues is safe for concurrent use; a Tx belongs to whoever runs the transaction.
package queue

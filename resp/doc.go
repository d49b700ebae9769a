// Package resp is the connection side of the server: it reads Redis requests within limits, writes RESP2 and RESP3 replies,
// keeps the sessions of all connections, and holds Redis' error texts.
//
// It must not know any command, database or configuration file: a Handler executes what sessions read, and whoever owns
// the Limits changes them.
//
// Goroutines: each listener accepts on the goroutine that called Serve. The sessions of plain sockets are run by the workers
// of a loop, as few as do the work, and a goroutine that watches these; see loop.go. Any other session has a goroutine of
// its own; see own.go. One more per server looks for sessions that are idle or don't read their replies. A slow client
// holds up nobody but itself. Server.Shutdown ends all of them. A Client has one that waits for its end.
//
// Locks: Server.mu guards the registry of sessions and is held over no I/O and no call of the handler. Below it, and below
// every lock of the handler, comes the loop's, which is held for moments only. What other goroutines may read of a session
// is atomic or constant; the rest belongs to whoever runs it.
package resp

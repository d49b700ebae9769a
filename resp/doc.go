// Package resp is the connection side of the server: it reads Redis requests within limits, writes RESP2 and RESP3 replies,
// keeps the sessions of all connections, and holds Redis' error texts.
//
// It must not know any command, database or configuration file: a Handler executes what sessions read, and whoever owns
// the Limits changes them.
//
// Goroutines: each listener accepts on the goroutine that called Serve; each session reads, calls the handler and writes
// on a goroutine of its own; one more per server looks for sessions that are idle or don't read their replies. So a slow
// client holds up nobody but itself. Server.Shutdown ends all of them.
//
// Locks: Server.mu guards the registry of sessions and is held over no I/O and no call of the handler. What other goroutines
// may read of a session is atomic or constant; the rest belongs to the session's goroutine.
package resp

// Package e2e runs real queue clients against real servers, from the first task to a balanced ledger. It owns the harness:
// which servers a client meets, the kill -9 in the middle, the deadline, the ledger of tasks and the check that nothing is
// left. It is a Go module of its own, so that the server's module does not carry the clients.
//
// A driver plays one client: it enqueues tasks, works on them, and tells the harness what it sees. For a Go client it is a
// function beside its test; for other languages it is a program under node/, python/ or ruby/ that is given its order in the
// environment and prints one JSON object a line on its standard output:
//
//	CODEQ_HOST, CODEQ_PORT  the server
//	E2E_TASKS               how many tasks to enqueue, at least
//	E2E_SEED                the seed of every random choice
//	E2E_KILL                1 when the server will be killed and started again in the middle, else 0
//
//	{"event":"enqueued","id":"7"}              the server acknowledged the task; optional are "dies":true for one that is
//	                                           meant to fail for good, and "fails":n, the number of its failing attempts
//	{"event":"done","id":"7"}                  a worker finished it
//	{"event":"failed","id":"7","attempt":1}    a worker's attempt failed
//	{"event":"dead","id":"7"}                  the client gave it up and keeps it with its dead tasks, or drops it
//	{"event":"note","text":"12 in the cron"}   for the log of the test
//	{"event":"end"}                            the last line
//
// It exits with 0 after that; what it checks of the client's own interface and finds wrong it says on standard error and exits
// otherwise. When E2E_KILL is 1 it tries an enqueue that fails again, under the same id, until the server is back. The server
// is killed when half of E2E_TASKS have ended (done or dead), and has its data directory and its port again afterwards.
//
// The package must not know how a server works: it sees of it what a client sees, through codeq/internal/peer. Goroutines: one
// runs the driver, and ends with it; a client's own end before its driver returns. Locks: the ledger's mutex.
package e2e

package commands

import (
	"sync"
	"sync/atomic"
	"time"

	"codeq/commands/spec"
	"codeq/queue"
	"codeq/resp"
	"codeq/shard"
)

// session is what the server knows of one connection. Everything but the view belongs to the session's goroutine.
type session struct {
	server        *Server
	conn          *resp.Session
	authenticated bool

	// The request path; see run.go. All of it is kept between batches, so that a command costs no allocation.
	tx       *shard.Tx
	call     Call // of the command that is being carried out
	steps    []step
	start    int           // where the batch's replies begin in Out
	replies  int           // of the batch, so far
	pos      uint64        // the log position that they have to wait for
	began    time.Time     // when the run of commands began
	elapsed  time.Duration // from then to the end of the last command, which is when the next one begins
	keys     []spec.KeyRef // scratch for routing, as is elements
	elements []int

	turn   uint32 // of the new tasks of the run, see newTurn
	turned bool   // it was taken

	multi     multi
	tasks     *queue.Tx // nil until a command on queues comes
	script    scriptRun
	libraries libraryView
	parked    atomic.Pointer[parked] // the command that waits, if one does

	subs       subscriptions
	heard      atomic.Uint64 // the log position that messages which were posted have to wait for
	proto      atomic.Int32  // the RESP version, for who posts them
	monitoring bool          // see monitor.go
	shown      []byte        // lines for the monitors
	replyMode  replyMode
	pushed     bool        // what the last command wrote is no reply
	postponed  atomic.Bool // a command waits for the end of a pause

	// mu guards view, which the session's goroutine alone changes, and so reads without it.
	mu   sync.Mutex
	view view
}

// view is what other sessions may see of a session: CLIENT LIST.
type view struct {
	name       string
	libName    string
	libVersion string
	db         int // selected
	queued     int // commands queued by MULTI; -1 outside
	watched    int // keys
	subscribed [subscriptionKinds]int
	queueBytes int64 // of the queued commands
	monitor    bool
	noEvict    bool
	noTouch    bool
	proto      int // RESP version
}

func newSession(s *Server, conn *resp.Session) *session {
	ss := &session{server: s, conn: conn, tx: s.store.NewTx()}
	ss.script.session = ss
	ss.view = view{queued: -1}
	ss.setProto(conn.Out.Proto())
	return ss
}

// now is when the last command ended.
func (ss *session) now() time.Time { return ss.began.Add(ss.elapsed) }

// show is the view for other goroutines.
func (ss *session) show() view {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.view
}

// listens tells whether the session has subscriptions.
func (v *view) listens() bool { return v.subscribed != [subscriptionKinds]int{} }

// change changes the view.
func (ss *session) change(edit func(v *view)) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	edit(&ss.view)
}

// db is the selected database.
func (ss *session) db() int { return ss.view.db }

// setAuthenticated lets the session run commands, or only those that need no authentication.
func (ss *session) setAuthenticated(ok bool) {
	ss.authenticated = ok
	ss.conn.SetAuthenticated(ok)
}

// setProto changes the RESP version of the replies that follow.
func (ss *session) setProto(version int) {
	ss.conn.Out.SetProto(version)
	ss.proto.Store(int32(version))
	ss.change(func(v *view) { v.proto = version })
}

// selectDB changes the selected database.
func (ss *session) selectDB(n int) { ss.change(func(v *view) { v.db = n }) }

// reset makes the session like a new one, as RESET does: no transaction, no watched keys, no subscriptions, database 0, RESP2, no
// name.
func (ss *session) reset() {
	ss.discard()
	ss.leaveAll()
	ss.stopMonitoring()
	ss.replyMode = replyAll
	ss.setProto(2)
	ss.change(func(v *view) { v.db, v.name, v.noEvict, v.noTouch = 0, "", false, false })
	ss.setAuthenticated(ss.server.config.Current().RequirePass == "")
}

// close gives back what the session holds of the server.
func (ss *session) close() {
	ss.discard()
	ss.leaveAll()
	ss.stopMonitoring()
	ss.server.pause.release(ss)
}

package commands

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/internal/clock"
	"codeq/queue"
	"codeq/resp"
	"codeq/scripting"
	"codeq/shard"
	"codeq/supplier"
)

// Options are what a Server needs. All are required.
type Options struct {
	Store   *shard.Store
	Router  *supplier.Router
	Queues  *queue.Queues // which the store tracks
	Config  *config.Store
	Scripts *scripting.Engine
	Clock   clock.Clock
	Logger  *slog.Logger
	// Stop is called by SHUTDOWN, on the session's goroutine, and returns at once. Without save, the server may
	// leave what is replayed at the next start to the log.
	Stop func(save bool)
}

// Server carries out commands. It implements resp.Handler.
type Server struct {
	store   *shard.Store
	router  *supplier.Router
	queues  *queue.Queues
	config  *config.Store
	scripts *scripting.Engine
	clock   clock.Clock
	logger  *slog.Logger
	stop    func(save bool)

	table   *spec.Table[Command]
	network *resp.Server // set by Attach, before the first session
	started time.Time
	saved   savedScripts
	// librariesPos is the log position of the commit that last changed the libraries of functions.
	librariesPos atomic.Uint64
	totals       totals
	blocked      atomic.Int64 // sessions whose command waits
	claimed      sync.Pool    // of *gathered: memory for replies to claims
	errors       errorCounts
	spaces       atomic.Uint32 // by what keyspace events are published
	saves        saves

	counters counters

	// noteworthy is the duration in ns from which a command is looked at by the slow log or LATENCY: the one comparison
	// that they cost a command.
	noteworthy atomic.Int64
	slowLog    slowLog
	latency    latencyMonitor

	audiences audiences
	monitors  monitors
	pause     pause
}

// totals count what INFO reports since the start.
type totals struct {
	connections atomic.Int64 // that were opened
	conflicts   atomic.Int64 // transactions that ran again for another shard's lock
	panics      atomic.Int64
}

// New builds the registry, refusing faulty declarations, and loads the scripts and libraries that the store keeps.
func New(o Options) (*Server, error) { return newServer(o, families()) }

// newServer is New with the given commands.
func newServer(o Options, commands []Command) (*Server, error) {
	if o.Store == nil || o.Router == nil || o.Queues == nil || o.Config == nil || o.Scripts == nil || o.Clock == nil || o.Logger == nil || o.Stop == nil {
		return nil, errors.New("commands: an option is missing")
	}
	table, err := newRegistry(commands)
	if err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	s := &Server{
		store: o.Store, router: o.Router, queues: o.Queues, config: o.Config, scripts: o.Scripts, clock: o.Clock, logger: o.Logger, stop: o.Stop,
		table: table, started: o.Clock.Now(),
	}
	s.audiences.channels.init()
	s.audiences.shards.init()
	s.store.Listen(s.hear)
	s.counters.at = s.started
	s.setNoteworthy(o.Config.Current())
	s.setNoted(o.Config.Current())
	o.Config.OnChange(func(before, after *config.Config) {
		s.setNoteworthy(after)
		s.setNoted(after)
		if !sameRules(before.Queues, after.Queues) {
			s.store.ServeGroups() // a queue may not be paused any more
		}
	})
	return s, errors.Join(s.loadScripts(), s.loadLibraries())
}

// Attach tells the server where its sessions come from, which CLIENT and INFO ask. It is called before the first
// session opens.
func (s *Server) Attach(network *resp.Server) { s.network = network }

// Open begins a session.
func (s *Server) Open(conn *resp.Session) {
	ss := newSession(s, conn)
	conn.Data = ss
	ss.setAuthenticated(s.config.Current().RequirePass == "")
	s.totals.connections.Add(1)
}

// Closed ends a session.
func (s *Server) Closed(conn *resp.Session) { sessionOf(conn).close() }

// sessionOf is the state that Open gave the connection.
func sessionOf(conn *resp.Session) *session { return conn.Data.(*session) }

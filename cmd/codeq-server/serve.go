package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"codeq/commands"
	"codeq/config"
	"codeq/internal/clock"
	"codeq/internal/version"
	"codeq/queue"
	"codeq/resp"
	"codeq/scripting"
	"codeq/shard"
	"codeq/supplier"
)

// GOGC and GOMEMLIMIT are left to the environment. Most of what the server keeps is in caches with bounds of their own
// (cache-size, block-cache-size, memtable-size), and no other value was measured to be better for all of them.

// server is everything that runs, in the order in which it was started.
type server struct {
	config    *config.Store
	level     *slog.LevelVar
	log       *slog.Logger
	stop      chan string // why the server has to stop; holds the first reason
	failed    chan error  // why the store can't go on
	router    *supplier.Router
	queues    *queue.Queues
	store     *shard.Store
	files     files
	limits    *resp.Limits
	network   *resp.Server
	listeners []net.Listener
}

// serve runs a server with the configuration until it is told to stop.
func serve(c *config.Config) error {
	level := new(slog.LevelVar)
	level.Set(slogLevel(c.LogLevel))
	s := &server{
		config: config.NewStore(c),
		level:  level,
		log:    newLogger(os.Stderr, c.LogFormat, level),
		stop:   make(chan string, 1),
		failed: make(chan error, 1),
	}
	slog.SetDefault(s.log)
	s.watchSignals()
	if err := s.run(); err != nil {
		s.log.Error("stopped", "error", err)
		return loggedError{err}
	}
	s.log.Info("stopped")
	return nil
}

// watchSignals asks for a stop at the first SIGTERM or SIGINT and ends the process at the second. What was acknowledged
// is in the log either way. As with Redis, the server outlives its terminal and the reader of its log.
func (s *server) watchSignals() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the process
		s.requestStop((<-signals).String())
		s.log.Error("stopped by a second signal", "signal", (<-signals).String())
		os.Exit(1)
	}()
}

// requestStop asks for a stop without waiting for it.
func (s *server) requestStop(reason string) {
	select {
	case s.stop <- reason:
	default:
	}
}

// run starts everything, waits for a reason to stop, and stops everything.
func (s *server) run() (err error) {
	if err := s.openStore(); err != nil {
		return err
	}
	if err := s.startNetwork(); err != nil {
		return errors.Join(err, s.closeStore())
	}
	s.announce()
	ended := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { ended <- s.network.Serve(l) }() // stopped by Shutdown
	}
	select {
	case reason := <-s.stop:
		s.log.Info("stopping", "reason", reason)
	case err = <-ended:
		err = fmt.Errorf("accept connections: %w", err)
	case err = <-s.failed:
		return errors.Join(fmt.Errorf("the store has failed: %w", err), s.dismiss())
	}
	return errors.Join(err, s.drain())
}

func (s *server) openStore() error {
	c := s.config.Current()
	var err error
	if s.router, err = newRouter(c); err != nil {
		return err
	}
	s.queues = commands.NewQueues(s.router, s.config, s.log)
	topology := s.router.Topology()
	s.files = newFiles(c.MaxClients, len(topology.Names()), raiseOpenFiles(s.log), s.log)
	s.store, err = shard.Open(shard.Options{
		Dir:            c.Dir,
		Names:          topology.Names(),
		DefaultShards:  topology.Default,
		Databases:      c.Databases,
		KeyPatterns:    c.KeyPatterns,
		Placer:         commands.Placer(s.router),
		Placement:      placement(c),
		Tracker:        s.queues,
		Clock:          clock.System(),
		Logger:         s.log,
		Fsync:          fsyncPolicy(c.AppendFsync),
		CacheBytes:     int(c.CacheSize),
		BlockCache:     c.BlockCacheSize,
		MemtableBytes:  int(c.MemtableSize),
		OpenTables:     s.files.tables,
		LogSegment:     c.LogSegmentSize,
		LogMax:         c.LogMaxSize,
		DiskLimit:      c.DiskFreeLimit,
		ExpireInterval: time.Second.Milliseconds() / int64(c.Hz),
		Fatal:          s.fatal,
	})
	if err != nil {
		return fmt.Errorf("open the data: %w", err)
	}
	return nil
}

// failureTimeout bounds how long the process outlives a failed store.
const failureTimeout = 3 * time.Second

// fatal ends the process when the store can't go on, on a goroutine of its own, after those whose commands were in progress have
// been told. Nothing can be acknowledged any more, and what was is in the log. The process ends in time even if something
// is stuck, or nothing serves yet.
func (s *server) fatal(err error) {
	s.failed <- err
	time.Sleep(failureTimeout)
	s.log.Error("stopped, with commands in progress", "error", err)
	os.Exit(1)
}

// dismiss lets what runs come to its end, an error, sends these replies, and leaves the data as after a crash.
func (s *server) dismiss() error {
	ctx, cancel := context.WithTimeout(context.Background(), failureTimeout)
	defer cancel()
	if err := s.network.Shutdown(ctx); err != nil {
		return fmt.Errorf("clients did not finish: %w", err)
	}
	return nil
}

func fsyncPolicy(p config.AppendFsync) shard.FsyncPolicy {
	switch p {
	case config.FsyncAlways:
		return shard.FsyncAlways
	case config.FsyncNo:
		return shard.FsyncNo
	}
	return shard.FsyncEverySec
}

// startNetwork makes the server of commands and opens the listeners. Nothing accepts connections yet.
func (s *server) startNetwork() error {
	c := s.config.Current()
	system := clock.System()
	handler, err := commands.New(commands.Options{
		Store:  s.store,
		Router: s.router,
		Queues: s.queues,
		Config: s.config,
		Scripts: scripting.New(scripting.Options{
			MaxStringBytes: int(c.ProtoMaxBulkLen),
			TimeLimit:      func() time.Duration { return s.config.Current().LuaTimeLimit },
			MaxMemory:      func() int64 { return s.config.Current().LuaMemoryLimit },
			EvalCacheBytes: func() int64 { return s.config.Current().EvalCacheSize },
			Now:            system.Now,
			Logger:         s.log,
		}),
		Clock:  system,
		Logger: s.log,
		// The log keeps what is not flushed, so it makes no difference whether to save.
		Stop: func(bool) { s.requestStop("SHUTDOWN") },
	})
	if err != nil {
		return err
	}
	if s.listeners, err = listen(c); err != nil {
		return err
	}
	s.limits = newLimits(c)
	s.files.setMaxClients(s.limits, c.MaxClients)
	s.network = resp.NewServer(resp.Options{Handler: handler, Limits: s.limits, Now: system.Now, Log: s.log})
	handler.Attach(s.network)
	s.config.OnChange(s.reconfigure)
	return nil
}

// reconfigure carries out a CONFIG SET, as far as others don't ask for the present value whenever they need it.
func (s *server) reconfigure(before, after *config.Config) {
	s.level.Set(slogLevel(after.LogLevel))
	setLimits(s.limits, after)
	if before.MaxClients != after.MaxClients {
		s.files.setMaxClients(s.limits, after.MaxClients)
	}
	if before.DiskFreeLimit != after.DiskFreeLimit {
		s.store.SetDiskLimit(after.DiskFreeLimit)
	}
	if before.AppendFsync != after.AppendFsync {
		s.store.SetFsync(fsyncPolicy(after.AppendFsync))
	}
}

// announce logs that clients can connect, from now on: what they send waits in the listeners.
func (s *server) announce() {
	c := s.config.Current()
	addr := c.UnixSocket
	if c.Addr != "" {
		addr = s.listeners[0].Addr().String()
	}
	s.log.Info("ready", "addr", addr, "unixsocket", c.UnixSocket, "data", c.Dir, "shards", s.store.Shards(),
		"supplier", c.Supplier, "appendfsync", string(c.AppendFsync), "version", version.Number, "pid", os.Getpid())
}

// drain lets what runs finish, sends its replies, and closes the data. Clients that take longer than shutdown-timeout are cut
// off; then a command may still run, and the data is left as after a crash, from which the next start recovers.
func (s *server) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Current().ShutdownTimeout)
	defer cancel()
	if err := s.network.Shutdown(ctx); err != nil {
		s.log.Warn("clients did not finish within shutdown-timeout; what is acknowledged is in the log", "error", err)
		return nil
	}
	return s.closeStore()
}

// closeTimeout bounds the flush at the end. A disk that is full or gone makes it fail for ever.
const closeTimeout = 30 * time.Second

// closeStore flushes and closes the data. When that does not come to an end, neither does its goroutine, but the process
// ends, and the next start recovers from the log.
func (s *server) closeStore() error {
	closed := make(chan error, 1)
	go func() { closed <- s.store.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("close the data: %w", err)
		}
		return nil
	case <-time.After(closeTimeout):
		return errors.New("the data could not be flushed; what is acknowledged is in the log")
	}
}

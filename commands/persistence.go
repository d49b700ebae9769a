package commands

import (
	"fmt"
	"sync"
	"time"

	"codeq/commands/spec"
	"codeq/resp"
)

// persistenceCommands are those on Redis' snapshots and on its log. Here everything that was acknowledged is stored all the
// time; what a save adds is that a start has nothing to replay.
func persistenceCommands() []Command {
	const admin = spec.Admin | spec.NoScript | spec.NoAsyncLoading
	const writes = "O(N), where N is the size of what is in memory only"
	return []Command{
		{Command: spec.Command{Name: "bgrewriteaof", Syntax: "BGREWRITEAOF",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Differs: "Has nothing to do.",
			Summary: "Confirms: the commit log is kept short all the time.",
			Flags:   admin},
			Run: bgRewriteAOFCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "bgsave", Syntax: "BGSAVE [SCHEDULE]",
			Group: spec.Server, Since: "1.0.0", Complexity: writes,
			Differs: "As SAVE. There is nothing that SCHEDULE would wait for.",
			Summary: "Does what SAVE does, in the background.",
			Flags:   admin},
			Run: bgSaveCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "lastsave", Syntax: "LASTSAVE",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the time of the last SAVE or BGSAVE that has succeeded, or else of the server's start.",
			Flags:   spec.Loading | spec.Stale | spec.Fast, ACL: spec.CatAdmin | spec.CatDangerous,
			Hints: []string{"nondeterministic_output"}},
			Run: lastSaveCommand},
		{Command: spec.Command{Name: "save", Syntax: "SAVE",
			Group: spec.Server, Since: "1.0.0", Complexity: writes,
			Differs: "Writes the shards' tables and cuts the log; what was acknowledged is kept without it, too.",
			Summary: "Makes everything that anybody has written durable, in tables, and cuts the log.",
			Flags:   admin | spec.NoMulti},
			Run: saveCommand, Scope: scopeSession},
	}
}

// saves is what is known of SAVE and BGSAVE.
type saves struct {
	mu         sync.Mutex
	running    bool
	background bool // a BGSAVE is running
	began      time.Time
	saved      time.Time // when the last one succeeded; zero: none since the start
	done       int64     // since the last CONFIG RESETSTAT
	failed     bool      // the last one
	ended      bool      // a BGSAVE has, and
	took       time.Duration
}

// begin reports false while another save runs.
func (s *saves) begin(now time.Time, background bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return false
	}
	s.running, s.background, s.began = true, background, now
	return true
}

// end ends what begin has begun.
func (s *saves) end(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.background {
		s.ended, s.took = true, now.Sub(s.began)
	}
	s.running, s.background = false, false
	if s.failed = err != nil; !s.failed {
		s.saved = now
		s.done++
	}
}

// lastSave is the time of the last save that has succeeded, or else that of the start, in unix seconds.
func (s *Server) lastSave() int64 {
	s.saves.mu.Lock()
	defer s.saves.mu.Unlock()
	if s.saves.saved.IsZero() {
		return s.started.Unix()
	}
	return s.saves.saved.Unix()
}

func (s *saves) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = 0
}

// report writes the fields of INFO.
func (s *saves) report(r *report, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, took, current, inProgress := "ok", int64(-1), int64(-1), 0
	if s.failed {
		status = "err"
	}
	if s.ended {
		took = int64(s.took / time.Second)
	}
	if s.background {
		inProgress, current = 1, int64(now.Sub(s.began)/time.Second)
	}
	r.add("rdb_bgsave_in_progress", inProgress)
	r.add("rdb_last_bgsave_status", status)
	r.add("rdb_last_bgsave_time_sec", took)
	r.add("rdb_current_bgsave_time_sec", current)
	r.add("rdb_saves", s.done)
}

// SAVE
func saveCommand(c *Call) error {
	s := c.server
	if !s.saves.begin(s.clock.Now(), false) {
		return resp.ErrSaveInProgress
	}
	err := s.store.Save()
	s.saves.end(s.clock.Now(), err)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	c.Out.OK()
	return nil
}

// BGSAVE [SCHEDULE]. There is nothing that a save would have to be scheduled behind.
func bgSaveCommand(c *Call) error {
	a := c.args(0)
	a.token("SCHEDULE")
	if err := a.done(); err != nil {
		return err
	}
	s := c.server
	if !s.saves.begin(s.clock.Now(), true) {
		return resp.ErrSaveInProgress
	}
	s.store.SaveSoon(func(err error) {
		if err != nil {
			s.logger.Error("a save in the background failed", "err", err)
		}
		s.saves.end(s.clock.Now(), err)
	})
	c.Out.Status("Background saving started")
	return nil
}

// BGREWRITEAOF
func bgRewriteAOFCommand(c *Call) error {
	c.Out.Status("Background append only file rewriting started")
	return nil
}

// LASTSAVE
func lastSaveCommand(c *Call) error {
	c.Out.Int(c.server.lastSave())
	return nil
}

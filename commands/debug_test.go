package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/config"
	"codeq/resp"
	"codeq/scripting"
)

// startDebug starts a server whose enable-debug-command has the value.
func startDebug(t *testing.T, allowed config.ProtectedAction) *testServer {
	s := startServerWith(t, vfs.NewMem(), scripting.Options{}, slices.Concat(debugCommands(), objectCommands(), adminCommands())...)
	changed := *s.config.Current()
	changed.EnableDebugCommand = allowed
	s.config = config.NewStore(&changed)
	return s
}

// TestDebugAllowed: DEBUG is for nobody, everybody, or the clients of this machine.
func TestDebugAllowed(t *testing.T) {
	for allowed, want := range map[config.ProtectedAction][]bool{
		config.ProtectedNo: {false, false, false, false}, config.ProtectedYes: {true, true, true, true},
		config.ProtectedLocal: {true, true, true, false},
	} {
		s := startDebug(t, allowed)
		for i, conn := range []struct{ addr, laddr string }{
			{"127.0.0.1:5000", "127.0.0.1:6379"}, {"[::1]:5000", "[::1]:6379"}, {"/run/codeq.sock:0", "/run/codeq.sock:0"},
			{"10.1.2.3:5000", "10.1.2.3:6379"},
		} {
			c := s.client()
			c.conn.Addr, c.conn.LAddr = conn.addr, conn.laddr
			if got := !strings.HasPrefix(c.send("DEBUG HELP"), "-"); got != want[i] {
				t.Errorf("%s: a client at %s may use it: %v, want %v", allowed, conn.addr, got, want[i])
			}
		}
	}
}

// TestDebugSleep: it takes as long as it is told, whatever the shards have to do meanwhile.
func TestDebugSleep(t *testing.T) {
	s := startDebug(t, config.ProtectedYes)
	c := s.client()
	for _, seconds := range []string{"x", "-1", "nan", "inf", "86401"} {
		c.want("-"+string(resp.ErrDebugSleep), "DEBUG SLEEP "+seconds)
	}
	began := s.clock.Now()
	done := make(chan string)
	go func() { done <- s.client().send("DEBUG SLEEP 2.5", "GET a") }() // ends with the sleep
	for {
		select {
		case got := <-done:
			if passed := s.clock.Now().Sub(began); got != "+OK $-1" || passed < 5*time.Second/2 {
				t.Errorf("%s after %v", got, passed)
			}
			return
		default:
			s.clock.Advance(time.Millisecond)
		}
	}
}

// TestDebugOther: what no other server shows in this form.
func TestDebugOther(t *testing.T) {
	s := startDebug(t, config.ProtectedYes)
	c := s.client()
	c.want("+OK +Value at:0x0 refcount:1 encoding:embstr serializedlength:32 lru:0 lru_seconds_idle:0", "SET k v", "DEBUG OBJECT k")
	c.want("-MY text", "DEBUG ERROR MY%20text")
	c.want("-"+string(resp.ErrActiveExpire), "DEBUG SET-ACTIVE-EXPIRE maybe")
}

// TestDebugActiveExpire: without it, expired keys are kept until somebody asks for them.
func TestDebugActiveExpire(t *testing.T) {
	s := startDebug(t, config.ProtectedYes)
	c := s.client()
	c.want("+OK +OK", "DEBUG SET-ACTIVE-EXPIRE 0", "SET k v")
	c.want(":1", fmt.Sprintf("PEXPIREAT k %d", s.clock.NowMs()+1))
	s.clock.Advance(time.Hour)
	c.want(":1 $-1 :0", "DBSIZE", "GET k", "DBSIZE")
	c.want("+OK +OK", "SET k v", "DEBUG SET-ACTIVE-EXPIRE 1")
	c.want(":1", fmt.Sprintf("PEXPIREAT k %d", s.clock.NowMs()+1))
	for c.send("DBSIZE") != ":0" {
		s.clock.Advance(time.Second) // until the janitor has had its turn
	}
}

package resp

import (
	"log/slog"
	"testing"
	"time"
)

// mute is a connection that nothing happens on.
type mute struct{ hungUp bool }

func (c *mute) Read([]byte) (int, error) { return 0, errWouldBlock }
func (c *mute) hangUp()                  { c.hungUp = true }
func (c *mute) drain()                   {}

// limited is a session that nobody runs, with a clock to move.
type limited struct {
	*Session
	conn   *mute
	limits *Limits
	now    time.Time
}

func newLimited() *limited {
	l := &limited{conn: &mute{}, limits: NewLimits(), now: time.Unix(1000, 0)}
	server := &Server{limits: l.limits, now: func() time.Time { return l.now }, log: slog.New(slog.DiscardHandler)}
	l.Session = &Session{Out: &Writer{}, server: server, conn: l.conn, notify: func(events) {}, done: make(chan struct{})}
	return l
}

func (l *limited) wantOverdue(t *testing.T, want bool) {
	t.Helper()
	if got := l.overdue(l.now, l.limits); (got != "") != want {
		t.Errorf("overdue: %q, want %v", got, want)
	}
}

// TestPostLimitsInTime: what is posted and not read may exceed the soft limit for a while, and the hard one never.
func TestPostLimitsInTime(t *testing.T) {
	l := newLimited()
	l.limits.PostSoft.Store(10)
	l.limits.PostHard.Store(30)
	l.limits.PostPatience.Store(int64(time.Minute))
	l.Post(make([]byte, 20))
	l.now = l.now.Add(time.Minute)
	l.wantOverdue(t, false)
	l.now = l.now.Add(1)
	l.wantOverdue(t, true)
	if n := l.Unread(); n != 20 {
		t.Errorf("%d bytes are unread", n)
	}
	l.TakePosted()
	l.wantOverdue(t, true) // it is on its way, but has not been written
	l.Out.Reset()
	l.postRead()
	l.wantOverdue(t, false)
	l.Post(make([]byte, 30))
	l.now = l.now.Add(time.Minute)
	l.wantOverdue(t, false) // the time begins anew
	if l.conn.hungUp {
		t.Error("the client was cut off at the limit")
	}
	l.Post(make([]byte, 1))
	if !l.conn.hungUp {
		t.Error("the client was not cut off above the limit")
	}
}

// TestOutputSoftLimit: the same for replies that the socket does not take.
func TestOutputSoftLimit(t *testing.T) {
	l := newLimited()
	l.noteUnwritten(100)
	l.now = l.now.Add(time.Hour)
	l.wantOverdue(t, false) // there is no limit
	l.limits.OutputSoft.Store(10)
	l.limits.OutputPatience.Store(int64(time.Minute))
	l.noteUnwritten(90)
	l.now = l.now.Add(time.Minute)
	l.wantOverdue(t, false)
	l.noteUnwritten(80)
	l.now = l.now.Add(1)
	l.wantOverdue(t, true)
	l.noteUnwritten(10)
	l.wantOverdue(t, false)
	l.noteUnwritten(0)
	if n := l.Unread(); n != 0 {
		t.Errorf("%d bytes are unread", n)
	}
}

// TestListeningIsNotIdle: who waits for messages may be silent.
func TestListeningIsNotIdle(t *testing.T) {
	l := newLimited()
	l.limits.IdleTimeout.Store(int64(time.Minute))
	l.enter(reading, l.now)
	l.now = l.now.Add(time.Hour)
	l.wantOverdue(t, true)
	l.SetListening(true)
	l.wantOverdue(t, false)
}

package resp

import (
	"errors"
	"sync"
)

// Messages that are no replies, such as those of pub/sub, are posted to a session by any goroutine and leave between its
// replies. What a client doesn't read is bounded by limits of its own, and a client that exceeds them is cut off.

// errPostLimit ends a session that doesn't read what is posted to it.
var errPostLimit = errors.New("resp: client output buffer limit for posted messages exceeded")

// post is what waits to be taken over into Out.
type post struct {
	mu       sync.Mutex
	messages []byte
	unread   int   // bytes posted since the client had last read everything
	over     int64 // since when unread exceeds the soft limit, Unix nanoseconds; 0: it doesn't
}

// Post sends a message behind what the session has replied so far. Any goroutine may call it, also with locks held. The
// message is copied.
func (s *Session) Post(message []byte) {
	p := &s.post
	p.mu.Lock()
	first := len(p.messages) == 0
	p.messages = append(p.messages, message...)
	p.unread += len(message)
	tooMuch := s.postTooMuch(s.server.limits)
	if tooMuch {
		p.messages = nil
	}
	p.mu.Unlock()
	switch {
	case tooMuch:
		s.server.log.Info("closing a client", "id", s.ID, "addr", s.Addr, "error", errPostLimit)
		s.Kill()
	case first:
		s.notify(posted)
	}
}

// postTooMuch holds what is unread against the limits. The caller holds the lock.
func (s *Session) postTooMuch(limits *Limits) bool {
	p := &s.post
	if hard := limits.PostHard.Load(); hard > 0 && int64(p.unread) > hard {
		return true
	}
	soft, patience := limits.PostSoft.Load(), limits.PostPatience.Load()
	if soft <= 0 || int64(p.unread) <= soft {
		p.over = 0
		return false
	}
	now := s.server.now().UnixNano()
	if p.over == 0 {
		p.over = now
	}
	return now-p.over > patience
}

// takePost moves what is posted to Out, and tells whether there was anything.
func (s *Session) takePost() bool {
	p := &s.post
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.messages) == 0 {
		return false
	}
	s.Out.buf = append(s.Out.buf, p.messages...) // not bounded by the limit of replies, since it has its own
	if cap(p.messages) > keepWriteBuffer {
		p.messages = nil
	}
	p.messages = p.messages[:0]
	return true
}

// TakePosted moves what has been posted so far in front of the replies that follow. Serve may call it, if it does not take
// back what it has written.
func (s *Session) TakePosted() { s.takePost() }

// Unread is how many bytes wait until the client reads. Any goroutine may call it.
func (s *Session) Unread() int64 {
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	return s.unwritten.Load() + int64(len(s.post.messages))
}

// noteUnwritten notes how many bytes the socket does not take for now.
func (s *Session) noteUnwritten(n int) {
	if n == 0 && s.unwritten.Load() == 0 {
		return
	}
	s.unwritten.Store(int64(n))
	switch soft := s.server.limits.OutputSoft.Load(); {
	case soft <= 0 || int64(n) <= soft:
		s.overSince.Store(0)
	case s.overSince.Load() == 0:
		s.overSince.Store(s.server.now().UnixNano())
	}
}

// postRead notes that the client has got everything that was taken over.
func (s *Session) postRead() {
	p := &s.post
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread, p.over = len(p.messages), 0
}

// postOverdue tells whether the client has been over the soft limit for too long.
func (s *Session) postOverdue(limits *Limits) bool {
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	return s.post.unread > 0 && s.postTooMuch(limits)
}

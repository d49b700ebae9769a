package resp

import (
	"runtime"
	"sync"
	"syscall"
)

// Sessions that have replies at the same moment let one of them, the leader, write for all. When a server is busy,
// many sessions become ready together; the leader steps back once so that all of them get to execute their commands, and
// then acknowledges all replies, for which one write of the handler's log serves, and writes them one after the other.
// The clients find replies waiting in bunches, as they do with Redis, instead of being woken for each. On two cores with
// 50 connections at depth 1 that is worth about a fifth of the throughput; a session that is alone loses nothing.
//
// While a session is in a round its Out belongs to the round: the session may read ahead, but it waits on its lock
// before it executes what it read. The leader never waits for a client: what a socket does not take at once is written
// by a goroutine of its own.

// coresPerRound cores share a round: fewer would make small bunches, more would make one leader write for all.
const coresPerRound = 2

// round collects the sessions whose replies are to be written.
type round struct {
	mu      sync.Mutex
	members []*Session
	spare   []*Session // the slice that the leader used last
	led     bool
}

func newRounds() []round { return make([]round, max(1, runtime.GOMAXPROCS(0)/coresPerRound)) }

// join hands the session's Out to the round. The caller holds the session's out lock, which the round gives back.
func (r *round) join(s *Session) {
	r.mu.Lock()
	r.members = append(r.members, s)
	lead := !r.led
	r.led = true
	r.mu.Unlock()
	if lead && !r.lead() {
		s.server.running.Go(func() { // stopped by a moment in which no session has replies
			for !r.lead() {
			}
		})
	}
}

// maxLead is how often in a row a session leads before it goes back to its own client.
const maxLead = 16

// lead writes for everybody who has joined. It returns true when nobody has, and false when it ends its service.
func (r *round) lead() (idle bool) {
	for range maxLead {
		runtime.Gosched() // whoever is ready executes its commands and joins
		r.mu.Lock()
		members := r.members
		if len(members) == 0 {
			r.led = false
			r.mu.Unlock()
			return true
		}
		r.members = r.spare[:0]
		r.mu.Unlock()
		for _, s := range members {
			s.server.handler.Acknowledge(s)
		}
		for i, s := range members {
			s.writeOut()
			members[i] = nil
		}
		r.mu.Lock()
		r.spare = members
		r.mu.Unlock()
	}
	return false
}

// writeOut writes the replies as far as the socket takes them at once, leaves the rest to a goroutine, and gives the
// session's out lock back.
func (s *Session) writeOut() {
	left := s.Out.Bytes()
	if len(left) > 0 && !s.Out.Overflowed() {
		s.writingSince.Store(s.server.now().UnixNano())
		left = left[s.writeNow(left):]
		if len(left) > 0 {
			s.server.running.Go(func() { // stopped by the client reading, its hanging up, Kill or the write timeout
				_, err := s.conn.Write(left)
				s.written(err)
			})
			return
		}
	}
	s.written(nil)
}

// writeNow makes one attempt and returns how many bytes the socket took. An error shows in the next attempt.
func (s *Session) writeNow(replies []byte) (n int) {
	_ = s.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), replies)
		return true
	})
	return max(n, 0)
}

// written ends the session's part in the round.
func (s *Session) written(err error) {
	s.writingSince.Store(0)
	if err != nil || s.Out.Overflowed() {
		s.closing = true
	}
	s.Out.Reset()
	closing := s.closing
	s.out.Unlock()
	if closing {
		s.Kill() // its goroutine may be reading
	}
}

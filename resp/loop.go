package resp

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gammazero/deque"
)

// The loop runs the sessions of plain sockets, as Redis' event loop does, with as many workers as the load needs.
//
// A worker goes in turns. It asks the system which sockets are ready, lets each of their sessions read and execute what has
// arrived, then acknowledges all of their replies, for which one write of the handler's log serves, and then writes them.
// So a request costs one read and one write of its socket, and everything else is shared by the turn.
//
// Few clients keep one worker busy, and that is the fastest there is for them. A worker that has executed a good many
// commands while others are still queued calls a second one, and so on; they take sessions from the same queue.
//
// A command may take long, and a commit may wait for a disk. The loop watches for workers that are at the same thing for a
// whole lookInterval. Such a worker has stalled: another takes over the polling, the queue, and the sessions that the first
// one has executed and not settled. So a slow command holds up only its own client, and whom it keeps from a lock.
//
// A session is with at most one worker at a time. What happens to it meanwhile, at its socket or by Wake, is noted as
// events, which are looked at when its worker gives it back.

const (
	// helpAfter commands of a turn a worker calls for help, if as many seem to be in the queue. What they cost is many times
	// what it costs to wake a goroutine.
	helpAfter = 64
	// turnCommands executed end a turn, so that replies don't wait for all that others ask.
	turnCommands = 512
	// slowAcknowledge is what acknowledging a turn may take, as it does without fsync, until another worker is called to poll
	// meanwhile. With fsync the turns of two workers so share the disk, one executing while the other waits.
	slowAcknowledge = 100 * time.Microsecond
	// lookInterval is how long a worker may be at one thing, at least, until others take over the rest of its work.
	lookInterval = 5 * time.Millisecond
	// timeSlice is how long a worker goes on until it yields to Go's scheduler.
	timeSlice = 5 * time.Millisecond
	// quietLooks in a row that find no worker busy let the watch rest until there is work again.
	quietLooks = 4
)

// events is what has happened to a session since its worker looked.
type events uint8

const (
	canRead  events = 1 << iota // data, the end, or an error
	canWrite                    // the socket takes data again, or has failed
	hungUp                      // the client sends no more; stays set
	woken                       // Wake was called
	posted                      // Post was called
)

// place says where a session is.
type place uint8

const (
	idle    place = iota // with nobody; events bring it into the queue
	queued               // waits for a worker
	working              // with a worker
	writing              // with nobody, until its socket takes the rest of its replies
)

// seat is a session's place in its loop, which guards it by its lock, apart from what belongs to the session's worker.
type seat struct {
	place  place
	events events
	socket *socket
	unsent []byte // the worker's: the rest of Out, which the socket did not take
}

// worker is a goroutine of the loop, which guards it by its lock.
type worker struct {
	turn     []*Session // executed in this turn, to be settled
	executed int        // commands in this turn
	now      time.Time  // the worker's: when the turn began, about
	sliced   time.Time  // the worker's: when it has yielded
	busy     bool       // serves a session or settles
	stalled  bool       // others have taken over
	task     int        // counts what it was busy with
	seen     int        // the task that the watch has seen last
}

// loop runs sessions.
type loop struct {
	server *Server
	poller *poller
	cores  int // as many workers work at a time, and as many may rest

	mu       sync.Mutex
	queue    deque.Deque[*Session]
	orphans  []*Session // executed by workers that have stalled
	workers  map[*worker]struct{}
	active   int       // workers that are busy and have not stalled
	stalled  int       // workers that have
	resting  int       // workers that wait for work
	work     sync.Cond // signalled when a resting worker is needed
	polling  bool      // a worker polls
	roused   bool      // it has been interrupted
	slow     bool      // the last turn took long to acknowledge
	watching bool
	watch    sync.Cond // signalled when there is something to watch
	closed   bool
	running  sync.WaitGroup
}

func newLoop(s *Server) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{server: s, poller: p, cores: runtime.GOMAXPROCS(0), workers: map[*worker]struct{}{}, watching: true}
	l.work.L, l.watch.L = &l.mu, &l.mu
	l.addWorker()
	l.running.Go(l.watchWorkers) // stopped by close
	return l, nil
}

// close ends the loop, all of whose sessions have ended.
func (l *loop) close() {
	l.mu.Lock()
	l.closed = true
	l.work.Broadcast()
	l.watch.Signal()
	l.mu.Unlock()
	l.poller.interrupt()
	l.running.Wait()
	_ = l.poller.close() // nothing more is expected of it
}

func (l *loop) addWorker() {
	w := &worker{}
	l.workers[w] = struct{}{}
	l.running.Go(func() { l.run(w) }) // stopped by close, or when more workers rest than there are cores
}

// run is the life of a worker.
func (l *loop) run(w *worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer delete(l.workers, w)
	for l.await() {
		w.now = l.server.now()
		for w.executed < turnCommands && l.queue.Len() > 0 {
			if l.needsHelp(w) {
				l.rouse()
			}
			l.serve(w, l.queue.PopFront())
		}
		w.executed = 0
		l.settle(w)
		if w.now.Sub(w.sliced) >= timeSlice {
			l.yield(w)
		}
	}
}

// yield begins a new time slice of Go's scheduler. System calls are no end of one, so a worker that has work never ends its
// own; and when a slice is older than 10 ms the runtime takes the processor from the worker in each of its system calls, for
// which it looks every 20 µs.
func (l *loop) yield(w *worker) {
	w.sliced = w.now
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
}

// needsHelp tells whether the worker, which has done its part of this turn, leaves as much in the queue, by what it has met so far.
func (l *loop) needsHelp(w *worker) bool {
	return w.executed >= helpAfter && w.executed*l.queue.Len() >= helpAfter*len(w.turn)
}

// await polls, or rests while another worker does, until there is work. It returns false when the worker has to end.
func (l *loop) await() bool {
	for first := true; !l.closed; first = false {
		ready := l.queue.Len() > 0 || len(l.orphans) > 0
		switch {
		case !l.polling && (first || !ready):
			// Also when there is work: a client that always has a next command must not hide those of others.
			l.poll(!ready)
		case ready:
			return true
		case l.resting >= l.cores:
			return false
		default:
			l.resting++
			l.work.Wait()
			l.resting--
		}
	}
	return false
}

// poll notes what has happened to sockets. If it may block, it waits until something has, or until it is interrupted.
func (l *loop) poll(block bool) {
	l.polling = true
	l.mu.Unlock()
	happened := l.poller.wait(block)
	l.mu.Lock()
	l.polling, l.roused = false, false
	for _, h := range happened {
		if s := l.poller.session(h); s != nil {
			l.note(s, h.events)
		}
	}
}

// note adds to a session's events, and queues it if they concern it where it is. It tells whether it did.
func (l *loop) note(s *Session, e events) bool {
	seat := &s.seat
	seat.events |= e
	switch {
	case seat.place == idle && seat.events&s.awaited() != 0:
	case seat.place == writing && seat.events&canWrite != 0: // a client that sends no more may still read
	default:
		return false
	}
	seat.place = queued
	l.queue.PushBack(s)
	return true
}

// awaited is which events lead an idle session on.
func (s *Session) awaited() events {
	switch {
	case s.parked && s.closing: // its command has been told to give up
		return woken
	case s.parked:
		return woken | posted | hungUp
	}
	return canRead | woken | posted
}

// notify notes what a goroutine wants of a session, and sees to it that a worker finds it.
func (l *loop) notify(s *Session, e events) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.note(s, e) && l.active == 0 {
		l.rouse()
	}
}

// rouse brings a worker to the queue beside those that are active. There is none to be had when there are as many as cores,
// but when all of them have stalled one is needed.
func (l *loop) rouse() {
	switch {
	case l.resting > 0:
		l.work.Signal()
	case l.polling:
		if !l.roused {
			l.roused = true
			l.poller.interrupt()
		}
	case len(l.workers)-l.stalled < l.cores:
		l.addWorker()
	}
}

// begin starts something that may take long, with the loop unlocked.
func (l *loop) begin(w *worker) {
	w.busy, w.stalled = true, false
	w.task++
	l.active++
	if !l.watching {
		l.watching = true
		l.watch.Signal()
	}
	l.mu.Unlock()
}

// finish ends what begin has started.
func (l *loop) finish(w *worker) {
	l.mu.Lock()
	w.busy = false
	if w.stalled {
		w.now = l.server.now()
		l.stalled--
	} else {
		l.active--
	}
}

// serve lets a session go one step further.
func (l *loop) serve(w *worker, s *Session) {
	seat := &s.seat
	seat.place = working
	happened := seat.events
	if len(seat.unsent) > 0 { // nothing goes on until that is written
		seat.events &^= canWrite
	} else {
		seat.events &= hungUp
	}
	l.begin(w)

	executed, progress := 1, true
	if len(seat.unsent) == 0 {
		executed, progress = s.step(happened, w.now)
	}

	l.finish(w)
	w.executed += executed
	if progress {
		w.turn = append(w.turn, s)
	} else {
		l.giveBack(s)
	}
}

// step does what events ask for. Its results are those of advance.
func (s *Session) step(happened events, now time.Time) (executed int, progress bool) {
	socket := s.seat.socket
	if happened&canRead != 0 {
		socket.drained = false
	}
	if happened&hungUp != 0 {
		socket.ending = true
		if s.parked {
			s.end()
			s.closing = true
		}
	}
	delivered := happened&posted != 0 && s.takePost()
	if s.parked && happened&(woken|hungUp) == 0 {
		return 0, delivered
	}
	executed, progress = s.advance(now)
	return executed, progress || delivered
}

// giveBack ends a worker's hold of a session.
func (l *loop) giveBack(s *Session) {
	seat := &s.seat
	ready := seat.events&s.awaited() != 0 || (!s.parked && s.hasMore())
	if len(seat.unsent) > 0 {
		seat.place = writing
		ready = seat.events&canWrite != 0
	} else {
		seat.place = idle
	}
	if ready {
		seat.place = queued
		l.queue.PushBack(s)
	}
}

// hasMore tells whether the session can go on without an event.
func (s *Session) hasMore() bool {
	return len(s.rest) > 0 || !s.seat.socket.drained || s.reader.more || s.reader.oversized()
}

// settle acknowledges and writes the replies of the worker's turn, and of what stalled workers have left.
func (l *loop) settle(w *worker) {
	w.turn = append(w.turn, l.orphans...)
	clear(l.orphans)
	l.orphans = l.orphans[:0]
	turn := w.turn
	w.turn = nil // the watch need not take over what is being settled
	if l.slow {
		l.rouse()
	}
	l.begin(w)
	began := l.server.now()
	for _, s := range turn {
		if len(s.seat.unsent) == 0 {
			l.server.handler.Acknowledge(s)
		}
	}
	now := l.server.now()
	slow := now.Sub(began) > slowAcknowledge
	// The last first, as in Redis: those whom a command of this turn has woken stand behind it, and have waited longer.
	slices.Reverse(turn)
	left := turn[:0]
	for _, s := range turn {
		l.write(s)
		switch {
		case !s.closing || len(s.seat.unsent) > 0:
		case !s.parked:
			l.remove(s)
			continue
		case s.end(): // if it has ended before, its command knows
			s.Wake()
		}
		left = append(left, s)
	}
	for _, s := range left {
		s.settled(now)
	}
	l.finish(w)
	l.slow = slow
	for _, s := range left {
		l.giveBack(s)
	}
	clear(turn)
	w.turn = turn[:0]
}

// write writes as much of a session's replies as its socket takes.
func (l *loop) write(s *Session) {
	seat := &s.seat
	if len(seat.unsent) == 0 {
		seat.unsent = s.outgoing()
	}
	if len(seat.unsent) > 0 {
		n, err := seat.socket.write(seat.unsent)
		l.server.traffic.out.Add(int64(n))
		seat.unsent = seat.unsent[n:]
		if err != nil {
			seat.unsent, s.closing = nil, true
		}
		s.noteUnwritten(len(seat.unsent))
		if len(seat.unsent) > 0 {
			if n > 0 || s.writingSince.Load() == 0 {
				s.writingSince.Store(l.server.now().UnixNano())
			}
			return
		}
		s.writingSince.Store(0)
	}
	seat.unsent = nil
	s.Out.Reset()
}

// add takes a registered session in, which is the caller's until then.
func (l *loop) add(s *Session) {
	l.mu.Lock()
	err := l.poller.add(s)
	if err == nil {
		l.giveBack(s)
		if s.seat.place == queued && l.active == 0 {
			l.rouse()
		}
	}
	l.mu.Unlock()
	if err != nil {
		s.reason = err
		l.end(s)
	}
}

// remove ends a session.
func (l *loop) remove(s *Session) {
	l.mu.Lock()
	l.poller.remove(s)
	l.mu.Unlock()
	l.end(s)
}

// end closes a session that the poller doesn't know.
func (l *loop) end(s *Session) {
	s.end()
	s.seat.socket.close()
	l.server.forget(s)
}

// watchWorkers looks for workers that have stalled.
func (l *loop) watchWorkers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for quiet := 0; !l.closed; quiet++ {
		if quiet == quietLooks {
			l.watching = false
			for !l.watching && !l.closed {
				l.watch.Wait()
			}
		}
		l.mu.Unlock()
		time.Sleep(lookInterval)
		l.mu.Lock()
		if l.look() {
			quiet = 0
		}
	}
}

// look takes the work of stalled workers from them, and tells whether any worker is busy.
func (l *loop) look() (busy bool) {
	for w := range l.workers {
		busy = busy || w.busy
		if w.busy && !w.stalled && w.task == w.seen {
			w.stalled = true
			l.active--
			l.stalled++
			l.orphans = append(l.orphans, w.turn...)
			clear(w.turn)
			w.turn, w.executed = w.turn[:0], 0
		}
		w.seen = w.task
	}
	if busy && l.active == 0 && (!l.polling || l.queue.Len() > 0 || len(l.orphans) > 0) {
		l.rouse()
	}
	return busy
}

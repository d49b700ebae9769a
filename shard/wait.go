package shard

import (
	"errors"
	"slices"
	"sync"
)

// Waiting: a command that finds nothing at its keys is registered in a queue for each of them, and a commit that leaves
// something there serves the queue, first come first served, before it lets go of the locks.
//
// A queue belongs to a key of a database and a kind: only a list serves BLPOP, so those who wait for a list never stand in
// the way of those who wait for a sorted set. Queues are guarded by the lock of their shard. A waiter with keys on many
// shards stands in queues under different locks, so that servers on two shards and the owner, whose time may be up, can
// come to it at once. Its state decides between them, under a mutex of its own, which is held for a few instructions and
// under which no other lock is taken:
//
//	waiting   anybody may claim it
//	claimed   one server runs its try. Another that meets it notes that it has missed it and goes on to the next waiter:
//	          the claim ends well as a rule, and then the waiter needs nothing from here
//	handed    its try needs the lock of a shard that its server could not get without the risk of a deadlock, or a try
//	          that came to nothing was missed elsewhere. The owner serves the waiter's queues itself, with all locks that
//	          are needed. Until then nobody who stands behind it is served, or else it would lose its place
//	finished  served, failed or cancelled. It may still stand in queues whose lock was not at hand; the owner takes it
//	          out of them, unless a server meets it before
//
// Nothing is lost: whenever no locks are held, a key with a value either has no waiters of its kind, or has one that is
// handed and whose owner will serve the queue, or all of them have seen the value and it did not suffice.

// Besides, a waiter may wait for one element of a key, or for a group of keys (KindGroup, see Tracking.Group): its
// queue is served when one of them changes in whatever way, and the tries look what there is.

// Try is a blocking command's attempt at one key. It doesn't commit. Like every command it validates first and then writes,
// so that a try which is not served, or fails, has changed nothing; the exception is ErrConflict, after which the transaction
// is rolled back, and the try has to take back what it wrote elsewhere. It runs on the goroutine of whoever made the key
// ready, while the owner waits: the owner touches nothing that the try does until Resume or Withdraw says that it is over.
// Any other error ends the waiting; it is how a try says, too, that nobody is there any more to be served, so that neither
// the next in the queue nor the waiter's rivals are passed over for it.
type Try func(tx *Tx, key []byte) (served bool, err error)

// Waiter is one execution of a blocking command.
type Waiter struct {
	db   int
	kind Kind
	keys [][]byte
	try  Try
	// element, unless nil, is what the waiter waits for at its keys, which are partitioned or not.
	element []byte
	// slots, unless nil, are those whose elements the waiter waits for, in four digits.
	slots *SlotRange
	// rivals, unless empty, names those who wait at a key for the same thing: what one of them does not get, no other gets.
	rivals string

	// shards are those of the keys, entries the places in their queues. Both are fixed when the waiter is registered; an
	// entry's links are guarded by its shard's lock.
	shards  Mask
	entries []waitEntry

	wake func() // tells the owner to call Resume

	mu      sync.Mutex
	state   waitState
	missed  bool // a server on another shard has met the waiter while it was claimed
	leaving bool // it is to end with the claim
	heldUp  bool // it was cancelled while handed, so its queues have to be served when it leaves
	wanted  Mask // the shards to hold when the owner serves
	handed  int  // how often the waiter was handed to its owner
	served  bool
	pos     uint64
	err     error
}

type waitState uint8

const (
	waitWaiting waitState = iota
	waitClaimed
	waitHanded
	waitFinished
)

// maxHandovers is how often a waiter is tried with the locks that it is known to need, before its owner takes all.
const maxHandovers = 3

// NewWaiter returns a waiter for a value of the kind at one of the keys, which must not change until it is over. It is used
// once. Wake is called, with locks held, when it is up to the owner to go on: then Resume is to be called, on any goroutine.
func NewWaiter(db int, kind Kind, keys [][]byte, try Try, wake func()) *Waiter {
	return &Waiter{db: db, kind: kind, keys: keys, try: try, wake: wake}
}

// SetRivals names the waiter's rivals at its keys, such as a stream's consumer group, whose consumers all wait for the next
// entry: when there is nothing for one of them, the others are passed over. It is called before Block.
func (w *Waiter) SetRivals(name string) { w.rivals = name }

// SetElement says that the waiter waits for one element of its keys. It is called before Block.
func (w *Waiter) SetElement(element []byte) { w.element = element }

// SetSlots says that the waiter waits for elements in slots, in four digits. It is called before Block.
func (w *Waiter) SetSlots(slots *SlotRange) { w.slots = slots }

// waitKey names what a queue is for.
type waitKey struct {
	db      int
	kind    Kind
	key     string
	element string // or empty
}

// waitQueue is the waiters for a value of one kind at one key, in the order of their arrival.
type waitQueue struct {
	waitKey
	shard       *Shard
	first, last *waitEntry
	turn        uint64 // of the object that made it ready: the order in which queues are served
	ready       bool   // the transaction that holds the shard is going to serve it
	news        slotNews
}

// waitEntry is a waiter's place in a queue.
type waitEntry struct {
	waiter     *Waiter
	key        []byte
	ordinal    int        // of the shard
	queue      *waitQueue // nil when the entry is in none
	prev, next *waitEntry
}

// Block registers the waiter, which is to have been tried at all of its keys with the locks that the transaction holds. What
// the transaction has changed before is then committed. Resume or Withdraw will say when the waiter is over, unless there
// is an error.
func (tx *Tx) Block(w *Waiter) error {
	if err := tx.place(w); err != nil {
		return err
	}
	// The waiter is registered before the commit, which can serve others, and these can leave something at its keys.
	for i := range w.entries {
		e := &w.entries[i]
		tx.store.shards[e.ordinal].enqueue(e)
	}
	if err := tx.Commit(); err != nil {
		w.finish(false, 0, err)
		tx.dequeue(w)
		return err
	}
	return nil
}

// place finds and locks the shards of the waiter's keys.
func (tx *Tx) place(w *Waiter) error {
	w.shards, w.entries = Mask{}, make([]waitEntry, 0, len(w.keys))
	for _, key := range w.keys {
		p, err := tx.store.placer.Place(w.db, key)
		if err != nil {
			return err
		}
		shards := MaskOf(p.Shard)
		switch {
		case p.Partitioned && w.element != nil:
			shards = MaskOf(tx.store.placer.Home(w.element))
		case p.Partitioned:
			shards = tx.store.All()
		}
		for n := shards.next(0); n >= 0; n = shards.next(n + 1) {
			if _, err := tx.shard(n); err != nil {
				return err
			}
			w.entries = append(w.entries, waitEntry{waiter: w, key: key, ordinal: n})
		}
		w.shards.Union(shards)
	}
	w.wanted = w.shards
	return nil
}

// enqueue puts the entry at the end of its queue. A key that the waiter names twice counts once: as nobody else can come in
// between, the first entry is the last of the queue then.
func (s *Shard) enqueue(e *waitEntry) {
	k := waitKey{e.waiter.db, e.waiter.kind, string(e.key), string(e.waiter.element)}
	q := s.queues[k]
	switch {
	case q == nil:
		if s.queues == nil {
			s.queues = make(map[waitKey]*waitQueue)
		}
		q = &waitQueue{waitKey: k, shard: s, first: e}
		s.queues[k] = q
	case q.last.waiter == e.waiter:
		return
	default:
		e.prev, q.last.next = q.last, e
	}
	q.last, e.queue = e, q
}

// remove takes the entry out of its queue, if it is in one.
func (e *waitEntry) remove() {
	q := e.queue
	if q == nil {
		return
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.last = e.prev
	}
	e.queue, e.prev, e.next = nil, nil, nil
	if q.first == nil {
		delete(q.shard.queues, q.waitKey)
	}
}

// dequeue takes the waiter out of its queues on the shards that the transaction holds.
func (tx *Tx) dequeue(w *Waiter) {
	for i := range w.entries {
		if e := &w.entries[i]; tx.locked.Has(e.ordinal) {
			e.remove()
		}
	}
}

// Awaited tells whether the transaction has changed, since the last commit, something that somebody waits for. A commit may
// serve them.
func (tx *Tx) Awaited() bool {
	for n := tx.locked.next(0); n >= 0; n = tx.locked.next(n + 1) {
		if s := tx.store.shards[n]; s.awaited || s.wiped && len(s.queues) > 0 {
			return true
		}
	}
	return false
}

// isAwaited tells whether somebody waits for the object's key, whatever for: its kind may change yet.
func (s *Shard) isAwaited(o *object) bool {
	for _, kind := range [...]Kind{KindList, KindZSet, KindStream} {
		if s.queues[waitKey{db: o.db.n, kind: kind, key: o.key}] != nil {
			return true
		}
	}
	return o.track != nil && (o.track.Feeds || o.track.Frees) && s.queues[waitKey{db: o.db.n, kind: KindGroup, key: o.track.Group}] != nil
}

// signal makes the commit serve those who wait for an element of the key, which the transaction has changed.
func (s *Shard) signal(o *object, element []byte) {
	k := waitKey{db: o.db.n, kind: o.kind, key: o.key, element: string(element)}
	if s.queues[k] != nil {
		s.awaited = true
		s.signals = append(s.signals, k)
	}
}

// signalAll is signal for whatever element of the key somebody waits for.
func (s *Shard) signalAll(o *object) {
	for k := range s.queues {
		if k.element != "" && k.db == o.db.n && k.kind == o.kind && k.key == o.key {
			s.awaited = true
			s.signals = append(s.signals, k)
		}
	}
}

// noteReady is called for an object that a commit has changed, when the shard has queues. Streams are special: they change
// in ways that are no news to anybody, and who waits for a stream as a consumer has to learn that it is gone. So their queue
// is served at a key that holds something else, too, and it is up to the tries to look what is there.
func (s *Shard) noteReady(o *object) {
	if o.kind != KindStream {
		s.noteQueue(o, o.kind)
	} else if !o.stream.news {
		return
	}
	s.noteQueue(o, KindStream)
}

func (s *Shard) noteQueue(o *object, kind Kind) {
	s.makeReady(waitKey{db: o.db.n, kind: kind, key: o.key}, o.turn)
}

// makeReady makes the commit serve a queue, if there is one.
func (s *Shard) makeReady(k waitKey, turn uint64) {
	if q := s.makeReadyFor(k, turn); q != nil {
		q.news.any = true
	}
}

// makeReadyFor is makeReady for those whom the news concern that the caller adds to the queue's.
func (s *Shard) makeReadyFor(k waitKey, turn uint64) *waitQueue {
	q := s.queues[k]
	if q != nil && !q.ready {
		q.ready, q.turn = true, turn
		s.ready = append(s.ready, q)
	}
	return q
}

// noteTracked makes the commit serve who waits for the group of an object that it has changed, or for the elements that were signalled.
func (s *Shard) noteTracked(o *object) {
	k := waitKey{db: o.db.n, kind: KindGroup, key: o.track.Group}
	switch {
	case o.track.Frees, o.track.Feeds && o.list != nil && o.list.slots == nil:
		s.makeReady(k, o.turn)
	case o.track.Feeds && o.list != nil:
		if q := s.makeReadyFor(k, o.turn); q != nil {
			q.news.merge(&o.list.slots.news)
		}
	}
}

// noteSignals makes the commit serve those who wait for single elements.
func (s *Shard) noteSignals() {
	for _, k := range s.signals {
		s.makeReady(k, s.store.turns.Load())
	}
}

// ServeGroups has those served who wait for groups: something that they depend on has changed, and it is no key.
func (st *Store) ServeGroups() {
	for _, s := range st.shards {
		s.kicked.Store(true)
		s.times.nudge()
	}
}

// serveGroups is the timekeeper's part of ServeGroups.
func (s *Shard) serveGroups(tx *Tx) {
	if !s.kicked.Swap(false) {
		return
	}
	for k, q := range s.queues {
		if k.kind == KindGroup && !q.ready {
			q.ready, q.news.any = true, true
			tx.ready = append(tx.ready, q)
		}
	}
	tx.serveReady()
}

// noteWiped is called when a commit has emptied a database, which is a matter for those only who have to learn what is gone.
func (s *Shard) noteWiped() {
	for _, q := range s.queues {
		if (q.kind == KindStream || q.element != "") && !q.ready {
			q.ready, q.turn = true, 0
			s.ready = append(s.ready, q)
		}
	}
}

// gatherReady adds the queues that the commit of tx.parts has made ready to those that the transaction has to serve. Keys
// that became ready together are served in the order in which the transaction first changed them, as Redis does.
func (tx *Tx) gatherReady() {
	from := len(tx.ready)
	for _, p := range tx.parts {
		s := tx.store.shards[p.shard]
		tx.ready = append(tx.ready, s.ready...)
		clear(s.ready)
		s.ready = s.ready[:0]
	}
	slices.SortFunc(tx.ready[from:], func(a, b *waitQueue) int { return int(int64(a.turn - b.turn)) })
}

// addReady adds the waiter's queues to those that the transaction has to serve. It holds their shards.
func (tx *Tx) addReady(w *Waiter) {
	for i := range w.entries {
		q := w.entries[i].queue
		if q == nil {
			continue
		}
		if q.news.any = true; !q.ready {
			q.ready = true
			tx.ready = append(tx.ready, q)
		}
	}
}

// serveReady serves the queues in tx.ready, and those that doing so makes ready. What it serves is committed; failures are
// told to the waiter they belong to, for the transaction itself was committed before.
func (tx *Tx) serveReady() {
	for i := 0; i < len(tx.ready); i++ { // grows meanwhile
		q := tx.ready[i]
		tx.serveQueue(q)
		q.ready = false
		q.news.clear()
	}
	clear(tx.ready)
	tx.ready = tx.ready[:0]
	tx.Abort() // at most the removal of a key whose deadline has passed, which is left to the next who looks at it
}

// serveQueue serves the queue's waiters as long as there is something for them. It tries no waiter that it doesn't
// serve, except those who refuse what is there, and passes over those who wait in other slots than something came to, so a push costs the same whatever the length of the queue.
func (tx *Tx) serveQueue(q *waitQueue) {
	var next *waitEntry
	refused := "" // the rivals of the last waiter that was not served
	for e := q.first; e != nil; e = next {
		if q.needsValue() {
			o, err := q.shard.lookup(tx.nowMs, q.db, e.key)
			if err != nil || o.kind != q.kind {
				return // a key that can't be read is nothing to serve from; its next reader is told
			}
		}
		next = e.next // serving removes entries of this waiter only, and it has one in each queue
		if w := e.waiter; w.rivals != "" && w.rivals == refused || w.slots != nil && !q.news.concern(w.slots) {
			continue
		}
		switch e.waiter.claim() {
		case waitWaiting:
			if !tx.serve(e) {
				return
			}
			if e.queue == nil {
				continue
			}
			if refused = e.waiter.rivals; refused == "" && q.kind == KindGroup {
				return // who takes whatever the group has was given nothing, so nobody is
			}
		case waitHanded:
			return
		case waitFinished:
			e.remove()
		case waitClaimed:
		}
	}
}

// needsValue tells whether there is only something for the queue's waiters while its key holds a value of their kind. Those who
// wait for a stream, or for an element, have to learn that it is gone.
func (q *waitQueue) needsValue() bool {
	return q.kind != KindStream && q.kind != KindGroup && q.element == ""
}

// serve runs the try of a waiter that has been claimed and tells whether those behind it may be served.
func (tx *Tx) serve(e *waitEntry) (goOn bool) {
	w := e.waiter
	if e.queue.kind == KindList { // what came, came there, and the other fragments' locks are not needed
		defer tx.NarrowTo(tx.Narrow(e.ordinal))
	}
	served, err := w.try(tx, e.key)
	if served && err == nil {
		err = tx.commit()
	}
	if !served || err != nil {
		tx.Abort()
	}
	switch {
	case errors.Is(err, ErrConflict):
		goOn = w.handOver(tx.wanted)
	case !served && err == nil:
		goOn = w.release()
	default:
		w.finish(err == nil, tx.Position(), err)
		goOn = true
	}
	if w.isFinished() {
		tx.dequeue(w)
	}
	return goOn
}

// Position is the log position behind everything that the transaction has committed or could have read so far.
func (tx *Tx) Position() (pos uint64) {
	for n := tx.locked.next(0); n >= 0; n = tx.locked.next(n + 1) {
		pos = max(pos, tx.store.shards[n].lastPos)
	}
	return pos
}

// claim makes a waiting waiter claimed, and returns the state that it was found in.
func (w *Waiter) claim() waitState {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.state
	switch found {
	case waitWaiting:
		w.state, w.missed = waitClaimed, false
	case waitClaimed:
		w.missed = true
	case waitHanded, waitFinished:
	}
	return found
}

// release ends a claim that came to nothing: the waiter waits on, where it stands, unless it has been missed elsewhere.
func (w *Waiter) release() (goOn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.leaving:
		w.finishLocked(false, 0, nil)
	case w.missed:
		return w.handLocked()
	default:
		w.state = waitWaiting
	}
	return true
}

// handOver ends a claim whose try needs the shards that are named.
func (w *Waiter) handOver(wanted Mask) (goOn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving {
		w.finishLocked(false, 0, nil)
		return true
	}
	w.wanted.Union(wanted)
	return w.handLocked()
}

func (w *Waiter) handLocked() (goOn bool) {
	w.state = waitHanded
	w.handed++
	w.wake()
	return false
}

// finish ends the waiting with what Result is to return.
func (w *Waiter) finish(served bool, pos uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishLocked(served, pos, err)
}

func (w *Waiter) finishLocked(served bool, pos uint64, err error) {
	w.state, w.served, w.pos, w.err = waitFinished, served, pos, err
	w.wake()
}

// Resume goes on with a waiter whose owner was woken, and tells whether it is over. If not, the owner waits on. tx is idle,
// and lent for the time of the call.
func (w *Waiter) Resume(tx *Tx) (over bool) {
	if w.current() == waitHanded {
		w.serveSelf(tx)
	}
	if !w.isFinished() {
		return false // handed no more, or the wake was for something that is done
	}
	w.leave(tx)
	return true
}

// Withdraw is Cancel and Resume in one, for the owner. If the waiter is not over, it is in the course of being tried, and the
// owner is woken soon to see how that has ended.
func (w *Waiter) Withdraw(tx *Tx) (over bool) {
	w.mu.Lock()
	w.cancelLocked()
	w.mu.Unlock()
	return w.Resume(tx)
}

// Cancel ends the waiting of a waiter that waits: nothing will be served to it any more, and its owner is woken. It tells
// whether it has done so. Otherwise the waiter has been served, or is being tried at this moment; should that come to
// nothing, it is over all the same. Any goroutine may call it, also with locks held.
func (w *Waiter) Cancel() (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ended = w.cancelLocked(); ended {
		w.wake()
	}
	return ended
}

func (w *Waiter) cancelLocked() (ended bool) {
	switch w.state {
	case waitClaimed:
		w.leaving = true
		return false
	case waitFinished:
		return false
	case waitHanded:
		w.heldUp = true
	case waitWaiting:
	}
	w.state = waitFinished
	return true
}

// Result tells, when the waiter is over, whether it was served or its try has failed. Its reply may leave once Store.Wait has
// returned for pos. One that is neither has no reply yet.
func (w *Waiter) Result() (served bool, pos uint64, err error) { return w.served, w.pos, w.err }

func (w *Waiter) current() waitState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *Waiter) isFinished() bool { return w.current() == waitFinished }

// serveSelf serves the queues of a waiter that was handed to its owner, which is the caller, with the locks that were
// missing. The waiter keeps its place: those before it come first.
func (w *Waiter) serveSelf(tx *Tx) {
	w.mu.Lock()
	shards := w.wanted
	if w.handed > maxHandovers {
		shards = tx.store.All()
	}
	w.mu.Unlock()
	tx.Begin(shards)
	defer tx.End()
	w.mu.Lock()
	if w.state == waitHanded { // and not cancelled meanwhile
		w.state = waitWaiting
	}
	w.mu.Unlock()
	tx.addReady(w)
	tx.serveReady()
}

// leave takes a finished waiter out of the queues that it still stands in, and serves them if it has held them up.
func (w *Waiter) leave(tx *Tx) {
	if len(w.entries) == 1 && w.served {
		return // its server has held the only lock there is
	}
	tx.Begin(w.shards)
	defer tx.End()
	if w.heldUp {
		tx.addReady(w)
	}
	tx.dequeue(w)
	tx.serveReady()
}

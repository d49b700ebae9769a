package queue

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"unicode/utf8"

	"codeq/shard"
	"codeq/supplier"
)

// The keys that all queues share.
const (
	tasksKey    = "codeq:tasks"
	resultsKey  = "codeq:results"
	ttlKey      = "codeq:tasks:ttl"
	leasePrefix = "codeq:lease:"
	idempoKey   = "codeq:idempo:"
)

// Code says what kind of error a client has caused; it is the first word of the reply.
type Code string

// The codes.
const (
	NotFound      Code = "NOTFOUND"
	NotOwner      Code = "NOTOWNER"
	NotInProgress Code = "NOTINPROGRESS"
	Quota         Code = "QUOTA"
	Invalid       Code = "ERR"
)

// Error is an error that a client has caused. Its text names the task or queue and says what to do.
type Error struct {
	Code     Code
	text     string
	unusable bool // the task's JSON can't be used
}

func (e *Error) Error() string { return string(e.Code) + " " + e.text }

func failed(code Code, format string, args ...any) error {
	return &Error{Code: code, text: fmt.Sprintf(format, args...)}
}

// isUnusable tells the error of a task whose JSON can't be used.
func isUnusable(err error) bool {
	e, ok := err.(*Error)
	return ok && e.unusable
}

// Options say what a Queues works with. All are required but Random.
type Options struct {
	Router *supplier.Router
	Logger *slog.Logger
	// Policies is the configuration of the queues at this moment.
	Policies func() *Policies
	// Random is the source of ids and jitter, which must be safe for concurrent use. Nil: the runtime's.
	Random rand.Source
}

// Queues is the queues of one server.
type Queues struct {
	router   *supplier.Router
	policies func() *Policies
	random   rand.Source
	logger   *slog.Logger
	tracked  trackings
	idle     sync.Pool // of *Tx, for the tracker
	audits   audits
	forms    forms

	tasks, results, ttl []byte // the keys of their names
}

// New returns the queues.
func New(o Options) *Queues {
	q := &Queues{router: o.Router, policies: o.Policies, random: o.Random, logger: o.Logger, tracked: newTrackings(),
		tasks: []byte(tasksKey), results: []byte(resultsKey), ttl: []byte(ttlKey)}
	if q.random == nil {
		q.random = runtimeRandom{}
	}
	return q
}

// runtimeRandom draws from the runtime's generator.
type runtimeRandom struct{}

func (runtimeRandom) Uint64() uint64 { return rand.Uint64() }

// Name names a queue as clients do: the command in any case, the tenant may be empty.
type Name struct{ Command, Tenant []byte }

// String is the queue as errors call it.
func (n Name) String() string {
	if len(n.Tenant) == 0 {
		return string(n.Command)
	}
	return string(n.Command) + ":" + string(n.Tenant)
}

// is tells that the other name is of the same queue. Of names that differ in more than the case of ASCII letters it does not find out.
func (n Name) is(other Name) bool {
	if len(n.Command) != len(other.Command) || !bytes.Equal(n.Tenant, other.Tenant) {
		return false
	}
	for i, c := range n.Command {
		if d := other.Command[i]; c != d && (c^d != 'a'-'A' || c|d < 'a' || c|d > 'z') {
			return false
		}
	}
	return true
}

// Validate refuses names that no key can be made from.
func (n Name) Validate() error {
	key := supplier.Key{Command: n.Command, Tenant: n.Tenant, State: supplier.InProgress}
	if err := key.Validate(); err != nil {
		return failed(Invalid, "%v", err)
	}
	if !utf8.Valid(n.Tenant) {
		return failed(Invalid, "the tenant %q is not UTF-8; name it in UTF-8", n.Tenant)
	}
	return nil
}

// Shards is where the queue of the database may have tasks.
func (q *Queues) Shards(db int, name Name) (mask shard.Mask, err error) {
	var room [128]byte
	route := q.router.Route(db, inProgressKey(room[:0], name, nil))
	if route.Kind == supplier.Single {
		return shard.MaskOf(route.Shard), route.Err
	}
	for ordinal := range q.router.Topology().Count() {
		mask.Add(ordinal)
	}
	return mask, nil
}

// Spreads tells whether the queues of the database are spread over the shards.
func (q *Queues) Spreads(db int) bool { return q.router.Spreads(db) }

// RandomTurn draws a turn. For new tasks that is better than one after the other: producers who enqueue in step would fill one shard with
// one kind of tasks.
func (q *Queues) RandomTurn() uint32 { return uint32(q.random.Uint64()) }

// NewHomes are the shards that the i-th and following of n new tasks of a spread queue are made for, at a turn; see Enqueue.Turn.
func (q *Queues) NewHomes(db int, name Name, turn uint32, n int) (mask shard.Mask, err error) {
	homes, err := q.router.TaskHomes(name.Command, name.Tenant)
	for i := range min(n, len(homes)) {
		mask.Add(homeOf(homes, turn, i))
	}
	return mask, err
}

// homeOf is the shard of the i-th of some new tasks.
func homeOf(homes []int, turn uint32, i int) int {
	return homes[(uint64(turn)+uint64(i))%uint64(len(homes))]
}

// Group is the key that those wait at who wait for something to claim in the queue.
func (q *Queues) Group(db int, name Name) ([]byte, error) {
	t := q.NewTx()
	if err := t.locateIn(db, name); err != nil {
		return nil, err
	}
	return t.place(supplier.InProgress), nil
}

// ResultKeys are the keys of which those have to hear who wait for a task's result, under its id: that of results, and that of tasks, for it
// may be removed.
func ResultKeys() [][]byte { return [][]byte{[]byte(resultsKey), []byte(tasksKey)} }

// Home is the shard of a task's own rows.
func (q *Queues) Home(db int, id []byte) int {
	var room [128]byte
	return q.router.Route(db, append(append(room[:0], leasePrefix...), id...)).Shard
}

// IdempotencyShard is the shard of an idempotency key.
func (q *Queues) IdempotencyShard(db int, key []byte) int {
	var room [128]byte
	return q.router.Route(db, append(append(room[:0], idempoKey...), key...)).Shard
}

func inProgressKey(dst []byte, name Name, segment []byte) []byte {
	return supplier.Key{Command: name.Command, Tenant: name.Tenant, Shard: segment, State: supplier.InProgress}.AppendTo(dst)
}

// Tx is the life of tasks on a transaction. It keeps memory between its uses, one after the other, and so remembers the queue
// that it worked on last.
type Tx struct {
	queues *Queues
	db     shard.DB

	// What On has opened, so that a wrong type is found before anything is written.
	tasks, results shard.Hash
	ttl            shard.ZSet

	queue location
	slots []shard.SlotRange // of the claim in progress, for each of its queues
	lists []claiming        // of the claim in progress, those of one priority that have something
	task  task
	view  View
	saved View // the task that was saved last; the memory of its text is its own
	id    []byte
	key   []byte
	json  []byte
	stamp stamp

	author author // of the task that was enqueued last
}

// NewTx returns a Tx that is to be put on a transaction with On.
func (q *Queues) NewTx() *Tx { return &Tx{queues: q, saved: View{task: true}} }

// On puts the Tx on a database of a transaction.
func (t *Tx) On(db shard.DB) (err error) {
	if t.db == db && !t.queues.pinned(db.Number()) {
		return nil // handles of partitioned keys hold nothing of the shards, so they are good for any use of the transaction
	}
	t.db = db
	if t.tasks, err = db.Hash(t.queues.tasks); err != nil {
		return err
	}
	if t.results, err = db.Hash(t.queues.results); err != nil {
		return err
	}
	t.ttl, err = db.ZSet(t.queues.ttl)
	return err
}

// location is a queue with what follows from its name.
type location struct {
	db      int
	command []byte // in the case that some client gave it
	tenant  []byte
	base    []byte // of its keys, up to the colon before the state
	shard   int    // 0 where queues are spread

	policies *Policies // that policy is of
	policy   *Policy   // nil until it is asked for
}

// locate makes the queue that t works on the one with the name, which is valid.
func (t *Tx) locate(name Name) (*location, error) {
	err := t.locateIn(t.db.Number(), name)
	return &t.queue, err
}

// locateIn is locate for any database.
func (t *Tx) locateIn(db int, name Name) error {
	l := &t.queue
	if len(l.base) > 0 && l.db == db && (Name{l.command, l.tenant}).is(name) {
		return nil
	}
	l.base = l.base[:0] // so that a failure leaves nothing behind
	l.db, l.policy = db, nil
	l.command, l.tenant = append(l.command[:0], name.Command...), append(l.tenant[:0], name.Tenant...)
	base, shard, err := ownKey(t.key[:0], t.queues.router, db, name)
	if err != nil {
		return err
	}
	t.key = base[:0]
	l.shard = shard
	l.base = append(l.base, base[:len(base)-len(supplier.InProgress.String())]...)
	return nil
}

// ownKey makes the key of a queue's claimed tasks, in the form of those keys that the commands of queues work on, with the memory of dst. It
// tells on which shard they are, 0 where queues are spread.
func ownKey(dst []byte, router *supplier.Router, db int, name Name) (key []byte, shard int, err error) {
	key = inProgressKey(dst, name, nil)
	route := router.Route(db, key)
	if route.Err != nil {
		return key, 0, route.Err
	}
	// Queues of a named shard have its name in their keys; not so in a database that is pinned, where all keys are.
	if topology := router.Topology(); route.Shard >= topology.Default && !pinned(router, db) {
		key = inProgressKey(key[:0], name, []byte(topology.Name(route.Shard)))
	}
	return key, route.Shard, nil
}

// place is the key of a place of the queue that t works on. It is valid until the next one is asked for, or where queues are spread
// for good, since a partitioned collection needs its key for as long as it is used.
func (t *Tx) place(state supplier.State) []byte {
	const more = len("pending:0")
	if t.queues.Spreads(t.db.Number()) {
		return append(append(make([]byte, 0, len(t.queue.base)+more), t.queue.base...), state.String()...)
	}
	t.key = append(append(t.key[:0], t.queue.base...), state.String()...)
	return t.key
}

// pending is the key of a pending list.
func (t *Tx) pending(priority int) []byte {
	key := append(t.place(supplier.Pending), ':', '0'+byte(priority))
	if !t.queues.Spreads(t.db.Number()) {
		t.key = key
	}
	return key
}

func (t *Tx) lease(id []byte) []byte {
	t.key = append(append(t.key[:0], leasePrefix...), id...)
	return t.key
}

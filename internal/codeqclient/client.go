// Package codeqclient is a stand-in for codeQ's Redis client: it sends, through go-redis, the command sequences that
// codeQ sends, one method for each operation, so that a server can be proved to run codeQ unchanged. A comment above
// each method gives its sequence: P is a pipeline, TX a MULTI … EXEC.
//
// It owns the keys, the task JSON and the order of the commands. It must not know which server it talks to, and it
// sends nothing that codeQ does not, except after a lost reply (see Options.Recover). Some of codeQ's sequences leave
// windows open between their steps; where two operations of one Client could fall into one, a lock keeps them apart,
// so that a test may demand that each task ends exactly once. Two Clients on the same queues have codeQ's own races.
//
// Goroutines: none. Locks: Client.moving or Client.reserving first, then Client.claims; no other order exists.
package codeqclient

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Keys that all queues share.
const (
	keyTasks   = "codeq:tasks"
	keyTTL     = "codeq:tasks:ttl"
	keyResults = "codeq:results"
	keyLease   = "codeq:lease:"
	keyIdempo  = "codeq:idempo:"
)

// retention is how long after its last change a task may be removed.
const retention = 24 * time.Hour

// Priorities are 0 to MaxPriority, the highest first.
const MaxPriority = 9

var (
	// ErrNotOwner says that the task is not in progress with this worker.
	ErrNotOwner = errors.New("task is not in progress with this worker")
	// ErrGone says that the task has no JSON any more.
	ErrGone = errors.New("task is gone")
)

// Options configures a Client. Now and NewID must be set; both may be called from any goroutine.
type Options struct {
	Now   func() time.Time
	NewID func() string
	// OldClaim selects the older claim script, which takes one pending list at a time.
	OldClaim bool
	// Recover is called when a reply was lost with its connection. It waits until the server is back and reports
	// whether to go on; then the Client looks what became of the operation and completes it. Nil: the error is
	// returned.
	Recover func(ctx context.Context, err error) bool
}

// Client runs codeQ's operations. It is safe for concurrent use.
type Client struct {
	rdb  *redis.Client
	opts Options

	// moving lets one goroutine at a time move due tasks; a second one would push the same ids again.
	moving sync.Mutex
	// reserving is held from an idempotency key's SET to its task's HSET: who finds the key without the task deletes it.
	reserving sync.Mutex
	// claims is held shared while an operation takes a task into the set of claimed tasks or out of it, and exclusively
	// by what would mistake a task halfway for something else: repair (which sees no lease), the mover's write of the
	// JSON, the search after a lost enqueue.
	claims sync.RWMutex
}

// Dial makes a go-redis client as codeQ's is, except that it never sends a command twice by itself: a lost reply must
// be seen by whoever counts.
func Dial(addr string, db, poolSize int) *redis.Client {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	return redis.NewClient(&redis.Options{
		Network: network, Addr: addr, DB: db, PoolSize: poolSize, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// New makes a Client and loads its claim script, as codeQ does at start.
func New(ctx context.Context, rdb *redis.Client, opts Options) (*Client, error) {
	c := &Client{rdb: rdb, opts: opts}
	for _, script := range []string{ClaimScript, OldClaimScript} {
		if err := redis.NewScript(script).Load(ctx, rdb).Err(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Claiming is to be locked by others who take tasks of the Client's queues into the set of claimed tasks, or out of it, while they do so: as
// the Client's own operations do, lest its Repair take what it sees for what is still so.
func (c *Client) Claiming() sync.Locker { return c.claims.RLocker() }

// Redis is the connection pool, for what a test asks beside the operations.
func (c *Client) Redis() *redis.Client { return c.rdb }

// Queue names a queue; Tenant and Shard may be empty.
type Queue struct {
	Command, Tenant, Shard string
}

func (q Queue) key(suffix string) string {
	key := "codeq:q:" + strings.ToLower(q.Command)
	if q.Tenant != "" {
		key += ":" + q.Tenant
	}
	if q.Shard != "" {
		key += ":s:" + q.Shard
	}
	return key + ":" + suffix
}

// Pending is the key of the list with the tasks of one priority that wait.
func (q Queue) Pending(priority int) string { return q.key("pending:" + strconv.Itoa(priority)) }

// InProgress is the key of the set of claimed tasks.
func (q Queue) InProgress() string { return q.key("inprog") }

// Delayed is the key of the sorted set of tasks by the unix second at which they become pending.
func (q Queue) Delayed() string { return q.key("delayed") }

// DLQ is the key of the set of dead tasks.
func (q Queue) DLQ() string { return q.key("dlq") }

// LostReply reports whether err means that a command was perhaps executed and its reply never came. A server that has started again and
// is still loading its data counts as one that is not back yet.
func LostReply(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || redis.IsLoadingError(err)
}

// again runs op until it succeeds, fails otherwise than by a lost reply, or Recover gives up. op must look at the
// state that it finds: an earlier run may have been executed in part.
func (c *Client) again(ctx context.Context, op func() error) error {
	for {
		err := op()
		if err == nil || c.opts.Recover == nil || !LostReply(err) || !c.opts.Recover(ctx, err) {
			return err
		}
	}
}

// transact sends what queue adds as a transaction. A server that refuses a command while it is queued, as one does that is still loading, tells
// why in the reply to it and EXECABORT in that to EXEC; the reason is the error here.
func transact(ctx context.Context, rdb redis.Cmdable, queue func(redis.Pipeliner) error) error {
	cmds, err := rdb.TxPipelined(ctx, queue)
	if !redis.IsExecAbortError(err) {
		return err
	}
	for _, cmd := range cmds {
		if reason := cmd.Err(); reason != nil && !redis.IsExecAbortError(reason) {
			return reason
		}
	}
	return err
}

// keepUntil is the score in codeq:tasks:ttl of a task that changes now.
func (c *Client) keepUntil() float64 { return float64(c.opts.Now().Add(retention).Unix()) }

// save adds the two commands with which every operation ends: HSET tasks · ZADD ttl.
func (c *Client) save(ctx context.Context, p redis.Pipeliner, t *Task) {
	t.UpdatedAt = c.opts.Now().UTC()
	p.HSet(ctx, keyTasks, t.ID, t.encode())
	p.ZAdd(ctx, keyTTL, redis.Z{Score: c.keepUntil(), Member: t.ID})
}

// load is HGET codeq:tasks id.
func (c *Client) load(ctx context.Context, id string) (Task, error) {
	text, err := c.rdb.HGet(ctx, keyTasks, id).Result()
	if errors.Is(err, redis.Nil) {
		return Task{}, ErrGone
	}
	if err != nil {
		return Task{}, err
	}
	return decodeTask(text)
}

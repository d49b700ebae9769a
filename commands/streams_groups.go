package commands

import (
	"math"
	"strconv"

	"codeq/resp"
	"codeq/shard"
)

// The commands that manage consumer groups and what is pending in them.

// openGroup opens a group of the stream at the key. Not ok: there is no such key or group.
func openGroup(db shard.DB, key, name []byte) (stream shard.Stream, group shard.Group, ok bool, err error) {
	if stream, err = db.Stream(key); err == nil {
		group, ok, err = stream.Group(name)
	}
	return stream, group, ok, err
}

// mustOpenGroup is openGroup for commands that can't do without the group.
func mustOpenGroup(db shard.DB, key, name []byte) (shard.Stream, shard.Group, error) {
	stream, group, ok, err := openGroup(db, key, name)
	if err == nil && !ok {
		err = resp.ErrNoGroup(key, name)
	}
	return stream, group, err
}

// seeConsumer opens a group's consumer, which is created if there is none, and notes that it was seen now.
func seeConsumer(db shard.DB, key []byte, group shard.Group, name []byte) (shard.Consumer, error) {
	consumer, created, err := group.See(name, db.Now())
	if created {
		db.Note(shard.NoteStream, "xgroup-createconsumer", key)
	}
	return consumer, err
}

// XACK key group id [id ...]
func xack(c *Call) error {
	_, group, ok, err := openGroup(c.DB(), c.key(), c.Args[2])
	if err != nil {
		return err
	}
	if !ok {
		c.Out.Int(0)
		return nil
	}
	a := arguments{rest: c.Args[3:]}
	var few [8]shard.StreamID
	ids := few[:0]
	for a.more() {
		ids = append(ids, a.streamID(0))
	}
	if a.err != nil {
		return a.err
	}
	n := int64(0)
	for _, id := range ids {
		acked, err := group.Ack(id)
		if err != nil {
			return err
		}
		n += oneIf(acked)
	}
	c.Out.Int(n)
	return nil
}

// pendingRange is what the long form of XPENDING asks for.
type pendingRange struct {
	minIdleMs int64
	from, to  shard.StreamID
	count     int64
	consumer  []byte // nil: all
}

// parse takes "[IDLE min-idle-time] start end count [consumer]". What follows is of no concern.
func (p *pendingRange) parse(a *arguments) {
	if len(a.rest) < 3 || len(a.rest) > 6 {
		a.fail(resp.ErrSyntax)
		return
	}
	if a.token("IDLE") {
		p.minIdleMs = a.integer()
		if len(a.rest) < 3 {
			a.fail(resp.ErrSyntax)
		}
	}
	ends := a.take(2)
	p.count = max(a.integer(), 0)
	if a.err == nil {
		p.from, p.to = parseInterval(a, ends[0], ends[1])
	}
	if a.more() {
		p.consumer = a.bytes()
	}
}

// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
func xpending(c *Call) error {
	a := c.args(2)
	var p pendingRange
	summary := len(a.rest) == 0
	if !summary {
		p.parse(a)
	}
	if a.err != nil {
		return a.err
	}
	_, group, err := mustOpenGroup(c.DB(), c.key(), c.Args[2])
	switch {
	case err != nil:
		return err
	case summary:
		return replyPending(c.Out, group)
	}
	var of *shard.Consumer
	if p.consumer != nil {
		consumer, ok, err := group.Consumer(p.consumer)
		if err != nil {
			return err
		}
		if !ok {
			c.Out.Array(0)
			return nil
		}
		of = &consumer
	}
	var found gathered
	out, now := &found.elements, c.DB().Now()
	if p.count > 0 {
		err = group.EachPending(of, p.from, p.to, func(e shard.Pending) bool {
			if p.minIdleMs != 0 && now-e.DeliveredMs < p.minIdleMs {
				return true
			}
			found.n++
			out.Array(4)
			replyStreamID(out, e.ID)
			out.BulkString(e.Consumer)
			out.Int(max(now-e.DeliveredMs, 0))
			out.Int(e.Deliveries)
			return int64(found.n) < p.count
		})
	}
	found.reply(c.Out)
	return err
}

// replyPending writes how much is pending in the group, from where to where, and for whom.
func replyPending(out *resp.Writer, group shard.Group) error {
	out.Array(4)
	out.Int(group.Pending())
	if group.Pending() == 0 {
		out.Null()
		out.Null()
		out.NullArray()
		return nil
	}
	first, last, err := group.PendingBounds()
	if err != nil {
		return err
	}
	replyStreamID(out, first)
	replyStreamID(out, last)
	var found gathered
	err = group.EachConsumer(func(consumer shard.Consumer) error {
		if n := consumer.Pending(); n > 0 {
			found.n++
			found.elements.Array(2)
			found.elements.BulkString(consumer.Name())
			found.elements.BulkString(strconv.FormatInt(n, 10))
		}
		return nil
	})
	found.reply(out)
	return err
}

// claim is one call of XCLAIM.
type claim struct {
	minIdleMs   int64
	ids         []shard.StreamID
	deliveredMs int64 // -1: now
	deliveries  int64 // negative: one more than before
	force       bool
	justID      bool
	last        shard.StreamID
}

// parse takes the arguments from the idle time on.
func (cl *claim) parse(a *arguments, nowMs int64) {
	cl.deliveredMs, cl.deliveries = -1, -1
	cl.minIdleMs = max(a.integerOr(resp.ErrXclaimMinIdle), 0)
	for a.more() {
		id, _, ok := parseStreamID(a.rest[0], 0, false)
		if !ok {
			break // an option, or wrong
		}
		a.bytes()
		cl.ids = append(cl.ids, id)
	}
	for a.more() {
		more := len(a.rest) > 1
		switch {
		case a.token("FORCE"):
			cl.force = true
		case a.token("JUSTID"):
			cl.justID = true
		case more && a.token("IDLE"):
			cl.deliveredMs = nowMs - a.integerOr(resp.ErrXclaimIdle)
		case more && a.token("TIME"):
			cl.deliveredMs = a.integerOr(resp.ErrXclaimTime)
		case more && a.token("RETRYCOUNT"):
			cl.deliveries = a.integerOr(resp.ErrXclaimRetryCount)
		case more && a.token("LASTID"):
			cl.last = a.streamID(0)
		default:
			a.fail(resp.ErrXclaimOption(a.bytes()))
		}
	}
	if cl.deliveredMs < 0 || cl.deliveredMs > nowMs {
		cl.deliveredMs = nowMs // the client's clock may be ahead
	}
}

// integerOr takes an integer; otherwise is the error if it is none.
func (a *arguments) integerOr(otherwise error) int64 { return a.atLeast(math.MinInt64, otherwise) }

// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME ms-unix-time] [RETRYCOUNT count] [FORCE] [JUSTID]
// [LASTID id]
func xclaim(c *Call) error {
	stream, group, err := mustOpenGroup(c.DB(), c.key(), c.Args[2])
	if err != nil {
		return err
	}
	var cl claim
	a := c.args(3)
	cl.parse(a, c.DB().Now())
	if a.err != nil {
		return a.err
	}
	group.Raise(cl.last)
	var found gathered
	for _, id := range cl.ids {
		if err := cl.one(c, stream, group, id, &found); err != nil {
			return err
		}
	}
	found.reply(c.Out)
	return nil
}

// one claims one entry, if that can be done.
func (cl *claim) one(c *Call, stream shard.Stream, group shard.Group, id shard.StreamID, found *gathered) error {
	p, pending, err := group.PendingEntry(id)
	if err != nil {
		return err
	}
	fields, exists, err := stream.Get(id)
	switch {
	case err != nil:
		return err
	case !exists && pending:
		_, err = group.Ack(id) // nobody can get it any more
		return err
	case !exists, !pending && !cl.force:
		return nil
	case !pending:
		p.Deliveries = 1
	case cl.minIdleMs > 0 && c.DB().Now()-p.DeliveredMs < cl.minIdleMs:
		return nil
	}
	switch {
	case cl.deliveries >= 0:
		p.Deliveries = cl.deliveries
	case !cl.justID:
		p.Deliveries++
	}
	consumer, err := seeConsumer(c.DB(), c.key(), group, c.Args[3])
	if err != nil {
		return err
	}
	if cl.justID {
		found.n++
		replyStreamID(&found.elements, id)
	} else {
		found.entry(id, fields)
	}
	return group.SetPending(consumer, id, cl.deliveredMs, p.Deliveries)
}

// autoclaim is one call of XAUTOCLAIM, and what it has found.
type autoclaim struct {
	minIdleMs int64
	from      shard.StreamID
	count     int64
	justID    bool

	claimed []shard.Pending
	deleted []shard.StreamID
	next    shard.StreamID // where the next call goes on, zero at the end
}

// Limits of XAUTOCLAIM: the entries that it claims unless COUNT is given, how many times as many it looks at, and the
// greatest COUNT.
const (
	autoclaimCount    = 100
	autoclaimAttempts = 10
	maxAutoclaimCount = math.MaxInt64 / 16
)

func (ac *autoclaim) parse(a *arguments) {
	ac.minIdleMs = max(a.integerOr(resp.ErrXautoclaimMinIdle), 0)
	ac.from = a.intervalStart()
	ac.count = autoclaimCount
	for a.more() {
		switch {
		case len(a.rest) > 1 && a.token("COUNT"):
			if ac.count = a.atLeast(1, resp.ErrXautoclaimCount); ac.count > maxAutoclaimCount {
				a.fail(resp.ErrXautoclaimCount)
			}
		case a.token("JUSTID"):
			ac.justID = true
		default:
			a.fail(resp.ErrSyntax)
		}
	}
}

// search looks for entries to claim, and for pending ones that are deleted.
func (ac *autoclaim) search(stream shard.Stream, group shard.Group, nowMs int64) error {
	attempts, left := ac.count*autoclaimAttempts, ac.count
	if ac.count > math.MaxInt64/autoclaimAttempts {
		attempts = math.MaxInt64
	}
	var failed error
	err := group.EachPending(nil, ac.from, shard.LastStreamID(), func(p shard.Pending) bool {
		if attempts == 0 || left == 0 {
			ac.next = p.ID
			return false
		}
		attempts--
		var exists bool
		switch exists, failed = stream.Has(p.ID); {
		case failed != nil:
			return false
		case !exists:
			ac.deleted = append(ac.deleted, p.ID)
			left--
		case nowMs-p.DeliveredMs >= ac.minIdleMs || ac.minIdleMs == 0:
			ac.claimed = append(ac.claimed, p)
			left--
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return err
}

// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
func xautoclaim(c *Call) error {
	var ac autoclaim
	a := c.args(3)
	ac.parse(a)
	if a.err != nil {
		return a.err
	}
	stream, group, err := mustOpenGroup(c.DB(), c.key(), c.Args[2])
	if err != nil {
		return err
	}
	now := c.DB().Now()
	if err := ac.search(stream, group, now); err != nil {
		return err
	}
	for _, id := range ac.deleted {
		if _, err := group.Ack(id); err != nil {
			return err
		}
	}
	c.Out.Array(3)
	replyStreamID(c.Out, ac.next)
	c.Out.Array(len(ac.claimed))
	for _, p := range ac.claimed {
		if err := ac.take(c, stream, group, p); err != nil {
			return err
		}
	}
	c.Out.Array(len(ac.deleted))
	for _, id := range ac.deleted {
		replyStreamID(c.Out, id)
	}
	return nil
}

// take claims an entry that was found.
func (ac *autoclaim) take(c *Call, stream shard.Stream, group shard.Group, p shard.Pending) error {
	consumer, err := seeConsumer(c.DB(), c.key(), group, c.Args[3])
	if err != nil {
		return err
	}
	if ac.justID {
		replyStreamID(c.Out, p.ID)
	} else {
		fields, _, err := stream.Get(p.ID)
		if err != nil {
			return err
		}
		replyEntry(c.Out, p.ID, fields)
		p.Deliveries++
	}
	return group.SetPending(consumer, p.ID, c.DB().Now(), p.Deliveries)
}

// groupCall is what the subcommands of XGROUP have in common.
type groupCall struct {
	key, name   []byte
	stream      shard.Stream
	group       shard.Group
	exists      bool // the group
	mkStream    bool
	entriesRead int64
}

// openGroupCall parses the options behind the first skip arguments and opens the group, which must exist if it is needed.
func openGroupCall(c *Call, skip int, create, needed bool) (g groupCall, err error) {
	a := c.args(skip)
	g = groupCall{key: c.Args[2], name: c.Args[3], entriesRead: -1}
	for a.more() {
		switch {
		case create && a.token("MKSTREAM"):
			g.mkStream = true
		case len(a.rest) > 1 && a.token("ENTRIESREAD"):
			if g.entriesRead = a.integer(); g.entriesRead < -1 {
				a.fail(resp.ErrEntriesRead)
			}
		default:
			a.fail(resp.ErrSubcommandArgs("XGROUP", c.Args[1]))
		}
	}
	if a.err != nil {
		return g, a.err
	}
	if g.stream, g.group, g.exists, err = openGroup(c.DB(), g.key, g.name); err != nil {
		return g, err
	}
	switch {
	case !g.stream.Exists() && !g.mkStream:
		return g, resp.ErrXgroupNoKey
	case needed && !g.exists:
		return g, resp.ErrNoGroupAtKey(g.key, g.name)
	}
	return g, nil
}

// lastID reads the id after which a group is to go on; "$" is the stream's last one. With edges, "-" and "+" are the least
// and the greatest id there is, as Redis takes them in XGROUP SETID alone.
func (g *groupCall) lastID(arg []byte, edges bool) (shard.StreamID, error) {
	switch word := string(arg); {
	case word == "$":
		return g.stream.Last(), nil
	case word == "-" && edges:
		return shard.StreamID{}, nil
	case word == "+" && edges:
		return shard.LastStreamID(), nil
	}
	id, _, ok := parseStreamID(arg, 0, false)
	if !ok {
		return id, resp.ErrInvalidStreamID
	}
	return id, nil
}

// Words of the longest calls of XGROUP that Redis takes.
const (
	maxGroupCreateWords = 8
	maxGroupSetIDWords  = 7
)

// XGROUP CREATE key groupname <id | $> [MKSTREAM] [ENTRIESREAD entries-read]
func xgroupCreate(c *Call) error {
	g, err := openGroupCall(c, 4, true, false)
	if err != nil {
		return err
	}
	if len(c.Args) > maxGroupCreateWords {
		return resp.ErrSubcommandArgs("XGROUP", c.Args[1])
	}
	last, err := g.lastID(c.Args[4], false)
	if err != nil {
		return err
	}
	if g.exists {
		return resp.ErrGroupExists
	}
	if err := g.stream.Create(); err != nil {
		return err
	}
	if _, err := g.stream.CreateGroup(g.name, last, g.entriesRead); err != nil {
		return err
	}
	c.notify(shard.NoteStream, "xgroup-create", g.key)
	c.Out.OK()
	return nil
}

// XGROUP CREATECONSUMER key groupname consumername
func xgroupCreateConsumer(c *Call) error {
	g, err := openGroupCall(c, 4, false, true)
	if err != nil {
		return err
	}
	_, taken, err := g.group.Consumer(c.Args[4])
	if err == nil && !taken {
		_, err = seeConsumer(c.DB(), g.key, g.group, c.Args[4])
	}
	c.Out.Int(oneIf(!taken))
	return err
}

// XGROUP DELCONSUMER key groupname consumername
func xgroupDelConsumer(c *Call) error {
	g, err := openGroupCall(c, 4, false, true)
	if err != nil {
		return err
	}
	consumer, ok, err := g.group.Consumer(c.Args[4])
	n := int64(0)
	if err == nil && ok {
		n, err = g.group.DeleteConsumer(consumer)
		c.notify(shard.NoteStream, "xgroup-delconsumer", g.key)
	}
	c.Out.Int(n)
	return err
}

// XGROUP DESTROY key groupname
func xgroupDestroy(c *Call) error {
	g, err := openGroupCall(c, 3, false, false)
	if err != nil {
		return err
	}
	if g.exists {
		g.group.Destroy()
		c.notify(shard.NoteStream, "xgroup-destroy", g.key)
	}
	c.Out.Int(oneIf(g.exists))
	return nil
}

// XGROUP SETID key groupname <id | $> [ENTRIESREAD entries-read]
func xgroupSetID(c *Call) error {
	g, err := openGroupCall(c, 4, false, true)
	if err != nil {
		return err
	}
	if len(c.Args) > maxGroupSetIDWords {
		return resp.ErrSubcommandArgs("XGROUP", c.Args[1])
	}
	last, err := g.lastID(c.Args[4], true)
	if err != nil {
		return err
	}
	g.group.SetLast(last, g.entriesRead)
	c.notify(shard.NoteStream, "xgroup-setid", g.key)
	c.Out.OK()
	return nil
}

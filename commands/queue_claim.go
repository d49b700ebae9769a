package commands

import (
	"bytes"
	"math"
	"slices"
	"time"

	"codeq/queue"
	"codeq/resp"
	"codeq/shard"
)

// claimCall is a Q.CLAIM with its options.
type claimCall struct {
	queue.Claim
	tenant  []byte
	block   bool
	timeout time.Duration

	// Of a call that waits: the queues of the claim, and the shards of each.
	queues []queue.Name
	shards []shard.Mask
}

// parseClaim takes the arguments of Q.CLAIM.
func parseClaim(a *arguments) *claimCall {
	call := &claimCall{Claim: queue.Claim{Worker: a.bytes(), Count: 1}}
	for a.more() {
		switch {
		case a.token("TENANT"):
			call.tenant = a.bytes()
		case a.token("COUNT"):
			call.Count = int(a.number("COUNT", 1, math.MaxInt32))
		case a.token("LEASE"):
			call.LeaseMs = a.milliseconds(1)
		case a.token("BLOCK"):
			call.block, call.timeout = true, waitFor(a.milliseconds(0))
		case call.Slots.IsAll() && a.token("SHARE"):
			if call.Slots.Share = a.integer(); !a.token("OF") {
				a.fail(resp.ErrSyntax)
			}
			call.Slots.Of = a.number("OF", 1, math.MaxInt32)
		case call.Slots.IsAll() && a.token("SLOTS"):
			from, to, ok := bytes.Cut(a.bytes(), []byte("-"))
			if call.Slots.From, call.Slots.To = from, to; !ok {
				a.fail(resp.ErrSyntax)
			}
		case a.token("COMMANDS"):
			for _, command := range a.take(int(a.number("n", 1, math.MaxInt32))) {
				call.Queues = append(call.Queues, queue.Name{Command: command})
			}
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if len(call.Queues) == 0 {
		a.fail(resp.ErrSyntax)
	}
	for i := range call.Queues {
		call.Queues[i].Tenant = call.tenant
	}
	call.nameOnce()
	return call
}

// nameOnce drops queues that were named before.
func (call *claimCall) nameOnce() {
	if len(call.Queues) == 1 {
		return
	}
	named := make(map[string]bool, len(call.Queues))
	call.Queues = slices.DeleteFunc(call.Queues, func(name queue.Name) bool {
		folded := bytes.ToLower(name.Command)
		before := named[string(folded)]
		named[string(folded)] = true
		return before
	})
}

// claimShards adds the shards of the queues that Q.CLAIM names.
func claimShards(ss *session, args [][]byte) (mask shard.Mask, err error) {
	options := args[2:]
	tenant := tenantOf(options)
	for i := 0; i+1 < len(options); i += 2 {
		if !isToken(options[i], "COMMANDS") {
			continue
		}
		n, _ := parseInt(options[i+1])
		commands := options[i+2:]
		commands = commands[:min(max(n, 0), int64(len(commands)))]
		if rest := options[i+2+len(commands):]; tenant == nil {
			tenant = tenantOf(rest)
		}
		for _, command := range commands {
			if err = ss.addQueue(&mask, queue.Name{Command: command, Tenant: tenant}); err != nil {
				return mask, err
			}
		}
		return mask, nil
	}
	return mask, nil
}

// Q.CLAIM worker [TENANT tenant] [COUNT count] [LEASE ms] [BLOCK ms] [<SHARE share OF shares | SLOTS from-to>]
// COMMANDS n command [command ...]
func claimCommand(c *Call) error {
	a := c.args(0)
	call := parseClaim(a)
	if err := a.done(); err != nil {
		return err
	}
	if err := call.Validate(); err != nil {
		return err
	}
	if c.tx == nil {
		return call.inTurns(c)
	}
	return call.claimOrWait(c)
}

// claimsInTurns tells whether Q.CLAIM goes from shard to shard.
func claimsInTurns(ss *session, _ [][]byte) bool { return ss.server.queues.Spreads(ss.db()) }

// inTurns claims on one shard after the other, and waits with the locks of all.
func (call *claimCall) inTurns(c *Call) error {
	call.drawFirst(c.server.queues)
	served, err := c.inTurns(call.turn(), func() (bool, error) { return call.claim(c.session, c.Out, c.DB()) })
	switch {
	case err != nil || served:
		return err
	case !call.block:
		c.Out.NullArray()
		return nil
	}
	_, err = c.apart(c.server.store.All(), func() (bool, error) { return true, call.claimOrWait(c) })
	return err
}

// turn is what takes turns of the shards: claims of the first queue, those of each share or range of slots among themselves, or else clients that claim
// one share each in step would find each share on the same shard always.
func (call *claimCall) turn() []byte {
	turn := call.Queues[0].String()
	if !call.Slots.IsAll() {
		turn += " " + call.Slots.String()
	}
	return []byte(turn)
}

// drawFirst draws which of several queues is claimed from by slot first.
func (call *claimCall) drawFirst(queues *queue.Queues) {
	if !call.Slots.IsAll() && len(call.Queues) > 1 {
		call.First = queues.RandomTurn()
	}
}

// claimOrWait takes what there is, or else waits if it may.
func (call *claimCall) claimOrWait(c *Call) error {
	if c.server.queues.Spreads(c.db) {
		call.Turn = c.server.queues.RandomTurn()
	}
	call.drawFirst(c.server.queues)
	served, err := call.claim(c.session, c.Out, c.DB())
	switch {
	case err != nil || served:
		return err
	case !call.block || c.script || c.exec:
		c.Out.NullArray()
		return nil
	}
	return call.wait(c)
}

// claim takes what there is, and replies with it.
func (call *claimCall) claim(ss *session, out *resp.Writer, db shard.DB) (served bool, err error) {
	return call.claimWith((*queue.Tx).Claim, ss, out, db)
}

// claimWith is claim by Claim or ClaimHeld.
func (call *claimCall) claimWith(claim func(*queue.Tx, *queue.Claim, func(*queue.View)) (int, error),
	ss *session, out *resp.Writer, db shard.DB) (served bool, err error) {
	tasks, err := ss.tasksOn(db)
	if err != nil {
		return false, err
	}
	reply, _ := ss.server.claimed.Get().(*gathered)
	if reply == nil {
		reply = new(gathered)
	}
	defer ss.server.claimed.Put(reply)
	reply.n = 0
	reply.elements.Reset()
	reply.elements.SetProto(out.Proto())
	n, err := claim(tasks, &call.Claim, func(v *queue.View) {
		reply.n++
		writeView(&reply.elements, v)
	})
	if n == 0 || err != nil {
		return false, err
	}
	reply.reply(out)
	return true, nil
}

// wait parks the session until there is something in one of the queues. Whoever puts it there holds the shard of that queue, and
// perhaps others: of all queues on these the tasks of the highest priority are taken. Of spread queues it is one shard after the other.
func (call *claimCall) wait(c *Call) error {
	ss, db := c.session, c.db
	b := blocking{kind: shard.KindGroup, timeout: call.timeout, nothing: replyNullArray}
	if !call.Slots.IsAll() {
		wanted := call.Slots.Wanted()
		b.slots, b.rivals = &wanted, call.Slots.String()
	}
	call.queues = call.Queues
	for _, name := range call.queues {
		group, err := ss.server.queues.Group(db, name)
		if err != nil {
			return err
		}
		shards, err := ss.server.queues.Shards(db, name)
		if err != nil {
			return err
		}
		b.keys, call.shards = append(b.keys, group), append(call.shards, shards)
	}
	spread := ss.server.queues.Spreads(db)
	b.try = func(out *resp.Writer, db shard.DB, _ []byte) (served bool, err error) {
		was := db.Mute(true)
		defer db.Mute(was)
		if spread {
			return call.claimWith((*queue.Tx).ClaimHeld, ss, out, db)
		}
		call.Queues = make([]queue.Name, 0, len(call.queues))
		for i, name := range call.queues {
			if db.HoldsAll(call.shards[i]) {
				call.Queues = append(call.Queues, name)
			}
		}
		return call.claim(ss, out, db)
	}
	return c.park(b)
}

package commands

import (
	"math"

	"codeq/queue"
	"codeq/resp"
	"codeq/shard"
)

// claimCall is a Q.CLAIM with its options.
type claimCall struct {
	queue.Claim
	tenant []byte
	reply  gathered
}

// parseClaim takes the arguments of Q.CLAIM.
func parseClaim(a *arguments) *claimCall {
	call := &claimCall{Claim: queue.Claim{Worker: a.bytes(), Count: 1}}
	for a.more() {
		switch {
		case a.token("TENANT"):
			call.tenant = a.bytes()
		case a.token("COUNT"):
			call.Count = int(a.between(1, math.MaxInt32, resp.ErrPositive("COUNT")))
		case a.token("LEASE"):
			call.LeaseMs = a.milliseconds(1)
		case a.token("COMMANDS"):
			for _, command := range a.take(int(a.between(1, math.MaxInt32, resp.ErrPositive("n")))) {
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
	return call
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

// Q.CLAIM worker [TENANT tenant] [COUNT count] [LEASE ms] COMMANDS n command [command ...]
func claimCommand(c *Call) error {
	a := c.args(0)
	call := parseClaim(a)
	if err := a.done(); err != nil {
		return err
	}
	if err := call.Validate(); err != nil {
		return err
	}
	tasks, err := c.tasks()
	if err != nil {
		return err
	}
	call.reply.elements.SetProto(c.Out.Proto())
	n, err := tasks.Claim(&call.Claim, func(v *queue.View) {
		call.reply.n++
		writeView(&call.reply.elements, v)
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		c.Out.NullArray()
	default:
		call.reply.reply(c.Out)
	}
	return nil
}

package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"codeq/internal/codeqclient"
	"codeq/internal/peer"
)

// scriptTargets are those of EVALSHA.
func scriptTargets() []target { return []target{{1, 0.9}, {16, 0.8}} }

// waitingPriority is the priority of the tasks that are claimed: a claim finds the lists of the four above it empty.
const waitingPriority = 5

// scripts compares claim scripts, called by their SHA1.
func scripts(ctx context.Context, s settings, servers []*peer.Server) error {
	q := codeqclient.Queue{Command: "render"}
	older, newer := codeqclient.OldClaimScript, codeqclient.ClaimScript
	tries := strconv.Itoa(codeqclient.ClaimTries)
	two := []string{"EVALSHA", nameOf(older), "2", q.Pending(waitingPriority), q.InProgress(), tries}
	twelve := []string{"EVALSHA", nameOf(newer), "12", q.InProgress(), keyTasks}
	for priority := codeqclient.MaxPriority; priority >= 0; priority-- {
		twelve = append(twelve, q.Pending(priority))
	}
	twelve = append(twelve, tries)
	fmt.Printf("redis-benchmark -c %d, median of %d, requests per second. claim 2 pops an id from a list and adds it to a set; claim 12\n"+
		"has ten lists, of which the first four are empty, and gets the task's JSON from a hash. Both are called by EVALSHA; the\n"+
		"list is longer than the run. claim none finds ten empty lists; return runs a script that returns a number.\n\n", clients, s.repeat)
	return compareAll(ctx, s, servers, scriptTargets(), []benchmark{
		{name: "return", prepare: func(c *peer.Conn, _ int) error { return load(c, returnScript) }, command: []string{"EVALSHA", nameOf(returnScript), "0"}},
		{name: "claim 2", prepare: claimable(q, older, false), command: two},
		{name: "claim 12", prepare: claimable(q, newer, true), command: twelve},
		{name: "claim none", prepare: func(c *peer.Conn, _ int) error { return load(c, newer) }, command: twelve},
	})
}

// returnScript is the least that a script can do.
const returnScript = "return 1"

// nameOf is what EVALSHA calls a script.
func nameOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

func load(c *peer.Conn, script string) error {
	_, err := c.Call("SCRIPT", "LOAD", script)
	return err
}

// claimable loads the script and fills the queue with ids and, if it has to, the hash with the tasks of these.
func claimable(q codeqclient.Queue, script string, tasks bool) func(c *peer.Conn, requests int) error {
	return func(c *peer.Conn, requests int) error {
		if err := load(c, script); err != nil {
			return err
		}
		batches := (requests+fillPadding)/listBatch + 1
		id := func(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012d", uint32(i)*2654435761, i) }
		if tasks {
			body := fmt.Sprintf(`{"command":"render","payload":"%s"}`, strings.Repeat("x", payload))
			err := pipelined(c, batches, func(dst []byte, batch int) []byte {
				args := []string{"HSET", keyTasks}
				for i := batch * listBatch; i < (batch+1)*listBatch; i++ {
					args = append(args, id(i), body)
				}
				return peer.AppendCommand(dst, args...)
			})
			if err != nil {
				return err
			}
		}
		return pipelined(c, batches, func(dst []byte, batch int) []byte {
			args := []string{"LPUSH", q.Pending(waitingPriority)}
			for i := batch * listBatch; i < (batch+1)*listBatch; i++ {
				args = append(args, id(i))
			}
			return peer.AppendCommand(dst, args...)
		})
	}
}

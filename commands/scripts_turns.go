package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	"codeq/commands/spec"
	"codeq/supplier"
)

// Scripts that run in turns. Where queues are spread, a script that takes any task of a queue would see the whole queue, under the locks
// of all shards. Those that are known to do no more than that are run on one shard after the other instead.

// claimScripts are the SHA1s of codeQ's claim scripts.
func claimScripts() []string {
	return []string{
		"980950a9641a7ecfa6354647b5e08278d0805262", // KEYS pending, inprog
		"33b82a894bad546b8a5c472b91f3666e0bd4cfc2", // KEYS inprog, codeq:tasks, pending:9 … pending:0
	}
}

// scriptTakesTurns tells whether EVAL or EVALSHA goes from shard to shard: the script is one of those, and all of its keys are spread.
func scriptTakesTurns(ss *session, args [][]byte) bool {
	s, db := ss.server, ss.db()
	if !s.router.Spreads(db) {
		return false
	}
	cmd, _ := s.table.Resolve(args)
	keys, err := spec.AppendKeys(ss.keys[:0], &cmd.Command, args)
	if err != nil || len(keys) == 0 {
		return false
	}
	ss.keys = keys
	for _, key := range keys {
		if s.router.Route(db, args[key.Pos]).Kind != supplier.Partitioned {
			return false
		}
	}
	sha := strings.ToLower(string(args[1]))
	if cmd.Name == "eval" {
		sum := sha1.Sum(args[1])
		sha = hex.EncodeToString(sum[:])
	}
	return slices.Contains(claimScripts(), sha) || slices.Contains(s.config.Current().PerShardScripts, sha)
}

// runScript runs a script, in turns if the call has no transaction.
func (c *Call) runScript(keys [][]byte, run func() error) error {
	if c.tx != nil {
		return run()
	}
	mark := c.Out.Len()
	_, err := c.inTurns(keys[0], func() (found bool, err error) {
		err = run()
		return !isNothing(c.Out.Bytes()[mark:]), err
	})
	return err
}

// isNothing tells whether a reply is nil or empty.
func isNothing(reply []byte) bool {
	switch string(reply) {
	case "$-1\r\n", "*-1\r\n", "_\r\n", "*0\r\n", "%0\r\n", "~0\r\n", "$0\r\n\r\n":
		return true
	}
	return false
}

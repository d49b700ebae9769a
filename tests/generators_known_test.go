package tests

import (
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// shownElsewhere names the commands of Redis that no family sends, each behind what shows them instead. A name stands for
// its subcommands, too.
func shownElsewhere() map[string][]string {
	return map[string][]string{
		"TestConnectionAsRedis, TestCommandsAsRedis, TestInfo": {"auth", "hello", "info", "lastsave", "quit", "reset", "time", "config|get", "config|set",
			"config|resetstat", "config|rewrite", "command|count", "command|docs", "command|info", "command|list"},
		"TestClientAsRedis, TestReplyAsRedis, TestClients, the scenes with CLIENT KILL and UNBLOCK": {"client"},
		"TestPubSubAsRedis": {"psubscribe", "pubsub", "punsubscribe", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"},
		"TestMonitorAsRedis, TestSlowLogAsRedis, TestLatencyStatsAsRedis": {"latency", "monitor", "slowlog"},
		"TestIntrospectionAsRedis, TestServerTells, TestEncodingsAsRedis": {"acl", "bgrewriteaof", "bgsave", "debug", "lolwut", "memory", "object", "role",
			"save", "pfselftest"},
		"TestReplicationIsRefused, TestIntrospectionAsRedis": {"asking", "cluster", "failover", "module", "psync", "readonly", "readwrite", "replconf",
			"replicaof", "slaveof", "sync"},
		"TestMigrateCommand":            {"migrate"},
		"TestShutdownCommand":           {"shutdown"},
		"TestFunctionBusy, TestScripts": {"function|kill", "script|kill", "script|debug"},
	}
}

// TestGeneratorKnowsCommands wants every command of redis-server to be sent by a family or shown elsewhere, and none to be named
// for nothing.
func TestGeneratorKnowsCommands(t *testing.T) {
	if !targeted(peer.Redis) {
		t.Skip("asks redis-server for its commands")
	}
	sent, named := map[string]bool{}, map[string]bool{}
	for _, f := range families() {
		for _, r := range f.rows {
			words := strings.Fields(strings.ToLower(r.name))
			sent[words[0]], sent[strings.Join(words, "|")] = true, true
		}
	}
	for _, names := range shownElsewhere() {
		for _, name := range names {
			named[name] = true
		}
	}
	all := list(t, peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t))
	for _, name := range all {
		container, sub, _ := strings.Cut(name, "|")
		hasSubs := slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"|") })
		if sub == "help" || hasSubs { // which has words of our own, and whose subcommands count
			continue
		}
		// A question about the keys of some other command is one of the ways in which that is sent: see wrap.
		known := named[name] || named[container] || strings.HasPrefix(name, "command|getkeys")
		if sent[name] == known {
			t.Errorf("%s: sent %v, named %v", name, sent[name], known)
		}
	}
	if len(all) < 300 {
		t.Errorf("only %d commands", len(all))
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeq/config"
	"codeq/internal/peer"
)

// TestQueueLibrariesByDefault checks that the keys of one queue are on one shard for those libraries that need no more for it than a
// pattern, and that their queues are spread.
func TestQueueLibrariesByDefault(t *testing.T) {
	r, err := newRouter(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, queueKeys := range [][]string{
		{"bull:#:wait", "bull:#:active", "bull:#:meta", "bull:#:17", "bull:#:17:lock", "bull:#:repeat:0123:99", "bull:#:metrics:completed:data"},
		{"bq:#:waiting", "bq:#:jobs", "bq:#:id", "bq:#:stalling", "bq:#:stallBlock"},
		{"asynq:{#}:pending", "asynq:{#}:t:0123", "asynq:{#}:unique:x:{a}"},
	} {
		var used []int
		for _, queue := range []string{"mail", "image-resize", "Größe", "7", "billing", "reports"} {
			var shards []int
			for _, key := range queueKeys {
				before, after, _ := strings.Cut(key, "#")
				shards = append(shards, r.Route(0, []byte(before+queue+after)).Shard)
			}
			if slices.Max(shards) != slices.Min(shards) {
				t.Errorf("%s: the keys %q are on the shards %v", queue, queueKeys, shards)
			}
			used = append(used, shards[0])
		}
		if slices.Max(used) == slices.Min(used) {
			t.Errorf("all queues with keys such as %q are on shard %d", queueKeys[0], used[0])
		}
	}
}

// TestPlacementIsChecked starts the server on the data of one with another supplier, other mappings and further shards: it is refused, and says
// what to do, where tasks or a pause would not be found, and then the former configuration finds them.
func TestPlacementIsChecked(t *testing.T) {
	const (
		premium = "shards: 4\nnamed-shards: [premium]\n"
		mail    = premium + "supplier: static\nstatic:\n  commands:\n    mail: premium\n"
		id      = "4097cac6-0004-865d-a9d6-46baa64c3c6f" // of the fifth shard
	)
	enqueue, lengthOf := strings.Fields("Q.ENQUEUE mail hello ID "+id), "LLEN codeq:q:mail:s:premium:pending:5"
	for _, test := range []struct {
		name, before, after string
		command             []string
		refused             string
		then, want          string // with the former configuration if it is refused
	}{
		{"another supplier", mail, premium + "supplier: hash\n", enqueue, "tasks at codeq:q:mail:s:premium:pending:0", "Q.CLAIM w COMMANDS 1 mail", id},
		{"another mapping", mail, strings.Replace(mail, "mail: premium", "mail: default-1", 1), enqueue,
			"go back to supplier static, static-commands mail=premium, or start with it once more", "Q.CLAIM w COMMANDS 1 mail", id},
		{"a mapping for a new queue", mail, mail + "    new: default-1\n", enqueue, "", "Q.CLAIM w COMMANDS 1 mail", id},
		{"the name of a new shard", "shards: 4\n", premium, strings.Fields("LPUSH codeq:q:mail:s:premium:pending:5 t1"),
			"go back to supplier hash, without premium in named-shards", lengthOf, "1"},
		{"the name in another placement", premium + "supplier: hash\n", premium + "supplier: task\n", strings.Fields("LPUSH codeq:q:mail:s:premium:pending:5 t1"), "", lengthOf, "1"},
		{"the number of a new shard", "shards: 4\n", premium, enqueue, id, "Q.CLAIM w COMMANDS 1 mail", id},
		{"a new shard", "shards: 4\n", premium, strings.Fields("Q.ENQUEUE mail hello ID t1"), "", "Q.CLAIM w COMMANDS 1 mail", "t1"},
		{"a pause", "shards: 4\n", "shards: 4\nsupplier: task\n", strings.Fields("Q.PAUSE mail"), "has the key codeq:q:mail:paused", "GET codeq:q:mail:paused", "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			serve := func(file string, args ...string) string {
				t.Helper()
				s := peer.ForTest(t, peer.Options{Kind: peer.Codeq, Dir: dir, Args: []string{"--config", writeFile(t, file)}})
				reply, err := s.DialForTest(t).Call(args...)
				if err == nil {
					err = s.Term(testContext(t))
				}
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(reply)
			}
			serve(test.before, test.command...)
			file := test.after
			if test.refused != "" {
				file = test.before
				s, err := peer.Start(t.Context(), peer.Options{Kind: peer.Codeq, Dir: dir, Args: []string{"--config", writeFile(t, test.after)}})
				if err == nil {
					s.Stop()
					t.Fatal("it started")
				}
				if !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("it is refused with %v, want %s", err, test.refused)
				}
			}
			if reply := serve(file, strings.Fields(test.then)...); !strings.Contains(reply, test.want) {
				t.Errorf("%s: %s, want %s", test.then, reply, test.want)
			}
		})
	}
}

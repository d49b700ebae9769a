package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQueueRulesInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codeq.yaml")
	text := "queues:\n  mail:vip: lease=5s max-payload=1kb\n  \"*\": attempts=3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{File: path})
	if err != nil {
		t.Fatal(err)
	}
	got := queueRules{func(c *Config) *[]QueueRule { return &c.Queues }}.format(c)
	if want := "mail:vip lease=5s max-payload=1kb; *:* attempts=3"; got != want {
		t.Errorf("the rules are %q, want %q", got, want)
	}
	if n := c.Queues[0].Values[1].Number; n != 1024 {
		t.Errorf("1kb is %d", n)
	}
}

// TestQueueRulesAsText: whatever a file may say can be said as text, so a pattern that could not is refused.
func TestQueueRulesAsText(t *testing.T) {
	kind := declared().find("queues").kind.(queueRules)
	for _, pattern := range []string{"mail:a b", "mail:a;b", "mail:a\nb"} {
		if err := kind.put(Default(), pattern, "attempts=9"); err == nil || !strings.Contains(err.Error(), "write ? for it") {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestQueueRulesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"mail":                         "sets nothing",
		"mail lease":                   "a duration from 1ms",
		"mail lease=0s":                "a duration from 1ms",
		"mail lease=1s lease=2s":       "lease stands twice",
		"mail attempts=0":              "between 1 and",
		"mail backoff=none":            "fixed, linear, exponential",
		"mail paused=maybe":            "'yes' or 'no'",
		"mail max-payload=x":           "memory value",
		"mail speed=3":                 "no such setting",
		"mail shard-prefix-len=0":      "between 1 and 4",
		"mail shard-prefix-len=5":      "between 1 and 4",
		"mail lease=1s; :acme x=1":     "has no pattern",
		"mail=lease=30s max-pending=5": "has an equals sign",
		"mail\tlease=1s lease=2s":      "a blank or a semicolon",
	} {
		err := declared().find("queues").kind.parse(Default(), text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", text, err, want)
		}
	}
}

package commands

import (
	"strings"
	"testing"
)

// sortServer has lists, a set and a sorted set to sort, next to the commands that the core's tests have.
func sortServer(t *testing.T) *testServer {
	var more []Command
	for _, c := range append(append(listCommands(), setCommands()...), append(zsetCommands(), sortCommands()...)...) {
		switch c.Name {
		case "rpush", "lrange", "sadd", "zadd", "sort", "sort_ro":
			more = append(more, c)
		}
	}
	return startServer(t, more...)
}

// TestSortKeepsOrder: what the differential test can't compare, since a key may hold a set there.
func TestSortKeepsOrder(t *testing.T) {
	s := sortServer(t)
	c := s.client()
	c.send("RPUSH l 3 1 2", "ZADD z 2 b 1 c 3 a", "SADD s 2 10 1", "SET w3 x", "SET w2 y")
	for line, want := range map[string]string{
		"SORT l BY nosort":                        "*3 $1 3 $1 1 $1 2",
		"SORT l BY nosort DESC":                   "*3 $1 2 $1 1 $1 3",
		"SORT l BY nosort DESC LIMIT 0 1":         "*1 $1 2",
		"SORT l BY nosort LIMIT 1 1 GET w* GET #": "*2 $-1 $1 1",
		"SORT l BY w* BY nosort GET w*":           "*3 $1 x $-1 $1 y",
		"SORT z BY nosort":                        "*3 $1 c $1 b $1 a",
		"SORT z BY nosort DESC LIMIT 1 5":         "*2 $1 b $1 c",
		"SORT s BY nosort STORE d":                ":3",
		"SORT_RO l LIMIT 0 2 DESC":                "*2 $1 3 $1 2",
		"SORT z":                                  "-ERR One or more scores can't be converted into double",
		"SORT_RO l STORE d":                       "-ERR syntax error",
	} {
		c.want(want, line)
	}
	// A set that is stored, or seen by a script, is sorted all the same.
	c.want("*3 $1 1 $2 10 $1 2", "LRANGE d 0 -1")
	c.want("*3 $1 1 $2 10 $1 2", "EVAL return%20redis.call('sort','s','by','nosort') 0")
	// The destination may be the source, and an empty result removes it.
	c.want(":3 *3 $1 1 $1 2 $1 3", "SORT l STORE l", "LRANGE l 0 -1")
	c.want(":0 *0", "SORT nosuch STORE l", "LRANGE l 0 -1")
}

// TestSortUndeclaredKeys: a key that GET builds may lie on a shard whose lock has to be taken first.
func TestSortUndeclaredKeys(t *testing.T) {
	s := sortServer(t)
	c := s.client()
	high := s.keyOn(3)
	low := s.keyOn(0)
	prefix := strings.TrimRight(low, "0123456789")
	c.send("RPUSH "+high+" "+strings.TrimPrefix(low, prefix), "SET "+low+" found")
	blocked := s.holdShard(0)
	done := make(chan string)
	go func() { done <- s.client().send("SORT " + high + " BY nosort GET " + prefix + "*") }() // ends with the command
	s.awaitConflict()
	blocked.End()
	if got := <-done; got != "*1 $5 found" {
		t.Error(got)
	}
}

func TestParseSortScore(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "1": true, " 1": true, "1 ": false, " ": false, "1\x00x": true, "\x00": true, "0x10": true, "inf": true, "-Infinity": true,
		"nan": false, "1e400": false, "abc": false, "1_0": false,
	} {
		if _, ok := parseSortScore([]byte(text)); ok != want {
			t.Errorf("%q is a number: %v, want %v", text, ok, want)
		}
	}
}

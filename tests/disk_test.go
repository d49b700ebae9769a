package tests

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// TestDiskNearlyFull has a limit of twice what is free: what adds data is refused, alone, in MULTI and in scripts that have not written yet, and
// what takes it out or moves it is carried out.
func TestDiskNearlyFull(t *testing.T) {
	s := peer.ForTest(t, peer.Options{Kind: peer.Codeq})
	c := s.DialForTest(t)
	call := func(want string, args ...string) string {
		t.Helper()
		got, err := c.Do(args...)
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%q: %.200q, %v; want %q", args, got, err, want)
		}
		return string(got)
	}
	line := func(want, line string) { t.Helper(); call(want, strings.Fields(line)...) }
	field := func(reply, name string) string {
		_, after, _ := strings.Cut(reply, "$"+name)
		parts := strings.SplitN(after, "\r\n", 4)
		return parts[2]
	}
	line(":2", "RPUSH list a b")
	line("*4", "Q.MENQUEUE work 4 {} {} {} {}")
	line("*1", "Q.CLAIM other COMMANDS 1 work")
	_, free, _ := strings.Cut(call("$", "INFO", "persistence"), "codeq_disk_free:")
	free, _, _ = strings.Cut(free, "\r\n")
	room, err := strconv.ParseInt(free, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(times int64) {
		t.Helper()
		line("+OK", fmt.Sprint("CONFIG SET disk-free-limit ", times*room))
	}
	limit(2)
	const low = "-MISCONF the disk with the data has less room than disk-free-limit"
	for _, refused := range []string{
		"SET k v", "RPUSH list c", "HSET h f v", "ZADD z 1 m", "XADD s * f v", "Q.ENQUEUE work {}", "Q.MENQUEUE work 1 {}", "FUNCTION RESTORE x",
		"EVAL return(redis.call('SET','k','v')) 1 k",
		"EVAL return(redis.pcall('RPUSH',KEYS[1],'c')) 1 list",
	} {
		line(low, refused)
	}
	line("+OK", "MULTI")
	line(low, "SET k v")
	line("-EXECABORT", "EXEC")
	queued := s.DialForTest(t)
	for _, line := range []string{"MULTI", "GET k", "SET k v"} {
		if line == "SET k v" {
			limit(0)
		}
		if got, err := queued.Do(strings.Fields(line)...); err != nil || got[0] != '+' {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	limit(2)
	if got, err := queued.Do("EXEC"); err != nil || !strings.HasPrefix(string(got), "-EXECABORT Transaction discarded because of: MISCONF") {
		t.Errorf("EXEC: %q, %v", got, err)
	}
	for _, step := range []struct{ want, line string }{
		{":2", "LLEN list"}, {":0", "EXISTS k h z s"}, {"$1\r\nb", "RPOPLPUSH list other"}, {"$1\r\nb", "LMOVE other list LEFT RIGHT"}, {"$1\r\nb", "BRPOPLPUSH list other 1"},
		{"$1\r\nb", "BLMOVE other list LEFT RIGHT 1"}, {"$1\r\nb", "EVAL return(redis.call('RPOPLPUSH','list','other')) 2 list other"},
		{":1", "EVAL redis.call('RPOP','list')return(redis.call('SADD','taken','x')) 2 list taken"},
		{"+OK", "MULTI"}, {"+QUEUED", "DEL other taken"}, {"*1\r\n:2", "EXEC"},
	} {
		line(step.want, step.line)
	}
	call("+OK", "EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', 'k', 'v')", "1", "k")
	task := call("*1", strings.Fields("Q.CLAIM me COMMANDS 1 work")...)
	line("+OK", "Q.SUBMIT me "+field(task, "2\r\nid")+` RESULT {"n":1}`)
	task = call("*1", strings.Fields("Q.CLAIM me COMMANDS 1 work")...)
	line("*2", "Q.NACK me "+field(task, "2\r\nid"))
	line(":1", "Q.PURGE work STATE PENDING")
	if info := call("$", "INFO", "persistence"); !strings.Contains(info, "\r\ncodeq_disk_low:1\r\n") {
		t.Errorf("INFO does not say that the disk is low: %q", info)
	}

	limit(0)
	line(":1", "RPUSH list a")
	limit(8)
	const spent = "-MISCONF the disk with the data has less room than a quarter of disk-free-limit"
	for _, refused := range []string{
		"SET k v", "RPOPLPUSH list other", "Q.CLAIM me COMMANDS 1 work", "Q.SUBMIT me x", "Q.NACK me x", "Q.REQUEUE work",
		"EVAL redis.call('RPOP','list')return(redis.call('SADD','taken','x')) 2 list taken",
	} {
		line(spent, refused)
	}
	line(":1", "LLEN list") // the script was undone
	line("$1", "LPOP list")
	line(":1", "DEL k")
	line("+OK", "FLUSHDB")
	limit(0)
	line("+OK", "SET k v")
	line("$", "Q.ENQUEUE work {}")
	if info := call("$", "INFO", "persistence"); !strings.Contains(info, "\r\ncodeq_disk_low:0\r\n") {
		t.Errorf("INFO says that the disk is low: %q", info)
	}
	if !strings.Contains(s.Log(), "nearly full") || !strings.Contains(s.Log(), "has room again") {
		t.Errorf("the log says nothing of it:\n%s", s.Log())
	}
}

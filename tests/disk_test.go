package tests

import (
	"strings"
	"testing"

	"codeq/internal/peer"
)

// TestDiskNearlyFull has a limit that no disk meets: what adds data is refused, alone, in MULTI and in scripts that have not written yet, and
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
	line("+OK", "CONFIG SET disk-free-limit 1000000gb")

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

	line("+OK", "CONFIG SET disk-free-limit 0")
	line("+OK", "SET k v")
	line("$", "Q.ENQUEUE work {}")
	if info := call("$", "INFO", "persistence"); !strings.Contains(info, "\r\ncodeq_disk_low:0\r\n") {
		t.Errorf("INFO says that the disk is low: %q", info)
	}
	if !strings.Contains(s.Log(), "nearly full") || !strings.Contains(s.Log(), "has room again") {
		t.Errorf("the log says nothing of it:\n%s", s.Log())
	}
}

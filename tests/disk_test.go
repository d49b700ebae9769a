package tests

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeq/internal/peer"
)

// diskTest is a server whose limit is a multiple of what its disk has free.
type diskTest struct {
	*testing.T
	server *peer.Server
	c      *peer.Conn
	free   int64
}

func newDiskTest(t *testing.T) *diskTest {
	d := &diskTest{T: t, server: peer.ForTest(t, peer.Options{Kind: peer.Codeq})}
	d.c = d.server.DialForTest(t)
	_, after, _ := strings.Cut(d.call("$", "INFO", "persistence"), "codeq_disk_free:")
	free, _, _ := strings.Cut(after, "\r\n")
	var err error
	if d.free, err = strconv.ParseInt(free, 10, 64); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *diskTest) call(want string, args ...string) string {
	d.Helper()
	got, err := d.c.Do(args...)
	if err != nil || !strings.HasPrefix(string(got), want) {
		d.Errorf("%q: %.200q, %v; want %q", args, got, err, want)
	}
	return string(got)
}

func (d *diskTest) line(want, line string) string {
	d.Helper()
	return d.call(want, strings.Fields(line)...)
}

// limit makes disk-free-limit so many times what is free.
func (d *diskTest) limit(times int64) {
	d.Helper()
	d.line("+OK", fmt.Sprint("CONFIG SET disk-free-limit ", times*d.free))
}

// claim claims a task and returns its id.
func (d *diskTest) claim() string {
	d.Helper()
	_, after, _ := strings.Cut(d.line("*1", "Q.CLAIM me COMMANDS 1 work"), "$2\r\nid\r\n")
	_, after, _ = strings.Cut(after, "\r\n")
	id, _, _ := strings.Cut(after, "\r\n")
	return id
}

const (
	diskLow   = "-MISCONF the disk with the data has less room than disk-free-limit"
	diskSpent = "-MISCONF the disk with the data has less room than a quarter of disk-free-limit"
)

// TestDiskNearlyFull has a limit of twice what is free: what adds data is refused, alone, in MULTI and in scripts that have not written yet, and
// what takes it out or moves it is carried out.
func TestDiskNearlyFull(t *testing.T) {
	d := newDiskTest(t)
	d.line(":2", "RPUSH list a b")
	d.line("*3", "Q.MENQUEUE work 3 {} {} {}")
	d.limit(2)
	for _, refused := range []string{
		"SET k v", "RPUSH list c", "HSET h f v", "ZADD z 1 m", "XADD s * f v", "Q.ENQUEUE work {}", "Q.MENQUEUE work 1 {}", "FUNCTION RESTORE x",
		"EVAL return(redis.call('SET','k','v')) 1 k",
		"EVAL return(redis.pcall('RPUSH',KEYS[1],'c')) 1 list",
	} {
		d.line(diskLow, refused)
	}
	for _, step := range []struct{ want, line string }{
		{"+OK", "MULTI"}, {diskLow, "SET k v"}, {"-EXECABORT", "EXEC"},
		{":2", "LLEN list"}, {":0", "EXISTS k h z s"}, {"$1\r\nb", "RPOPLPUSH list other"}, {"$1\r\nb", "LMOVE other list LEFT RIGHT"}, {"$1\r\nb", "BRPOPLPUSH list other 1"},
		{"$1\r\nb", "BLMOVE other list LEFT RIGHT 1"}, {"$1\r\nb", "EVAL return(redis.call('RPOPLPUSH','list','other')) 2 list other"},
		{":1", "EVAL redis.call('RPOP','list')return(redis.call('SADD','taken','x')) 2 list taken"},
		{"+OK", "MULTI"}, {"+QUEUED", "DEL other taken"}, {"*1\r\n:2", "EXEC"},
	} {
		d.line(step.want, step.line)
	}
	d.call("+OK", "EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', 'k', 'v')", "1", "k")
	d.line("+OK", "Q.SUBMIT me "+d.claim()+` RESULT {"n":1}`)
	d.line("*2", "Q.NACK me "+d.claim())
	d.line(":1", "Q.PURGE work STATE PENDING")
	if info := d.call("$", "INFO", "persistence"); !strings.Contains(info, "\r\ncodeq_disk_low:1\r\n") {
		t.Errorf("INFO does not say that the disk is low: %q", info)
	}
	d.limit(0)
	d.line("+OK", "SET k v")
	d.line("$", "Q.ENQUEUE work {}")
	if info := d.call("$", "INFO", "persistence"); !strings.Contains(info, "\r\ncodeq_disk_low:0\r\n") {
		t.Errorf("INFO says that the disk is low: %q", info)
	}
	err := peer.Poll(testContext(t), time.Millisecond, func() (bool, error) { // until the log has come through its pipe
		log := d.server.Log()
		return strings.Contains(log, "nearly full") && strings.Contains(log, "has room again"), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDiskFillsBeforeExec: what was queued while there was room is refused.
func TestDiskFillsBeforeExec(t *testing.T) {
	d := newDiskTest(t)
	queued := d.server.DialForTest(t)
	for _, line := range []string{"MULTI", "GET k", "SET k v"} {
		if got, err := queued.Do(strings.Fields(line)...); err != nil || got[0] != '+' {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	d.limit(2)
	if got, err := queued.Do("EXEC"); err != nil || !strings.HasPrefix(string(got), "-EXECABORT Transaction discarded because of: MISCONF") {
		t.Errorf("EXEC: %q, %v", got, err)
	}
	d.line(":0", "EXISTS k")
}

// TestDiskAllButFull has a limit of eight times what is free: only what deletes is carried out, and a script is undone that does more.
func TestDiskAllButFull(t *testing.T) {
	d := newDiskTest(t)
	d.line(":1", "RPUSH list a")
	d.line("+OK", "SET k v")
	d.line("$", "Q.ENQUEUE work {}")
	d.limit(8)
	for _, refused := range []string{
		"SET k v", "RPOPLPUSH list other", "Q.CLAIM me COMMANDS 1 work", "Q.SUBMIT me x", "Q.NACK me x", "Q.REQUEUE work",
		"EVAL redis.call('RPOP','list')return(redis.call('SADD','taken','x')) 2 list taken",
	} {
		d.line(diskSpent, refused)
	}
	for _, step := range []struct{ want, line string }{
		{":1", "LLEN list"}, {"$1\r\na", "LPOP list"}, {":1", "DEL k"}, {":1", "Q.PURGE work STATE PENDING"}, {"+OK", "FLUSHDB"},
	} {
		d.line(step.want, step.line)
	}
	d.limit(0)
	d.line("+OK", "SET k v")
}

package commands

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeq/scripting"
)

func TestEval(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.want("*2 $1 a $1 x", "EVAL return{KEYS[1],ARGV[1]} 1 a x")
	c.want("+OK $1 1 $1 1", "SET a 1", "EVAL return%20redis.call('get',KEYS[1]) 1 a", "GET a")
	c.want("-ERR value is not an integer or out of range -ERR Number of keys can't be greater than number of args -ERR Number of keys can't be negative",
		"EVAL return x", "EVAL return 2 a", "EVAL return -1 a")
	if got := c.send("EVAL x= 0"); !strings.HasPrefix(got, "-ERR Error compiling script (new function): user_script:1:") {
		t.Error(got)
	}
	c.want("-NOSCRIPT No matching script. Please use EVAL.", "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0")
}

// TestScriptTime: a script's time stands still, and has microseconds.
func TestScriptTime(t *testing.T) {
	s := startQueues(t)
	s.clock.Advance(1234567 * time.Nanosecond)
	want := fmt.Sprintf("*2 $10 %d $4 1234", s.clock.Now().Unix())
	s.client().want(want, "eval return%20redis.call('time') 0")
}

// TestTimeInBatch: each script of a batch has a time of its own, however long those before it took, and so has what follows a script.
func TestTimeInBatch(t *testing.T) {
	var s *testServer
	s = startServer(t, append(allButCore(), declare("later", "LATER", 0, nil, func(c *Call) error {
		s.clock.Advance(1500 * time.Millisecond)
		c.Out.OK()
		return nil
	}))...)
	const script = "eval local%20a=redis.call('time')redis.call('later')local%20b=redis.call('time')return{a[1]-ARGV[1],a[2],b[1]-ARGV[1],b[2],redis.call('pttl','k')} 0 "
	line := script + strconv.FormatInt(s.clock.Now().Unix(), 10)
	c := s.client()
	c.want("+OK *5 :0 $1 0 :0 $1 0 :4000 *5 :1 $6 500000 :1 $6 500000 :2500 :1000 +OK *5 :4 $6 500000 :4 $6 500000 :-2 $-1",
		"psetex k 4000 v", line, line, "pttl k", "later", line, "get k")
	c.want("+OK +OK +QUEUED +QUEUED +QUEUED *3 :4000 +OK :4000 :2500", "psetex k 4000 v", "multi", "pttl k", "later", "pttl k", "exec", "pttl k")
}

// TestScriptCommands runs commands that a script may not issue.
func TestScriptCommands(t *testing.T) {
	s := startServer(t)
	c := s.client()
	for call, want := range map[string]string{
		"redis.pcall('nope')":                 "-ERR Unknown Redis command called from script",
		"redis.pcall('get')":                  "-ERR Wrong number of args calling Redis command from script",
		"redis.pcall('multi')":                "-ERR This Redis command is not allowed from script",
		"redis.pcall('eval','return','0')":    "-ERR This Redis command is not allowed from script",
		"redis.pcall('hlen','str')":           "-WRONGTYPE Operation against a key holding the wrong kind of value",
		"redis.pcall('refuse')":               "-ERR syntax error",
		"redis.pcall('select','3')":           "+OK",
		"redis.call('ping')":                  "+PONG",
		"redis.call('get','missing')==false":  ":1",
		"redis.call('hset','h','f','v')":      ":1",
		"redis.status_reply('FINE')":          "+FINE",
		"redis.error_reply('NOT%20FOUND')":    "-NOT FOUND",
		"{redis.call('get','str'),'x',false}": "*3 $1 1 $1 x $-1",
	} {
		c.send("SET str 1")
		c.want(want, "EVAL return%20"+call+" 0")
	}
	// SELECT within a script ends with it.
	c.want("$1 1", "GET str")
	c.want("-ERR Write commands are not allowed from read-only scripts.", "EVAL_RO return%20redis.pcall('set','a','1') 0")
	c.want("$1 1", "EVAL_RO return%20redis.call('get',KEYS[1]) 1 str")
}

// TestLargeReplies: a session keeps none of the large buffers that a script has filled, however it ended.
func TestLargeReplies(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.raw("SET", "str", strings.Repeat("v", 4*maxKeptReply))
	for _, end := range []string{"return text", "error(text)", "redis.call('nosuch')", "return 'short'"} {
		got := c.raw("EVAL", "local text = redis.call('GET', 'str') "+end, "0")
		r := &c.session().script
		if cap(r.reply) > maxKeptReply || cap(r.out.Bytes()) > maxKeptReply {
			t.Errorf("%s: keeps %d and %d bytes", end, cap(r.reply), cap(r.out.Bytes()))
		}
		if want := strings.HasSuffix(end, "text") || strings.HasSuffix(end, "(text)"); want != (len(got) > 4*maxKeptReply) {
			t.Errorf("%s: a reply of %d bytes", end, len(got))
		}
	}
	// Behind another reply, and behind those of a script.
	c.want("+PONG $1 a $3 vvv +PONG", "PING", "EVAL return'a' 0", "EVAL return'vvv' 0", "PING")
	text := strings.Repeat("v", 4*maxKeptReply)
	want := fmt.Sprintf("$%d %s $1 a $%d %s", len(text), text, len(text), text)
	if got := c.send("EVAL return%20redis.call('GET','str') 0", "EVAL return'a' 0", "EVAL return%20redis.call('GET','str') 0"); got != want {
		t.Errorf("a batch: %d bytes, want %d", len(got), len(want))
	}
}

// TestReadOnlyEffects lets scripts that may not write issue what changes nothing here, but would be told to replicas.
func TestReadOnlyEffects(t *testing.T) {
	c := startServer(t, slices.Concat(pubSubCommands(), hyperLogLogCommands())...).client()
	for _, effect := range []string{"'publish','c','m'", "'spublish','c','m'", "'pfcount','h'"} {
		c.want("-ERR Write commands are not allowed from read-only scripts.", "EVAL_RO return%20redis.pcall("+effect+") 0")
		c.want(":0", "EVAL return%20redis.call("+effect+") 0")
	}
}

// TestPermits asks whether the script's user may carry out a command, of those that there are.
func TestPermits(t *testing.T) {
	c := startServer(t).client()
	for _, words := range []string{"'get'", "'SET','k','v'", "'script'", "'script','exists'"} {
		c.want(":1", "EVAL return%20redis.acl_check_cmd("+words+") 0")
	}
	for _, words := range []string{"'nosuch'", "'script','nosuch'"} {
		got := c.send("EVAL return%20redis.acl_check_cmd(" + words + ") 0")
		if !strings.HasPrefix(got, "-ERR Invalid command passed to redis.acl_check_cmd() script: ") {
			t.Errorf("%s: %s", words, got)
		}
	}
}

// TestScriptUndone checks what is left of a script that fails, alone, between others and within EXEC.
func TestScriptUndone(t *testing.T) {
	const fails = "EVAL redis.call('set',KEYS[1],'script');redis.call('hlen',KEYS[1]) 1 a"
	const returns = "EVAL redis.call('set',KEYS[1],'script');return%20redis.error_reply('NOT%20FOUND') 1 a"
	failure := func(t *testing.T, got, before, after string) {
		t.Helper()
		if !strings.HasPrefix(got, before+"-WRONGTYPE ") || !strings.HasSuffix(got, after) || !strings.Contains(got, " script: ") {
			t.Errorf("got %s, want %s-WRONGTYPE … script: …%s", got, before, after)
		}
	}
	s := startServer(t)
	c := s.client()
	failure(t, c.send("SET a 1", fails, "GET a"), "+OK ", " $1 1")
	c.want("-NOT FOUND $6 script", returns, "GET a")
	failure(t, c.send("MULTI", "SET a 2", fails, "INCR a", "EXEC"), "+OK +QUEUED +QUEUED +QUEUED *3 +OK ", " :3")
	failure(t, c.send("MULTI", "SET a 5", fails, "INCR a", fails, "INCR a", "EXEC"),
		"+OK +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED *5 +OK ", " :7")
	c.want("$1 7", "GET a")
	// An error that looks like that of a script which has failed, but is returned, undoes nothing.
	c.want("-ERR no script: it is returned $1 8", "EVAL redis.call('set',KEYS[1],'8');return%20{err='ERR%20no%20script:%20it%20is%20returned'} 1 a", "GET a")
}

// TestScriptCache checks that scripts are known to the next command, and those that were loaded to the next process.
func TestScriptCache(t *testing.T) {
	const sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"   // of "return 1"
	const other = "7f923f79fe76194c868d7e1d0820de36700eb649" // of "return 2"
	s := startServer(t)
	c := s.client()
	c.want(":1 :1 *2 :1 :0", "EVAL return%201 0", "EVALSHA "+strings.ToUpper(sha)+" 0", "SCRIPT EXISTS "+sha+" "+other)
	c.want("$40 "+other, "SCRIPT LOAD return%202")
	s.stop()

	s = startServerOn(t, s.fs)
	c = s.client()
	c.want("-NOSCRIPT No matching script. Please use EVAL. :2", "EVALSHA "+sha+" 0", "EVALSHA "+other+" 0")
	c.want("$40 "+sha+" :1", "SCRIPT LOAD return%201", "EVALSHA "+sha+" 0")
	c.want("-ERR SCRIPT FLUSH only support SYNC|ASYNC option", "SCRIPT FLUSH NOW")
	c.want("+OK *2 :0 :0", "SCRIPT FLUSH ASYNC", "SCRIPT EXISTS "+sha+" "+other)
	c.want("-NOSCRIPT No matching script. Please use EVAL. :1", "EVALSHA "+sha+" 0", "EVAL return%201 0")
	s.stop()

	s = startServerOn(t, s.fs)
	const unknown = "-NOSCRIPT No matching script. Please use EVAL."
	s.client().want(unknown+" "+unknown, "EVALSHA "+sha+" 0", "EVALSHA "+other+" 0")
}

// TestLoadedScriptIsSaved checks that a script which EVAL made known is saved when it is loaded, and within EXEC.
func TestLoadedScriptIsSaved(t *testing.T) {
	const sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	s := startServer(t)
	s.client().want(":1 +OK +QUEUED *1 $40 "+sha, "EVAL return%201 0", "MULTI", "SCRIPT LOAD return%201", "EXEC")
	s.stop()
	s = startServerOn(t, s.fs)
	s.client().want(":1", "EVALSHA "+sha+" 0")
}

// TestFailedScriptIsKept checks that a script is cached though its first run fails, and within EXEC.
func TestFailedScriptIsKept(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.send("EVAL error('no') 0", "MULTI", "EVAL return%20'in%20exec' 0", "EXEC")
	if n, _ := s.scripts.Len(); n != 2 {
		t.Errorf("%d scripts are known, want 2", n)
	}
	c.send("SCRIPT FLUSH")
	// Undoing what the script did repeats the SCRIPT FLUSH, which is not to take the script along.
	c.send("MULTI", "SCRIPT FLUSH", "EVAL error('no') 0", "EXEC")
	if n, _ := s.scripts.Len(); n != 1 {
		t.Errorf("%d scripts are known after a flush and an EVAL, want 1", n)
	}
}

// TestScriptUndeclaredKeys runs a script on keys that it did not declare, while another session holds one of the shards.
func TestScriptUndeclaredKeys(t *testing.T) {
	s := startServer(t)
	low, high := s.keyOn(0), s.keyOn(3)
	blocked := s.holdShard(0)
	done := make(chan string)
	go func() { // ends with the script
		done <- s.client().send("EVAL redis.call('set',KEYS[1],'1');return%20redis.call('incr','" + low + "') 1 " + high)
	}()
	s.awaitConflict()
	blocked.End()
	if got := <-done; got != ":1" {
		t.Errorf("got %s", got)
	}
	s.client().want("$1 1 $1 1", "GET "+low, "GET "+high)
}

// TestScriptBusy lets a script run past its limit: others are told, and it can be killed.
func TestScriptBusy(t *testing.T) {
	var ticks atomic.Int64
	engine := scripting.Options{
		TimeLimit: func() time.Duration { return time.Second },
		Now:       func() time.Time { return time.Unix(ticks.Add(1), 0) },
	}
	s := startServerWith(t, newMem(), engine)
	c := s.client()
	c.want("-NOTBUSY No scripts in execution right now.", "SCRIPT KILL")
	done := make(chan string)
	go func() { done <- s.client().send("EVAL while%20true%20do%20end 0") }() // ends when the script is killed
	for !s.scripts.Busy() {
		runtime.Gosched()
	}
	const busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	c.want(busy+" "+busy, "GET a", "PING")
	c.want("+OK "+busy+" +OK", "MULTI", "GET a", "DISCARD")
	c.want("+OK", "SCRIPT KILL")
	if got := <-done; !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL...") {
		t.Error(got)
	}
	c.want("+PONG", "PING")
}

// TestScriptIsBounded runs scripts that change and publish without end. Each is stopped, and leaves nothing.
func TestScriptIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("the bound is hundreds of megabytes")
	}
	s := startServer(t, slices.Concat(listCommands(), pubSubCommands())...)
	s.client().send("SUBSCRIBE ch")
	c := s.client()
	for _, effect := range []string{"'rpush','k'..i,v", "'publish','ch',v"} {
		c.want("-ERR transaction exceeds 512 MiB: split it",
			"EVAL local%20v=('x'):rep(1e6)%20for%20i=1,1e9%20do%20redis.call("+effect+")end 0")
		c.want(":0", "LLEN k1")
	}
}

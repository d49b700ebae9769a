package commands

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/scripting"
)

func startFunctions(t testing.TB, fs vfs.FS, engine scripting.Options) *testServer {
	t.Helper()
	return startServerWith(t, fs, engine, functionCommands()...)
}

// load is the command that loads a library of that name, which registers functions with the given bodies.
func load(name string, functions ...string) string {
	line := "FUNCTION LOAD REPLACE #!lua%20name=" + name + "\n"
	for i := 0; i < len(functions); i += 2 {
		line += "redis.register_function('" + functions[i] + "',function(KEYS,ARGV)%20" + functions[i+1] + "%20end)"
	}
	return strings.ReplaceAll(line, "\n", "%0A")
}

// say is send with line ends within words, which %0A stands for.
func (c *client) say(lines ...string) string {
	b := batch(lines...)
	for _, args := range b {
		for i, arg := range args {
			args[i] = []byte(strings.ReplaceAll(string(arg), "%0A", "\n"))
		}
	}
	c.conn.Out.Reset()
	c.s.Serve(c.conn, b)
	c.s.Acknowledge(c.conn)
	return strings.TrimSuffix(strings.ReplaceAll(string(c.conn.Out.Bytes()), "\r\n", " "), " ")
}

func (c *client) hear(want string, lines ...string) {
	c.s.t.Helper()
	if got := c.say(lines...); got != want {
		c.s.t.Fatalf("%q\n got %s\nwant %s", lines, got, want)
	}
}

const noFunction = "-ERR Function not found"

// TestFunctionsAreKept loads, replaces and deletes libraries, each time with a restart before the outcome is looked at.
func TestFunctionsAreKept(t *testing.T) {
	s := startFunctions(t, newMem(), scripting.Options{})
	restart := func() *client {
		s.stop()
		s = startFunctions(t, s.fs, scripting.Options{})
		return s.client()
	}
	c := s.client()
	c.hear("$1 a $1 b :1 :2", load("a", "f", "return%201"), load("b", "g", "return%202"), "FCALL f 0", "FCALL g 0")
	c = restart()
	c.hear(":1 :2", "FCALL F 0", "FCALL g 0")
	c.hear("$1 a "+noFunction+" :3", load("a", "h", "return%203"), "FCALL f 0", "FCALL h 0")
	c = restart()
	c.hear(noFunction+" :3 :2", "FCALL f 0", "FCALL h 0", "FCALL g 0")
	c.hear("+OK -ERR Library not found "+noFunction, "FUNCTION DELETE b", "FUNCTION DELETE b", "FCALL g 0")
	c = restart()
	c.hear(noFunction+" :3", "FCALL g 0", "FCALL h 0")
	dump := strings.SplitN(string(c.raw("FUNCTION DUMP")), "\r\n", 2)[1]
	c.hear("+OK "+noFunction, "FUNCTION FLUSH", "FCALL h 0")
	c = restart()
	c.hear(noFunction+" $1 b", "FCALL h 0", load("b", "g", "return%202"))
	if got := c.raw("FUNCTION", "RESTORE", strings.TrimSuffix(dump, "\r\n")); string(got) != "+OK\r\n" {
		t.Errorf("restored: %q", got)
	}
	c = restart()
	c.hear(":3 :2", "FCALL h 0", "FCALL g 0")
	if got := c.raw("FUNCTION", "RESTORE", strings.TrimSuffix(dump, "\r\n"), "FLUSH"); string(got) != "+OK\r\n" {
		t.Errorf("restored: %q", got)
	}
	c = restart()
	c.hear(":3 "+noFunction, "FCALL h 0", "FCALL g 0")
}

// raw sends one command, of words as they are, and returns the reply as it is; a single word is split at its blanks.
func (c *client) raw(words ...string) []byte {
	if len(words) == 1 {
		words = strings.Fields(words[0])
	}
	var args [][]byte
	for _, word := range words {
		args = append(args, []byte(word))
	}
	c.conn.Out.Reset()
	c.s.Serve(c.conn, [][][]byte{args})
	c.s.Acknowledge(c.conn)
	return c.conn.Out.Bytes()
}

// TestBrokenLibraryIsLeftAlone keeps a record that does not load, as one of a later version might: others still load, and
// FUNCTION FLUSH removes it.
func TestBrokenLibraryIsLeftAlone(t *testing.T) {
	s := startFunctions(t, newMem(), scripting.Options{})
	s.client().hear("$1 a", load("a", "f", "return%201"))
	tx := s.store.NewTx()
	tx.Begin(s.store.All())
	for name, code := range map[string]string{"Z": "#!lua name=Z\nwhat is this", "b": "#!lua name=b\nredis.register_function('f',function() end)"} {
		if err := tx.SetSystem(libraryRow+name, []byte(code)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx.End()
	records := func() (n int) {
		tx := s.store.NewTx()
		tx.Begin(s.store.All())
		defer tx.End()
		if err := tx.EachSystem(libraryRow, func(string, []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.stop()
	s = startFunctions(t, s.fs, scripting.Options{})
	c := s.client()
	c.hear(":1", "FCALL f 0")
	if n := records(); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
	c.hear("+OK", "FUNCTION FLUSH")
	if n := records(); n != 0 {
		t.Errorf("%d records after FUNCTION FLUSH", n)
	}
}

// TestFunctionsInTransactions checks who sees what a transaction does to libraries, and when.
func TestFunctionsInTransactions(t *testing.T) {
	s := startFunctions(t, newMem(), scripting.Options{})
	c, other := s.client(), s.client()
	c.hear("$1 a", load("a", "f", "return%201"))
	const queued = " +QUEUED"
	c.hear("+OK"+queued+queued+queued+queued+queued+" *5 :1 $1 a :2 +OK "+noFunction,
		"MULTI", "FCALL f 0", load("a", "f", "return%202"), "FCALL f 0", "FUNCTION FLUSH", "FCALL f 0", "EXEC")
	other.hear(noFunction, "FCALL f 0")
	// What is done once more, because a function failed behind it, is there once.
	const fails = "redis.call('set',KEYS[1],'x')redis.call('hlen',KEYS[1])"
	got := c.say("MULTI", load("a", "f", "return%203", "fails", fails), "FCALL fails 1 k", "FCALL f 0", "SCRIPT FLUSH", "EXEC")
	if !strings.HasPrefix(got, "+OK"+queued+queued+queued+queued+" *4 $1 a -WRONGTYPE ") || !strings.HasSuffix(got, " :3 +OK") {
		t.Errorf("got %s", got)
	}
	other.hear(":3 $-1", "FCALL f 0", "GET k")
	once := strings.Replace(load("once", "o", "return%204"), " REPLACE", "", 1)
	got = c.say("MULTI", once, "FCALL fails 1 k", "FCALL o 0", "EXEC")
	if !strings.HasPrefix(got, "+OK"+queued+queued+queued+" *3 $4 once -WRONGTYPE ") || !strings.HasSuffix(got, " :4") {
		t.Errorf("got %s", got)
	}
	// A library that fails to load leaves what there is.
	c.hear("+OK"+queued+queued+" *2 -ERR No functions registered :3", "MULTI", load("a"), "FCALL f 0", "EXEC")
	c.hear("+OK"+queued+" +OK :3", "MULTI", "FUNCTION FLUSH", "DISCARD", "FCALL f 0")
	s.stop()
	s = startFunctions(t, s.fs, scripting.Options{})
	s.client().hear(":3", "FCALL f 0")
}

// TestFunctionLoadConflict gives up a run with FUNCTION LOAD for want of a shard's lock, before it has loaded and after, and
// does it again.
func TestFunctionLoadConflict(t *testing.T) {
	for _, c := range []struct {
		held  int
		lines []string
	}{
		{0, []string{"INCR high", load("a", "f", "return%201"), "INCR high"}},
		{0, []string{"MULTI", "INCR high", load("a", "f", "return%201"), "INCR high", "EXEC"}},
		{1, []string{"INCR high", load("a", "f", "return%201"), "COPYTO high low", "INCR high"}},
		{1, []string{"MULTI", "INCR high", load("a", "f", "return%201"), "COPYTO high low", "INCR high", "EXEC"}},
	} {
		s := startFunctions(t, newMem(), scripting.Options{})
		lines := c.lines
		for i := range lines {
			lines[i] = strings.NewReplacer("high", s.keyOn(3), "low", s.keyOn(1)).Replace(lines[i])
			lines[i] = strings.ReplaceAll(lines[i], "LOAD REPLACE", "LOAD") // which may succeed once only
		}
		blocked := s.holdShard(c.held)
		done := make(chan string)
		go func() { done <- s.client().say(lines...) }() // ends when the shard is given back
		s.awaitConflict()
		s.client().hear(noFunction, "FCALL f 0")
		blocked.End()
		if got := strings.Replace(<-done, " +OK :2", " :2", 1); !strings.HasSuffix(got, ":1 $1 a :2") {
			t.Errorf("%q: got %s", lines, got)
		}
		s.client().hear(":1", "FCALL f 0")
	}
}

// TestFunctionLoadWaits lets a transaction look at the libraries, and then wait for the lock that FUNCTION LOAD takes, while
// another one changes them: neither change is lost.
func TestFunctionLoadWaits(t *testing.T) {
	looked := make(chan struct{})
	signal := declare("signal", "SIGNAL", 0, nil, func(c *Call) error { looked <- struct{}{}; c.Out.OK(); return nil })
	s := startServerWith(t, newMem(), scripting.Options{}, append(functionCommands(), signal)...)
	blocked := s.holdShard(0)
	done := make(chan string)
	go func() { // ends when the shard is given back
		done <- s.client().say("FCALL f 0", "FUNCTION LIST", "SIGNAL", load("mine", "f", "return%201"))
	}()
	<-looked
	const code = "#!lua name=other\nredis.register_function('g', function() return 2 end)"
	set, _, err := s.scripts.AddLibrary(s.scripts.Libraries(), []byte(code), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.scripts.SetLibraries(set)
	blocked.End()
	if got := <-done; got != noFunction+" *0 +OK $4 mine" {
		t.Errorf("got %s", got)
	}
	s.client().hear(":1 :2", "FCALL f 0", "FCALL g 0")
}

// TestFunctionUndone checks that a function that fails leaves nothing, and one that returns an error what it wrote.
func TestFunctionUndone(t *testing.T) {
	s := startFunctions(t, newMem(), scripting.Options{})
	c := s.client()
	low, high := s.keyOn(0), s.keyOn(3)
	c.hear("$1 a", load("a",
		"fails", "redis.call('set',KEYS[1],'x')redis.call('set',ARGV[1],'x')error('no')",
		"returns", "redis.call('set',KEYS[1],'x')redis.call('set',ARGV[1],'x')return%20redis.error_reply('NOT%20FOUND')"))
	c.hear("-ERR user_function:2: no script: fails, on @user_function:2. $-1 $-1", "FCALL fails 1 "+high+" "+low, "GET "+low, "GET "+high)
	c.hear("-NOT FOUND $1 x $1 x", "FCALL returns 1 "+high+" "+low, "GET "+low, "GET "+high)
}

// TestReadOnly checks what may not write: functions and scripts that say so, and what _RO commands run.
func TestReadOnly(t *testing.T) {
	s := startFunctions(t, newMem(), scripting.Options{})
	c := s.client()
	c.hear("$1 a", "FUNCTION LOAD #!lua%20name=a%0A"+
		"redis.register_function{function_name='reads',callback=function(k)return%20redis.call('get',k[1])end,flags={'no-writes'}}"+
		"redis.register_function{function_name='lies',callback=function(k)return%20redis.pcall('set',k[1],'1')end,flags={'no-writes'}}"+
		"redis.register_function('writes',function(k)return%20redis.call('set',k[1],'2')end)")
	const refused = "-ERR Write commands are not allowed from read-only scripts."
	const writes = "-ERR Can not execute a script with write flag using *_ro command."
	c.hear("$-1 $-1 "+refused+" "+refused+" +OK "+writes+" $1 2", "FCALL reads 1 k", "FCALL_RO reads 1 k", "FCALL lies 1 k", "FCALL_RO lies 1 k",
		"FCALL writes 1 k", "FCALL_RO writes 1 k", "GET k")
	const set = "%0Areturn%20redis.pcall('set',KEYS[1],'3') 1 k"
	c.hear(refused+" "+refused+" "+writes+" "+refused+" +OK",
		"EVAL_RO return%20redis.pcall('set',KEYS[1],'3') 1 k", "EVAL #!lua%20flags=no-writes"+set,
		"EVAL_RO #!lua"+set, "EVAL_RO #!lua%20flags=no-writes"+set, "EVAL #!lua%20flags=allow-oom"+set)
}

// TestFunctionBusy lets a function run past its limit: others are told, and it can be killed.
func TestFunctionBusy(t *testing.T) {
	var ticks atomic.Int64
	engine := scripting.Options{
		TimeLimit: func() time.Duration { return time.Second },
		Now:       func() time.Time { return time.Unix(ticks.Add(1), 0) },
	}
	s := startFunctions(t, newMem(), engine)
	c := s.client()
	const stats = "$7 engines *2 $3 LUA *4 $15 libraries_count :1 $15 functions_count :1"
	c.hear("-NOTBUSY No scripts in execution right now. $1 a", "FUNCTION KILL", load("a", "spin", "while%20true%20do%20end"))
	c.hear("*4 $14 running_script $-1 "+stats, "FUNCTION STATS")
	done := make(chan string)
	go func() { done <- s.client().say("FCALL spin 1 k arg") }() // ends when the function is killed
	for !s.scripts.Busy() {
		runtime.Gosched()
	}
	const busy = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	c.hear(busy+" "+busy+" "+busy+" "+busy, "GET a", "FUNCTION LIST", "FCALL spin 0", "SCRIPT KILL")
	got := c.say("FUNCTION STATS")
	const running = "*6 $4 name $4 spin $7 command *5 $5 FCALL $4 spin $1 1 $1 k $3 arg $11 duration_ms :"
	if !strings.HasPrefix(got, "*4 $14 running_script "+running) || !strings.HasSuffix(got, stats) {
		t.Error(got)
	}
	c.hear("+OK +QUEUED -EXECABORT Transaction discarded because of: "+busy[1:], "MULTI", "FUNCTION STATS", "EXEC")
	c.hear("+OK", "FUNCTION KILL")
	if got := <-done; !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL... script: spin, on @user_function:2.") {
		t.Error(got)
	}
	c.hear("*4 $14 running_script $-1 "+stats, "FUNCTION STATS")
	go func() { done <- s.client().say("EVAL while%20true%20do%20end 0") }() // ends when the script is killed
	for !s.scripts.Busy() {
		runtime.Gosched()
	}
	const busyScript = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	c.hear(busyScript+" "+busyScript+" +OK", "FUNCTION STATS", "FUNCTION KILL", "SCRIPT KILL")
	<-done
}

func TestScriptDebug(t *testing.T) {
	s := startFunctions(t, newMem(), scripting.Options{})
	const refused = "-ERR scripts can not be debugged on this server: it has no Lua debugger. Use redis.log, or a redis-server for development"
	s.client().hear("+OK "+refused+" "+refused+" -ERR Use SCRIPT DEBUG YES/SYNC/NO",
		"SCRIPT DEBUG no", "SCRIPT DEBUG YES", "SCRIPT DEBUG SYNC", "SCRIPT DEBUG maybe")
}

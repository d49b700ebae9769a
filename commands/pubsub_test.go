package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"codeq/config"
	"codeq/resp"
)

// pubSubTestCommands are those of this family, and what it takes to see them.
func pubSubTestCommands() []Command {
	keep := func(c Command) bool {
		return c.Name == "hello" || c.Name == "reset" || strings.HasPrefix(c.Name, "client")
	}
	connection := slices.DeleteFunc(connectionCommands(), func(c Command) bool { return !keep(c) })
	return slices.Concat(connection, pubSubCommands(), monitorCommands(), clientPauseCommands(), clientReplyCommands(),
		blockingCommands(), listCommands())
}

// serveUnix serves the server on a unix socket and returns its path.
func (s *testServer) serveUnix(limits *resp.Limits) string {
	s.t.Helper()
	network := resp.NewServer(resp.Options{Handler: s.Server, Limits: limits, Now: s.clock.Now, Log: s.logger})
	s.Attach(network)
	l, err := net.Listen("unix", filepath.Join(s.t.TempDir(), "socket"))
	if err != nil {
		s.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- network.Serve(l) }() // stopped by Shutdown
	s.t.Cleanup(func() {
		if err := network.Shutdown(context.Background()); err != nil {
			s.t.Error(err)
		}
		if err := <-served; err != nil {
			s.t.Error(err)
		}
	})
	return l.Addr().String()
}

func dialUnix(t testing.TB, path string) *wired {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &wired{t, conn, bufio.NewReader(conn)}
}

// TestFanOut publishes to a thousand clients and counts every message.
func TestFanOut(t *testing.T) {
	const clients, messages = 1000, 50
	s := startServer(t, pubSubTestCommands()...)
	path := s.serveUnix(resp.NewLimits())
	all := make([]*wired, clients)
	for i := range all {
		all[i] = dialUnix(t, path)
		if i%2 == 1 {
			all[i].send("HELLO 3")
			for line := ""; !strings.HasPrefix(line, "*0"); {
				line, _ = all[i].in.ReadString('\n')
			}
		}
		all[i].send("SUBSCRIBE news")
		all[i].expect([]string{"*3", ">3"}[i%2] + " $9 subscribe $4 news :1")
	}
	publisher := dialUnix(t, path)
	for n := range messages {
		publisher.send(fmt.Sprintf("PUBLISH news %04d", n))
	}
	for range messages {
		publisher.expect(":" + strconv.Itoa(clients))
	}
	for i, c := range all {
		for n := range messages {
			c.expect([]string{"*3", ">3"}[i%2] + fmt.Sprintf(" $7 message $4 news $4 %04d", n))
		}
	}
}

// TestSlowSubscriber: who does not read is cut off, and nobody else notices.
func TestSlowSubscriber(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	limits := resp.NewLimits()
	limits.PostHard.Store(1 << 20)
	path := s.serveUnix(limits)
	slow, good, publisher := dialUnix(t, path), dialUnix(t, path), dialUnix(t, path)
	for i, c := range []*wired{slow, good} {
		c.send("SUBSCRIBE news")
		c.expect("*3 $9 subscribe $4 news :1")
		if got := s.audiences.channels.size([]byte("news")); got != i+1 {
			t.Fatalf("%d clients listen", got)
		}
	}
	text := strings.Repeat("x", 10<<10)
	for n := 0; s.audiences.channels.size([]byte("news")) == 2; n++ {
		if n > 10000 {
			t.Fatal("the client that does not read is still there")
		}
		publisher.send("PUBLISH news " + text)
		if line, err := publisher.in.ReadString('\n'); err != nil || line[0] != ':' {
			t.Fatalf("PUBLISH: %q, %v", line, err)
		}
		good.expect("*3 $7 message $4 news $10240 " + text)
	}
	if _, err := io.Copy(io.Discard, slow.conn); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	publisher.send("PUBLISH news last")
	publisher.expect(":1")
	good.expect("*3 $7 message $4 news $4 last")
}

// onlySession is the session of the only client.
func (s *testServer) onlySession() (only *resp.Session) {
	s.network.Each(func(conn *resp.Session) bool { only = conn; return false })
	return only
}

// TestMessagesLeaveOnce makes a run that publishes meet a lock that it can't have, so that it is carried out again.
func TestMessagesLeaveOnce(t *testing.T) {
	for _, lines := range [][]string{
		{"PUBLISH c one", "COPYTO high low", "PUBLISH c two"},
		{"MULTI", "PUBLISH c one", "COPYTO high low", "PUBLISH c two", "EXEC"},
		{"EVAL redis.call('publish','c','one')redis.call('copyto',KEYS[1],ARGV[1])redis.call('publish','c','two') 1 high low"},
	} {
		s := startServer(t, pubSubTestCommands()...)
		path := s.serveUnix(resp.NewLimits())
		low, high := s.keyOn(0), s.keyOn(3)
		for i := range lines {
			lines[i] = strings.NewReplacer("high", high, "low", low).Replace(lines[i])
		}
		listener, monitor := dialUnix(t, path), dialUnix(t, path)
		listener.send("SUBSCRIBE c")
		listener.expect("*3 $9 subscribe $1 c :1")
		monitor.send("MONITOR")
		monitor.expect("+OK")
		c := s.client()
		c.want("+OK", "SET "+high+" 5")
		blocked := s.holdShard(0)
		done := make(chan string)
		go func() { done <- c.send(lines...) }() // ends when the shard is given back
		s.awaitConflict()
		blocked.End()
		<-done
		listener.expect("*3 $7 message $1 c $3 one *3 $7 message $1 c $3 two")
		c.send("PUBLISH c end")
		listener.expect("*3 $7 message $1 c $3 end")
		shown := 0
		for line := ""; !strings.Contains(line, `"end"`); {
			line, _ = monitor.in.ReadString('\n')
			if strings.Contains(strings.ToUpper(line), `"PUBLISH" "C" "ONE"`) {
				shown++
			}
		}
		if shown != 1 {
			t.Errorf("%q: the first PUBLISH was shown %d times", lines, shown)
		}
	}
}

// TestWhatIsUndoneIsNotTold: a script that fails, alone or in a transaction, publishes nothing, and neither does what was
// never carried out.
func TestWhatIsUndoneIsNotTold(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	s.notify("KEA")
	path := s.serveUnix(resp.NewLimits())
	listener := dialUnix(t, path)
	listener.send("PSUBSCRIBE *")
	listener.expect("*3 $10 psubscribe $1 * :1")
	c := s.client()
	const fails = "EVAL redis.call('publish','c','false')redis.call('lpush','l','1')error('no') 0"
	c.send(fails)
	c.send("MULTI", "PUBLISH c true", fails, "PUBLISH c true", "EXEC")
	c.send("MULTI", "PUBLISH c false", "DISCARD")
	c.send("PUBLISH c false", "PANIC a")
	s.client().send("PUBLISH c end")
	const message = "*4 $8 pmessage $1 * $1 c "
	listener.expect(message + "$4 true " + message + "$4 true " + message + "$3 end")
}

// notify sets notify-keyspace-events.
func (s *testServer) notify(classes string) {
	s.t.Helper()
	if err := s.config.Set(config.Pair{Name: "notify-keyspace-events", Value: classes}); err != nil {
		s.t.Fatal(err)
	}
}

// TestSubscriptionsEnd: nothing is left of a client that is gone, however it went.
func TestSubscriptionsEnd(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	path := s.serveUnix(resp.NewLimits())
	for _, ending := range []string{"hang up", "QUIT", "RESET"} {
		c := dialUnix(t, path)
		c.send("SUBSCRIBE a", "PSUBSCRIBE p*", "SSUBSCRIBE s")
		c.expect("*3 $9 subscribe $1 a :1 *3 $10 psubscribe $2 p* :2 *3 $10 ssubscribe $1 s :1")
		if ending == "hang up" {
			_ = c.conn.Close()
		} else {
			c.send(ending)
		}
		a := &s.audiences
		for len(a.channels.names())+len(a.shards.names())+len(a.patterns.names())+int(a.patterns.used.Load()) > 0 {
			runtime.Gosched() // until the test times out
		}
	}
}

// TestExecTakesSubscriptionsBack: what EXEC subscribed to before it had to be carried out again is not left behind, and its
// reply is as if that had not been.
func TestExecTakesSubscriptionsBack(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	path := s.serveUnix(resp.NewLimits())
	low, high := s.keyOn(0), s.keyOn(3)
	c := dialUnix(t, path)
	c.send("SUBSCRIBE a", "UNSUBSCRIBE a", "SET "+high+" 5", "MULTI", "SUBSCRIBE x", "UNSUBSCRIBE", "SUBSCRIBE y",
		"COPYTO "+high+" "+low)
	c.expect("*3 $9 subscribe $1 a :1 *3 $11 unsubscribe $1 a :0 +OK +OK +QUEUED +QUEUED +QUEUED +QUEUED")
	blocked := s.holdShard(0)
	c.send("EXEC")
	s.awaitConflict()
	blocked.End()
	c.expect("*4 *3 $9 subscribe $1 x :1 *3 $11 unsubscribe $1 x :0 *3 $9 subscribe $1 y :1 +OK")
	if got := s.audiences.channels.names(); !slices.Equal(got, []string{"y"}) {
		t.Errorf("listened to: %q", got)
	}
}

// TestEvents covers the events that are not a handler's: of keys that expire, come into being, or are missing.
func TestEvents(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	s.notify("Exnmg")
	path := s.serveUnix(resp.NewLimits())
	listener, c := dialUnix(t, path), s.client()
	listener.send("PSUBSCRIBE __key*")
	listener.expect("*3 $10 psubscribe $6 __key* :1")
	event := func(name, key string) {
		t.Helper()
		channel := "__keyevent@0__:" + name
		listener.expect(fmt.Sprintf("*4 $8 pmessage $6 __key* $%d %s $%d %s", len(channel), channel, len(key), key))
	}
	at := s.clock.NowMs() + 1000
	c.want(":1", "RPUSH k a")
	event("new", "k")
	c.want(":1", fmt.Sprintf("PEXPIREAT k %d", at))
	s.clock.Advance(2 * time.Second)
	event("expired", "k") // the janitor's doing, or that of the next command
	c.want(":0", "LLEN k")
	event("keymiss", "k")
	s.notify("")
	c.want(":1 :0", "RPUSH k a", "LLEN nope")
	s.notify("KE")
	c.want(":2", "RPUSH k a")
	s.notify("Kg")
	c.want("*2 $1 a $1 a", "LPOP k 5")
	listener.expect("*4 $8 pmessage $6 __key* $16 __keyspace@0__:k $3 del")
}

// TestEventsOfBlocked: an element that is handed to who waits for it is told as pushed and then as popped.
func TestEventsOfBlocked(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	s.notify("El")
	path := s.serveUnix(resp.NewLimits())
	listener, waiting, c := dialUnix(t, path), dialUnix(t, path), s.client()
	listener.send("PSUBSCRIBE *")
	listener.expect("*3 $10 psubscribe $1 * :1")
	waiting.send("BLMOVE k d LEFT RIGHT 0")
	s.untilBlocked(1)
	c.want(":1", "RPUSH k a")
	waiting.expect("$1 a")
	for _, event := range []string{"$20 __keyevent@0__:rpush $1 k", "$20 __keyevent@0__:rpush $1 d", "$19 __keyevent@0__:lpop $1 k"} {
		listener.expect("*4 $8 pmessage $1 * " + event)
	}
}

// TestNoMessageOfWhatIsLost: when the log fails, nobody hears of what it was to keep.
func TestNoMessageOfWhatIsLost(t *testing.T) {
	var fail errorfs.Toggle
	fail.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "log") {
			return errors.New("no space left")
		}
		return nil
	})
	s := startServerOn(t, errorfs.Wrap(vfs.NewMem(), &fail), pubSubTestCommands()...)
	path := s.serveUnix(resp.NewLimits())
	listener, c := dialUnix(t, path), dialUnix(t, path)
	listener.send("SUBSCRIBE c")
	listener.expect("*3 $9 subscribe $1 c :1")
	c.send("SET a 1")
	c.expect("+OK")
	s.abandoned = true
	fail.On()
	c.send("MULTI", "SET a 2", "PUBLISH c lost", "EXEC")
	if got, err := io.ReadAll(listener.in); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestPause lets the clock decide how long commands are held.
func TestPause(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	path := s.serveUnix(resp.NewLimits())
	c, other := dialUnix(t, path), dialUnix(t, path)
	c.send("CLIENT PAUSE 1000 WRITE", "CLIENT PAUSE 500 WRITE", "GET a", "SET a 1", "GET a")
	c.expect("+OK +OK $-1")
	s.untilBlocked(1)
	other.send("CLIENT UNBLOCK 1", "GET a", "MULTI", "SET a 2")
	other.expect(":0 $-1 +OK")
	s.untilBlocked(2)
	s.clock.Advance(999 * time.Millisecond)
	if n := s.blocked.Load(); n != 2 {
		t.Errorf("%d sessions wait", n)
	}
	s.clock.Advance(time.Millisecond)
	c.expect("+OK $1 1")
	other.expect("+QUEUED")
	other.send("EXEC")
	other.expect("*1 +OK")

	other.send("CLIENT PAUSE 100000")
	other.expect("+OK")
	c.send("GET a")
	other.send("CLIENT UNPAUSE")
	s.untilBlocked(2)
	_ = c.conn.Close() // who waits for the end of a pause can leave
	s.untilBlocked(1)
	s.clock.Advance(100 * time.Second)
	other.expect("+OK")
	s.untilBlocked(0)
}

// TestClientReply: replies that nobody wants are not sent, but that of a command that had to wait is.
func TestClientReply(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	path := s.serveUnix(resp.NewLimits())
	c, other := dialUnix(t, path), dialUnix(t, path)
	c.send("CLIENT REPLY OFF", "PING", "NOPE", "SUBSCRIBE a", "NOPE", "UNSUBSCRIBE a", "CLIENT REPLY SKIP", "SET a 1", "CLIENT REPLY ON", "GET a")
	c.expect("*3 $9 subscribe $1 a :1 *3 $11 unsubscribe $1 a :0 +OK $1 1")
	c.send("CLIENT REPLY SKIP", "BLPOP l 0", "GET a")
	s.untilBlocked(1)
	other.send("RPUSH l x")
	other.expect(":1")
	c.expect("$1 1")
}

// TestListenersAreSeen: CLIENT LIST tells who listens, and what else a client asked for, until RESET.
func TestListenersAreSeen(t *testing.T) {
	s := startServer(t, pubSubTestCommands()...)
	c := dialUnix(t, s.serveUnix(resp.NewLimits()))
	c.send("CLIENT NO-EVICT ON", "CLIENT NO-TOUCH on", "MONITOR", "SUBSCRIBE a", "PING")
	c.expect("+OK +OK +OK *3 $9 subscribe $1 a :1 +PONG")
	conn := s.onlySession()
	if line := string(appendClient(nil, conn, s.clock.Now())); !strings.Contains(line, " flags=OPUeT db=0 sub=1 psub=0 ssub=0 ") ||
		kindOf(conn) != pubsubClient {
		t.Error(line)
	}
	for line := ""; !strings.Contains(line, "PING"); {
		line, _ = c.in.ReadString('\n')
	}
	c.send("RESET")
	c.expect("+RESET")
	if line := string(appendClient(nil, conn, s.clock.Now())); !strings.Contains(line, " flags=U db=0 sub=0 psub=0 ssub=0 ") ||
		kindOf(conn) != normalClient {
		t.Error(line)
	}
}

// TestUnsubscribedAfterMessages: what was published before a client unsubscribed comes before the confirmation, also when the
// client was busy meanwhile.
func TestUnsubscribedAfterMessages(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	gate := declare("gate", "GATE", 0, nil, func(c *Call) error {
		entered <- struct{}{}
		<-release
		c.Out.OK()
		return nil
	})
	gate.Scope = scopeSession
	s := startServer(t, append(pubSubTestCommands(), gate)...)
	c := dialUnix(t, s.serveUnix(resp.NewLimits()))
	c.send("HELLO 3", "SUBSCRIBE a", "GATE", "UNSUBSCRIBE a", "PING")
	<-entered
	s.client().want(":1", "PUBLISH a x")
	close(release)
	for line := ""; !strings.HasPrefix(line, "*0"); {
		line, _ = c.in.ReadString('\n')
	}
	c.expect(">3 $9 subscribe $1 a :1 +OK >3 $7 message $1 a $1 x >3 $11 unsubscribe $1 a :0 +PONG")
}

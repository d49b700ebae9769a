package tests

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// exchangeStep is one step of a conversation over several connections: one sends a line, and some then read so many replies
// or messages.
type exchangeStep struct {
	from  int
	line  string
	reads []int // connections, one for each message to come; empty means the sender's one reply
}

// to is a step after which these connections have something to read.
func to(from int, line string, reads ...int) exchangeStep { return exchangeStep{from, line, reads} }

// pubSubConversation has three connections: 0 and 1 subscribe, 2 publishes. No message matches two patterns, since Redis' order
// of these is random.
func pubSubConversation() []exchangeStep {
	return []exchangeStep{
		to(0, "SUBSCRIBE a b a", 0, 0, 0), to(0, "PSUBSCRIBE a* z*", 0, 0), to(0, "SSUBSCRIBE s a", 0, 0),
		to(1, "SUBSCRIBE a", 1),
		to(2, "PUBLISH a hello", 0, 0, 1, 2), to(2, "PUBLISH zz \x00", 0, 2), to(2, "SPUBLISH a x", 0, 2), to(2, "SPUBLISH b x"),
		to(2, "PUBSUB CHANNELS", 2), to(2, "PUBSUB NUMSUB a b nope"), to(2, "PUBSUB NUMPAT"), to(2, "PUBSUB SHARDNUMSUB a s"),
		to(2, "PUBSUB CHANNELS b*"), to(2, "PUBSUB SHARDCHANNELS s*"), to(2, "PUBSUB CHANNELS a b"), to(2, "PUBSUB nope"), to(2, "PUBSUB NUMSUB"),
		to(0, "PING"), to(0, "PING hi"), to(0, "PING a b"), to(1, "GET k"), to(1, "CLIENT LIST x"), to(1, "HELLO 4"), to(1, "nope"), to(1, "GET"),
		to(1, "MULTI"), to(1, "DISCARD"),
		to(2, "MULTI"), to(2, "PUBLISH a one"), to(2, "SET k v"), to(2, "SPUBLISH s two"), to(2, "PUBLISH b three"),
		to(2, "EXEC", 0, 0, 0, 0, 1, 2),
		to(2, "EVAL redis.call('publish','a','lua')return(redis.call('pubsub','numpat')) 0", 0, 0, 1, 2),
		to(2, "EVAL return(redis.call('subscribe','a')) 0"),
		to(2, "MULTI"), to(2, "PUBLISH a gone"), to(2, "DISCARD"),
		to(0, "UNSUBSCRIBE b nope", 0, 0), to(0, "PUNSUBSCRIBE z*", 0), to(0, "SUNSUBSCRIBE x", 0),
		to(2, "PUBLISH a again", 0, 0, 1, 2), to(2, "PUBLISH b nobody"),
		to(0, "PUNSUBSCRIBE", 0), to(0, "PUNSUBSCRIBE", 0), to(0, "UNSUBSCRIBE", 0), to(0, "SUNSUBSCRIBE a", 0), to(0, "SUNSUBSCRIBE", 0),
		to(0, "GET k"), to(0, "UNSUBSCRIBE", 0),
		to(0, "SUBSCRIBE r", 0), to(0, "RESET"), to(2, "PUBLISH r x"), to(0, "GET k"),
		to(0, "SUBSCRIBE", 0), to(2, "PUBLISH a"), to(2, "SPUBLISH"),
		to(0, "MULTI"), to(0, "SUBSCRIBE m"), to(0, "UNSUBSCRIBE"), to(0, "EXEC"), // what the two confirm stands in EXEC's reply
		to(1, "UNSUBSCRIBE", 1), to(1, "GET k"), to(1, "SUBSCRIBE q", 1), to(1, "QUIT"),
	}
}

// TestPubSubAsRedis holds the same conversation with both servers, in both protocols, and compares every byte.
func TestPubSubAsRedis(t *testing.T) {
	redis, codeq := both(t)
	for proto := 2; proto <= 3; proto++ {
		var sides [2][3]*peer.Conn
		for i, server := range []*peer.Server{redis, codeq} {
			for j := range sides[i] {
				sides[i][j] = server.DialForTest(t)
				if err := sides[i][j].Hello(proto); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n, step := range pubSubConversation() {
			reads := step.reads
			if len(reads) == 0 {
				reads = []int{step.from}
			}
			args := strings.Split(step.line, " ")
			for i := range sides {
				if err := sides[i][step.from].Send(args...); err != nil {
					t.Fatal(err)
				}
			}
			for _, from := range reads {
				want, err := sides[0][from].Read()
				if err != nil {
					t.Fatalf("RESP%d step %d, %q: redis: %v", proto, n, step.line, err)
				}
				got, err := sides[1][from].Read()
				if err != nil || !bytes.Equal(got, want) && !sameNames(got, want, args) {
					t.Fatalf("RESP%d step %d, %q: connection %d got %q, %v; Redis: %q", proto, n, step.line, from, got, err, want)
				}
			}
		}
		if _, err := sides[1][1].Read(); !errors.Is(err, io.EOF) {
			t.Errorf("after QUIT: %v", err)
		}
	}
}

// TestKilledAreGone: from CLIENT KILL on a client counts nowhere and gets nothing, however long its connection takes to end.
func TestKilledAreGone(t *testing.T) {
	redis, codeq := both(t)
	talk := strings.Split("CLIENT KILL TYPE pubsub;PUBLISH a x;PUBLISH bb x;SPUBLISH s x;PUBSUB NUMSUB a;PUBSUB NUMPAT;PUBSUB CHANNELS;"+
		"PUBSUB SHARDCHANNELS;CLIENT KILL TYPE pubsub;CLIENT LIST TYPE pubsub", ";")
	for range 5 {
		var said [2][]byte
		for i, server := range []*peer.Server{redis, codeq} {
			c := server.DialForTest(t)
			for range 20 {
				listener := server.DialForTest(t)
				for _, line := range []string{"SUBSCRIBE a", "PSUBSCRIBE b*", "SSUBSCRIBE s"} {
					if _, err := listener.Do(strings.Split(line, " ")...); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, line := range talk {
				if err := c.Send(strings.Split(line, " ")...); err != nil {
					t.Fatal(err)
				}
			}
			for range talk {
				reply, err := c.Read()
				if err != nil {
					t.Fatal(err)
				}
				said[i] = append(said[i], reply...)
			}
		}
		if !bytes.Equal(said[0], said[1]) {
			t.Fatalf("codeq: %q\nRedis: %q", said[1], said[0])
		}
	}
}

// sameNames takes lists of channels as the same in any order.
func sameNames(got, want []byte, args []string) bool {
	if args[0] != "PUBSUB" {
		return false
	}
	a, errA := peer.Parse(got)
	b, errB := peer.Parse(want)
	return errA == nil && errB == nil && unordered(a, b)
}

// clientCalls are the calls of CLIENT and MONITOR whose replies are equal byte for byte. They run in this order on one
// connection.
func clientCalls() []string {
	return []string{
		"CLIENT PAUSE", "CLIENT PAUSE a", "CLIENT PAUSE -1", "CLIENT PAUSE 0 foo", "CLIENT PAUSE 1 all x", "CLIENT PAUSE 1 write", "CLIENT UNPAUSE",
		"CLIENT REPLY", "CLIENT REPLY foo", "CLIENT REPLY on", "CLIENT GETREDIR", "CLIENT TRACKINGINFO", "CLIENT CACHING yes",
		"CLIENT CACHING maybe", "CLIENT TRACKING", "CLIENT TRACKING off", "CLIENT TRACKING maybe", "CLIENT TRACKING on bcast foo",
		"CLIENT TRACKING off bcast", "CLIENT TRACKING off REDIRECT a", "MONITOR x",
		"CONFIG SET notify-keyspace-events KEQ", "CONFIG SET notify-keyspace-events KEA", "CONFIG GET notify-keyspace-events",
		"CONFIG SET notify-keyspace-events tdg$lxxshzeK", "CONFIG GET notify-keyspace-events", "CONFIG SET notify-keyspace-events Knm",
		"CONFIG GET notify-keyspace-events", "CONFIG SET notify-keyspace-events \"\"",
		"MULTI", "MONITOR", "EXEC", "EVAL return(redis.call('monitor')) 0", "PING", "GET k",
		"MONITOR", "GET k", "SET k v", "CLIENT PAUSE 0", "RESET", "GET k",
	}
}

// TestClientAsRedis compares the commands on connections.
func TestClientAsRedis(t *testing.T) {
	redis, codeq := both(t)
	inBothProtocols(t, redis, codeq, func(p pair) { p.compare(t, clientCalls(), nil) })
}

// TestReplyAsRedis compares what is left of the replies to a pipeline in which CLIENT REPLY keeps some back.
func TestReplyAsRedis(t *testing.T) {
	redis, codeq := both(t)
	for _, pipeline := range []string{
		"SET k v;CLIENT REPLY OFF;PING;GET k;NOPE;CLIENT REPLY ON;ECHO end",
		"CLIENT REPLY SKIP;PING;GET k;CLIENT REPLY SKIP;CLIENT REPLY SKIP;PING;ECHO end",
		"CLIENT REPLY OFF;CLIENT REPLY SKIP;PING;CLIENT REPLY ON;ECHO end",
		"CLIENT REPLY SKIP;BLPOP nokey 0.01;ECHO end",
		"CLIENT REPLY OFF;SUBSCRIBE a;NOPE;CLIENT REPLY ON;UNSUBSCRIBE a;CLIENT REPLY ON;ECHO end",
		"CLIENT REPLY OFF;MULTI;SET k w;EXEC;CLIENT REPLY ON;GET k;ECHO end",
		"CLIENT REPLY SKIP;NOPE;GET k;CLIENT REPLY OFF;RESET;ECHO end",
	} {
		var replies [2][]string
		for i, server := range []*peer.Server{redis, codeq} {
			c := server.DialForTest(t)
			var out []byte
			for _, line := range strings.Split(pipeline, ";") {
				out = peer.AppendCommand(out, strings.Split(line, " ")...)
			}
			if err := c.Write(out); err != nil {
				t.Fatal(err)
			}
			for last := ""; last != "$3\r\nend\r\n"; {
				raw, err := c.Read()
				if err != nil {
					t.Fatalf("%s: %s: %v behind %q", pipeline, server.Kind(), err, replies[i])
				}
				last = string(raw)
				replies[i] = append(replies[i], last)
			}
		}
		if !slices.Equal(replies[0], replies[1]) {
			t.Errorf("%s: %q; Redis: %q", pipeline, replies[1], replies[0])
		}
	}
}

// monitored are commands whose lines are compared.
func monitored() []string {
	return []string{
		"SET a 1", "get a", "MULTI", "SET b 1", "PUBLISH c d", "INCR b", "EXEC", "EVAL redis.call('set',KEYS[1],'y')return(redis.call('GET','x')) 1 x",
		"AUTH foo", "AUTH default foo", "HELLO 3 AUTH default foo SETNAME x", "CONFIG GET x", "CLIENT ID", "BLPOP l 0.01", "GET", "NOPE",
		"SELECT 2", "SET q a\n\r\t\a\b\x00\x7f\xff\"b\\'", "SET  ", "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0", "EVAL error() 0", "PING", "SUBSCRIBE z",
		"UNSUBSCRIBE z", "DISCARD", "LPOP a", "LPOP q", "SCRIPT LOAD return", "WATCH a", "MULTI", "EVAL redis.call('set','x','y')error('no') 0",
		"EVALSHA ffffffffffffffffffffffffffffffffffffffff 0", "SET x 1", "EXEC", "EVAL_RO return(redis.call('get','x')) 0",
		"MONITOR", "RESET", "ECHO end",
	}
}

// TestMonitorAsRedis compares what MONITOR shows, but for times and addresses.
func TestMonitorAsRedis(t *testing.T) {
	redis, codeq := both(t)
	var shown [2][]string
	for i, server := range []*peer.Server{redis, codeq} {
		monitor, c := server.DialForTest(t), server.DialForTest(t)
		if raw, err := monitor.Do("MONITOR"); err != nil || string(raw) != "+OK\r\n" {
			t.Fatalf("MONITOR: %q, %v", raw, err)
		}
		for _, line := range monitored() {
			if _, err := c.Do(strings.Split(line, " ")...); err != nil {
				t.Fatal(err)
			}
		}
		form := regexp.MustCompile(`^\+\d{10}\.\d{6} \[(\d+) (lua|127\.0\.0\.1:\d+)\] (.*)\r\n$`)
		for last := ""; !strings.HasSuffix(last, `"end"`); {
			raw, err := monitor.Read()
			if err != nil {
				t.Fatalf("%s: %v behind %q", server.Kind(), err, shown[i])
			}
			parts := form.FindStringSubmatch(string(raw))
			if parts == nil {
				t.Fatalf("%s showed %q", server.Kind(), raw)
			}
			from := parts[2]
			if from != "lua" {
				from = "client"
			}
			last = parts[1] + " " + from + " " + parts[3]
			shown[i] = append(shown[i], last)
		}
	}
	for i, want := range shown[0] {
		if i >= len(shown[1]) || shown[1][i] != want {
			t.Fatalf("line %d of %q\nRedis: %q", i, shown[1], shown[0])
		}
	}
}

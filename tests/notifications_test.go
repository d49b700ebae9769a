package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// listener is a client that is told of every keyspace event of one server.
type listener struct {
	conn  *peer.Conn // subscribed
	admin *peer.Conn // says when all has been told
	marks int
}

// eventClasses are all classes but that of lookups that find nothing.
const eventClasses = "KEAn"

func listen(t *testing.T, server *peer.Server, classes string) *listener {
	t.Helper()
	l := &listener{conn: server.DialForTest(t), admin: server.DialForTest(t)}
	if _, err := l.admin.Call("CONFIG", "SET", "notify-keyspace-events", classes); err != nil {
		t.Fatal(err)
	}
	if _, err := l.conn.Do("PSUBSCRIBE", "__key*__:*", "mark:*"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.conn.Read(); err != nil {
		t.Fatal(err)
	}
	return l
}

// events returns what has been told since the last call: channel and message, in order.
func (l *listener) events() ([]string, error) {
	l.marks++
	mark := fmt.Sprintf("mark:%d", l.marks)
	if _, err := l.admin.Call("PUBLISH", mark, ""); err != nil {
		return nil, err
	}
	var all []string
	for {
		raw, err := l.conn.Read()
		if err != nil {
			return all, err
		}
		message, err := peer.Parse(raw)
		if err != nil {
			return all, err
		}
		channel := message.Elems[2].Str
		if channel == mark {
			return all, nil
		}
		all = append(all, channel+" "+message.Elems[3].Str)
	}
}

// told leaves out what depends on when a server finds that a key has expired. It leaves out, too, what docs/compatibility.md
// names: that a key which is spread over the shards is new, which none of these knows, and that one is whose value a command
// with STORE in its name, or SORT, has replaced.
func told(events []string, calls []sent) []string {
	stores := slices.ContainsFunc(calls, func(c sent) bool {
		name := c.row.name // that of a command within a script, too
		return strings.Contains(name, "STORE") || name == "EXEC" || strings.HasPrefix(name, "SORT") || strings.HasPrefix(name, "GEO")
	})
	return slices.DeleteFunc(events, func(e string) bool {
		channel, text, _ := strings.Cut(e, " ")
		isNew := text == "new" || strings.HasSuffix(channel, "__:new")
		return text == "expired" || strings.HasSuffix(channel, "__:expired") || isNew && stores || isNew && strings.Contains(e, "codeq:")
	})
}

// TestNotificationsAsRedis sends the commands of the differential test to both servers and compares the keyspace events.
func TestNotificationsAsRedis(t *testing.T) {
	redis, codeq := both(t)
	first := seed(t)
	for i := range pick(*seedsFlag, 4, 100) {
		d := newDuel(t, first+uint64(i/2), 2+i%2, redis, codeq)
		compared, err := compareEvents(d, listen(t, redis, eventClasses), listen(t, codeq, eventClasses))
		if err != nil {
			t.Fatal(err)
		}
		if compared < *stepsFlag/4 {
			t.Errorf("-seed=%d: only %d events in %d commands", d.seed, compared, d.step)
		}
	}
}

// compareEvents runs a duel and compares the events of each batch. What is even only after the fact, such as a random
// choice that is copied from one server to the other, is left out.
func compareEvents(d *duel, a, b *listener) (compared int, err error) {
	for d.step < *stepsFlag {
		before := d.step
		if err := d.batch(d.gen.rng.IntN(duelSessions)); err != nil {
			return compared, err
		}
		want, err := a.events()
		if err != nil {
			return compared, fmt.Errorf("redis: %w", err)
		}
		got, err := b.events()
		if err != nil {
			return compared, fmt.Errorf("codeq: %w", err)
		}
		calls := d.history[len(d.history)-(d.step-before):]
		if slices.ContainsFunc(calls, func(c sent) bool { return c.row.alone != nil }) {
			continue
		}
		want, got = told(want, calls), told(got, calls)
		if !slices.Equal(got, want) {
			return compared, fmt.Errorf("-seed=%d step %d RESP%d: %q\n got %q\nwant %q", d.seed, d.step, d.proto, commands(calls), got, want)
		}
		compared += len(want)
	}
	return compared, nil
}

// blockedEvents are calls that wait, and what is then done so that they are served.
func blockedEvents() [][2][]string {
	return [][2][]string{
		{{"BLPOP", "k", "l", "0"}, {"RPUSH", "l", "a", "b"}},
		{{"BRPOP", "k", "0"}, {"LPUSH", "k", "a"}},
		{{"BLMOVE", "k", "d", "LEFT", "RIGHT", "0"}, {"RPUSH", "k", "a"}},
		{{"BRPOPLPUSH", "k", "k", "0"}, {"RPUSH", "k", "a"}},
		{{"BLMPOP", "0", "2", "k", "l", "LEFT", "COUNT", "5"}, {"RPUSH", "l", "a", "b"}},
		{{"BZPOPMIN", "z", "0"}, {"ZADD", "z", "1", "a", "2", "b"}},
		{{"BZPOPMAX", "z", "0"}, {"ZADD", "z", "1", "a"}},
		{{"BZMPOP", "0", "1", "z", "MAX"}, {"ZADD", "z", "1", "a"}},
		{{"XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"}, {"XADD", "s", "7-1", "a", "b"}},
		{{"BLPOP", "k", "0"}, {"RENAME", "x", "k"}},
		{{"BLPOP", "k", "0"}, {"EVAL", "redis.call('rpush','k','a') return redis.call('set','y','1')", "0"}},
	}
}

// TestBlockedNotificationsAsRedis compares the events of serving a client that waits, and of a key that expires.
func TestBlockedNotificationsAsRedis(t *testing.T) {
	redis, codeq := both(t)
	var sides [2]*listener
	for i, server := range []*peer.Server{redis, codeq} {
		sides[i] = listen(t, server, eventClasses)
	}
	for _, test := range blockedEvents() {
		var told [2][]string
		for i, server := range []*peer.Server{redis, codeq} {
			l, waiting := sides[i], server.DialForTest(t)
			for _, args := range [][]string{{"FLUSHALL"}, {"RPUSH", "x", "1"}, {"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"}} {
				if _, err := l.admin.Call(args...); err != nil {
					t.Fatal(err)
				}
			}
			if err := waiting.Send(test[0]...); err != nil {
				t.Fatal(err)
			}
			err := peer.Poll(testContext(t), pollInterval, func() (bool, error) {
				reply, err := l.admin.Call("INFO", "clients")
				return strings.Contains(reply.Str, "blocked_clients:1\r\n"), err
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.admin.Call(test[1]...); err != nil {
				t.Fatal(err)
			}
			if _, err := waiting.Read(); err != nil {
				t.Fatal(err)
			}
			if told[i], err = l.events(); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(told[0], told[1]) {
			t.Errorf("%q, then %q: %q\nRedis: %q", test[0], test[1], told[1], told[0])
		}
	}
	testExpiredNotifications(t, sides)
}

// testExpiredNotifications waits until the servers tell that a key has expired.
func testExpiredNotifications(t *testing.T, sides [2]*listener) {
	for _, l := range sides {
		if _, err := l.events(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.admin.Call("SET", "soon", "v", "PX", "5"); err != nil {
			t.Fatal(err)
		}
		var all []string
		err := peer.Poll(testContext(t), pollInterval, func() (bool, error) {
			events, err := l.events()
			all = append(all, events...)
			return slices.Contains(all, "__keyevent@0__:expired soon"), err
		})
		want := []string{
			"__keyspace@0__:soon new", "__keyevent@0__:new soon", "__keyspace@0__:soon set", "__keyevent@0__:set soon",
			"__keyspace@0__:soon expire", "__keyevent@0__:expire soon", "__keyspace@0__:soon expired", "__keyevent@0__:expired soon",
		}
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("told %q, %v; want %q", all, err, want)
		}
	}
}

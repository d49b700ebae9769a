package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// Blocking commands are compared by scenes. A scene is played on a fresh redis-server's and a fresh codeq-server's databases, and
// what everybody got, byte for byte, must be the same. Its lines, with one letter for each client:
//
//	x: LPUSH k v     x sends a command, or several at once with | between them, and reads the replies
//	a> BLPOP k 0     a sends commands, and then it is blocked
//	a<               a reads a reply, or the end of its connection
//	a.               a is still blocked: CLIENT UNBLOCK says so, and ends it
//	a!               a hangs up, and the server notices
//	x= DUMP k        like x:, but the reply is kept and not compared; @x stands for it, unless x is a client that blocks
//	#2               two clients are blocked
//
// 'Quotes' keep words together, and @a is a's id once it has blocked.

// play is a scene on one server.
type play struct {
	ctx     context.Context
	server  *peer.Server
	admin   *peer.Conn
	proto   int
	clients map[string]*player
	log     strings.Builder // what everybody got
}

type player struct {
	conn *peer.Conn
	id   string
	kept string
}

// stage plays a scene from its first line to the last and tells what everybody got, and what is left.
func stage(ctx context.Context, server *peer.Server, proto int, scene string) (log string, err error) {
	p := &play{ctx: ctx, server: server, proto: proto, clients: map[string]*player{}}
	if p.admin, err = server.Dial(); err != nil {
		return "", err
	}
	defer func() {
		p.admin.Close()
		for _, c := range p.clients {
			c.conn.Close()
		}
	}()
	if _, err := p.admin.Call("FLUSHALL"); err != nil {
		return "", err
	}
	for line := range strings.Lines(scene) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := p.line(line); err != nil {
			return p.log.String(), fmt.Errorf("%s: %w", line, err)
		}
	}
	for db := range 2 {
		left, err := dump(p.admin, db)
		if err != nil {
			return p.log.String(), err
		}
		fmt.Fprintf(&p.log, "left in %d: %v\n", db, left)
	}
	return p.log.String(), nil
}

func (p *play) line(line string) error {
	if count, ok := strings.CutPrefix(line, "#"); ok {
		return p.untilBlocked(count)
	}
	c, err := p.client(line[:1])
	if err != nil {
		return err
	}
	rest := line[2:]
	switch line[1] {
	case ':':
		n, err := p.send(c, rest)
		for ; n > 0 && err == nil; n-- {
			var raw []byte
			raw, err = c.conn.Read()
			fmt.Fprintf(&p.log, "%s %q\n", line, raw)
		}
		return err
	case '=':
		reply, err := c.conn.Call(p.words(rest)...)
		c.kept = reply.Str
		return err
	case '>':
		if _, err := p.send(c, rest); err != nil {
			return err
		}
		return p.untilListed(c.id, regexp.MustCompile(` flags=\w*b`).MatchString)
	case '<':
		raw, err := c.conn.Read()
		if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset by peer") {
			return err
		}
		fmt.Fprintf(&p.log, "%s %q %t\n", line, raw, err != nil)
		return nil
	case '.':
		told, err := p.admin.Do("CLIENT", "UNBLOCK", c.id)
		if err != nil {
			return err
		}
		raw, err := c.conn.Read()
		fmt.Fprintf(&p.log, "%s %q %q\n", line, told, raw)
		return err
	case '!':
		c.conn.Close()
		return p.untilListed(c.id, func(line string) bool { return line == "" })
	}
	return errors.New("not a line of a scene")
}

// client finds or connects a client.
func (p *play) client(name string) (*player, error) {
	if c := p.clients[name]; c != nil {
		return c, nil
	}
	conn, err := p.server.Dial()
	if err != nil {
		return nil, err
	}
	c := &player{conn: conn}
	p.clients[name] = c
	id, err := conn.Call("CLIENT", "ID")
	if c.id = id.Str; err != nil {
		return nil, err
	}
	return c, conn.Hello(p.proto)
}

// words splits a command. A name behind @ stands for that client's id, or what it has kept.
func (p *play) words(text string) []string {
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(text, -1)
	for i, word := range words {
		words[i] = strings.Trim(word, "'")
		name, ok := strings.CutPrefix(word, "@")
		if c := p.clients[name]; ok && c != nil {
			if words[i] = c.id; c.kept != "" {
				words[i] = c.kept
			}
		}
	}
	return words
}

// send sends commands at once and counts them.
func (p *play) send(c *player, text string) (n int, err error) {
	var out []byte
	for command := range strings.SplitSeq(text, "|") {
		out = peer.AppendCommand(out, p.words(command)...)
		n++
	}
	return n, c.conn.Write(out)
}

// untilListed waits until CLIENT LIST tells of a client what is asked for.
func (p *play) untilListed(id string, fits func(line string) bool) error {
	return peer.Poll(p.ctx, pollInterval, func() (bool, error) {
		list, err := p.admin.Call("CLIENT", "LIST", "ID", id)
		return fits(list.Str), err
	})
}

// untilBlocked waits until so many clients are blocked.
func (p *play) untilBlocked(count string) error {
	return peer.Poll(p.ctx, pollInterval, func() (bool, error) {
		info, err := p.admin.Call("INFO", "clients")
		return strings.Contains(info.Str, "blocked_clients:"+count+"\r\n"), err
	})
}

// compareScenes plays the scenes on both servers in both protocols.
func compareScenes(t *testing.T, scenes []string) {
	t.Helper()
	redis, codeq := both(t)
	ctx := testContext(t)
	for _, scene := range scenes {
		for proto := 2; proto <= 3; proto++ {
			want, err := stage(ctx, redis, proto, scene)
			if err != nil {
				t.Fatalf("RESP%d redis: %v in\n%s\nafter\n%s", proto, err, scene, want)
			}
			got, err := stage(ctx, codeq, proto, scene)
			if err != nil {
				t.Fatalf("RESP%d codeq: %v in\n%s\nafter\n%s\nRedis:\n%s", proto, err, scene, got, want)
			}
			if got != want {
				t.Errorf("RESP%d scene:\n%s\ncodeq:\n%s\nRedis:\n%s", proto, scene, got, want)
			}
		}
	}
	t.Logf("%d scenes", len(scenes))
}

// way is how key k becomes ready, or does not: what is done before a client waits for it, and then.
type way struct{ before, then string }

// crossed makes a scene for each pair of a blocking command and a way: two clients wait, and the second one's order is the
// same as its place. Whether they are served is for the servers to agree upon.
func crossed(calls []string, ways []way) (scenes []string) {
	for _, call := range calls {
		for _, w := range ways {
			scenes = append(scenes, w.before+"\na> "+call+"\nb> "+call+"\n"+w.then+
				"\ny: CLIENT UNBLOCK @a\ny: CLIENT UNBLOCK @b\na<\nb<\n#0\n")
		}
	}
	return scenes
}

// waysOfLists is everything that could make k a list with elements.
func waysOfLists() []way {
	return []way{
		{"", "x: LPUSH k 1"},
		{"", "x: LPUSH k 1 2 3"},
		{"", "x: RPUSH k 1 2 3"},
		{"", "x: LPUSHX k 1\nx: RPUSHX k 1\nx: LINSERT k BEFORE p 1\nx: LSET k 0 1"},
		{"x: RPUSH s 1 2 3", "x: LMOVE s k LEFT RIGHT\nx: LMOVE s k RIGHT LEFT"},
		{"x: RPUSH s 1 2 3", "x: RPOPLPUSH s k"},
		{"x: RPUSH s 1 2 3", "x: BLMOVE s k LEFT RIGHT 0\nx: BRPOPLPUSH s k 0"},
		{"x: RPUSH s 1 2 3", "x: RENAME s k"},
		{"x: RPUSH s 1 2 3", "x: RENAMENX s k"},
		{"x: RPUSH s 1 2 3", "x: COPY s k"},
		{"x: RPUSH s 1 2 3", "x: SET k x\nx: COPY s k\nx: COPY s k REPLACE"},
		{"x: SELECT 1\nx: RPUSH k 1 2 3", "x: MOVE k 0"},
		{"x: SELECT 1\nx: RPUSH k 1 2 3", "x: COPY k k DB 0"},
		{"x: SELECT 1\nx: RPUSH k 1 2 3", "x: SWAPDB 0 1"},
		{"x: SELECT 1", "x: RPUSH k 1 2 3\nx: SWAPDB 1 0\nx: SWAPDB 1 0"},
		{"x: RPUSH s 1 2 3\nd= DUMP s", "x: RESTORE k 0 @d"},
		{"x: RPUSH s 1 2 3\nd= DUMP s", "x: SET k x\nx: RESTORE k 0 @d\nx: RESTORE k 100000 @d REPLACE"},
		{"x: RPUSH s 3 1 2", "x: SORT s STORE k"},
		{"x: SADD s 3 1 2", "x: SORT s BY nosort GET # ALPHA DESC LIMIT 0 1 STORE k"},
		{"", "x: SADD k 1\nx: DEL k\nx: ZADD k 1 a\nx: DEL k\nx: HSET k f v\nx: DEL k\nx: XADD k 1-1 f v"},
		{"", "x: SET k v\nx: LPUSH k 1\nx: APPEND k v\nx: DEL k\nx: LPUSH k 1"},
		{"", "x: MULTI\nx: LPUSH k 1\nx: LPUSH k 2\nx: LPUSH k 3\nx: EXEC"},
		{"", "x: MULTI\nx: LPUSH k 1\nx: LPOP k\nx: EXEC\nx: MULTI\nx: LPUSH k 1\nx: DEL k\nx: EXEC"},
		{"", "x: MULTI\nx: LPUSH k 1\nx: DEL k\nx: SET k v\nx: EXEC"},
		{"", "x: MULTI\nx: LPUSH k 1 2 3\nx: RPOP k\nx: SADD k 1\nx: LPUSH k 4\nx: EXEC"},
		{"", "x: MULTI\nx: LPUSH k 1\nx: DISCARD\nx: FLUSHALL\nx: EXISTS k"},
		{"", "x: MULTI\nx: LPUSH k 1\nx: FLUSHALL\nx: EXEC\nx: MULTI\nx: FLUSHALL\nx: RPUSH k 2 3\nx: EXEC"},
		{"", "x: EVAL 'redis.call(\"rpush\", KEYS[1], 1, 2, 3) redis.call(\"lpop\", KEYS[1]) return redis.call(\"llen\", KEYS[1])' 1 k"},
		{"", "x: EVAL 'for i = 1, 10 do redis.call(\"rpush\", KEYS[1], i) redis.call(\"lpop\", KEYS[1]) end return redis.call(\"rpush\", KEYS[1], 7)' 1 k"},
		{"x: RPUSH s 1 2 3", "x: EVAL 'return redis.call(\"lmpop\", 1, KEYS[1], \"left\", \"count\", 2)' 1 s\nx: EVAL 'redis.call(\"rename\", KEYS[1], KEYS[2])' 2 s k"},
		{"x: LPUSH s 1", "x: WATCH k\nx: MULTI\nx: LPUSH k 1\nx: EXEC"},
		{"", "x: RPUSH k 1\nx: RPUSH k 2\nx: RPUSH k 3\nx: LLEN k"},
	}
}

// TestBlockingLists has every command that waits for a list meet everything that could make one.
func TestBlockingLists(t *testing.T) {
	compareScenes(t, crossed([]string{"BLPOP k 0", "BRPOP j k 0", "BLMOVE k to LEFT RIGHT 0", "BRPOPLPUSH k to 0",
		"BLMPOP 0 2 j k LEFT COUNT 2", "BLMPOP 0 1 k RIGHT"}, waysOfLists()))
}

// waysOfZSets is everything that could make k a sorted set with members.
func waysOfZSets() []way {
	const place = "13.361389 38.115556 Palermo 15.087269 37.502669 Catania"
	return []way{
		{"", "x: ZADD k 1.5 a"},
		{"", "x: ZADD k 2 b 1 a 3 c"},
		{"", "x: ZADD k XX 1 a\nx: ZADD k NX 1 a"},
		{"", "x: ZADD k INCR 1.25 a"},
		{"", "x: ZINCRBY k 3.1 a"},
		{"x: ZADD s 1 a 2 b 3 c", "x: ZUNIONSTORE k 1 s WEIGHTS 2"},
		{"x: ZADD s 1 a 2 b 3 c", "x: ZINTERSTORE k 2 s nosuch\nx: ZINTERSTORE k 2 s s"},
		{"x: ZADD s 1 a 2 b 3 c", "x: ZDIFFSTORE k 2 s s\nx: ZDIFFSTORE k 2 s nosuch"},
		{"x: SADD s m", "x: ZUNIONSTORE k 1 s\nx: SUNIONSTORE k s"},
		{"x: ZADD s 1 a 2 b 3 c", "x: ZRANGESTORE k s 1 -1"},
		{"x: ZADD s 1 a 2 b 3 c", "x: ZRANGESTORE k s 5 9\nx: RENAME s k"},
		{"x: ZADD s 1 a 2 b 3 c", "x: RENAMENX s k"},
		{"x: ZADD s 1 a 2 b 3 c", "x: COPY s k"},
		{"x: SELECT 1\nx: ZADD k 1 a 2 b 3 c", "x: MOVE k 0"},
		{"x: SELECT 1\nx: ZADD k 1 a 2 b 3 c", "x: SWAPDB 0 1"},
		{"x: ZADD s 1 a 2 b 3 c\nd= DUMP s", "x: RESTORE k 0 @d"},
		{"", "x: GEOADD k " + place},
		{"x: GEOADD s " + place, "x: GEOSEARCHSTORE k s FROMLONLAT 15 37 BYRADIUS 200 km ASC"},
		{"x: GEOADD s " + place, "x: GEOSEARCHSTORE k s FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST COUNT 1"},
		{"x: GEOADD s " + place, "x: GEORADIUS s 15 37 200 km STORE k"},
		{"x: ZADD s 1 a 2 b", "x: SORT s BY nosort STORE k\nx: DEL k\nx: SADD k m\nx: DEL k\nx: LPUSH k 1"},
		{"", "x: MULTI\nx: ZADD k 1 a\nx: ZADD k 0 b\nx: ZREM k a\nx: EXEC"},
		{"", "x: MULTI\nx: ZADD k 1 a\nx: ZPOPMIN k\nx: EXEC"},
		{"", "x: EVAL 'redis.call(\"zadd\", KEYS[1], 1, \"a\", 2, \"b\", 3, \"c\") return redis.call(\"zpopmax\", KEYS[1])' 1 k"},
		{"", "x: ZADD k inf a -inf b 1e300 c"},
	}
}

// TestBlockingZSets has every command that waits for a sorted set meet everything that could make one.
func TestBlockingZSets(t *testing.T) {
	compareScenes(t, crossed([]string{"BZPOPMIN k 0", "BZPOPMAX j k 0", "BZMPOP 0 2 j k MIN COUNT 2", "BZMPOP 0 1 k MAX"}, waysOfZSets()))
}

// waysOfStreams is everything that happens to a stream k with a group g, or to what takes its place.
func waysOfStreams() []way {
	const before = "x: XADD k 1-1 f v\nx: XADD k 1-2 f v\nx: XGROUP CREATE k g $\n"
	moved := before + "x: XADD s 5-1 f v\nx: XADD s 6-1 f v\nx: XGROUP CREATE s g 5-1\n"
	elsewhere := before + "x: SELECT 1\nx: XADD k 5-1 f v\nx: XGROUP CREATE k g 0\n"
	return []way{
		{before, "x: XADD k 1-3 f v"},
		{before, "x: XADD k 1-2 f v\nx: XADD k 7-* f v\nx: XADD k 8-1 f v"},
		{before, "x: XADD k NOMKSTREAM MAXLEN 1 1-3 f v"},
		{before, "x: MULTI\nx: XADD k 2-1 f v\nx: XADD k 2-2 g w\nx: XADD k 2-3 h x\nx: EXEC"},
		{before, "x: MULTI\nx: XADD k 2-1 f v\nx: DEL k\nx: EXEC"},
		{before, "x: MULTI\nx: DEL k\nx: XADD k 2-1 f v\nx: XGROUP CREATE k g 0\nx: EXEC"},
		{before, "x: EVAL 'redis.call(\"xadd\", KEYS[1], \"3-1\", \"f\", \"v\") return redis.call(\"xadd\", KEYS[1], \"3-2\", \"f\", \"v\")' 1 k"},
		{before, "x: XACK k g 1-1\nx: XDEL k 1-2\nx: XTRIM k MAXLEN 0\nx: XSETID k 9-1\nx: XGROUP CREATE k h 0\nx: XGROUP SETID k g 0\nx: XADD k 9-2 f v"},
		{before, "x: XGROUP CREATECONSUMER k g c\nx: XGROUP DELCONSUMER k g c\nx: XGROUP DESTROY k nosuch\nx: XGROUP DESTROY k g"},
		{before, "x: MULTI\nx: XGROUP DESTROY k g\nx: XGROUP CREATE k g 0\nx: EXEC"},
		{before, "x: DEL k"},
		{before, "x: UNLINK k\nx: XADD k 1-1 f v\nx: XADD k 5-1 f v"},
		{before, "x: SET k v"},
		{before, "x: SET k v\nx: DEL k\nx: XADD k 5-1 f v"},
		{before, "x: RENAME k s"},
		{moved, "x: RENAME s k"},
		{moved, "x: RENAMENX s k\nx: COPY s k"},
		{moved, "x: COPY s k REPLACE"},
		{moved + "d= DUMP s", "x: RESTORE k 0 @d REPLACE"},
		{before, "x: MOVE k 1"},
		{elsewhere, "x: SWAPDB 0 1"},
		{elsewhere, "x: SWAPDB 1 2"},
		{before, "x: FLUSHALL"},
		{before, "x: SELECT 1\nx: FLUSHDB\nx: SELECT 0\nx: FLUSHDB"},
		{before, "x: EXPIRE k -1"},
		{before, "x: PEXPIRE k 1\n#0"}, // by the active cycle
		{before, "x: SADD o k\nx: SUNIONSTORE k o"},
		{before, "x: LPUSH l 1\nx: SORT l STORE k"},
		{before + "x: XADD k 3-1 f v\nx: XDEL k 3-1", "x: XADD k 3-2 f v"},
	}
}

// TestBlockingStreams has XREAD and XREADGROUP meet everything that happens to a stream.
func TestBlockingStreams(t *testing.T) {
	ways := waysOfStreams()
	scenes := crossed([]string{"XREADGROUP GROUP g c BLOCK 0 STREAMS k >", "XREADGROUP GROUP g c BLOCK 0 COUNT 1 NOACK STREAMS k >"}, ways)
	ways = slices.DeleteFunc(ways, func(w way) bool { return strings.Contains(w.then, "#0") }) // no reader minds
	scenes = append(scenes, crossed([]string{"XREAD BLOCK 0 STREAMS k $", "XREAD COUNT 1 BLOCK 0 STREAMS j k 0 3-1"}, ways)...)
	compareScenes(t, scenes)
}

// TestBlockingScenes plays what is particular.
func TestBlockingScenes(t *testing.T) {
	compareScenes(t, slices.Concat(blockingScenes(), blockingEnds()))
}

// TestScenesFindFaults proves the comparison: a server that serves otherwise is found, and so is one that waits.
func TestScenesFindFaults(t *testing.T) {
	s := peer.ForTest(t, redisTarget("everysec").opts)
	ctx := testContext(t)
	first, err := stage(ctx, s, 2, "a> BLPOP k 0\nx: LPUSH k 1\na<")
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{
		"a> BLPOP k 0\nx: LPUSH k 2\na<", "a> BLPOP k 0\nx: LPUSH k 1 1\na<", "a> BLPOP k 0\nx: LPUSH k 1\na.", "a> BRPOPLPUSH k l 0\nx: LPUSH k 1\na<",
	} {
		if second, err := stage(ctx, s, 2, other); err == nil && second == first {
			t.Errorf("no difference from\n%s", other)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := stage(ended, s, 2, "a> PING"); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that is not blocked: %v", err)
	}
}

// timeoutCalls are calls whose timeouts are refused, or over at once, or that don't block for other reasons.
func timeoutCalls() []string {
	var calls []string
	for _, timeout := range []string{
		"0.001", "1e-3", "0x0.004p0", "-0.0011", "-1", "abc", "''", "1s", "1 ", "nan", "inf", "-inf", "1e400", "-1e400", "1e-400", "1e300",
		"9223372036854775807", "9223372036854774", "9223372036854776", "99999999999999999999", "0.0005x", " 1", "+0.001", "0x1g",
	} {
		for _, call := range []string{"BLPOP none %s", "BRPOP wrong none %s", "BLMOVE none to LEFT LEFT %s", "BRPOPLPUSH none to %s",
			"BLMPOP %s 1 none LEFT", "BZPOPMIN none %s", "BZPOPMAX none none %s", "BZMPOP %s 1 none MIN", "BZMPOP %s 1 none NOSUCH"} {
			calls = append(calls, strings.Replace(call, "%s", "'"+timeout+"'", 1))
		}
	}
	for _, ms := range []string{"1", "-1", "0.5", "abc", "99999999999999999999", "''"} {
		calls = append(calls, "XREAD BLOCK '"+ms+"' STREAMS none $", "XREADGROUP GROUP g c BLOCK '"+ms+"' STREAMS stream >")
	}
	return append(calls,
		"BLPOP k", "BLPOP", "BLMOVE a b LEFT UP 0", "BLMOVE a b LEFT LEFT", "BLMOVE a b SIDE LEFT abc", "BRPOPLPUSH a b", "BLMPOP 0 0 k LEFT",
		"BLMPOP 0 -1 k LEFT", "BLMPOP 0 2 k LEFT", "BLMPOP 0 1 k LEFT COUNT 0", "BLMPOP 0 1 k LEFT COUNT", "BLMPOP 0 x k LEFT", "BLMPOP 0 1 k UP",
		"BLMPOP x 0 k LEFT", "BZMPOP 0 1 k MIN COUNT -1", "BZMPOP x 1 k MIN COUNT 0", "BZPOPMIN 0", "XREAD BLOCK 1", "XREAD BLOCK 1 STREAMS none",
		"BLPOP wrong 0", "BLPOP none wrong 0", "BLMOVE wrong to LEFT LEFT 0", "BRPOPLPUSH wrong to 0", "BLMPOP 0 2 none wrong LEFT",
		"BZPOPMIN wrong 0", "BZPOPMAX none wrong 0", "BZMPOP 0 1 wrong MAX", "XREAD BLOCK 0 STREAMS wrong $", "XREADGROUP GROUP g c BLOCK 0 STREAMS wrong >",
		"XREADGROUP GROUP nosuch c BLOCK 0 STREAMS stream >", "XREADGROUP GROUP g c BLOCK 0 STREAMS stream 0", "XREADGROUP GROUP g c BLOCK 0 STREAMS none >",
		"BLPOP list 0", "BRPOP none list 0", "BLMOVE list wrong LEFT LEFT 0", "BLMOVE list list LEFT RIGHT 0", "BLMPOP 0 1 list RIGHT COUNT 2",
		"BZPOPMIN zset 0", "BZPOPMAX zset 0", "BZMPOP 0 1 zset MIN COUNT 5", "XREAD BLOCK 0 STREAMS stream 0")
}

// TestBlockingAtOnce wants calls that don't wait, or not for long, to be answered alike: directly, in a transaction and by scripts.
func TestBlockingAtOnce(t *testing.T) {
	redis, codeq := both(t)
	setup := []string{"FLUSHALL", "SET wrong x", "RPUSH list 1 2 3 4 5 6 7 8 9", "ZADD zset 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h 9 i", "XADD stream 1-1 f v",
		"XGROUP CREATE stream g $"}
	tooLong := regexp.MustCompile(`'(1e300|9223372036854774|1 |1e-400|1)'`) // some of these block for ever, or for a second
	for proto := 2; proto <= 3; proto++ {
		var sides [2]*peer.Conn
		for i, server := range []*peer.Server{redis, codeq} {
			sides[i] = server.DialForTest(t)
			if err := sides[i].Hello(proto); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(args ...string) {
			t.Helper()
			want, err := sides[0].Do(args...)
			if err != nil {
				t.Fatalf("%q: redis: %v", args, err)
			}
			if got, err := sides[1].Do(args...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("RESP%d %q: %q, %v; Redis: %q", proto, args, got, err, want)
			}
		}
		for _, line := range setup {
			ask(strings.Fields(line)...)
		}
		for _, call := range timeoutCalls() {
			args := (&play{}).words(call)
			if !tooLong.MatchString(call) {
				ask(args...)
			}
			ask("MULTI")
			ask(args...)
			ask("EXEC")
			script := "return redis.pcall(unpack(ARGV))"
			ask(append([]string{"EVAL", script, "0"}, args...)...)
			ask("LLEN", "list")
		}
	}
}

// TestBlockingStatistics compares what INFO counts of commands that have waited.
func TestBlockingStatistics(t *testing.T) {
	redis, codeq := both(t)
	ctx := testContext(t)
	const scene = "a> BLPOP k 0\nx: LPUSH k 1\na<\na> BLPOP k 0\na.\na> BLPOP k 0\nx: CLIENT UNBLOCK @a ERROR\na<\na: BLPOP k 0.001\n" +
		"a> BLMOVE k wrong LEFT LEFT 0\nx: SET wrong x\nx: LPUSH k 1\na<\na: BLPOP wrong 0\na> BRPOP k1 0 | PING\nx: LPUSH k1 1\na<\na<\n#0"
	counted := regexp.MustCompile(`(?m)^(cmdstat_(?:blpop|blmove|brpop)):calls=(\d+),.*(rejected_calls=\d+,failed_calls=\d+)|^(errorstat_.*)$`)
	var told [2]string
	for i, server := range []*peer.Server{redis, codeq} {
		c := server.DialForTest(t)
		if _, err := c.Call("CONFIG", "RESETSTAT"); err != nil {
			t.Fatal(err)
		}
		if _, err := stage(ctx, server, 2, scene); err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"commandstats", "errorstats"} {
			info, err := c.Call("INFO", section)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, m := range counted.FindAllStringSubmatch(info.Str, -1) {
				lines = append(lines, strings.TrimSpace(strings.Join(m[1:], " ")))
			}
			slices.Sort(lines)
			told[i] += strings.Join(lines, "\n") + "\n"
		}
	}
	if told[0] != told[1] {
		t.Errorf("codeq:\n%s\nRedis:\n%s", told[1], told[0])
	}
}

// TestBlockedHangUp lets clients go while they are blocked, with commands behind. What is pushed after the server has noticed, or
// has been told by CLIENT KILL, is for the next.
func TestBlockedHangUp(t *testing.T) {
	eachTargetAtOnce(t, shardedTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		ctx := testContext(t)
		for round := range 20 {
			key := "k" + strconv.Itoa(round)
			scene := strings.ReplaceAll("a> BLPOP K other 0 | PING | LPUSH never 1\nb> BLPOP K 0 | SET never 1\na!\nx: RPUSH K 1\nb<\n#0\nx: EXISTS never K", "K", key)
			if round%2 == 1 {
				scene = strings.ReplaceAll(scene, "a!", "x: CLIENT KILL ID @a")
			}
			log, err := stage(ctx, s, 2, scene)
			want := fmt.Sprintf("b< %q false", fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$1\r\n1\r\n", len(key), key))
			if err != nil || !strings.Contains(log, want) {
				t.Fatalf("round %d: %v after\n%s", round, err, log)
			}
		}
	})
}

// TestTermWithBlocked ends the server while clients are blocked: they get no reply, which they would take for a timeout, but the
// end of their connections, and what is behind their commands is not executed.
func TestTermWithBlocked(t *testing.T) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		ctx := testContext(t)
		p := &play{ctx: ctx, server: s, admin: s.DialForTest(t), proto: 2, clients: map[string]*player{}}
		for _, line := range []string{"a> BLPOP k 0", "b> SET before 1 | BLPOP k j 0 | SET behind 1", "c> XREAD BLOCK 0 STREAMS k $", "d> BLMOVE k to LEFT LEFT 100"} {
			if err := p.line(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Term(ctx); err != nil {
			t.Fatal(err)
		}
		for name, c := range p.clients {
			raw, err := c.conn.Read()
			if name == "b" && string(raw) == "+OK\r\n" {
				raw, err = c.conn.Read()
			}
			if err == nil {
				t.Errorf("%s was replied %q", name, raw)
			}
		}
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if found, err := s.DialForTest(t).Call("KEYS", "*"); err != nil || len(found.Elems) != 1 || found.Elems[0].Str != "before" {
			t.Errorf("found %q, %v", found.Strings(), err)
		}
	})
}

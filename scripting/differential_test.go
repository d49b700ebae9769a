package scripting

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// redisClient speaks to a real server and keeps replies as they came.
type redisClient struct {
	t    *testing.T
	conn *peer.Conn
}

func startRedis(t *testing.T) *redisClient {
	t.Helper()
	return &redisClient{t, peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)}
}

func (c *redisClient) do(args ...string) string {
	c.t.Helper()
	reply, err := c.conn.Do(args...)
	if err != nil {
		c.t.Fatalf("redis-server, %q: %v", args, err)
	}
	return string(reply)
}

// snippets reads the scripts of a file, which lines of two equals signs separate.
func snippets(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n==\n")
}

// templates reads the scripts of a file of groups, which empty lines separate. A group is a title after #, then lines that are
// scripts, then sets such as "\tv: 1 | 2", each of which a further indent continues. A script is written once for each combination of the
// values of the sets whose names it has after a dollar sign. All begin with the functions of helpers.
func templates(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var scripts []string
	joined := strings.ReplaceAll(strings.TrimSpace(string(text)), "\n\t  ", " ")
	for _, group := range strings.Split(joined, "\n\n") {
		var bodies []string
		for _, line := range strings.Split(group, "\n")[1:] {
			if set, ok := strings.CutPrefix(line, "\t"); ok {
				placeholder, values, _ := strings.Cut(set, ":")
				bodies = combine(bodies, "$"+placeholder, strings.Split(values, "|"))
				continue
			}
			bodies = append(bodies, line)
		}
		for _, body := range bodies {
			scripts = append(scripts, helpers+body)
		}
	}
	return scripts
}

func combine(bodies []string, placeholder string, values []string) []string {
	var out []string
	for _, body := range bodies {
		if !strings.Contains(body, placeholder) {
			out = append(out, body)
			continue
		}
		for _, v := range values {
			out = append(out, strings.ReplaceAll(body, placeholder, strings.TrimSpace(v)))
		}
	}
	return out
}

// helpers are hex, which writes a string's bytes in hexadecimal, and show, which writes any value, with the keys of tables in order.
const helpers = `local function hex(s) return (s:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end ` +
	`local function show(v) if type(v) == 'number' then return ('%.17g'):format(v) end ` +
	`if type(v) == 'string' then return '"' .. hex(v) .. '"' end if type(v) ~= 'table' then return tostring(v) end ` +
	`local o = {} for k, w in pairs(v) do o[#o + 1] = show(k) .. '=' .. show(w) end ` +
	`table.sort(o) return '{' .. table.concat(o, ',') .. '}' end `

func clip(s string) string {
	if len(s) > 300 {
		return fmt.Sprintf("%s… (%d bytes)", s[:300], len(s))
	}
	return s
}

// TestAsRedis runs every snippet here and on a real server, for clients of both protocol versions. The replies must be
// equal to the byte.
func TestAsRedis(t *testing.T) {
	redis := startRedis(t)
	for proto := 2; proto <= 3; proto++ {
		redis.do("HELLO", strconv.Itoa(proto))
		e := New(Options{Logger: slog.New(slog.DiscardHandler)})
		for _, body := range append(snippets(t, "differential.txt"), templates(t, "libraries.txt")...) {
			redis.do("FLUSHALL")
			redis.do("SET", "s", "v")
			redis.do("RPUSH", "l", "a", "b")
			redis.do("HSET", "h", "f", "v")
			redis.do("ZADD", "z", "1.5", "a", "inf", "i", "-inf", "m", "1e20", "big")
			want := redis.do("EVAL", body, "2", "k1", "k2", "a1", "10", "1e2")
			got, _, err := e.Eval(nil, []byte(body), [][]byte{[]byte("k1"), []byte("k2")},
				[][]byte{[]byte("a1"), []byte("10"), []byte("1e2")}, newFakeCaller(), proto)
			if err != nil {
				t.Errorf("RESP%d: %s\n error %v", proto, body, err)
			} else if string(got) != want {
				t.Errorf("RESP%d: %s\n got  %q\n want %q", proto, body, clip(string(got)), clip(want))
			}
		}
	}
}

// TestRepliesAsRedis has scripts look at large replies, whose tables are laid out as on a real server.
func TestRepliesAsRedis(t *testing.T) {
	redis := startRedis(t)
	redis.do("HELLO", "3")
	e := New(Options{})
	words := []string{"HSET", "many"}
	for i := range 40 {
		words = append(words, strconv.Itoa(i*i*7919), fmt.Sprint("value ", i))
	}
	redis.do(words...)
	words[0], words[1] = "SADD", "members"
	redis.do(words...)
	words[0], words[1] = "RPUSH", "list"
	redis.do(words...)
	const order = "local o = {} for k, v in pairs(t) do o[#o + 1] = tostring(k) .. '=' .. tostring(v) end return o"
	for command, bodies := range map[string][]string{
		"HGETALL many": {"local t = C().map " + order, "return C()", "local t = C().map for i = 1, 9 do t[i] = i end " + order,
			"local t = C().map t['0'] = nil t.x = 1 t.y = 2 " + order},
		"SMEMBERS members":      {"local t = C().set " + order, "return C()", "local t = C().set t.x = 1 t[true] = 1 t[2.5] = 1 " + order},
		"LRANGE list 0 -1":      {"local t = C() t.x = 1 t[41] = 41 t[100] = 100 " + order, "local t = C() t[3] = nil t[40] = nil return #t"},
		"LRANGE list 0 4":       {"local t = C() t[3] = nil t[5] = nil return #t", "local t = C() t[8] = 1 t[7] = 1 t[10] = 1 return #t"},
		"HMGET many 0 x y 7919": {"local t = C() t.x = 1 t[7] = 7 t[9] = 9 " + order, "local t = C() return #t", "return C()"},
		"SET s x":               {"local t = C() t.x = 1 t.y = 2 t[1] = 3 " + order},
		"INCR s":                {"local t = redis.pcall('INCR', 's') t.x = 1 t.y = 2 t[1] = 3 " + order},
	} {
		for _, version := range []string{"2", "3"} {
			redis.do("HELLO", version)
			caller := rawCaller{newFakeCaller(), redis.do(strings.Fields(command)...)}
			redis.do("HELLO", "3")
			for _, body := range bodies {
				call := "redis.call('" + strings.Join(strings.Fields(command), "', '") + "')"
				body = "redis.setresp(" + version + ") local function C() return " + call + " end " + body
				want := redis.do("EVAL", body, "0")
				got, _, err := e.Eval(nil, []byte(body), nil, nil, caller, 3)
				if err != nil || string(got) != want {
					t.Errorf("%s\n got  %q, %v\n want %q", body, clip(string(got)), err, clip(want))
				}
			}
		}
	}
}

package resp

import (
	"io"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// malformed is what clients should not send, and odd things that they may.
func malformed() []string {
	return []string{
		"*1\r\n$9223372036854775807\r\nxx\r\n", "*9000000000000000000\r\n", "*2147483648\r\n", "*1\r\n$536870913\r\n",
		"*0\r\n*-1\r\n*-5\r\n", "*1\r\n:3\r\nfoo\r\n", "*1\r\n\r\n", "*1\r\n\n\r\n", "*1\r\n$4\r\nPINGxxPING\r\n", "*1\rx$4\rxPINGxx",
		"*a\r\n", "*\r\n", "*+1\r\n", "*01\r\n", "* 1\r\n", "*-0\r\n", "*1 \r\n", "*00\r\n",
		"*1\r\n$-1\r\n", "*1\r\n$a\r\n", "*1\r\n$-0\r\n\r\n", "*1\r\n$\r\n", "*1\r\n$+4\r\nPING\r\n", "*1\r\n$04\r\nPING\r\n",
		"*1\n$4\nPING\n", "*1\r\n$4\r\nPI", "*3\r\n$4\r\nPING\r\n", "PING\r\n*1\r\n:\r\n", "PING\r\n*1\r\n$-3\r\nPING\r\n",
		"\r\n\r\nPING\r\n", "PING\nPING\n", "   PING   \r\n", "   \r\nPING\r\n", "\r\r\nPING\r\r\n", "\n\nPING\n",
		"PING \"a b\r\n", "PING \"a\"b\r\n", "PING 'a\r\n", "PING 'a'b\r\n", "PING \"a\\\"\r\n", "PING \"\"\r\n", "PING ''\r\n",
		"PING \"a\\x41\\n\\r\\t\\b\\a\\q\\\\\"\r\n", "PING 'a\\'b\\n'\r\n", "PING a\"b c\"\r\n", "PING a'b c'\r\n", "PING \"\\x4\\xg1\\X41\"\r\n",
		"PING a\vb\r\n", "PING \v\fq\r\n", "PING \xff\xfe\r\n", "PING \\x41\r\n",
		"*" + strings.Repeat("1", 300000), "*1\r\n$" + strings.Repeat("1", 300000), strings.Repeat("x", 300000),
		"foo\r\n", "foo a b c\r\n", "foo " + strings.Repeat("x", 200) + " y\r\n", strings.Repeat("x", 200) + " a\r\n",
		"foo " + strings.Repeat("a", 60) + " " + strings.Repeat("b", 60) + " " + strings.Repeat("c", 60) + "\r\n",
		"foo " + strings.Repeat("a", 126) + " b\r\n", "foo " + strings.Repeat("a", 125) + " b\r\n", "foo " + strings.Repeat("a ", 60) + "\r\n",
		"*1\r\n$0\r\n\r\n", "*1\r\n$5\r\nfo\r\no\r\n", "*2\r\n$3\r\nfoo\r\n$7\r\na\r\nb\x00\r\n\r\n", "*1\r\n$3\r\nf\x00o\r\n", "*1\r\n$1\r\n\n\r\n",
		"client foo\r\n", "config \"a\\nb\"\r\n", "Config " + strings.Repeat("x", 200) + "\r\n", "ECHO\r\n", "client\r\n",
		"POP a\r\n", "*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n*2\r\n$4\r\nECHO\r\n$1\r\n", "PING a\r\nPING b\r\n*1\r\n$x\r\nPING c\r\n",
	}
}

// startRedis runs a real redis-server and returns its socket.
func startRedis(t *testing.T) string {
	t.Helper()
	return peer.ForTest(t, peer.Options{Kind: peer.Redis, Addr: filepath.Join(t.TempDir(), "redis.sock")}).Addr()
}

// exchange sends input and returns all that comes back until the server closes the connection. The end of the input closes
// it at the latest.
func exchange(t *testing.T, socket, input string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The server may close the connection before it has read everything; what it said until then is what counts.
	_, _ = io.WriteString(conn, input)
	_ = conn.(*net.UnixConn).CloseWrite()
	reply, _ := io.ReadAll(conn)
	return string(reply)
}

// TestMalformedAgainstRedis sends bad input to Redis and to a server of ours. The probe behind it shows whether the connection
// still lives.
func TestMalformedAgainstRedis(t *testing.T) {
	redis := startRedis(t)
	ours := startUnix(t, newTestServer(t, &testHandler{}))
	for _, in := range malformed() {
		for _, probe := range []string{"", "PING alive\r\n", "\r\nPING alive\r\n"} {
			want := exchange(t, redis, in+probe)
			if got := exchange(t, ours, in+probe); got != want {
				t.Errorf("%.60q and %q:\n got %q\nwant %q", in, probe, got, want)
			}
		}
	}
}

func TestUnauthenticatedAgainstRedis(t *testing.T) {
	redis := startRedis(t)
	exchange(t, redis, "CONFIG SET requirepass secret\r\n")
	ours := startUnix(t, newTestServer(t, &testHandler{password: "secret"}))
	large := "*2\r\n$4\r\nECHO\r\n$16385\r\n" + strings.Repeat("x", 16385) + "\r\n"
	many := "*11\r\n" + strings.Repeat("$4\r\nECHO\r\n", 11)
	for _, in := range []string{
		"PING\r\n", large, many, "AUTH secret\r\n" + large, "AUTH secret\r\n" + many + "PING\r\n", "AUTH no\r\n" + large,
		"*10\r\n" + strings.Repeat("$4\r\nECHO\r\n", 10), "PING\r\nAUTH secret\r\nPING\r\n",
	} {
		want := exchange(t, redis, in)
		if got := exchange(t, ours, in); got != want {
			t.Errorf("%.60q:\n got %.200q\nwant %.200q", in, got, want)
		}
	}
}

// TestErrorsAgainstRedis provokes each error text that a fresh Redis can be brought to say.
func TestErrorsAgainstRedis(t *testing.T) {
	redis := startRedis(t)
	exchange(t, redis, "SET s abc\r\nRPUSH l a\r\nSET max 9223372036854775807\r\nSET min -9223372036854775808\r\nHSET h f abc max 9223372036854775807\r\n"+
		"ZADD z 1 a +inf i\r\nSADD set a\r\n")
	for in, want := range errorCases() {
		reply := exchange(t, redis, in+"\r\n")
		if !strings.HasSuffix(reply, "-"+string(want)+"\r\n") {
			t.Errorf("%s: %q, want %q", in, reply, want)
		}
	}
}

// errorCases are commands, given what TestErrorsAgainstRedis has stored, and the last reply to them.
func errorCases() map[string]Error {
	return map[string]Error{
		"LPUSH s 1":                              ErrWrongType,
		"INCR s":                                 ErrNotInteger,
		"INCR max":                               ErrOverflow,
		"DECRBY s -9223372036854775808":          ErrDecrementOverflow,
		"HINCRBY h f 1":                          ErrHashNotInteger,
		"HINCRBY h max 1":                        ErrOverflow,
		"SET a b EX 0":                           ErrInvalidExpire("set"),
		"PEXPIRE s 9223372036854775807":          ErrInvalidExpire("pexpire"),
		"SET a b NX XX":                          ErrSyntax,
		"EXPIRE s 10 foo":                        ErrUnsupportedOption([]byte("foo")),
		"EXPIRE s 10 NX GT":                      ErrExpireNXAndOthers,
		"EXPIRE s 10 GT LT":                      ErrExpireGTAndLT,
		"MSET a b c":                             ErrWrongArgs("mset"),
		"LPOP l -1":                              ErrNotPositive,
		"RENAME nope x":                          ErrNoSuchKey,
		"ZADD z x a":                             ErrNotFloat,
		"ZADD z XX NX 1 a":                       ErrZaddXXAndNX,
		"ZADD z GT LT 1 a":                       ErrZaddGTLTAndNX,
		"ZADD z INCR 1 a 2 b":                    ErrZaddIncrPair,
		"ZINCRBY z -inf i":                       ErrScoreNaN,
		"ZRANGE z 0 1 LIMIT 0 1":                 ErrZrangeLimit,
		"ZRANGE z - + BYLEX WITHSCORES":          ErrZrangeWithScoresLex,
		"ZRANGE z foo bar BYLEX":                 ErrMinMaxNotLex,
		"ZCOUNT z a b":                           ErrMinMaxNotFloat,
		"SCAN x":                                 ErrInvalidCursor,
		"SRANDMEMBER set " + minInt64Text:        ErrOutOfBounds(-math.MaxInt64, math.MaxInt64),
		"SELECT 99":                              ErrDBIndex,
		"HELLO 9":                                ErrNoProto,
		"HELLO x":                                ErrProtoVersion,
		"HELLO 3 foo":                            ErrHelloOption([]byte("foo")),
		"AUTH x":                                 ErrAuthNoPassword,
		"AUTH x y":                               ErrWrongPass,
		"CLIENT SETNAME \"a b\"":                 ErrClientName,
		"CLIENT KILL 1.1.1.1:1":                  ErrNoSuchClient,
		"CLIENT KILL ID x":                       ErrClientIDPositive,
		"CLIENT KILL TYPE foo":                   ErrUnknownClientType([]byte("foo")),
		"CLIENT KILL USER nobody":                ErrNoSuchUser([]byte("nobody")),
		"CLIENT LIST ID x":                       ErrInvalidClientID,
		"CLIENT TRACKING":                        ErrWrongArgs("client|tracking"),
		"LATENCY GRAPH a b":                      ErrWrongArgs("latency|graph"),
		"COMMAND GETKEYS ECHO x":                 ErrNoKeyArguments,
		"COMMAND GETKEYS foo x":                  ErrInvalidCommand,
		"CONFIG SET foo bar":                     ErrConfigUnknown([]byte("foo")),
		"CONFIG SET maxmemory abc":               ErrConfigSet([]byte("maxmemory"), "argument must be a memory value"),
		"CONFIG REWRITE":                         ErrNoConfigFile,
		"SHUTDOWN ABORT":                         ErrNoShutdown,
		"EXEC":                                   ErrExecWithoutMulti,
		"DISCARD":                                ErrDiscardWithoutMulti,
		"EVAL \"return 1\" -1":                   ErrNumKeysNegative,
		"EVAL \"return 1\" 5":                    ErrNumKeysTooMany,
		"EVALSHA abc 0":                          ErrNoScript,
		"SCRIPT FLUSH foo":                       ErrScriptFlushOption,
		"SCRIPT KILL":                            ErrScriptNotBusy,
		"SCRIPT DEBUG foo":                       ErrScriptDebugMode,
		"MEMORY USAGE a b c":                     ErrSyntax,
		"OBJECT nope":                            ErrUnknownSubcommand([]byte("OBJECT"), []byte("nope")),
		"MEMORY USAGE":                           ErrWrongArgs("memory|usage"),
		"MULTI\r\nMULTI":                         ErrMultiNested,
		"MULTI\r\nWATCH a":                       ErrWatchInMulti,
		"MULTI\r\nSHUTDOWN":                      ErrNotInMulti,
		"MULTI\r\nGET\r\nEXEC":                   ErrExecAbort,
		"CLIENT NO-EVICT \"a\"":                  ErrSyntax,
		"EVAL \"return redis.pcall('foo')\" 0":   ErrScriptUnknown,
		"EVAL \"return redis.pcall('get')\" 0":   ErrScriptWrongArgs,
		"EVAL \"return redis.pcall('multi')\" 0": ErrScriptNotAllowed,
	}
}

const minInt64Text = "-9223372036854775808"

// TestDoublesAgainstRedis compares the spelling of random and special numbers.
func TestDoublesAgainstRedis(t *testing.T) {
	redis := startRedis(t)
	random := rand.New(rand.NewPCG(1, 2))
	// Redis' small sorted sets lose the sign of a zero, so none is here.
	numbers := []float64{0, 1, -1, 3.1, 1e15, 1e16, 1e17, -1e17, 1e20, 1e21, 123456789012345678, 1 << 53, 1<<53 - 1, 1<<53 + 2, -(1 << 53), 1 << 62,
		5e-324, math.MaxFloat64, 1e-4, 1e-5, 0.1, 0.5, 11000000000.123, math.Inf(1), math.Inf(-1), 1e100, 100, 1e2, 12300000000000000}
	for range 500 {
		numbers = append(numbers, math.Float64frombits(random.Uint64()), math.Round(random.NormFloat64()*1e6)/1000, random.Float64()*1e18)
	}
	var in, want strings.Builder
	for _, f := range numbers {
		if math.IsNaN(f) {
			continue
		}
		text := strconv.FormatFloat(f, 'g', 17, 64)
		in.WriteString("DEL z\r\nZADD z " + text + " m\r\nZSCORE z m\r\n")
		var w Writer
		w.Double(f)
		want.Write(w.Bytes())
	}
	reply := exchange(t, redis, in.String())
	reply = strings.ReplaceAll(reply, ":0\r\n:1\r\n", "")
	reply = strings.ReplaceAll(reply, ":1\r\n", "")
	if reply != want.String() {
		got, wanted := strings.Split(reply, "\r\n"), strings.Split(want.String(), "\r\n")
		for i := range min(len(got), len(wanted)) {
			if got[i] != wanted[i] {
				t.Fatalf("Redis %q, ours %q", got[i], wanted[i])
			}
		}
		t.Fatal("the numbers of replies differ")
	}
}

package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestReadReply(t *testing.T) {
	whole := []string{
		"+OK\r\n", "-ERR no\r\n", ":-7\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$3\r\na\r\n\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", "%1\r\n+k\r\n~1\r\n:1\r\n", ">1\r\n+m\r\n",
		"|1\r\n+a\r\n:1\r\n$1\r\nx\r\n",
	}
	for _, step := range []int{1, 7, 1 << 20} {
		c := arriving(strings.Join(whole, ""), step)
		for i, want := range whole {
			read := c.Read
			if i%3 == 0 {
				read = c.Next
			}
			got, err := read()
			if err != nil || string(got) != want {
				t.Fatalf("read %q, %v; want %q", got, err, want)
			}
			if _, err := Parse(got); err != nil {
				t.Errorf("parse %q: %v", got, err)
			}
		}
		if _, err := c.Read(); err != io.EOF {
			t.Errorf("after the last reply: %v, want io.EOF", err)
		}
	}
	for _, bad := range []string{"+OK\n", "?1\r\n", "$x\r\n", "*-2\r\n", "$5\r\nab", "*2\r\n:1\r\n", "$9223372036854775807\r\nab"} {
		if raw, err := arriving(bad, 1).Read(); err == nil {
			t.Errorf("read %q from malformed %q without an error", raw, bad)
		}
	}
}

// arriving is a Conn at which text arrives, so many bytes at a time, and then the end.
func arriving(text string, step int) *Conn {
	return &Conn{nc: &script{text: strings.NewReader(text), step: step}}
}

// script is a connection whose other end has written everything.
type script struct {
	net.Conn
	text *strings.Reader
	step int
}

func (s *script) Read(p []byte) (int, error)      { return s.text.Read(p[:min(len(p), s.step)]) }
func (s *script) SetReadDeadline(time.Time) error { return nil }

// TestReadKeeps reads replies of which each is the caller's, small and large, whatever comes behind them.
func TestReadKeeps(t *testing.T) {
	var text strings.Builder
	var want, got [][]byte
	for i, length := range []int{10, keepRead, 0, 3 * readAhead, keepRead + 1, 5} {
		raw := AppendCommand(nil, strings.Repeat(string('a'+rune(i)), length))
		want = append(want, raw)
		text.Write(raw)
	}
	c := arriving(text.String(), 100_003)
	for range want {
		raw, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, raw)
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("reply %d of %d bytes is %d bytes, %.20q…", i, len(want[i]), len(got[i]), got[i])
		}
	}
}

func TestParseTree(t *testing.T) {
	got, err := Parse([]byte("*3\r\n$-1\r\n%1\r\n+k\r\n,2.5\r\n:4\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Elems) != 3 || !got.Elems[0].Null || got.Elems[1].Elems[1].Str != "2.5" || got.Elems[2].Str != "4" {
		t.Errorf("parsed %+v", got)
	}
}

func TestPollEnds(t *testing.T) {
	calls := 0
	err := Poll(t.Context(), time.Millisecond, func() (bool, error) { calls++; return calls == 3, nil })
	if err != nil || calls != 3 {
		t.Errorf("poll: %v after %d calls", err, calls)
	}
	broken := errors.New("broken")
	if err := Poll(t.Context(), time.Millisecond, func() (bool, error) { return false, broken }); err != broken {
		t.Errorf("poll passed on %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Poll(ctx, time.Hour, func() (bool, error) { return false, nil }); err != context.Canceled {
		t.Errorf("poll with an ended context: %v", err)
	}
}

func TestRedisLife(t *testing.T) {
	s := ForTest(t, Options{Kind: Redis, AppendFsync: "always"})
	c := s.DialForTest(t)
	if err := c.Hello(3); err != nil {
		t.Fatal(err)
	}
	if raw, err := c.Do("SET", "k", "v"); err != nil || string(raw) != "+OK\r\n" {
		t.Fatalf("SET: %q, %v", raw, err)
	}
	s.Kill9()
	if s.Running() {
		t.Fatal("still running after kill -9")
	}
	if _, err := c.Do("PING"); err == nil {
		t.Fatal("a killed server answered")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if raw, err := s.DialForTest(t).Do("GET", "k"); err != nil || string(raw) != "$1\r\nv\r\n" {
		t.Fatalf("GET after restart: %q, %v", raw, err)
	}
	if err := s.Term(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPortIsKept: the port of a server that is down stays its own until the server is stopped for good.
func TestPortIsKept(t *testing.T) {
	s := ForTest(t, Options{Kind: Redis})
	s.Kill9()
	reserve := func() error {
		taken, err := net.ListenPacket("udp", s.Addr())
		if err == nil {
			err = taken.Close()
		}
		return err
	}
	if reserve() == nil {
		t.Error("it can be given to another server")
	}
	s.Stop()
	if err := reserve(); err != nil {
		t.Errorf("it is not given back: %v", err)
	}
}

func TestRefusedStart(t *testing.T) {
	_, err := Start(t.Context(), Options{Kind: Redis, Args: []string{"--no-such-option", "1"}})
	if errors.Is(err, ErrMissing) {
		Missing(t, err)
	}
	var refused *ExitError
	if !errors.As(err, &refused) || refused.Code == 0 || !strings.Contains(refused.Log, "no-such-option") {
		t.Fatalf("start with a bad option: %v", err)
	}
}

func TestConfigYAML(t *testing.T) {
	got := configYAML(Options{Shards: 4, Supplier: "static", AppendFsync: "no", PerShardScripts: []string{"a", "b"}, Static: &Static{
		DefaultShard: "default-0", Commands: map[string]string{"b": "default-1", "a": "default-2"},
	}})
	want := "shards: 4\nsupplier: static\nappendfsync: \"no\"\nper-shard-scripts: [a, b]\nstatic:\n  default-shard: default-0\n" +
		"  commands:\n    \"a\": default-2\n    \"b\": default-1\n"
	if got != want {
		t.Errorf("configuration:\n%s\nwant:\n%s", got, want)
	}
}

func TestResolve(t *testing.T) {
	for _, line := range []string{
		"time=2026-01-01T00:00:00Z level=INFO msg=ready version=1 addr=127.0.0.1:1234 shards=4\n",
		`{"level":"INFO","msg":"ready","shards":4,"addr":"127.0.0.1:1234"}` + "\n",
	} {
		const asked = "127.0.0.1:0"
		s := &Server{opts: Options{Kind: Codeq, Addr: asked}, args: []string{"--addr", asked}, log: &logBuffer{}}
		if s.resolve() {
			t.Error("an address was found before the server named it")
		}
		if _, err := s.log.Write([]byte("level=INFO msg=starting addr=" + asked + "\n" + line)); err != nil {
			t.Fatal(err)
		}
		if !s.resolve() || s.Addr() != "127.0.0.1:1234" || s.args[1] != "127.0.0.1:1234" {
			t.Errorf("from %q: address %s, arguments %q", line, s.Addr(), s.args)
		}
	}
}

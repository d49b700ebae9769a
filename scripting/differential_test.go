package scripting

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redisClient speaks to a real server and keeps replies as they came.
type redisClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func startRedis(t *testing.T) *redisClient {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: the comparison with it is skipped")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ready := bufio.NewScanner(out)
	for ready.Scan() && !strings.Contains(ready.Text(), "ready to accept connections") {
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &redisClient{t, conn, bufio.NewReader(conn)}
}

func (c *redisClient) do(args ...string) string {
	c.t.Helper()
	buf := appendHeader(nil, '*', len(args))
	for _, a := range args {
		buf = appendBulk(buf, a)
	}
	_ = c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.conn.Write(buf); err != nil {
		c.t.Fatalf("redis-server, %q: %v", args, err)
	}
	var reply strings.Builder
	c.read(&reply, args)
	return reply.String()
}

func (c *redisClient) read(reply *strings.Builder, args []string) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatalf("redis-server, %q: %v", args, err)
	}
	reply.WriteString(line)
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			if _, err := io.CopyN(reply, c.in, int64(n)+2); err != nil {
				c.t.Fatal(err)
			}
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~':
		for range n {
			c.read(reply, args)
		}
	}
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
		for _, body := range snippets(t, "differential.txt") {
			redis.do("FLUSHALL")
			redis.do("SET", "s", "v")
			redis.do("RPUSH", "l", "a", "b")
			redis.do("HSET", "h", "f", "v")
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

package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// replyTimeout bounds every read and write of a Conn, so that a server that hangs fails a test instead of stopping
// it. SetTimeout changes it.
const replyTimeout = time.Minute

// Conn is a raw RESP connection: it sends what it is told to, valid or not, and gives each reply as the bytes that
// arrived. It is for one goroutine at a time.
type Conn struct {
	nc      net.Conn
	in      []byte // arrived
	taken   int    // of in, by replies
	out     []byte
	timeout time.Duration
}

const (
	// readAhead is how much a Conn asks the system for at a time, at least.
	readAhead = 64 << 10
	// keepRead is the size of the buffer from which on a Conn gives it away with the reply in it.
	keepRead = 1 << 20
)

// Dial connects to host:port or, when addr begins with a slash, to a unix socket.
func Dial(addr string) (*Conn, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	nc, err := net.DialTimeout(network, addr, replyTimeout)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return &Conn{nc: nc, timeout: replyTimeout}, nil
}

// SetTimeout sets the bound of every later read and write.
func (c *Conn) SetTimeout(d time.Duration) { c.timeout = d }

// Close closes the connection. Its error says nothing that a test could act on.
func (c *Conn) Close() { _ = c.nc.Close() }

// Hello switches the connection to RESP 2 or 3.
func (c *Conn) Hello(proto int) error {
	raw, err := c.Do("HELLO", strconv.Itoa(proto))
	if err != nil {
		return err
	}
	if raw[0] == '-' {
		return fmt.Errorf("HELLO %d: %s", proto, raw)
	}
	return nil
}

// Write sends bytes as they are.
func (c *Conn) Write(raw []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return fmt.Errorf("write deadline: %w", err)
	}
	if _, err := c.nc.Write(raw); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Send sends one command without waiting for its reply.
func (c *Conn) Send(args ...string) error {
	c.out = AppendCommand(c.out[:0], args...)
	return c.Write(c.out)
}

// Do sends one command and reads its reply.
func (c *Conn) Do(args ...string) ([]byte, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Read()
}

// Call is Do with the reply parsed; an error reply becomes an error.
func (c *Conn) Call(args ...string) (Reply, error) {
	raw, err := c.Do(args...)
	if err != nil {
		return Reply{}, err
	}
	reply, err := Parse(raw)
	if err != nil {
		return Reply{}, err
	}
	if reply.Kind == '-' || reply.Kind == '!' {
		return reply, fmt.Errorf("%s: %s", args[0], reply.Str)
	}
	return reply, nil
}

// Read reads one whole reply, nested elements and a leading attribute included. At the end of the stream it returns
// io.EOF if nothing of a reply had arrived.
func (c *Conn) Read() ([]byte, error) {
	raw, err := c.Next()
	if err != nil {
		return nil, err
	}
	if cap(c.in) >= keepRead {
		c.in, c.taken = bytes.Clone(c.in[c.taken:]), 0
		return raw, nil
	}
	return bytes.Clone(raw), nil
}

// Next is Read without a copy: the reply is the Conn's again with the next call of Next or Read.
func (c *Conn) Next() ([]byte, error) {
	reply := frame{left: 1}
	for {
		arrived := c.in[c.taken:]
		switch err := reply.scan(arrived); {
		case err != nil:
			return nil, err
		case reply.left == 0:
			c.taken += reply.whole
			return arrived[:reply.whole:reply.whole], nil
		}
		if err := c.fill(); err != nil {
			return nil, cut(err, len(arrived))
		}
	}
}

// fill waits for more to arrive.
func (c *Conn) fill() error {
	if c.taken > 0 {
		c.in, c.taken = c.in[:copy(c.in, c.in[c.taken:])], 0
	}
	had := len(c.in)
	c.in = slices.Grow(c.in, readAhead)
	if err := c.nc.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return fmt.Errorf("read deadline: %w", err)
	}
	n, err := c.nc.Read(c.in[had:cap(c.in)])
	c.in = c.in[:had+n]
	if n > 0 {
		return nil
	}
	return err
}

// AppendCommand appends the command in RESP to dst.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, '\r', '\n')
	for _, arg := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(arg)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, arg...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// frame is how much of a reply has arrived: whole bytes of lines and strings. left counts the replies that are still to
// come: an aggregate adds its elements, so nesting needs no recursion.
type frame struct{ whole, left int }

// scan goes on in the bytes of the reply that have arrived so far.
func (f *frame) scan(arrived []byte) error {
	for f.left > 0 {
		end := bytes.IndexByte(arrived[f.whole:], '\n') + 1
		if end == 0 {
			return nil
		}
		kind, n, err := header(arrived[f.whole : f.whole+end])
		if err != nil {
			return err
		}
		more := 0
		switch kind {
		case '$', '=', '!':
			if n >= len(arrived) {
				return nil
			}
			if n >= 0 {
				end += n + len("\r\n")
			}
		case '*', '~', '>':
			more = max(n, 0)
		case '%':
			more = 2 * max(n, 0)
		case '|': // an attribute is followed by the reply that it describes
			more = 2*max(n, 0) + 1
		}
		if f.whole+end > len(arrived) {
			return nil
		}
		f.whole += end
		f.left += more - 1
	}
	return nil
}

// cut names the end of the stream within a reply; before a reply it stays io.EOF.
func cut(err error, got int) error {
	if errors.Is(err, io.EOF) && got > 0 {
		return fmt.Errorf("reply cut after %d bytes: %w", got, io.ErrUnexpectedEOF)
	}
	return err
}

// header splits a reply's first line into its kind and, for kinds that have one, its length.
func header(line []byte) (kind byte, n int, err error) {
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, 0, fmt.Errorf("malformed reply line %q", line)
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return kind, 0, nil
	case '$', '=', '!', '*', '~', '>', '%', '|':
		n, err = strconv.Atoi(text)
		if err != nil || n < -1 {
			return 0, 0, fmt.Errorf("malformed length in reply line %q", line)
		}
		return kind, n, nil
	}
	return 0, 0, fmt.Errorf("unknown kind of reply in line %q", line)
}

// Reply is one parsed reply. Kind is its first byte on the wire; Null is set for the null of either protocol;
// aggregates have Elems (a map's keys and values alternate), all else has Str.
type Reply struct {
	Kind  byte
	Null  bool
	Str   string
	Elems []Reply
}

// Strings gives the Str of each element.
func (r Reply) Strings() []string {
	out := make([]string, len(r.Elems))
	for i, e := range r.Elems {
		out[i] = e.Str
	}
	return out
}

// Parse parses one whole reply, as Read returned it.
func Parse(raw []byte) (Reply, error) {
	reply, rest, err := parse(raw)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the reply", len(rest))
	}
	return reply, err
}

func parse(raw []byte) (Reply, []byte, error) {
	line := raw[:min(len(raw), bytes.IndexByte(raw, '\n')+1)]
	kind, n, err := header(line)
	if err != nil {
		return Reply{}, nil, err
	}
	rest := raw[len(line):]
	reply := Reply{Kind: kind, Null: kind == '_' || n < 0}
	switch kind {
	case '$', '=', '!':
		if n < 0 {
			return reply, rest, nil
		}
		if len(rest) < n+2 {
			return Reply{}, nil, errors.New("bulk shorter than its length")
		}
		reply.Str = string(rest[:n])
		return reply, rest[n+2:], nil
	case '%', '|':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range max(n, 0) {
			var elem Reply
			if elem, rest, err = parse(rest); err != nil {
				return Reply{}, nil, err
			}
			reply.Elems = append(reply.Elems, elem)
		}
	default:
		reply.Str = string(line[1 : len(line)-2])
	}
	if kind == '|' {
		return parse(rest)
	}
	return reply, rest, nil
}

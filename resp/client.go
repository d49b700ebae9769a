package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"codeq/internal/clock"
)

// Client is a connection to another server, to which MIGRATE sends keys. It belongs to one goroutine.
type Client struct {
	conn  net.Conn
	lines *bufio.Reader
	idle  clock.Timer
	limit time.Duration
	stop  context.CancelFunc
}

// What a client sends at a time, and the longest line that it takes for a reply, are Redis'.
const (
	clientWrite = 64 << 10
	clientLine  = 1 << 10
)

// longAgo as a deadline ends what a connection is at.
var longAgo = time.Unix(1, 0)

// DialServer connects to a server. Whatever the client waits for from then on fails when for the time of the limit nothing
// was sent or received, or when done is closed. The error is what MIGRATE replies.
func DialServer(c clock.Clock, host, port string, limit time.Duration, done <-chan struct{}) (*Client, error) {
	if host == "" {
		return nil, ErrMigrateConnect
	}
	ctx, stop := context.WithCancel(context.Background())
	idle := c.AfterFunc(limit, stop)
	go func() { // until the client is closed
		select {
		case <-done:
			stop()
		case <-ctx.Done():
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		waited := ctx.Err() != nil
		idle.Stop()
		stop()
		var refused syscall.Errno
		if !waited && errors.As(err, &refused) {
			return nil, ErrMigrateWrite // Redis notices then
		}
		return nil, ErrMigrateConnect
	}
	context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) }) // its error says that the connection is closed
	return &Client{conn: conn, lines: bufio.NewReaderSize(conn, clientLine), idle: idle, limit: limit, stop: stop}, nil
}

// Close ends the connection.
func (c *Client) Close() {
	c.idle.Stop()
	c.stop()
	_ = c.conn.Close() // nothing is to be sent any more
}

// Send sends requests, which are arrays of bulk strings as a Writer writes them.
func (c *Client) Send(requests []byte) error {
	for len(requests) > 0 {
		c.idle.Reset(c.limit)
		n, err := c.conn.Write(requests[:min(len(requests), clientWrite)])
		if err != nil {
			return ErrMigrateWrite
		}
		requests = requests[n:]
	}
	return nil
}

// Reply reads a reply of one line. If it is an error, refusal is its text.
func (c *Client) Reply() (refusal []byte, err error) {
	c.idle.Reset(c.limit)
	line, err := c.lines.ReadSlice('\n')
	if err != nil {
		return nil, ErrMigrateRead
	}
	if text, refused := bytes.CutPrefix(line, []byte("-")); refused {
		return bytes.Clone(bytes.TrimRight(text, "\r\n")), nil
	}
	return nil, nil
}

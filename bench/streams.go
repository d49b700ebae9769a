package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeq/internal/peer"
)

// streams compares adding to a stream and reading it as a consumer of a group, with and without XACK. redis-benchmark can't
// acknowledge what it was given, so that clients of our own do; they cost more, on both servers.
func streams(ctx context.Context, s settings, servers []*peer.Server) error {
	fmt.Printf("redis-benchmark -c %d and, for xack, as many clients of our own, median of %d, requests per second; a read and its\n"+
		"XACK count as one. Entries have one field of %d bytes. Every run begins with FLUSHALL, and reading with a stream that is\n"+
		"longer than the run and a group at its beginning.\n\n", clients, s.repeat, payload)
	value := strings.Repeat("x", payload)
	return compareAll(ctx, s, servers, targets(), []benchmark{
		{name: "xadd", command: []string{"XADD", "stream", "*", "field", value}},
		{name: "xreadgroup", prepare: fillStream, command: readOne()},
		{name: "xreadgroup + xack", prepare: fillStream, drive: readAndAck},
	})
}

// readOne is what a consumer that takes one entry at a time sends.
func readOne() []string {
	return []string{"XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "stream", ">"}
}

// fillStream makes a stream that is long enough for so many reads, and the group.
func fillStream(c *peer.Conn, requests int) error {
	value := strings.Repeat("x", payload)
	err := pipelined(c, requests+fillPadding, func(dst []byte, _ int) []byte {
		return peer.AppendCommand(dst, "XADD", "stream", "*", "field", value)
	})
	if err != nil {
		return err
	}
	_, err = c.Call("XGROUP", "CREATE", "stream", "group", "0")
	return err
}

// readAndAck lets clients read entries, as many at once as the depth says, and acknowledge these. It returns entries per second.
func readAndAck(ctx context.Context, server *peer.Server, depth, requests int) (float64, error) {
	turns := requests / clients / depth
	took, err := together(server, clients, func(c *peer.Conn) error {
		var out []byte
		for turn := 0; turn < turns && ctx.Err() == nil; turn++ {
			out = out[:0]
			for range depth {
				out = peer.AppendCommand(out, readOne()...)
			}
			if err := c.Write(out); err != nil {
				return err
			}
			out = out[:0]
			for range depth {
				id, err := readEntry(c)
				if err != nil {
					return err
				}
				out = peer.AppendCommand(out, "XACK", "stream", "group", id)
			}
			if err := c.Write(out); err != nil {
				return err
			}
			for range depth {
				if raw, err := c.Next(); err != nil || string(raw) != ":1\r\n" {
					return errors.Join(err, fmt.Errorf("XACK: %q", raw))
				}
			}
		}
		return ctx.Err()
	})
	return rate(turns*clients*depth, took), err
}

// readEntry reads the reply to readOne and returns the id.
func readEntry(c *peer.Conn) (id string, err error) {
	raw, err := c.Next()
	if err != nil {
		return "", err
	}
	reply, err := peer.Parse(raw)
	if err != nil {
		return "", err
	}
	if len(reply.Elems) != 1 || len(reply.Elems[0].Elems) != 2 || len(reply.Elems[0].Elems[1].Elems) != 1 {
		return "", fmt.Errorf("XREADGROUP: %q", raw)
	}
	return reply.Elems[0].Elems[1].Elems[0].Elems[0].Str, nil
}

// together runs work on so many connections at once, and returns how long that took, without connecting.
func together(server *peer.Server, connections int, work func(c *peer.Conn) error) (time.Duration, error) {
	var all []*peer.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for range connections {
		c, err := server.Dial()
		if err != nil {
			return 0, err
		}
		all = append(all, c)
	}
	done := make(chan error, connections)
	began := time.Now()
	for _, c := range all {
		go func() { done <- work(c) }() // ends with its work, which is waited for
	}
	var failed error
	for range all {
		failed = errors.Join(failed, <-done)
	}
	return time.Since(began), failed
}

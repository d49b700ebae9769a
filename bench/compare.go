package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeq/internal/peer"
)

const (
	clients     = 50     // redis-benchmark -c
	payload     = 100    // redis-benchmark -d, bytes
	keyspace    = 100000 // redis-benchmark -r, where a test has random keys or members
	probe       = 20000  // requests of the run that finds how many a real run takes
	roundTo     = 10000  // requests per run are a multiple of this
	listBatch   = 500    // elements per RPUSH when a list is filled
	fillPadding = 10000  // elements that a list holds beyond what will be popped
)

// benchmark is one test of redis-benchmark, or something like it.
type benchmark struct {
	name    string
	random  int                                                                                  // redis-benchmark -r: how many keys or members there are to draw from; 0: one
	prepare func(c *peer.Conn, requests int) error                                               // nil: nothing is needed
	command []string                                                                             // what redis-benchmark repeats; nil: its own test of the name
	drive   func(ctx context.Context, server *peer.Server, depth, requests int) (float64, error) // instead of redis-benchmark
}

// target is the part of Redis' rate that codeq shall reach at a pipeline depth.
type target struct {
	depth int
	ratio float64
}

// measurement is what one run came to.
type measurement struct {
	rate   float64 // requests per second
	micros float64 // processor time of the server per request, user and system; 0 where the machine does not tell
}

// targets are those of plain commands.
func targets() []target { return []target{{1, 0.9}, {16, 0.6}} }

// compare runs redis-benchmark's tests on each server in turns and prints medians. The number of requests is the
// same for all servers; the first one decides it.
func compare(ctx context.Context, s settings, servers []*peer.Server) error {
	fmt.Printf("redis-benchmark -c %d -d %d, median of %d, requests per second. set, sadd, hset and zadd use -r %d;\n"+
		"every run begins with FLUSHALL, and rpop with a list that is longer than the run.\n\n", clients, payload,
		s.repeat, keyspace)
	fill := func(c *peer.Conn, requests int) error { return fillList(c, "mylist", requests+fillPadding) }
	return compareAll(ctx, s, servers, targets(), []benchmark{
		{name: "set", random: keyspace}, {name: "lpush"}, {name: "rpop", prepare: fill},
		{name: "sadd", random: keyspace}, {name: "hset", random: keyspace}, {name: "zadd", random: keyspace},
	})
}

// compareAll prints a row for each benchmark at each depth: rates, and the processor time of a request, which tells more where
// others use the machine, too.
func compareAll(ctx context.Context, s settings, servers []*peer.Server, goals []target, benchmarks []benchmark) error {
	tool, err := peer.Tool("redis-benchmark")
	if err != nil {
		return err
	}
	fmt.Print("Runs begin when all servers are idle.\n\n| test | depth | requests |")
	for _, server := range servers {
		fmt.Printf(" %s |", server.Kind())
	}
	fmt.Print(" ratio | target | |")
	for _, server := range servers {
		fmt.Printf(" %s µs |", server.Kind())
	}
	fmt.Print("\n|---|---|---|", strings.Repeat("---|", 2*len(servers)+3), "\n")
	for _, goal := range goals {
		for _, b := range benchmarks {
			if err := compareOne(ctx, s, tool, servers, b, goal); err != nil {
				return fmt.Errorf("%s at depth %d: %w", b.name, goal.depth, err)
			}
		}
	}
	return nil
}

func compareOne(ctx context.Context, s settings, tool string, servers []*peer.Server, b benchmark, goal target) error {
	requests := s.requests
	if requests == 0 {
		first, err := measureOnce(ctx, tool, servers, servers[0], b, goal.depth, probe)
		if err != nil {
			return err
		}
		requests = max(roundTo, int(first.rate*s.seconds)/roundTo*roundTo)
	}
	rates, micros := make([][]float64, len(servers)), make([][]float64, len(servers))
	for range s.repeat {
		for i, server := range servers {
			m, err := measureOnce(ctx, tool, servers, server, b, goal.depth, requests)
			if err != nil {
				return fmt.Errorf("%s: %w", server.Kind(), err)
			}
			rates[i], micros[i] = append(rates[i], m.rate), append(micros[i], m.micros)
		}
	}
	fmt.Printf("| %s | %d | %d |", b.name, goal.depth, requests)
	medians := map[peer.Kind]float64{}
	for i, server := range servers {
		medians[server.Kind()] = median(rates[i])
		fmt.Printf(" %.0f |", medians[server.Kind()])
	}
	fmt.Print(verdict(medians, goal))
	for i := range servers {
		fmt.Printf(" %.1f |", median(micros[i]))
	}
	fmt.Println()
	return nil
}

// verdict is the end of a row: ratio, target, and whether it is met; dashes when there is nothing to compare.
func verdict(medians map[peer.Kind]float64, goal target) string {
	reference, ours := medians[peer.Redis], medians[peer.Codeq]
	if reference == 0 || ours == 0 {
		return fmt.Sprintf(" – | %.1f | – |", goal.ratio)
	}
	met := "missed"
	if ours/reference >= goal.ratio {
		met = "met"
	}
	return fmt.Sprintf(" %.2f | %.1f | %s |", ours/reference, goal.ratio, met)
}

// measureOnce prepares the data and runs one test of a server, once all servers are idle: what the preparation, or the test of
// another server, has left to be done in the background is not what is measured.
func measureOnce(ctx context.Context, tool string, servers []*peer.Server, server *peer.Server, b benchmark,
	depth, requests int,
) (m measurement, err error) {
	if err := prepare(server, b, requests); err != nil {
		return m, fmt.Errorf("prepare: %w", err)
	}
	return measureNow(ctx, tool, servers, server, b, depth, requests)
}

// measureNow is measureOnce with the data that the server has.
func measureNow(ctx context.Context, tool string, servers []*peer.Server, server *peer.Server, b benchmark,
	depth, requests int,
) (m measurement, err error) {
	for _, other := range servers {
		if err := settle(ctx, other); err != nil {
			return m, fmt.Errorf("wait until %s is idle: %w", other.Kind(), err)
		}
	}
	before := processorTime(server.PID())
	if b.drive != nil {
		m.rate, err = b.drive(ctx, server, depth, requests)
	} else {
		m.rate, err = redisBenchmark(ctx, tool, server, b, depth, requests)
	}
	m.micros = float64((processorTime(server.PID()) - before).Microseconds()) / float64(requests)
	return m, err
}

// prepare empties the server and gives it what the test needs.
func prepare(server *peer.Server, b benchmark, requests int) error {
	c, err := loader(server)
	if err != nil {
		return err
	}
	defer c.Close()
	if b.prepare == nil {
		return nil
	}
	return b.prepare(c, requests)
}

// processorTime is the processor time that a process has used, user and system, or 0 where /proc does not tell.
func processorTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field, in parentheses, may hold anything; the times are the 14th and 15th, in hundredths of a second.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100
}

// redisBenchmark runs redis-benchmark and returns its rate.
func redisBenchmark(ctx context.Context, tool string, server *peer.Server, b benchmark, depth, requests int) (float64, error) {
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		return 0, err
	}
	args := []string{"-h", host, "-p", port, "--csv", "-c", strconv.Itoa(clients), "-d", strconv.Itoa(payload),
		"-n", strconv.Itoa(requests), "-P", strconv.Itoa(depth)}
	if b.random > 0 {
		args = append(args, "-r", strconv.Itoa(b.random))
	}
	if b.command == nil {
		args = append(args, "-t", b.name)
	}
	args = append(args, b.command...)
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	return parseRate(string(out))
}

// parseRate takes the rate of the only test from redis-benchmark's CSV.
func parseRate(out string) (float64, error) {
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark's CSV: %w", err)
	}
	if len(rows) != 2 || len(rows[1]) < 2 || rows[0][1] != "rps" {
		return 0, fmt.Errorf("redis-benchmark's CSV: %q", out)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}

// fillList appends n elements of the payload's size to a list.
func fillList(c *peer.Conn, key string, n int) error {
	element := strings.Repeat("x", payload)
	return pipelined(c, (n+listBatch-1)/listBatch, func(dst []byte, i int) []byte {
		args := append(make([]string, 0, listBatch+2), "RPUSH", key)
		return peer.AppendCommand(dst, append(args, slices.Repeat([]string{element}, min(listBatch, n-i*listBatch))...)...)
	})
}

// pipelineDepth is how many commands of a load are on the way.
const pipelineDepth = 16

// pipelined sends n commands, some at a time. Any error reply ends it.
func pipelined(c *peer.Conn, n int, command func(dst []byte, i int) []byte) error {
	var out []byte
	for sent := 0; sent < n; {
		size := min(pipelineDepth, n-sent)
		out = out[:0]
		for range size {
			out = command(out, sent)
			sent++
		}
		if err := c.Write(out); err != nil {
			return err
		}
		for range size {
			raw, err := c.Next()
			if err != nil {
				return err
			}
			if raw[0] == '-' {
				return errors.New(strings.TrimSpace(string(raw)))
			}
		}
	}
	return nil
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"codeq/internal/peer"
)

const (
	listElements   = 1_000_000
	zsetMembers    = 1_000_000
	memoryElements = 5_000_000
	memoryLists    = 1000
	memoryBytes    = 200 // per element
	zsetBatch      = 500 // members per ZADD
	loadTimeout    = 10 * time.Minute
)

// longList pushes elements on a list at either end and pops them all again from either end, one command at a time,
// so that the slowest pop shows.
func longList(ctx context.Context, s settings, servers []*peer.Server) error {
	n := s.count(listElements)
	fmt.Printf("A list of %d elements of %d bytes: pushed at depth %d, popped one at a time.\n\n", n, payload, pipelineDepth)
	explainPops()
	fmt.Print("| server | push | pop | push/s | pop/s |" + popColumns + "|---|---|---|---|---|" + popColumnsRule)
	element := strings.Repeat("x", payload)
	for _, ends := range [][2]string{{"LPUSH", "RPOP"}, {"LPUSH", "LPOP"}, {"RPUSH", "LPOP"}, {"RPUSH", "RPOP"}} {
		for _, server := range servers {
			c, err := loader(server)
			if err != nil {
				return err
			}
			start := time.Now()
			err = pipelined(c, n, func(dst []byte, _ int) []byte { return peer.AppendCommand(dst, ends[0], "long", element) })
			if err != nil {
				return fmt.Errorf("%s: %s: %w", server.Kind(), ends[0], err)
			}
			pushed := time.Since(start)
			d, err := drain(ctx, c, n, ends[1], "long")
			c.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", server.Kind(), err)
			}
			fmt.Printf("| %s | %s | %s | %.0f | %.0f |%v\n", server.Kind(), ends[0], ends[1], rate(n, pushed), rate(n, d.total), d)
		}
	}
	return nil
}

// largeZset fills a sorted set in an order that is not its own and drains it with ZPOPMIN.
func largeZset(ctx context.Context, s settings, servers []*peer.Server) error {
	n := s.count(zsetMembers)
	fmt.Printf("A sorted set of %d members, added %d at a time, drained by ZPOPMIN one at a time.\n\n", n, zsetBatch)
	explainPops()
	fmt.Print("| server | members added/s | pop/s |" + popColumns + "|---|---|---|" + popColumnsRule)
	for _, server := range servers {
		c, err := loader(server)
		if err != nil {
			return err
		}
		start := time.Now()
		err = pipelined(c, (n+zsetBatch-1)/zsetBatch, func(dst []byte, batch int) []byte {
			args := []string{"ZADD", "large"}
			for i := batch * zsetBatch; i < min(n, (batch+1)*zsetBatch); i++ {
				// A multiplier that shares no factor with 2³¹−1 visits the scores in a scattered order.
				score := (i * 48271) % (1<<31 - 1)
				args = append(args, strconv.Itoa(score), "member:"+strconv.Itoa(i))
			}
			return peer.AppendCommand(dst, args...)
		})
		if err != nil {
			return fmt.Errorf("%s: ZADD: %w", server.Kind(), err)
		}
		added := time.Since(start)
		d, err := drain(ctx, c, n, "ZPOPMIN", "large")
		c.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", server.Kind(), err)
		}
		fmt.Printf("| %s | %.0f | %.0f |%v\n", server.Kind(), rate(n, added), rate(n, d.total), d)
	}
	return nil
}

// loader connects for a load: an empty database and time for slow replies.
func loader(server *peer.Server) (*peer.Conn, error) {
	c, err := server.Dial()
	if err != nil {
		return nil, err
	}
	c.SetTimeout(loadTimeout)
	if _, err := c.Call("FLUSHALL"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// drained is what popping a whole collection took.
type drained struct {
	total, median, slowest time.Duration
	late                   int           // pops that took longer than latePop
	execution              time.Duration // of the slowest pop, as the server's slow log has it
}

const (
	latePop        = 5 * time.Millisecond
	popColumns     = " median pop | slowest pop | pops over 5 ms | slowest execution |\n"
	popColumnsRule = "---|---|---|---|\n"
)

func (d drained) String() string {
	return fmt.Sprintf(" %v | %v | %d | %v |", d.median, d.slowest.Round(time.Microsecond), d.late, d.execution)
}

func explainPops() {
	fmt.Print("A pop's time is what its client sees, interruptions of either process by the machine included; the slowest execution is\n" +
		"what the server's slow log says, 0 when none took a millisecond.\n\n")
}

// drain pops n times and once more, which must find nothing.
func drain(ctx context.Context, c *peer.Conn, n int, command, key string) (drained, error) {
	took := make([]float64, 0, n)
	var d drained
	for _, setting := range [][]string{{"CONFIG", "SET", "slowlog-log-slower-than", "1000"}, {"SLOWLOG", "RESET"}} {
		if _, err := c.Call(setting...); err != nil {
			return d, err
		}
	}
	start := time.Now()
	for i := range n {
		before := time.Now()
		raw, err := c.Do(command, key)
		if err != nil {
			return d, err
		}
		one := time.Since(before)
		took = append(took, float64(one))
		d.slowest = max(d.slowest, one)
		if one > latePop {
			d.late++
		}
		if raw[0] == '-' || isNothing(raw) {
			return d, fmt.Errorf("%s %d of %d: %q", command, i, n, raw)
		}
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
	}
	d.total = time.Since(start)
	d.median = time.Duration(median(took))
	raw, err := c.Do(command, key)
	if err == nil && !isNothing(raw) {
		err = fmt.Errorf("%s after the last: %q", command, raw)
	}
	if err != nil {
		return d, err
	}
	d.execution, err = slowestExecution(c)
	return d, err
}

// slowestExecution reads the slow log.
func slowestExecution(c *peer.Conn) (time.Duration, error) {
	entries, err := c.Call("SLOWLOG", "GET", "-1")
	if err != nil {
		return 0, err
	}
	var slowest time.Duration
	for _, entry := range entries.Elems {
		if len(entry.Elems) < 3 {
			return 0, fmt.Errorf("SLOWLOG GET: %v", entry)
		}
		microseconds, err := strconv.Atoi(entry.Elems[2].Str)
		if err != nil {
			return 0, fmt.Errorf("SLOWLOG GET: %w", err)
		}
		slowest = max(slowest, time.Duration(microseconds)*time.Microsecond)
	}
	return slowest, nil
}

func isNothing(raw []byte) bool {
	reply := string(raw)
	return reply == "$-1\r\n" || reply == "*0\r\n" || reply == "*-1\r\n" || reply == "_\r\n"
}

func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// memory loads a backlog, reads the resident memory of the process, and times the start on that data after a clean
// stop and after kill -9.
func memory(ctx context.Context, s settings, servers []*peer.Server) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("memory is read from /proc, which %s does not have", runtime.GOOS)
	}
	n := s.count(memoryElements)
	fmt.Printf("%d elements of %d bytes in %d lists. Start: from the start of the process to the first PONG.\n\n", n,
		memoryBytes, memoryLists)
	fmt.Print("| server | load/s | resident after load | start after a clean stop | start after kill -9 |\n|---|---|---|---|---|\n")
	for _, server := range servers {
		c, err := loader(server)
		if err != nil {
			return err
		}
		element := strings.Repeat("x", memoryBytes)
		start := time.Now()
		err = pipelined(c, n, func(dst []byte, i int) []byte {
			return peer.AppendCommand(dst, "LPUSH", "backlog:"+strconv.Itoa(i%memoryLists), element)
		})
		c.Close()
		if err != nil {
			return fmt.Errorf("%s: load: %w", server.Kind(), err)
		}
		loaded := time.Since(start)
		resident, err := residentMB(server.PID())
		if err != nil {
			return err
		}
		if err := server.Term(ctx); err != nil {
			return err
		}
		clean, err := timeStart(ctx, server, n, countListed)
		if err != nil {
			return err
		}
		server.Kill9()
		crashed, err := timeStart(ctx, server, n, countListed)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.0f | %d MB | %v | %v |\n", server.Kind(), rate(n, loaded), resident,
			clean.Round(time.Millisecond), crashed.Round(time.Millisecond))
	}
	return nil
}

// timeStart starts the server on its data and checks that the data is there.
func timeStart(ctx context.Context, server *peer.Server, n int, count func(c *peer.Conn) (int, error)) (time.Duration, error) {
	start := time.Now()
	if err := server.Restart(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	c, err := server.Dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetTimeout(loadTimeout)
	found, err := count(c)
	if err == nil && found != n {
		err = fmt.Errorf("%s: %d elements after the start, %d were loaded", server.Kind(), found, n)
	}
	return took, err
}

// countListed counts the elements of the lists.
func countListed(c *peer.Conn) (found int, err error) {
	for i := range memoryLists {
		reply, err := c.Call("LLEN", "backlog:"+strconv.Itoa(i))
		if err != nil {
			return 0, err
		}
		length, err := strconv.Atoi(reply.Str)
		if err != nil {
			return 0, fmt.Errorf("LLEN: %w", err)
		}
		found += length
	}
	return found, nil
}

// residentMB reads VmRSS of a process.
func residentMB(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kb, err := strconv.Atoi(strings.Fields(value)[0])
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in the status of process %d", pid)
}

// Command bench compares codeq with redis-server on one machine, in turns, and prints the result as Markdown. It owns
// how a comparison is made fair: both servers idle but the one that is measured, the same data prepared for each, and
// medians. It must not know anything of the servers but their protocol and their process ids.
//
// Modes: compare (redis-benchmark on both, the default), streams (the same for streams and consumer groups), scripts (the same
// for claim scripts), handover (how long a blocked worker waits for what is pushed), clients (what queue libraries send, under
// several key patterns), queue (the life of tasks, codeq's own commands against codeQ's client on redis), backlog (the same in codeq
// with many tasks waiting or many queues, memory and start), waiting (the same in both, in turns, with few and with many waiting), leases (the start with many tasks claimed), list1m and zset1m (a long
// list and a large sorted set, drained, with the slowest pop), memory (resident memory under a backlog, and the time to start
// again on it).
//
// Goroutines: main, the clients of a measurement, which end before it does, and those of package peer. Locks: none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"codeq/internal/peer"
)

const modes = "compare, newkeys, streams, scripts, handover, clients, queue, backlog, waiting, leases, list1m, zset1m or memory"

// settings are the flags.
type settings struct {
	mode     string
	servers  []peer.Kind
	repeat   int
	requests int
	items    int
	seconds  float64
	shards   int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, parseFlags())
	stop()
	peer.RemoveBuild()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseFlags() settings {
	var s settings
	var servers string
	flag.StringVar(&s.mode, "mode", "compare", modes)
	flag.StringVar(&servers, "servers", "redis,codeq", "servers to measure, comma-separated; one that is missing is left out")
	flag.IntVar(&s.repeat, "repeat", 5, "compare, streams, scripts, handover, queue: runs of which the median counts; backlog, waiting: of which the mean does")
	flag.IntVar(&s.requests, "requests", 0, "compare, streams, scripts, queue: requests per run; 0 takes what redis answers in -seconds")
	flag.Float64Var(&s.seconds, "seconds", 2.5, "compare, streams, scripts, queue: length of a run")
	flag.IntVar(&s.items, "items", 0, "other modes: number of elements; 0 takes 1,000,000, for memory 5,000,000, for handover and clients 20,000,\n"+
		"for backlog 10,000,000, for leases 1,000,000, for newkeys 4,000,000")
	flag.IntVar(&s.shards, "shards", 0, "codeq's number of shards; 0 takes its default")
	flag.Parse()
	for _, name := range strings.Split(servers, ",") {
		s.servers = append(s.servers, peer.Kind(strings.TrimSpace(name)))
	}
	return s
}

func run(ctx context.Context, s settings) error {
	measure, known := map[string]func(context.Context, settings, []*peer.Server) error{
		"compare": compare, "newkeys": newKeys, "streams": streams, "scripts": scripts, "handover": handover, "clients": clientKeys, "queue": queueCycle,
		"backlog": backlog, "waiting": waiting, "leases": leases, "list1m": longList, "zset1m": largeZset, "memory": memory,
	}[s.mode]
	if !known {
		return fmt.Errorf("unknown mode %q: use %s", s.mode, modes)
	}
	servers, err := startAll(ctx, s)
	defer func() {
		for _, server := range servers {
			server.Stop()
		}
	}()
	if err != nil {
		return err
	}
	fmt.Printf("## %s\n\n%s, %d cores, %s; appendfsync everysec on both servers.\n\n", s.mode,
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version())
	return measure(ctx, s, servers)
}

// startAll starts the servers that are there. All run at the same time, idle unless measured.
func startAll(ctx context.Context, s settings) ([]*peer.Server, error) {
	var servers []*peer.Server
	for _, kind := range s.servers {
		server, err := peer.Start(ctx, peer.Options{Kind: kind, AppendFsync: "everysec", Shards: s.shards})
		if errors.Is(err, peer.ErrMissing) {
			fmt.Fprintf(os.Stderr, "bench: %s left out: %v\n", kind, err)
			continue
		}
		if err != nil {
			return servers, fmt.Errorf("start %s: %w", kind, err)
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		return nil, errors.New("no server to measure")
	}
	return servers, nil
}

// count is the flag's number of items, or the mode's own.
func (s settings) count(otherwise int) int {
	if s.items > 0 {
		return s.items
	}
	return otherwise
}

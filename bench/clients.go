package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codeq/internal/peer"
)

// clientLibrary is what a queue library sends for one job, from its enqueueing to its end: the keys are those of the library, and
// what is one transaction there (MULTI, a script, a single command) is one here. The bodies of scripts are not the
// library's, but touch the same keys.
type clientLibrary struct {
	name string
	job  func(queue, id string) [][]string
}

// touchAll is a script that reads all of its keys but the last, and writes that.
const touchAll = "for i = 1, #KEYS - 1 do redis.call('EXISTS', KEYS[i]) end return redis.call('HSET', KEYS[#KEYS], 'f', ARGV[1])"

func touch(keys ...string) []string {
	return append(append([]string{"EVAL", touchAll, strconv.Itoa(len(keys))}, keys...), "value")
}

// multi puts MULTI and EXEC around commands, each written in words.
func multi(commands ...string) [][]string {
	out := [][]string{{"MULTI"}}
	for _, c := range commands {
		out = append(out, strings.Fields(c))
	}
	return append(out, []string{"EXEC"})
}

func plain(commands ...string) [][]string {
	out := multi(commands...)
	return out[1 : len(out)-1]
}

func join(parts ...[][]string) (all [][]string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// withPrefix is touch with keys that begin alike.
func withPrefix(prefix, names string) [][]string {
	keys := strings.Fields(names)
	for i := range keys {
		keys[i] = prefix + keys[i]
	}
	return [][]string{touch(keys...)}
}

// clientLibraries are those of the clients that codeq is made for, with their default prefixes.
func clientLibraries() []clientLibrary {
	return []clientLibrary{
		{"BullMQ", func(q, id string) [][]string {
			p := "bull:" + q + ":"
			return join(withPrefix(p, "wait paused meta id completed delayed active events marker "+id),
				withPrefix(p, "wait active prioritized events stalled limiter delayed paused meta pc marker "+id),
				withPrefix(p, "wait active prioritized events stalled limiter delayed paused meta pc completed metrics:completed marker "+id))
		}},
		{"bull", func(q, id string) [][]string {
			p := "bull:" + q + ":"
			return join(withPrefix(p, "wait paused meta-paused id delayed priority "+id), plain("RPOPLPUSH "+p+"wait "+p+"active"),
				withPrefix(p, "active completed stalled limiter "+id+":lock "+id))
		}},
		{"bee-queue", func(q, id string) [][]string {
			p := "bq:" + q + ":"
			return join(withPrefix(p, "id waiting jobs"), plain("RPOPLPUSH "+p+"waiting "+p+"active", "HGET "+p+"jobs "+id),
				multi("LREM "+p+"active 0 "+id, "SREM "+p+"stalling "+id, "HDEL "+p+"jobs "+id, "SADD "+p+"succeeded "+id))
		}},
		{"asynq", func(q, id string) [][]string {
			p := "asynq:{" + q + "}:"
			return join(plain("SADD asynq:queues "+q), withPrefix(p, "pending t:"+id), withPrefix(p, "pending paused active lease t:"+id),
				withPrefix(p, "active lease processed:day processed t:"+id))
		}},
		{"RQ", func(q, id string) [][]string {
			return join(multi("SADD rq:queues rq:queue:"+q, "HSET rq:job:"+id+" status queued", "RPUSH rq:queue:"+q+" "+id),
				plain("LPOP rq:queue:"+q, "HGETALL rq:job:"+id),
				multi("HSET rq:worker:w state busy", "ZADD rq:wip:"+q+" 1 "+id, "HSET rq:job:"+id+" status started"),
				multi("HSET rq:job:"+id+" status finished", "EXPIRE rq:job:"+id+" 500", "ZREM rq:wip:"+q+" "+id, "ZADD rq:finished:"+q+" 1 "+id,
					"HINCRBY rq:worker:w successful_job_count 1"))
		}},
		{"Resque", func(q, id string) [][]string {
			return join(plain("SADD resque:queues "+q, "RPUSH resque:queue:"+q+" "+id, "LPOP resque:queue:"+q, "SET resque:worker:w "+id,
				"INCR resque:stat:processed", "INCR resque:stat:processed:w", "DEL resque:worker:w"))
		}},
		{"node-resque", func(q, id string) [][]string {
			return join(multi("SADD resque:queues "+q, "RPUSH resque:queue:"+q+" "+id), [][]string{touch("resque:queue:"+q, "resque:worker:w")},
				multi("INCR resque:stat:processed", "INCR resque:stat:processed:w"), plain("DEL resque:worker:w"))
		}},
		{"Sidekiq", func(q, id string) [][]string {
			return join(multi("SADD queues "+q, "LPUSH queue:"+q+" "+id), plain("RPOP queue:"+q),
				multi("INCRBY stat:processed 1", "INCRBY stat:processed:day 1", "INCRBY stat:failed 0"))
		}},
		{"Celery", func(q, id string) [][]string {
			return join(plain("LPUSH "+q+" "+id, "RPOP "+q), multi("ZADD unacked_index 1 "+id, "HSET unacked "+id+" body"),
				plain("SETEX celery-task-meta-"+id+" 86400 result"), multi("ZREM unacked_index "+id, "HDEL unacked "+id))
		}},
	}
}

// jobsOf is how many jobs of a library a run has, and queuesOf over how many queues.
const (
	jobsOf   = 20_000
	queuesOf = 8
)

// clientKeys drives what queue libraries send, with and without the default key patterns, and prints how many
// transactions hold several shards and what a job costs.
func clientKeys(ctx context.Context, s settings, _ []*peer.Server) error {
	fmt.Printf("%d jobs of each library in %d queues, one connection for each queue: transactions that hold more than one shard, of all, and\n"+
		"the processor time of the server for a job.\n\n", s.count(jobsOf), queuesOf)
	fmt.Print("| client | no patterns | default patterns | no patterns µs | default patterns µs | one shard µs |\n|---|---|---|---|---|---|\n")
	for _, library := range clientLibraries() {
		var shares, costs []string
		for _, config := range []string{"key-patterns: []\n", "", "shards: 1\n"} {
			share, cost, err := driveClient(ctx, library, config, s.count(jobsOf))
			if err != nil {
				return fmt.Errorf("%s: %w", library.name, err)
			}
			shares, costs = append(shares, share), append(costs, cost)
		}
		fmt.Printf("| %s | %s | %s | %s |\n", library.name, shares[0], shares[1], strings.Join(costs, " | "))
	}
	return nil
}

// driveClient starts a server with these lines of configuration and has it carry out the jobs.
func driveClient(ctx context.Context, library clientLibrary, config string, jobs int) (share, cost string, err error) {
	dir, err := os.MkdirTemp("", "codeq-clients-")
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", "", err
	}
	server, err := peer.Start(ctx, peer.Options{Kind: peer.Codeq, Args: []string{"--config", file}})
	if err != nil {
		return "", "", err
	}
	defer server.Stop()
	turn := make(chan int, queuesOf)
	for i := range queuesOf {
		turn <- i
	}
	_, err = together(server, queuesOf, func(c *peer.Conn) error {
		n := <-turn
		return driveQueue(ctx, c, library, "queue-"+strconv.Itoa(n), jobs/queuesOf)
	})
	if err != nil {
		return "", "", err
	}
	c, err := server.Dial()
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	info, err := c.Call("INFO", "stats")
	if err != nil {
		return "", "", err
	}
	number := func(field string) (n float64) {
		_, rest, _ := strings.Cut(info.Str, "\n"+field+":")
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	share = fmt.Sprintf("%.0f %%", 100*number("transactions_over_shards")/number("transactions"))
	return share, fmt.Sprintf("%.0f", float64(processorTime(server.PID()).Microseconds())/float64(jobs)), nil
}

// driveQueue sends the jobs of one queue, each transaction when the one before is answered.
func driveQueue(ctx context.Context, c *peer.Conn, library clientLibrary, queue string, jobs int) error {
	for i := 0; i < jobs && ctx.Err() == nil; i++ {
		var out []byte
		replies := 0
		inMulti := false
		for _, args := range library.job(queue, queue+"-"+strconv.Itoa(i)) {
			out = peer.AppendCommand(out, args...)
			replies++
			inMulti = (inMulti || args[0] == "MULTI") && args[0] != "EXEC"
			if inMulti {
				continue
			}
			if err := c.Write(out); err != nil {
				return err
			}
			for ; replies > 0; replies-- {
				raw, err := c.Next()
				if err != nil {
					return err
				}
				if raw[0] == '-' {
					return fmt.Errorf("%v: %q", args, raw)
				}
			}
			out = out[:0]
		}
	}
	return ctx.Err()
}

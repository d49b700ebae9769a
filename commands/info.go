package commands

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"codeq/internal/version"
	"codeq/shard"
)

// redisVersion is the version of Redis that the server follows. Clients compare it, so it has no words of ours in it.
const redisVersion = "7.0.15"

// section is a section of INFO. Those that are extra are shown only if asked for, by name or by "all". It has either write, or look if
// it tells of the shards.
type section struct {
	title string
	write func(*Call, *report) error
	look  func(*Call, *shard.Tx, *report) error
	extra bool
}

func sections() []section {
	return []section{
		{title: "Server", write: infoServer},
		{title: "Clients", write: infoClients},
		{title: "Memory", write: infoMemory},
		{title: "Persistence", write: infoPersistence},
		{title: "Stats", look: infoStats},
		{title: "Replication", write: infoReplication},
		{title: "CPU", write: infoCPU},
		{title: "Modules", write: func(*Call, *report) error { return nil }},
		{title: "Commandstats", write: infoCommandStats, extra: true},
		{title: "Errorstats", write: infoErrorStats},
		{title: "Latencystats", write: infoLatencyStats, extra: true},
		{title: "Cluster", write: infoCluster},
		{title: "Keyspace", look: infoKeyspace},
		{title: "Queues", look: infoQueues, extra: true}, // it looks at every queue
	}
}

// report is the text of INFO.
type report struct{ bytes.Buffer }

func (r *report) add(name string, value any) { fmt.Fprintf(r, "%s:%v\r\n", name, value) }

// addMemory adds a size in bytes, and once more for people.
func (r *report) addMemory(name string, n int64) {
	r.add(name, n)
	r.add(name+"_human", humanBytes(n))
}

// INFO [section [section ...]]
func infoCommand(c *Call) error {
	all := slices.DeleteFunc(sections(), func(s section) bool { return !s.wanted(c.Args[1:]) })
	reports := make([]report, len(all))
	for i, s := range all {
		if s.write == nil {
			continue
		}
		if err := s.write(c, &reports[i]); err != nil {
			return err
		}
	}
	if err := infoShards(c, all, reports); err != nil {
		return err
	}
	var text report
	for i, s := range all {
		if i > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n%s", s.title, reports[i].Bytes())
	}
	c.Out.Verbatim("txt", text.String())
	return nil
}

// infoShards writes the reports of those of the sections that look at the shards, under one round of locks. They name shards that do
// not answer.
func infoShards(c *Call, all []section, reports []report) error {
	if !slices.ContainsFunc(all, func(s section) bool { return s.look != nil }) {
		return nil
	}
	return c.observe(c.server.store.All(), func(tx *shard.Tx) error {
		unanswered := c.unanswered(tx)
		for i, s := range all {
			if s.look == nil {
				continue
			}
			reports[i].Reset()
			if err := s.look(c, tx, &reports[i]); err != nil {
				return err
			}
			if unanswered != "" {
				reports[i].add("shards_unanswered", unanswered)
			}
		}
		return nil
	})
}

// wanted reports whether any of the names, none meaning "default", covers the section. Unknown names cover nothing.
func (s *section) wanted(names [][]byte) bool {
	if len(names) == 0 {
		return !s.extra
	}
	return slices.ContainsFunc(names, func(name []byte) bool {
		switch {
		case isToken(name, "ALL"), isToken(name, "EVERYTHING"):
			return true
		case isToken(name, "DEFAULT"):
			return !s.extra
		}
		return isToken(name, strings.ToUpper(s.title))
	})
}

func infoServer(c *Call, r *report) error {
	s := c.server
	now := s.clock.Now()
	uptime := now.Sub(s.started)
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	r.add("redis_version", redisVersion)
	r.add("codeq_version", version.Number)
	r.add("redis_mode", "standalone")
	r.add("os", systemName())
	r.add("arch_bits", strconv.IntSize)
	r.add("go_version", runtime.Version())
	r.add("process_id", os.Getpid())
	r.add("process_supervised", "no")
	r.add("run_id", s.runID())
	r.add("tcp_port", s.config.Get("port")[0].Value)
	r.add("server_time_usec", now.UnixMicro())
	r.add("uptime_in_seconds", int64(uptime/time.Second))
	r.add("uptime_in_days", int64(uptime/(24*time.Hour)))
	r.add("hz", s.config.Current().Hz)
	r.add("configured_hz", s.config.Current().Hz)
	r.add("executable", executable)
	r.add("config_file", s.config.Current().File())
	r.add("shards", s.store.Shards())
	return nil
}

// runID tells one run of the server from every other. It has Redis' form.
func (s *Server) runID() string {
	sum := sha1.Sum(fmt.Appendf(nil, "%d %d", os.Getpid(), s.started.UnixNano()))
	return hex.EncodeToString(sum[:])
}

// systemName is what uname says, where the system tells.
func systemName() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	return "Linux " + strings.TrimSpace(string(release)) + " " + runtime.GOARCH
}

func infoClients(c *Call, r *report) error {
	r.add("connected_clients", c.server.network.Clients())
	r.add("cluster_connections", 0)
	r.add("maxclients", c.server.network.MaxClients())
	r.add("blocked_clients", c.server.blocked.Load())
	r.add("tracking_clients", 0)
	return nil
}

func infoMemory(c *Call, r *report) error {
	used := goMemory()
	status := procFields("/proc/self/status")
	rss, peak := max(status["VmRSS"], used), max(status["VmHWM"], used)
	scripts, scriptBytes := c.server.scripts.Len()
	r.addMemory("used_memory", used)
	r.addMemory("used_memory_rss", rss)
	r.addMemory("used_memory_peak", peak)
	r.add("used_memory_peak_perc", fmt.Sprintf("%.2f%%", 100*float64(used)/float64(peak)))
	r.addMemory("total_system_memory", procFields("/proc/meminfo")["MemTotal"])
	r.add("used_memory_scripts_eval", scriptBytes)
	r.add("number_of_cached_scripts", scripts)
	r.add("number_of_functions", c.server.scripts.Libraries().CountFunctions())
	r.add("number_of_libraries", len(c.server.scripts.Libraries().All()))
	r.addMemory("maxmemory", 0)
	r.add("maxmemory_policy", "noeviction")
	r.add("mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(rss)/float64(used)))
	r.add("mem_fragmentation_bytes", rss-used)
	r.add("mem_allocator", "go")
	return nil
}

// goMemory is what the Go runtime holds and neither has free nor has given back.
func goMemory() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}

// procFields reads a file of "Name: n kB" lines, in bytes. Elsewhere than on Linux there is none and nothing is known.
func procFields(path string) map[string]int64 {
	fields := map[string]int64{}
	text, err := os.ReadFile(path)
	if err != nil {
		return fields
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		number, isSize := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && isSize {
			fields[name] = n << 10
		}
	}
	return fields
}

// humanBytes spells a size as Redis does: 1.04M.
func humanBytes(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	size, unit := float64(n)/(1<<10), 0
	for size >= 1<<10 && unit < len("KMGTP")-1 {
		size /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.2f%c", size, "KMGTP"[unit])
}

func infoPersistence(c *Call, r *report) error {
	status := "ok"
	if c.server.store.Err() != nil {
		status = "err"
	}
	r.add("loading", 0)
	r.add("async_loading", 0)
	r.add("rdb_changes_since_last_save", 0)
	r.add("rdb_last_save_time", c.server.lastSave())
	c.server.saves.report(r, c.server.clock.Now())
	r.add("aof_enabled", 1)
	r.add("aof_rewrite_in_progress", 0)
	r.add("aof_rewrite_scheduled", 0)
	r.add("aof_last_rewrite_time_sec", -1)
	r.add("aof_current_rewrite_time_sec", -1)
	r.add("aof_last_bgrewrite_status", "ok")
	r.add("aof_last_write_status", status)
	r.add("codeq_disk_free", c.server.store.DiskFree())
	low := 0
	if c.server.store.DiskLow() {
		low = 1
	}
	r.add("codeq_disk_low", low)
	return nil
}

// infoStats is the section Stats. A shard that does not answer has counted nothing since the last time that it did.
func infoStats(c *Call, tx *shard.Tx, r *report) error {
	s := c.server
	now := s.counts(tx)
	total, rate := s.counters.sinceReset(now), s.counters.perSecond(s.clock.Now(), now)
	errorReplies, _, _ := s.errors.all()
	r.add("total_connections_received", s.totals.connections.Load())
	r.add("total_commands_processed", total.calls)
	r.add("instantaneous_ops_per_sec", int64(rate.calls))
	r.add("total_net_input_bytes", total.in)
	r.add("total_net_output_bytes", total.out)
	r.add("instantaneous_input_kbps", fmt.Sprintf("%.2f", rate.in/(1<<10)))
	r.add("instantaneous_output_kbps", fmt.Sprintf("%.2f", rate.out/(1<<10)))
	r.add("rejected_connections", total.rejected)
	r.add("total_error_replies", errorReplies)
	r.add("unexpected_error_replies", 0)
	r.add("sync_full", 0)
	r.add("sync_partial_ok", 0)
	r.add("sync_partial_err", 0)
	r.add("latest_fork_usec", 0)
	r.add("total_forks", 0)
	r.add("expired_keys", total.keys.Expired)
	r.add("evicted_keys", 0)
	r.add("evicted_clients", 0)
	r.add("keyspace_hits", total.keys.Hits)
	r.add("keyspace_misses", total.keys.Misses)
	r.add("rows_read", total.keys.RowsRead)
	r.add("rows_written", total.keys.RowsWritten)
	r.add("pubsub_channels", len(s.audiences.channels.names()))
	r.add("pubsub_patterns", len(s.audiences.patterns.names()))
	r.add("pubsubshard_channels", len(s.audiences.shards.names()))
	r.add("transactions", total.keys.Transactions)
	r.add("transactions_over_shards", total.keys.Spread)
	r.add("transaction_conflicts", s.totals.conflicts.Load())
	r.add("command_panics", s.totals.panics.Load())
	return nil
}

func infoReplication(c *Call, r *report) error {
	r.add("role", "master")
	r.add("connected_slaves", 0)
	r.add("master_failover_state", "no-failover")
	r.add("master_replid", c.server.runID())
	r.add("master_replid2", strings.Repeat("0", 2*sha1.Size))
	r.add("master_repl_offset", 0)
	r.add("second_repl_offset", -1)
	r.add("repl_backlog_active", 0)
	r.add("repl_backlog_size", 0)
	r.add("repl_backlog_first_byte_offset", 0)
	r.add("repl_backlog_histlen", 0)
	return nil
}

func infoCPU(_ *Call, r *report) error {
	var self, children syscall.Rusage
	for who, usage := range map[int]*syscall.Rusage{syscall.RUSAGE_SELF: &self, syscall.RUSAGE_CHILDREN: &children} {
		if err := syscall.Getrusage(who, usage); err != nil {
			return fmt.Errorf("getrusage: %w", err)
		}
	}
	seconds := func(t syscall.Timeval) string { return fmt.Sprintf("%.6f", time.Duration(t.Nano()).Seconds()) }
	r.add("used_cpu_sys", seconds(self.Stime))
	r.add("used_cpu_user", seconds(self.Utime))
	r.add("used_cpu_sys_children", seconds(children.Stime))
	r.add("used_cpu_user_children", seconds(children.Utime))
	return nil
}

func infoCommandStats(c *Call, r *report) error {
	for command := range c.server.table.All() {
		calls, rejected := command.stats.took.count(), command.stats.rejected.Load()
		if calls == 0 && rejected == 0 {
			continue
		}
		micros := command.stats.nanos.Load() / int64(time.Microsecond)
		r.add("cmdstat_"+command.Name, fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			calls, micros, float64(micros)/float64(max(calls, 1)), rejected, command.stats.failed.Load()))
	}
	return nil
}

func infoErrorStats(c *Call, r *report) error {
	_, codes, counts := c.server.errors.all()
	for _, code := range codes {
		r.add("errorstat_"+code, fmt.Sprintf("count=%d", counts[code]))
	}
	return nil
}

func infoLatencyStats(c *Call, r *report) error {
	settings := c.server.config.Current()
	if !settings.LatencyTracking {
		return nil
	}
	for command := range c.server.table.All() {
		if command.stats.took.count() == 0 {
			continue
		}
		var parts []string
		for _, p := range settings.LatencyTrackingInfoPercentiles {
			micros := float64(command.stats.took.percentile(p)) / float64(time.Microsecond)
			parts = append(parts, fmt.Sprintf("p%s=%.3f", strconv.FormatFloat(p, 'g', -1, 64), micros))
		}
		r.add("latency_percentiles_usec_"+command.Name, strings.Join(parts, ","))
	}
	return nil
}

func infoCluster(_ *Call, r *report) error {
	r.add("cluster_enabled", 0)
	return nil
}

func infoKeyspace(c *Call, tx *shard.Tx, r *report) error {
	for n := range c.server.config.Current().Databases {
		keys, err := tx.DB(n).Size()
		if err != nil {
			return err
		}
		expires, err := tx.DB(n).Expires()
		if err != nil {
			return err
		}
		if keys > 0 {
			r.add("db"+strconv.Itoa(n), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", keys, expires))
		}
	}
	return nil
}

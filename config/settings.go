package config

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// setting is the one declaration of a setting.
type setting struct {
	name    string
	alias   string // a second name that Redis has for it, or empty
	section string // of the file, where the name without it is the key; or empty
	def     string // the default, as text; fixed settings have none
	mutable bool   // by CONFIG SET
	kind    kind
	doc     string // one sentence
}

// env is the environment variable of a setting.
func env(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

const envPrefix = "CODEQ_"

// group is a heading of the reference and its settings.
type group struct {
	title    string
	settings []setting
}

// declarations are all settings, in the order of the reference.
type declarations struct {
	groups []group
	all    []*setting
	byName map[string]*setting // aliases too
	// sections are the keys of the file that hold settings, each with the
	// beginning of their names.
	sections map[string]string
}

func declared() *declarations {
	d := &declarations{
		groups: []group{
			{"Network", networkSettings()},
			{"Limits", limitSettings()},
			{"Storage", storageSettings()},
			{"Shards", shardSettings()},
			{"Queues", queueSettings()},
			{"Scripts and logging", scriptSettings()},
			{"Monitoring", monitoringSettings()},
			{"Encodings", encodingSettings()},
			{"Fixed", fixedSettings()},
		},
		byName:   make(map[string]*setting),
		sections: make(map[string]string),
	}
	for _, g := range d.groups {
		for i := range g.settings {
			s := &g.settings[i]
			d.all = append(d.all, s)
			if s.section != "" {
				d.sections[s.section] = s.section + "-"
			}
			for _, name := range s.names() {
				if d.byName[name] != nil {
					panic("config: " + name + " is declared twice")
				}
				d.byName[name] = s
			}
		}
	}
	return d
}

// fileKey is the key in the file, within the section where there is one.
func (s *setting) fileKey() string { return strings.TrimPrefix(s.name, s.section+"-") }

// names are the name and, where there is one, the alias.
func (s *setting) names() []string {
	if s.alias == "" {
		return []string{s.name}
	}
	return []string{s.name, s.alias}
}

// find is the setting with this name or alias, in any case, or nil.
func (d *declarations) find(name string) *setting { return d.byName[strings.ToLower(name)] }

func networkSettings() []setting {
	return []setting{
		{name: "addr", def: "127.0.0.1:6379",
			kind: text{func(c *Config) *string { return &c.Addr }, "a host and port, or empty for no TCP", checkAddr},
			doc:  "Address that the server listens on; an empty host means all interfaces."},
		{name: "unixsocket", def: "",
			kind: text{func(c *Config) *string { return &c.UnixSocket }, "a path, or empty for none", nil},
			doc:  "Path of a unix socket that the server listens on as well."},
		{name: "unixsocketperm", def: "0",
			kind: octal{func(c *Config) *fs.FileMode { return &c.UnixSocketPerm }, 0o777},
			doc:  "Permissions of the unix socket; 0 leaves them to the umask."},
		{name: "tcp-backlog", def: "511",
			kind: integer{func(c *Config) *int { return &c.TCPBacklog }, 1, math.MaxInt32},
			doc:  "Connections that may wait until the server accepts them; Linux caps it at net.core.somaxconn."},
		{name: "tcp-keepalive", def: "300", mutable: true,
			kind: duration{func(c *Config) *time.Duration { return &c.TCPKeepAlive }, time.Second, 0, math.MaxInt32},
			doc:  "Seconds between TCP keepalive probes on a silent connection; 0 sends none."},
		{name: "timeout", def: "0", mutable: true,
			kind: duration{func(c *Config) *time.Duration { return &c.Timeout }, time.Second, 0, math.MaxInt32},
			doc:  "Seconds after which an idle connection is closed; 0 never closes it."},
		{name: "maxclients", def: "10000", mutable: true,
			kind: integer{func(c *Config) *int { return &c.MaxClients }, 1, math.MaxUint32},
			doc: "Clients that may be connected at the same time, fewer if the limit of open files has no room for them (INFO says how many); " +
				"the next one gets an error and is closed."},
		{name: "requirepass", def: "", mutable: true,
			kind: text{func(c *Config) *string { return &c.RequirePass }, "a password, or empty for none", nil},
			doc:  "Password that clients must give with AUTH."},
		{name: "enable-debug-command", def: "no",
			kind: enum[ProtectedAction]{func(c *Config) *ProtectedAction { return &c.EnableDebugCommand },
				[]ProtectedAction{ProtectedNo, ProtectedYes, ProtectedLocal}},
			doc: "Whether DEBUG can be used: by nobody, by everybody, or by clients of this machine."},
	}
}

func limitSettings() []setting {
	return []setting{
		{name: "proto-max-bulk-len", def: "512mb", mutable: true,
			kind: memory{func(c *Config) *int64 { return &c.ProtoMaxBulkLen }, 1 << 20, math.MaxInt64},
			doc:  "Size of the largest single argument of a command, which is also that of the largest string."},
		{name: "client-query-buffer-limit", def: "1gb", mutable: true,
			kind: memory{func(c *Config) *int64 { return &c.ClientQueryBufferLimit }, 1 << 20, math.MaxInt64},
			doc: "Size of what one client may have sent without it being executed: a client with a command above it is closed, " +
				"and the commands that MULTI queues are refused above it."},
		{name: "max-inline-size", def: "64kb",
			kind: memory{func(c *Config) *int64 { return &c.MaxInlineSize }, 1 << 10, 1 << 30},
			doc:  "Size of the longest line, of an inline command or a length header."},
		{name: "max-args", def: "1048576",
			kind: integer{func(c *Config) *int { return &c.MaxArgs }, 1024, math.MaxInt32},
			doc:  "Arguments that one command may have."},
		{name: "client-output-buffer-limit", def: "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60", mutable: true,
			kind: outputLimits{func(c *Config) *OutputLimits { return &c.ClientOutputBufferLimit }},
			doc: "Replies that may wait for a client that does not read: it is closed above the hard limit, " +
				"or above the soft limit for that many seconds; 0 is no limit, a class that is not named keeps its limit, " +
				"and no client is in the class replica since there is no replication."},
		{name: "run-max-commands", def: "128",
			kind: integer{func(c *Config) *int { return &c.RunMaxCommands }, 1, 1 << 20},
			doc:  "Pipelined commands of one client that run under one hold of a shard's lock, before others get their turn."},
	}
}

func storageSettings() []setting {
	return []setting{
		{name: "dir", def: "./data",
			kind: text{func(c *Config) *string { return &c.Dir }, "a path", checkNotEmpty},
			doc:  "Folder that holds everything the server stores."},
		{name: "databases", def: "16",
			kind: integer{func(c *Config) *int { return &c.Databases }, 1, 1 << 16},
			doc:  "Number of databases that SELECT can choose from."},
		{name: "appendfsync", def: "everysec", mutable: true,
			kind: enum[AppendFsync]{func(c *Config) *AppendFsync { return &c.AppendFsync },
				[]AppendFsync{FsyncEverySec, FsyncAlways, FsyncNo}},
			doc: "When an acknowledged write is safe from power loss: at once (always), within a second (everysec), " +
				"or when the operating system writes it (no); none of them loses a write to a crash of the server alone."},
		{name: "log-segment-size", def: "64mb",
			kind: memory{func(c *Config) *int64 { return &c.LogSegmentSize }, 1 << 20, 1 << 30},
			doc:  "Size, before compression, at which the commit log goes on in a new file."},
		{name: "log-max-size", def: "512mb",
			kind: memory{func(c *Config) *int64 { return &c.LogMaxSize }, 2 << 20, math.MaxInt64},
			doc:  "Size of the whole commit log, before compression, above which shards are flushed so that its oldest files can go."},
		{name: "disk-free-limit", def: "256mb", mutable: true,
			kind: memory{func(c *Config) *int64 { return &c.DiskFreeLimit }, 0, math.MaxInt64},
			doc: "Room on the disk with the data below which commands that add data are refused, while those that take it out are carried out; " +
				"0 refuses none, and a disk that is full stops the server."},
		{name: "cache-size", def: "128mb",
			kind: memory{func(c *Config) *int64 { return &c.CacheSize }, 1 << 20, math.MaxInt64},
			doc:  "Memory for decoded keys and elements, and for what tells which are not there, over all shards."},
		{name: "block-cache-size", def: "128mb",
			kind: memory{func(c *Config) *int64 { return &c.BlockCacheSize }, 1 << 20, math.MaxInt64},
			doc:  "Memory for blocks read from disk, over all shards; the memtables come on top."},
		{name: "memtable-size", def: "16mb",
			kind: memory{func(c *Config) *int64 { return &c.MemtableSize }, 64 << 10, 1 << 30},
			doc:  "Size at which one shard's writes in memory become a file; a shard has two such tables in memory as a rule."},
		{name: "hz", def: "10",
			kind: integer{func(c *Config) *int { return &c.Hz }, 1, 500},
			doc:  "Times per second that expired keys and other background work are looked for."},
		{name: "shutdown-timeout", def: "10", mutable: true,
			kind: duration{func(c *Config) *time.Duration { return &c.ShutdownTimeout }, time.Second, 0, math.MaxInt32},
			doc:  "Seconds that clients get at shutdown to take the replies of what they sent; then they are closed."},
	}
}

func shardSettings() []setting {
	return []setting{
		{name: "shards", def: "4",
			kind: integer{func(c *Config) *int { return &c.Shards }, 1, maxShards},
			doc:  "Shards default-0, default-1 and so on, over which keys are hashed; a data folder has to be started with the number that it was made with."},
		{name: "named-shards", def: "",
			kind: list{func(c *Config) *[]string { return &c.NamedShards }, "names", nil},
			doc:  "More shards, for the queues and databases that are put there; add new ones at the end."},
		{name: "supplier", def: "hash",
			kind: text{func(c *Config) *string { return &c.Supplier }, "hash, task, static, default, or one of your own", checkNotEmpty},
			doc: "What decides on which shard a queue is: hash of command and tenant, static mappings " +
				"(the tenant's shard, else the command's, else the default shard), default for all on one shard, or " +
				"task, which spreads every queue over all shards by its tasks' ids; " +
				"a data folder with tasks is not opened with a supplier that would look for them elsewhere."},
		{name: "static-default-shard", section: "static", def: "",
			kind: text{func(c *Config) *string { return &c.StaticDefaultShard }, "a shard's name, or empty for default-0", nil},
			doc:  "Shard of the queues that no mapping names; for the suppliers static and default."},
		{name: "static-commands", section: "static", def: "",
			kind: table[string]{func(c *Config) *map[string]string { return &c.StaticCommands }, "commands to shards", checkKey},
			doc:  "Shards of queues by command, in any case; for the supplier static."},
		{name: "static-tenants", section: "static", def: "",
			kind: table[string]{func(c *Config) *map[string]string { return &c.StaticTenants }, "tenants to shards", checkKey},
			doc:  "Shards of queues by tenant; for the supplier static."},
		{name: "database-shards", def: "",
			kind: table[int]{func(c *Config) *map[int]string { return &c.DatabaseShards }, "database numbers to shards", parseDatabase},
			doc:  "Databases that live whole on one shard, for clients that expect an address per shard; only an empty database can be pinned, or set free."},
		{name: "key-patterns", def: "bull:{queue}:* bq:{queue}:*",
			kind: list{func(c *Config) *[]string { return &c.KeyPatterns }, "patterns such as bull:{queue}:*", nil},
			doc: "Keys that are hashed by the part in braces, as if they had a hash tag, so that a queue's keys share a shard: " +
				"those of BullMQ, bull and bee-queue, unless their prefix was changed; a data folder keeps its patterns."},
	}
}

func scriptSettings() []setting {
	return []setting{
		{name: "lua-time-limit", alias: "busy-reply-threshold", def: "5000", mutable: true,
			kind: duration{func(c *Config) *time.Duration { return &c.LuaTimeLimit }, time.Millisecond, 0, maxMilliseconds},
			doc:  "Milliseconds after which a running script can be killed and others are answered BUSY; 0 is never."},
		{name: "lua-memory-limit", def: "512mb", mutable: true,
			kind: memory{func(c *Config) *int64 { return &c.LuaMemoryLimit }, 1 << 20, math.MaxInt64},
			doc: "Memory, about, that the values of one running script may take: one that holds more is stopped and leaves nothing " +
				"behind; with its garbage the process may take up to five times as much meanwhile."},
		{name: "eval-cache-size", def: "16mb", mutable: true,
			kind: memory{func(c *Config) *int64 { return &c.EvalCacheSize }, 0, math.MaxInt64},
			doc: "Memory for compiled scripts that came with EVAL, the least recently used of which are forgotten; " +
				"those of SCRIPT LOAD are kept besides, until SCRIPT FLUSH."},
		{name: "per-shard-scripts", def: "", mutable: true,
			kind: list{func(c *Config) *[]string { return &c.PerShardScripts }, "SHA1s of scripts", checkSHA1},
			doc: "Claim scripts that take any task of a queue and nothing else, besides codeQ's own: with the supplier task they run on one " +
				"shard at a time, in turns, until one has something, rather than on all."},
		{name: "loglevel", def: "notice", mutable: true,
			kind: enum[LogLevel]{func(c *Config) *LogLevel { return &c.LogLevel },
				[]LogLevel{LogDebug, LogVerbose, LogNotice, LogWarning}},
			doc: "Lowest level that is logged."},
		{name: "log-format", def: "text",
			kind: enum[LogFormat]{func(c *Config) *LogFormat { return &c.LogFormat }, []LogFormat{LogText, LogJSON}},
			doc:  "Form of the log on standard error."},
	}
}

// monitoringSettings are those of what the server measures of itself.
func monitoringSettings() []setting {
	return []setting{
		{name: "slowlog-log-slower-than", def: "10000", mutable: true,
			kind: duration{func(c *Config) *time.Duration { return &c.SlowlogLogSlowerThan }, time.Microsecond, -1, maxMicroseconds},
			doc:  "Microseconds from which a command gets into the slow log; 0 logs all, -1 none."},
		{name: "slowlog-max-len", def: "128", mutable: true,
			kind: integer{func(c *Config) *int { return &c.SlowlogMaxLen }, 0, 1 << 20},
			doc:  "Commands that the slow log remembers; the oldest are forgotten."},
		{name: "latency-monitor-threshold", def: "0", mutable: true,
			kind: duration{func(c *Config) *time.Duration { return &c.LatencyMonitorThreshold }, time.Millisecond, 0, maxMilliseconds},
			doc:  "Milliseconds from which LATENCY remembers how long a command took; 0 remembers nothing."},
		{name: "latency-tracking", def: "yes", mutable: true,
			kind: boolean{func(c *Config) *bool { return &c.LatencyTracking }},
			doc:  "Whether LATENCY HISTOGRAM and INFO latencystats show how long each command takes."},
		{name: "latency-tracking-info-percentiles", def: "50 99 99.9", mutable: true,
			kind: percentiles{func(c *Config) *[]float64 { return &c.LatencyTrackingInfoPercentiles }},
			doc:  "Percentiles that INFO latencystats shows."},
		{name: "notify-keyspace-events", def: "", mutable: true,
			kind: keyspaceEvents{func(c *Config) *KeyspaceEvents { return &c.NotifyKeyspaceEvents }},
			doc: "What is published of changes to keys: by key (K), by event (E), and of which classes, with Redis' letters; " +
				"it takes one of K and E and at least one class."},
	}
}

// encodingSettings are Redis' limits of its small encodings. What is stored here does not depend on them, only what is
// told about it.
func encodingSettings() []setting {
	count := func(name, alias, def string, field func(c *Config) *int, what string) setting {
		return setting{name: name, alias: alias, def: def, mutable: true, kind: integer{field, 0, math.MaxInt},
			doc: "Elements up to which OBJECT ENCODING and MEMORY USAGE describe " + what + "."}
	}
	size := func(name, alias string, field func(c *Config) *int64, what string) setting {
		return setting{name: name, alias: alias, def: "64", mutable: true, kind: memory{field, 0, math.MaxInt64},
			doc: "Size of the largest element with which OBJECT ENCODING and MEMORY USAGE describe " + what + "."}
	}
	return []setting{
		count("hash-max-listpack-entries", "hash-max-ziplist-entries", "512",
			func(c *Config) *int { return &c.HashMaxListpackEntries }, "a hash as a listpack"),
		size("hash-max-listpack-value", "hash-max-ziplist-value",
			func(c *Config) *int64 { return &c.HashMaxListpackValue }, "a hash as a listpack"),
		{name: "list-max-listpack-size", alias: "list-max-ziplist-size", def: "-2", mutable: true,
			kind: integer{func(c *Config) *int { return &c.ListMaxListpackSize }, math.MinInt32, math.MaxInt32},
			doc: "Elements, or with -1 to -5 4 to 64 kilobytes, that MEMORY USAGE takes for one node of a list " +
				"as Redis would keep it."},
		count("set-max-intset-entries", "", "512",
			func(c *Config) *int { return &c.SetMaxIntsetEntries }, "a set of integers as an intset"),
		count("zset-max-listpack-entries", "zset-max-ziplist-entries", "128",
			func(c *Config) *int { return &c.ZsetMaxListpackEntries }, "a sorted set as a listpack"),
		size("zset-max-listpack-value", "zset-max-ziplist-value",
			func(c *Config) *int64 { return &c.ZsetMaxListpackValue }, "a sorted set as a listpack"),
	}
}

// fixedSettings are Redis settings that clients ask for and codeq answers
// truthfully.
func fixedSettings() []setting {
	one := func(name, value, why string) setting {
		return setting{name: name, mutable: true, kind: fixed{func(*Config) string { return value }, why}, doc: upperFirst(why) + "."}
	}
	return []setting{
		one("appendonly", "yes", "every write goes to the commit log"),
		one("save", "", "there are no snapshots, since the commit log and the shards hold everything"),
		one("maxmemory", "0", "data lives on disk, and memory is bounded by the cache sizes"),
		one("maxmemory-policy", "noeviction", "nothing that was stored is ever evicted"),
		one("cluster-enabled", "no", "one process serves all shards on one address"),
		one("replicaof", "", "there is no replication"),
		one("min-replicas-to-write", "0", "there is no replication"),
		one("maxmemory-clients", "0", "no client is disconnected to save memory of others"),
		one("enable-module-command", "no", "there are no modules"),
		one("hll-sparse-max-bytes", "3000", "a HyperLogLog of more bytes is dense"),
		one("aclfile", "", "there is one user, default, whose password is requirepass"),
		one("protected-mode", "no", "addr says who can connect, and requirepass who may"),
		one("tls-port", "0", "there is no TLS"),
		one("logfile", "", "the log goes to standard error"),
		one("daemonize", "no", "the server stays in the foreground"),
		{name: "bind", mutable: true, doc: "The host of addr.",
			kind: fixed{func(c *Config) string { host, _ := splitAddr(c.Addr); return host }, "set addr and restart the server"}},
		{name: "port", mutable: true, doc: "The port of addr; 0 without TCP.",
			kind: fixed{func(c *Config) string { _, port := splitAddr(c.Addr); return port }, "set addr and restart the server"}},
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func splitAddr(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "0"
	}
	return host, port
}

func checkAddr(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("it is not of the form host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("the port %q is not a number from 0 to 65535", port)
	}
	return nil
}

func checkNotEmpty(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	return nil
}

func checkSHA1(s string) error {
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != sha1.Size || s != strings.ToLower(s) {
		return fmt.Errorf("%q is no SHA1 of 40 lower-case hexadecimal digits, as SCRIPT LOAD returns", s)
	}
	return nil
}

func checkKey(key string) (string, error) {
	if key == "" {
		return "", errors.New("a key is empty")
	}
	return key, nil
}

func parseDatabase(text string) (int, error) {
	n, err := parseInteger(text, 0, math.MaxInt32)
	if err != nil {
		return 0, fmt.Errorf("the key %q is not the number of a database", text)
	}
	return int(n), nil
}

package config

import (
	"io/fs"
	"time"
)

// Config holds the value of every setting. It is immutable once Load or Store
// has handed it out. The meaning of each field stands with its declaration in
// settings.go, under the name that the field's name spells.
type Config struct {
	// Network.
	Addr           string
	UnixSocket     string
	UnixSocketPerm fs.FileMode
	TCPBacklog     int
	TCPKeepAlive   time.Duration
	Timeout        time.Duration
	MaxClients     int

	// Access.
	RequirePass        string
	EnableDebugCommand ProtectedAction

	// Limits.
	ProtoMaxBulkLen         int64
	ClientQueryBufferLimit  int64
	MaxInlineSize           int64
	MaxArgs                 int
	ClientOutputBufferLimit OutputLimits
	RunMaxCommands          int

	// Storage.
	Dir             string
	Databases       int
	AppendFsync     AppendFsync
	LogSegmentSize  int64
	LogMaxSize      int64
	DiskFreeLimit   int64
	CacheSize       int64
	BlockCacheSize  int64
	MemtableSize    int64
	Hz              int
	ShutdownTimeout time.Duration

	// Shards.
	Shards             int
	NamedShards        []string
	Supplier           string
	StaticDefaultShard string
	StaticCommands     map[string]string
	StaticTenants      map[string]string
	DatabaseShards     map[int]string
	KeyPatterns        []string
	PerShardScripts    []string

	// Queues.
	Queues []QueueRule

	// Scripts.
	LuaTimeLimit   time.Duration
	LuaMemoryLimit int64
	EvalCacheSize  int64

	// Monitoring.
	SlowlogLogSlowerThan           time.Duration // negative: nothing
	SlowlogMaxLen                  int
	LatencyMonitorThreshold        time.Duration // 0: nothing
	LatencyTracking                bool
	NotifyKeyspaceEvents           KeyspaceEvents
	LatencyTrackingInfoPercentiles []float64

	// Encodings.
	HashMaxListpackEntries int
	HashMaxListpackValue   int64
	ListMaxListpackSize    int
	SetMaxIntsetEntries    int
	ZsetMaxListpackEntries int
	ZsetMaxListpackValue   int64

	// Log.
	LogLevel  LogLevel
	LogFormat LogFormat

	// file is the path of the file that was read, or empty.
	file string

	// origins says where each setting's value was given, for error messages.
	// Settings that have their default are not in it.
	origins map[string]string
}

// AppendFsync is what an acknowledged write has survived.
type AppendFsync string

// The values of appendfsync, with Redis' meanings.
const (
	FsyncAlways   AppendFsync = "always"
	FsyncEverySec AppendFsync = "everysec"
	FsyncNo       AppendFsync = "no"
)

// ProtectedAction says who may do what could harm the server.
type ProtectedAction string

// The values of enable-debug-command.
const (
	ProtectedNo    ProtectedAction = "no"
	ProtectedYes   ProtectedAction = "yes"
	ProtectedLocal ProtectedAction = "local"
)

// LogLevel is the lowest level that is logged.
type LogLevel string

// The values of loglevel, from the most to the least detail.
const (
	LogDebug   LogLevel = "debug"
	LogVerbose LogLevel = "verbose"
	LogNotice  LogLevel = "notice"
	LogWarning LogLevel = "warning"
)

// LogFormat is how a log line is written.
type LogFormat string

// The values of log-format.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// OutputLimits are the limits on what may wait to be sent to one client, by
// the client's class.
type OutputLimits struct {
	Normal, Replica, PubSub OutputLimit
}

// OutputLimit closes a connection when more than Hard bytes wait, or more than
// Soft bytes for longer than SoftTime. Zero is no limit.
type OutputLimit struct {
	Hard, Soft int64
	SoftTime   time.Duration
}

// Default is the configuration when nothing is set.
func Default() *Config {
	c := new(Config)
	for _, s := range declared().all {
		if _, fixed := s.kind.(fixed); fixed {
			continue
		}
		if err := s.kind.parse(c, s.def); err != nil {
			panic("config: the default of " + s.name + " is not possible: " + err.Error())
		}
	}
	return c
}

// File is the path of the configuration file that was read; empty if there was none.
func (c *Config) File() string { return c.file }

// Where says where a setting's value was given, such as `config.yaml:3:9` or
// `environment variable CODEQ_SHARDS`, so that whoever rejects a value later can
// name its place.
func (c *Config) Where(name string) string {
	if s := declared().find(name); s != nil {
		name = s.name
	}
	if origin, ok := c.origins[name]; ok {
		return origin
	}
	return "default"
}

package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// samples hold a value other than the default for each setting that is not fixed,
// and how CONFIG GET shows it.
var samples = []struct{ name, value, shown string }{
	{"addr", ":7000", ":7000"},
	{"unixsocket", "/tmp/s", "/tmp/s"},
	{"unixsocketperm", "0700", "700"},
	{"tcp-backlog", "100", "100"},
	{"tcp-keepalive", "60", "60"},
	{"timeout", "5", "5"},
	{"maxclients", "7", "7"},
	{"requirepass", "a b'c", "a b'c"},
	{"proto-max-bulk-len", "2MB", "2097152"},
	{"client-query-buffer-limit", "3g", "3000000000"},
	{"max-inline-size", "2kb", "2048"},
	{"max-args", "2000", "2000"},
	{"client-output-buffer-limit", "pubsub 1kb 1k 3", "normal 0 0 0 slave 268435456 67108864 60 pubsub 1024 1000 3"},
	{"run-max-commands", "1", "1"},
	{"dir", "/tmp/d", "/tmp/d"},
	{"databases", "20", "20"},
	{"appendfsync", "Always", "always"},
	{"log-segment-size", "1mb", "1048576"},
	{"log-max-size", "256mb", "268435456"},
	{"disk-free-limit", "1gb", "1073741824"},
	{"cache-size", "1gb", "1073741824"},
	{"block-cache-size", "8mb", "8388608"},
	{"memtable-size", "64kb", "65536"},
	{"hz", "100", "100"},
	{"shutdown-timeout", "1", "1"},
	{"shards", "2", "2"},
	{"named-shards", "premium  bulk", "premium bulk"},
	{"supplier", "static", "static"},
	{"static-default-shard", "default-1", "default-1"},
	{"static-commands", "SEND=bulk resize=default-0", "SEND=bulk resize=default-0"},
	{"static-tenants", "a=b=premium", "a=b=premium"},
	{"database-shards", "11=bulk 3=premium", "3=premium 11=bulk"},
	{"key-patterns", "bull:{queue}:*", "bull:{queue}:*"},
	{"per-shard-scripts", "980950a9641a7ecfa6354647b5e08278d0805262", "980950a9641a7ecfa6354647b5e08278d0805262"},
	{"queues", "Mail:vip lease=5s paused=yes;* attempts=2  backoff=linear", "mail:vip lease=5s paused=yes; *:* attempts=2 backoff=linear"},
	{"lua-time-limit", "100", "100"},
	{"lua-memory-limit", "64mb", "67108864"},
	{"eval-cache-size", "1mb", "1048576"},
	{"slowlog-log-slower-than", "-1", "-1"},
	{"slowlog-max-len", "7", "7"},
	{"latency-monitor-threshold", "100", "100"},
	{"latency-tracking", "NO", "no"},
	{"notify-keyspace-events", "dexzhstl$gKK", "AK"},
	{"latency-tracking-info-percentiles", "0 50.50  100", "0 50.5 100"},
	{"enable-debug-command", "Local", "local"},
	{"hash-max-listpack-entries", "10", "10"},
	{"hash-max-listpack-value", "1kb", "1024"},
	{"list-max-listpack-size", "-5", "-5"},
	{"set-max-intset-entries", "0", "0"},
	{"zset-max-listpack-entries", "10", "10"},
	{"zset-max-listpack-value", "100", "100"},
	{"loglevel", "DEBUG", "debug"},
	{"log-format", "json", "json"},
}

// TestDeclarationsMatchConfig: each setting has a field of its own, and each
// field a setting.
func TestDeclarationsMatchConfig(t *testing.T) {
	set := make(map[string]string) // field → setting
	fields := reflect.TypeFor[Config]()
	for _, sample := range samples {
		c, before := Default(), Default()
		if err := declared().find(sample.name).kind.parse(c, sample.value); err != nil {
			t.Fatalf("%s: %v", sample.name, err)
		}
		for i := range fields.NumField() {
			if !fields.Field(i).IsExported() ||
				reflect.DeepEqual(reflect.ValueOf(c).Elem().Field(i).Interface(), reflect.ValueOf(before).Elem().Field(i).Interface()) {
				continue
			}
			field := fields.Field(i).Name
			if other := set[field]; other != "" {
				t.Errorf("%s and %s both set %s", other, sample.name, field)
			}
			set[field] = sample.name
			if spelled := strings.ReplaceAll(sample.name, "-", ""); !strings.EqualFold(field, spelled) {
				t.Errorf("the setting %s sets the field %s, which is spelled otherwise", sample.name, field)
			}
		}
	}
	for i := range fields.NumField() {
		if f := fields.Field(i); f.IsExported() && set[f.Name] == "" {
			t.Errorf("no sample sets the field %s", f.Name)
		}
	}
	for _, s := range declared().all {
		if _, isFixed := s.kind.(fixed); isFixed {
			continue
		}
		if strings.Count(s.doc, "\n") > 0 || !strings.HasSuffix(s.doc, ".") || strings.Contains(s.doc, ". ") {
			t.Errorf("%s: the description is not one sentence: %q", s.name, s.doc)
		}
	}
}

// TestSources gives every setting through every source.
func TestSources(t *testing.T) {
	var file, section strings.Builder
	var environ, besidesSection []string
	var flags []Flag
	section.WriteString("static:\n")
	for _, s := range samples {
		file.WriteString(s.name + ": " + yamlQuote(s.value) + "\n")
		environ = append(environ, env(s.name)+"="+s.value)
		if key, ok := strings.CutPrefix(s.name, "static-"); ok {
			section.WriteString("  " + key + ": " + yamlQuote(s.value) + "\n")
		} else {
			besidesSection = append(besidesSection, env(s.name)+"="+s.value)
		}
		flags = append(flags, Flag{s.name, s.value, "--" + s.name})
	}
	flat := write(t, file.String())
	sources := map[string]Sources{
		"file":                    {File: flat},
		"file by environment":     {Environ: []string{"CODEQ_CONFIG=" + flat}},
		"section":                 {File: write(t, section.String()), Environ: besidesSection},
		"environment":             {Environ: append(environ, "PATH=/bin", "CODEX=1")},
		"environment before file": {File: write(t, "hz: 1\n"), Environ: environ},
		"flags":                   {Flags: flags},
		"flags before all":        {File: write(t, "hz: 1\n"), Environ: []string{"CODEQ_HZ=2"}, Flags: flags},
	}
	for name, source := range sources {
		c, err := Load(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		store := NewStore(c)
		for _, s := range samples {
			if got := store.Get(s.name); len(got) != 1 || got[0].Value != s.shown {
				t.Errorf("%s: %s is %q, want %q", name, s.name, got, s.shown)
			}
		}
	}
}

func TestFileForms(t *testing.T) {
	c := load(t, Sources{File: write(t, `
# A comment.
named-shards: [premium, "bulk"]
supplier: 'static'
static:
  default-shard: bulk
  commands: {SEND: premium, "a b": bulk}
  tenants:
    "acme=1": premium
    007: bulk
database-shards: {3: premium, 4: default-0}
key-patterns:
  - bull:{queue}:*
  - "rq:queue:{q}"
appendfsync: no
unixsocket:
requirepass: 1.50
client-output-buffer-limit: normal 1mb 1kb 60
loglevel: |
  debug
`)})
	want := Default()
	want.NamedShards = []string{"premium", "bulk"}
	want.Supplier, want.StaticDefaultShard = "static", "bulk"
	want.StaticCommands = map[string]string{"SEND": "premium", "a b": "bulk"}
	want.StaticTenants = map[string]string{"acme=1": "premium", "007": "bulk"}
	want.DatabaseShards = map[int]string{3: "premium", 4: "default-0"}
	want.KeyPatterns = []string{"bull:{queue}:*", "rq:queue:{q}"}
	want.AppendFsync, want.LogLevel, want.RequirePass = FsyncNo, LogDebug, "1.50"
	want.ClientOutputBufferLimit.Normal = OutputLimit{Hard: 1 << 20, Soft: 1 << 10, SoftTime: 60e9}
	c.file, c.origins = "", nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("loaded %+v\nwant   %+v", c, want)
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, content := range []string{"", "\n", "# nothing\n", "---\n", "{}\n", "static:\n"} {
		c := load(t, Sources{File: write(t, content)})
		c.file, c.origins = "", nil
		if !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q does not load as the defaults", content)
		}
	}
}

func TestWhere(t *testing.T) {
	file := write(t, "hz: 20\n\nbusy-reply-threshold: 3\nstatic: {commands: {}}\n")
	c := load(t, Sources{File: file, Environ: []string{"CODEQ_SHARDS=2"}, Flags: []Flag{{"dir", "/x", "--data"}}})
	for name, want := range map[string]string{
		"hz":                   file + ":1:5",
		"lua-time-limit":       file + ":3:23",
		"busy-reply-threshold": file + ":3:23",
		"static-commands":      file + ":4:20",
		"shards":               "environment variable CODEQ_SHARDS",
		"dir":                  "--data",
		"databases":            "default",
	} {
		if got := c.Where(name); got != want {
			t.Errorf("%s was given at %q, want %q", name, got, want)
		}
	}
}

// TestBadFiles: each kind of bad input, with its place. FILE stands for the
// file's path.
func TestBadFiles(t *testing.T) {
	tests := []struct{ content, want string }{
		{"maxclients: abc", `FILE:1:13: maxclients: "abc": argument couldn't be parsed into an integer; give an integer from 1 to 4294967295`},
		{"\n\nhz: 0", `FILE:3:5: hz: "0": argument must be between 1 and 500 inclusive; give an integer from 1 to 500`},
		{"hz: 1.5", `FILE:1:5: hz: "1.5": argument couldn't be parsed into an integer`},
		{"hz:", `FILE:1:5: hz: argument couldn't be parsed into an integer; give`},
		{"hz: [1]", "FILE:1:5: hz: this is a sequence; give an integer"},
		{"hz: {a: 1}", "FILE:1:5: hz: this is a mapping; give an integer"},
		{"hz: &a 3\ntimeout: *a", "FILE:1:5: hz: this is an anchor, alias or tag; give an integer from 1 to 500\nFILE:2:10: timeout: this is an anchor"},
		{"cache-size: 1x", `FILE:1:13: cache-size: "1x": argument must be a memory value; give a memory size such as 64mb, at least 1mb`},
		{"memtable-size: 2gb", `argument must be between 65536 and 1073741824 inclusive; give a memory size such as 64mb, from 64kb to 1gb`},
		{"appendfsync: sometimes", `argument(s) must be one of the following: everysec, always, no; give one of everysec, always, no`},
		{"latency-tracking: on", `latency-tracking: "on": argument must be 'yes' or 'no'; give yes or no`},
		{"latency-tracking-info-percentiles: 50 x", `Invalid latency-tracking-info-percentiles parameters; give up to 100 numbers`},
		{"latency-tracking-info-percentiles: 100.1", `parameters should sit between [0.0,100.0]`},
		{"latency-tracking-info-percentiles: nan", `parameters should sit between [0.0,100.0]`},
		{"hash-max-ziplist-entries: 1\nhash-max-listpack-entries: 2", "FILE:2:1: hash-max-listpack-entries means the same as hash-max-ziplist-entries"},
		{"unixsocketperm: 8", `argument couldn't be parsed as an octal number; give an octal number from 0 to 777`},
		{"unixsocketperm: 1000", `argument must be between 0 and 777 inclusive`},
		{"addr: localhost", `FILE:1:7: addr: "localhost": it is not of the form host:port; give a host and port`},
		{"addr: localhost:http", `the port "http" is not a number`},
		{"addr: ''", "FILE:1:7: addr: there is neither addr nor unixsocket"},
		{"dir: ''", "FILE:1:6: dir: it is empty; give a path"},
		{"client-output-buffer-limit: normal 1", "Wrong number of arguments in buffer limit configuration.; give"},
		{"maxclient: 3", `FILE:1:1: there is no setting "maxclient"; did you mean maxclients?`},
		{"hz: 1\nMAXCLIENTS: 3", `FILE:2:1: there is no setting "MAXCLIENTS"; docs/configuration.md lists them all`},
		{"static: {comands: {}}", `FILE:1:10: there is no setting "static-comands"; did you mean static-commands?`},
		{"static: 3", "FILE:1:9: static: this is a plain value; give settings under it"},
		{"static: {commands: {}}\nstatic-commands: {}", "FILE:2:1: static-commands means the same as static-commands, which stands above"},
		{"lua-time-limit: 1\nbusy-reply-threshold: 2", "FILE:2:1: busy-reply-threshold means the same as lua-time-limit, which stands above; remove one"},
		{"hz: 1\nhz: 2", `FILE:2:1: mapping key "hz" already defined`},
		{"hz: 1\n\t- x", "FILE:2:1: found character"},
		{"hz: [1", "FILE:1:5: sequence end token ']' not found; correct the YAML"},
		{"- hz", "FILE:1:1: settings are lines of the form `name: value`; this is a sequence"},
		{"hz", "FILE:1:1: settings are lines of the form `name: value`; this is a plain value"},
		{"hz: 1\n---\nhz: 2", "FILE:3:3: a second document begins here"},
		{"named-shards: [a, {b: c}]", "FILE:1:19: named-shards: this is a mapping; give a list of names"},
		{"named-shards:\n- a\n- a", `FILE:3:3: named-shards: the item "a" stands there twice`},
		{"named-shards: ['a b']", `FILE:1:16: named-shards: the item "a b" is empty or has a space`},
		{"static:\n  tenants:\n    t: [x]", "FILE:3:8: static-tenants: this is a sequence"},
		{"static-tenants: {t: ''}", `FILE:1:21: static-tenants: the key "t" has no value`},
		{"static-tenants: {'': x}", `static-tenants: a key is empty`},
		{"static-tenants: x", `"x": "x" is no pair of key and value with = between them`},
		{"database-shards: {x: default-0}", `FILE:1:22: database-shards: the key "x" is not the number of a database`},
		{"database-shards: {16: default-0}", "FILE:1:18: database-shards: there is no database 16; use 0 to 15, or raise databases"},
		{"database-shards: {3: gold}", `database-shards: 3: there is no shard "gold"; use one of default-0 … default-3, or add it to named-shards`},
		{"static:\n  default-shard: default-4", `FILE:2:18: static-default-shard: there is no shard "default-4"`},
		{"static-commands: {c: gold}\nnamed-shards: [premium]", `static-commands: c: there is no shard "gold"; use one of default-0 … default-3, premium, or`},
		{"static-tenants: {t: default-00}\nshards: 1", `static-tenants: t: there is no shard "default-00"; use one of default-0, or`},
		{"shards: 256\nnamed-shards: [a]", "FILE:2:15: named-shards: with 256 default shards there are 257; at most 256 are possible"},
		{"log-max-size: 100mb", "FILE:1:15: log-max-size: 100mb is less than two segments of 64mb; raise it, or lower log-segment-size"},
		{"appendonly: no", `FILE:1:13: appendonly: "no": it is always "yes" here: every write goes to the commit log; remove it`},
		{"port: 7000\naddr: :6379", `FILE:1:7: port: "7000": it is always "6379" here: set addr and restart the server`},
		{"maxclients: a\nhz: b", "FILE:1:13: maxclients: \"a\": argument couldn't be parsed into an integer; give an integer from 1 to 4294967295\nFILE:2:5: hz"},
	}
	for _, tt := range tests {
		file := write(t, tt.content)
		_, err := Load(Sources{File: file})
		want := strings.ReplaceAll(tt.want, "FILE", file)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", tt.content, err, want)
		}
	}
}

func TestBadSources(t *testing.T) {
	tests := []struct {
		sources Sources
		want    string
	}{
		{Sources{File: "/nowhere/config.yaml"}, "configuration file: open /nowhere/config.yaml: no such file or directory; give the path"},
		{Sources{Environ: []string{"CODEQ_CONFIG=/nowhere/c.yaml"}}, "open /nowhere/c.yaml"},
		{Sources{Environ: []string{"CODEQ_HZ=x"}}, `environment variable CODEQ_HZ: hz: "x": argument couldn't`},
		{Sources{Environ: []string{"CODEQ_SHARD=2"}}, "environment variable CODEQ_SHARD: there is no such setting; did you mean CODEQ_SHARDS?"},
		{Sources{Environ: []string{"CODEQ_hz=2"}}, "environment variable CODEQ_hz: there is no such setting; did you mean CODEQ_HZ?"},
		{Sources{Environ: []string{"CODEQ_LUA_TIME_LIMIT=2", "CODEQ_BUSY_REPLY_THRESHOLD=3"}},
			"environment variable CODEQ_BUSY_REPLY_THRESHOLD: it means the same as CODEQ_LUA_TIME_LIMIT; remove one"},
		{Sources{Flags: []Flag{{"hz", "x", "--hz"}}}, `--hz: hz: "x": argument couldn't`},
		{Sources{Flags: []Flag{{"hzz", "x", "--set"}}}, `--set: there is no setting "hzz"; did you mean hz?`},
		{Sources{Environ: []string{"CODEQ_SAVE=60 1"}}, `environment variable CODEQ_SAVE: save: "60 1": it is always "" here`},
	}
	for _, tt := range tests {
		if _, err := Load(tt.sources); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v:\n got %v\nwant %s", tt.sources, err, tt.want)
		}
	}
}

func TestFixedSettingsAcceptTheirValue(t *testing.T) {
	c := load(t, Sources{
		File:    write(t, "port: 7000\nsave: ''\nappendonly: YES\naddr: 10.0.0.1:7000\n"),
		Environ: []string{"CODEQ_MAXMEMORY=0"},
	})
	if got := NewStore(c).Get("port", "bind"); len(got) != 2 || got[0].Value != "10.0.0.1" || got[1].Value != "7000" {
		t.Errorf("bind and port are %q", got)
	}
}

func TestExampleIsTheDefaults(t *testing.T) {
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := WriteExample(b); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("two runs differ")
	}
	c := load(t, Sources{File: write(t, first.String())})
	for _, s := range samples {
		if c.Where(s.name) == "default" {
			t.Errorf("%s is not in the example", s.name)
		}
	}
	if !strings.HasSuffix(c.File(), ".yaml") {
		t.Errorf("File() = %q", c.File())
	}
	c.file, c.origins = "", nil
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("the example loads as %+v, the defaults are %+v", c, Default())
	}
	stored, err := os.ReadFile("../config.yaml.example")
	if err != nil {
		t.Fatal(err)
	}
	if string(stored) != first.String() {
		t.Error("config.yaml.example is stale, run make generate")
	}
}

func TestReference(t *testing.T) {
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := WriteReference(b); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("two runs differ")
	}
	for _, s := range declared().all {
		for _, name := range s.names() {
			if !strings.Contains(first.String(), "`"+name+"`") {
				t.Errorf("%s is not in the reference", name)
			}
		}
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, sources Sources) *Config {
	t.Helper()
	c, err := Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func yamlQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

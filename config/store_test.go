package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"codeq/internal/peer"
)

func TestGet(t *testing.T) {
	s := NewStore(Default())
	tests := []struct {
		patterns []string
		want     string
	}{
		{[]string{"maxclients"}, "maxclients=10000"},
		{[]string{"MAXCL*"}, "maxclients=10000"},
		{[]string{"MaxClients", "max-ARGS"}, "MaxClients=10000 max-ARGS=1048576"},
		{[]string{"[mn]axclient?"}, "maxclients=10000"},
		{[]string{"[^m]axclients"}, ""},
		{[]string{"nothing", "save", "appendonly"}, "appendonly=yes save="},
		{[]string{"max*", "max*memory*", "maxclients"}, "maxclients=10000 max-inline-size=65536 max-args=1048576 maxmemory=0 maxmemory-policy=noeviction maxmemory-clients=0"},
		{[]string{"busy-reply-threshold", "lua-*"}, "lua-time-limit=5000 busy-reply-threshold=5000 lua-memory-limit=536870912"},
		{[]string{"appendfsync", "proto-max-bulk-len", "databases", "timeout"}, "timeout=0 proto-max-bulk-len=536870912 databases=16 appendfsync=everysec"},
		{[]string{"bind", "port"}, "bind=127.0.0.1 port=6379"},
		{[]string{"["}, ""},
		{nil, ""},
	}
	for _, tt := range tests {
		var got []string
		for _, p := range s.Get(tt.patterns...) {
			got = append(got, p.Name+"="+p.Value)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, want %q", tt.patterns, got, tt.want)
		}
	}
	if all := s.Get("*"); len(all) != len(declared().byName) {
		t.Errorf("* shows %d settings of %d", len(all), len(declared().byName))
	}
}

func TestSetIsAtomicAndAnnounced(t *testing.T) {
	s := NewStore(Default())
	first := s.Current()
	var announced []string
	for _, name := range []string{"a", "b"} {
		s.OnChange(func(before, after *Config) {
			if after != s.Current() {
				t.Error("a change is announced before it is published")
			}
			announced = append(announced, fmt.Sprintf("%s: %d to %d", name, before.MaxClients, after.MaxClients))
		})
	}
	if err := s.Set(Pair{"maxclients", "5"}, Pair{"loglevel", "none"}); err == nil || s.Current() != first || announced != nil {
		t.Errorf("a refused CONFIG SET changed something: %v, %q", err, announced)
	}
	if err := s.Set(Pair{"MaxClients", "5"}, Pair{"loglevel", "debug"}, Pair{"save", ""}); err != nil {
		t.Fatal(err)
	}
	if c := s.Current(); c.MaxClients != 5 || c.LogLevel != LogDebug || first.MaxClients != 10000 {
		t.Errorf("after CONFIG SET maxclients is %d, loglevel %s, and before it was %d", c.MaxClients, c.LogLevel, first.MaxClients)
	}
	if want := []string{"a: 10000 to 5", "b: 10000 to 5"}; !slices.Equal(announced, want) {
		t.Errorf("announced %q, want %q", announced, want)
	}
}

func TestSetRefusesFixedSettings(t *testing.T) {
	s := NewStore(Default())
	for _, pair := range []Pair{
		{"save", "60 1"}, {"appendonly", "no"}, {"maxmemory", "1gb"}, {"maxmemory-policy", "allkeys-lru"},
		{"port", "7000"},
	} {
		err := s.Set(pair)
		if want := "CONFIG SET failed (possibly related to argument '" + pair.Name + "') - it is always \""; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %s", pair, err, want)
		}
		if err := s.Set(Pair{pair.Name, s.Get(pair.Name)[0].Value}); err != nil {
			t.Errorf("%s: its own value is refused: %v", pair.Name, err)
		}
	}
}

// TestShownValuesCanBeSet: what CONFIG GET shows, CONFIG SET understands.
func TestShownValuesCanBeSet(t *testing.T) {
	s := NewStore(Default())
	for _, pair := range s.Get("*") {
		setting := declared().find(pair.Name)
		c := *Default()
		if err := setting.kind.parse(&c, pair.Value); err != nil {
			t.Errorf("%s: %q cannot be read back: %v", pair.Name, pair.Value, err)
		} else if got := setting.kind.format(&c); got != pair.Value {
			t.Errorf("%s: %q is read back as %q", pair.Name, pair.Value, got)
		}
	}
}

func TestConcurrentSetAndCurrent(t *testing.T) {
	s := NewStore(Default())
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for g := range 2 {
		writers.Go(func() {
			for i := range 500 {
				n := fmt.Sprint(1 + g*1000 + i)
				if err := s.Set(Pair{"maxclients", n}, Pair{"timeout", n}); err != nil {
					t.Error(err)
				}
			}
		})
		readers.Go(func() {
			for {
				if c := s.Current(); c.Timeout != 0 && int(c.Timeout.Seconds()) != c.MaxClients {
					t.Errorf("maxclients %d and timeout %v come from different CONFIG SETs", c.MaxClients, c.Timeout)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// TestSetAsRedis runs the same CONFIG SETs against a redis-server: the outcome,
// the error's text and the value afterwards must be the same.
func TestSetAsRedis(t *testing.T) {
	redis, err := peer.Start(context.Background(), peer.Options{Kind: peer.Redis})
	if errors.Is(err, peer.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Stop()
	conn, err := redis.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do := func(args ...string) string {
		reply, err := conn.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return string(reply)
	}

	s := NewStore(Default())
	for _, name := range []string{"maxclients", "appendfsync"} { // redis-server may have lowered or changed them
		do("CONFIG", "SET", name, s.Get(name)[0].Value)
	}
	for _, args := range redisCases() {
		pairs := make([]Pair, 0, len(args)/2)
		for i := 0; i < len(args); i += 2 {
			pairs = append(pairs, Pair{args[i], args[i+1]})
		}
		got := "+OK\r\n"
		if err := s.Set(pairs...); err != nil {
			got = "-ERR " + err.Error() + "\r\n"
		}
		if want := do(append([]string{"CONFIG", "SET"}, args...)...); got != want {
			t.Errorf("CONFIG SET %q:\ncodeq %qredis %q", args, got, want)
		}
		for _, pair := range pairs {
			found := s.Get(pair.Name)
			if len(found) == 0 {
				continue
			}
			got := fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(found[0].Name), found[0].Name, len(found[0].Value), found[0].Value)
			if want := do("CONFIG", "GET", pair.Name); got != want {
				t.Errorf("after CONFIG SET %q:\ncodeq %q\nredis %q", args, got, want)
			}
		}
	}
}

// redisCases are arguments of CONFIG SET. Limits that differ by intention, such
// as that of hz, are left out.
func redisCases() [][]string {
	const output, query = "client-output-buffer-limit", "client-query-buffer-limit"
	cases := [][]string{
		{"foo", "bar"}, {"Foo", "bar"}, {"maxclients", "100", "foo", "bar"}, {"foo", "bar", "databases", "5"},
		{"databases", "16"}, {"databases", "5", "foo", "bar"}, {"maxclients", "abc", "databases", "5"},
		{"tcp-backlog", "511"}, {"unixsocketperm", "0"}, {"maxclients", "9", "maxclients", "8"},
		{"maxclients", "abc", "timeout", "x"}, {"maxclients", "100", "timeout", "x"}, {"MaxClients", "abc"},
		{"maxclients", "100", "timeout", "7"}, {"DATABASES", "1"}, {"timeout", "1", "TIMEOUT", "2"},
		{"lua-time-limit", "100"}, {"lua-time-limit", "1", "busy-reply-threshold", "2"}, {"lua-time-limit", "x"},
		{"appendfsync", "sometimes"}, {"appendfsync", "ALWAYS"}, {"appendfsync", "no"}, {"appendfsync", ""},
		{"loglevel", "foo"}, {"loglevel", "Warning"}, {"loglevel", "notice"},
		{"save", ""}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}, {"appendonly", "yes"},
		{"shutdown-timeout", "3"}, {"shutdown-timeout", "-1"}, {"tcp-keepalive", "1x"}, {"tcp-keepalive", "30"},
		{"timeout", "-1"}, {"timeout", "2147483648"}, {"timeout", "2147483647"}, {"tcp-keepalive", "77"}, {"tcp-keepalive", "x"},
		{"proto-max-bulk-len", "1kb"}, {"proto-max-bulk-len", "2MB"}, {"proto-max-bulk-len", "x"},
		{output, "normal 1 2"}, {output, "foo 1 2 3"}, {output, "normal 1 2 x"}, {output, "normal 1mb 2kb 60"},
		{output, "slave 1mb 2kb 60 pubsub 1 2 3"}, {output, "replica 1mb 2kb -60"}, {output, "replica 1mx 2kb 60"},
		{output, "Normal 1mb 2kb 60 normal 5 6 7"}, {output, "pubsub -1 1 1"}, {output, ""}, {output, "normal 0 0 0"},
		{"requirepass", ""},
	}
	for _, number := range []string{"", "0", "1", "+5", "05", " 5", "5 ", "1kb", "4294967296", "99999999999999999999", "-1", "-0", "0x10", "1.0"} {
		cases = append(cases, []string{"maxclients", number})
	}
	for _, size := range []string{"", "1mb", "1MB", "2m", "3gB", "1g", "2097152b", "1b", " 1mb", "1mb ", "1 mb", "+2mb", "0x10mb", "1.5mb",
		"mb", "-1", "1mbb", "1kk", "1tb", "9223372036854775807", "9223372036854775806", "1gb"} {
		cases = append(cases, []string{query, size})
	}
	return cases
}

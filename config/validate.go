package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxShards bounds the default and the named shards together.
const maxShards = 256

// Validate checks what concerns several settings. Each of the errors, joined
// into one, says where the value stands, what is wrong, and what to do.
func (c *Config) Validate() error {
	var all []error
	complain := func(name, format string, args ...any) {
		all = append(all, fmt.Errorf("%s: %s: %s", c.Where(name), name, fmt.Sprintf(format, args...)))
	}
	if c.Addr == "" && c.UnixSocket == "" {
		complain("addr", "there is neither addr nor unixsocket, so no client could connect; set one of them")
	}
	if c.LogMaxSize < 2*c.LogSegmentSize {
		complain("log-max-size", "%s is less than two segments of %s; raise it, or lower log-segment-size",
			memoryText(c.LogMaxSize), memoryText(c.LogSegmentSize))
	}
	if n := c.Shards + len(c.NamedShards); n > maxShards {
		complain("named-shards", "with %d default shards there are %d; at most %d are possible", c.Shards, n, maxShards)
	}
	refer := func(name, what, shard string) {
		if !c.hasShard(shard) {
			complain(name, "%sthere is no shard %q; use one of %s, or add it to named-shards", what, shard, c.shardNames())
		}
	}
	if c.StaticDefaultShard != "" {
		refer("static-default-shard", "", c.StaticDefaultShard)
	}
	for _, key := range slices.Sorted(maps.Keys(c.StaticCommands)) {
		refer("static-commands", key+": ", c.StaticCommands[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.StaticTenants)) {
		refer("static-tenants", key+": ", c.StaticTenants[key])
	}
	for _, db := range slices.Sorted(maps.Keys(c.DatabaseShards)) {
		refer("database-shards", strconv.Itoa(db)+": ", c.DatabaseShards[db])
		if db >= c.Databases {
			complain("database-shards", "there is no database %d; use 0 to %d, or raise databases", db, c.Databases-1)
		}
	}
	return errors.Join(all...)
}

func (c *Config) hasShard(name string) bool {
	if number, ok := strings.CutPrefix(name, "default-"); ok {
		_, err := parseInteger(number, 0, int64(c.Shards)-1)
		return err == nil
	}
	return slices.Contains(c.NamedShards, name)
}

// shardNames describes the shards for an error: short even where there are 256.
func (c *Config) shardNames() string {
	names := "default-0"
	if c.Shards > 1 {
		names += " … default-" + strconv.Itoa(c.Shards-1)
	}
	return strings.Join(append([]string{names}, c.NamedShards...), ", ")
}

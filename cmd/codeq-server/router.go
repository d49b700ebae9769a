package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"codeq/config"
	"codeq/queue"
	"codeq/shard"
	"codeq/supplier"
)

// newRouter decides, by the configuration, where keys live. It fails where the configuration names what does not exist.
func newRouter(c *config.Config) (*supplier.Router, error) {
	topology := supplier.Topology{Default: c.Shards, Named: c.NamedShards}
	s, err := supplier.NewRegistry().New(c.Supplier, supplier.Options{
		Topology:     topology,
		DefaultShard: c.StaticDefaultShard,
		Commands:     c.StaticCommands,
		Tenants:      c.StaticTenants,
	})
	if err != nil {
		return nil, err
	}
	return supplier.NewRouter(supplier.RouterConfig{
		Topology:  topology,
		Supplier:  s,
		Patterns:  c.KeyPatterns,
		Databases: c.DatabaseShards,
	})
}

// placement is what decides where queues are, as text: a data directory remembers it. Words that are the same mean the same.
func placement(c *config.Config) string {
	words := []string{queue.SupplierWord + " " + c.Supplier}
	if c.StaticDefaultShard != "" {
		words = append(words, "static-default-shard "+c.StaticDefaultShard)
	}
	commands := make(map[string]string, len(c.StaticCommands))
	for command, shard := range c.StaticCommands {
		commands[strings.ToLower(command)] = shard
	}
	words = appendTable(words, "static-commands", commands)
	words = appendTable(words, "static-tenants", c.StaticTenants)
	words = appendTable(words, shard.PinWord, c.DatabaseShards)
	return strings.Join(words, ", ")
}

func appendTable[K int | string](words []string, name string, table map[K]string) []string {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		words = append(words, fmt.Sprintf("%s %v=%s", name, key, table[key]))
	}
	return words
}

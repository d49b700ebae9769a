package main

import (
	"codeq/config"
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

package supplier

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxShards bounds the shards of one server, those of the default group and
	// the named ones together.
	MaxShards = 256

	// maxNameLen bounds a shard's name, which stands in keys and in folder names.
	maxNameLen = 64

	// defaultGroup is the name of the group that keys are hashed over. Its
	// shards are default-0, default-1, and so on.
	defaultGroup = "default"
)

// Topology is the set of shards. A shard has a name, for people and keys, and
// an ordinal, for the server and the ids that it makes: the default group has
// the ordinals from 0, and the named shards follow in the order given.
//
// Ordinals stand in ids on disk. Adding a named shard at the end keeps every
// other ordinal; changing the size of the default group does not, and stores
// refuse to open in a group of another size.
type Topology struct {
	// Default is the number of shards in the default group, at least 1.
	Default int
	// Named are the shards besides; each is a group of one.
	Named []string
}

// Validate says what is wrong with the topology, and what to do about it.
func (t Topology) Validate() error {
	if t.Default < 1 {
		return fmt.Errorf("the default group has %d shards; it needs at least 1", t.Default)
	}
	if n := t.Count(); n > MaxShards {
		return fmt.Errorf("%d default and %d named shards make %d; at most %d are possible, so remove %d",
			t.Default, len(t.Named), n, MaxShards, n-MaxShards)
	}
	for i, name := range t.Named {
		if err := validShardName(name); err != nil {
			return err
		}
		if slices.Contains(t.Named[:i], name) {
			return fmt.Errorf("the shard %q is named twice; remove one", name)
		}
	}
	return nil
}

// validShardName refuses names that could not stand in a key (a colon ends the
// segment) or as a folder, and those that belong to the default group.
func validShardName(name string) error {
	if name == "" || len(name) > maxNameLen {
		return fmt.Errorf("the shard name %q has %d characters; give it 1 to %d", name, len(name), maxNameLen)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return fmt.Errorf("the shard name %q has %q at position %d; "+
				"use lower-case letters and digits, and after the first also '-' and '_'", name, c, i+1)
		}
	}
	if name == defaultGroup || strings.HasPrefix(name, defaultGroup+"-") {
		return fmt.Errorf("the shard name %q belongs to the default group; choose one that does not begin with %q",
			name, defaultGroup)
	}
	return nil
}

// Count is the number of shards, and one more than the highest ordinal.
func (t Topology) Count() int { return t.Default + len(t.Named) }

// Name is the name of the shard with this ordinal, which must be within
// 0 ≤ ordinal < Count.
func (t Topology) Name(ordinal int) string {
	if ordinal >= t.Default {
		return t.Named[ordinal-t.Default]
	}
	return defaultGroup + "-" + strconv.Itoa(ordinal)
}

// Names lists all shards in the order of their ordinals.
func (t Topology) Names() []string {
	names := make([]string, t.Count())
	for i := range names {
		names[i] = t.Name(i)
	}
	return names
}

// Ordinal is the ordinal of the shard with this name.
func (t Topology) Ordinal(name string) (int, bool) {
	for i := range t.Count() {
		if t.Name(i) == name {
			return i, true
		}
	}
	return 0, false
}

// home is the shard of a task's own rows, see Router.Home.
func (t Topology) home(id []byte) int {
	if ordinal, ok := ParseID(id); ok && ordinal < t.Count() {
		return ordinal
	}
	return t.bucket(id)
}

// bucket hashes over the default group.
func (t Topology) bucket(b []byte) int {
	return int(Hash64(b) % uint64(t.Default))
}

// require is Ordinal with an error that says what to do; where tells which
// setting or caller named the shard.
func (t Topology) require(where, name string) (int, error) {
	if ordinal, ok := t.Ordinal(name); ok {
		return ordinal, nil
	}
	return 0, fmt.Errorf("%s: there is no shard %q; use %s, or add it to named-shards", where, name, t.summary())
}

// summary describes the shards for an error: short even where there are 256.
func (t Topology) summary() string {
	s := t.Name(0)
	if t.Default > 1 {
		s += " … " + t.Name(t.Default-1)
	}
	if len(t.Named) > 0 {
		s += ", " + strings.Join(t.Named, ", ")
	}
	return s
}

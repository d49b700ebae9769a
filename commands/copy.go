package commands

import (
	"bytes"
	"math"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// COPY, MOVE and SWAPDB: what goes from one database to another.

func copyCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "copy", Syntax: "COPY source destination [DB destination-db] [REPLACE]",
			Group: spec.Generic, Since: "6.2.0", Complexity: "O(N) where N is the size of the value",
			Differs: "Refuses a value over 512 MiB, counted with 32 bytes for each element. A partitioned key takes its own " +
				"type only, and no deadline.",
			Summary: "Copies the value at a key to another key.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access), spec.KeyAt(2, spec.OW|spec.Update)}}, Run: copyCommand, Reads: true},
		{Command: spec.Command{Name: "move", Syntax: "MOVE key db",
			Group: spec.Generic, Since: "1.0.0", Complexity: "O(1)",
			Differs: "Between databases on different shards, refuses a value over 512 MiB, counted with 32 bytes for each " +
				"element. A partitioned key takes its own type only, and no deadline.",
			Summary: "Moves a key to another database unless it is there already.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: moveCommand},
		{Command: spec.Command{Name: "swapdb", Syntax: "SWAPDB index1 index2",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(N) where N is the number of clients that watch or wait for keys",
			Differs: "Refuses databases that `database-shards` puts on different shards.",
			Summary: "Exchanges the contents of two databases.",
			Flags:   spec.Write | spec.Fast, ACL: spec.CatDangerous | spec.CatKeyspace}, Run: swapCommand, Scope: scopeAll},
	}
}

// database reads the number of a database.
func (c *Call) database(arg []byte) (int, error) {
	n, ok := parseInt(arg)
	switch {
	case !ok:
		return 0, resp.ErrNotInteger
	case n < math.MinInt32 || n > math.MaxInt32:
		return 0, resp.ErrOutOfBounds(math.MinInt32, math.MaxInt32)
	case n < 0 || n >= int64(c.server.config.Current().Databases):
		return 0, resp.ErrDBIndex
	}
	return int(n), nil
}

// COPY source destination [DB destination-db] [REPLACE]
func copyCommand(c *Call) error {
	src, dst, to, replace := c.key(), c.args(1).bytes(), c.db, false
	for a := c.args(2); a.more(); {
		var err error
		switch {
		case a.token("REPLACE"):
			replace = true
		case len(a.rest) > 1 && a.token("DB"):
			to, err = c.database(a.bytes())
		default:
			err = resp.ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	if to == c.db && bytes.Equal(src, dst) {
		return resp.ErrSameObject
	}
	found, err := c.DB().Exists(src)
	if err != nil {
		return err
	}
	taken, err := c.DBAt(to).Exists(dst)
	if err != nil {
		return err
	}
	if !found || taken && !replace {
		c.Out.Int(0)
		return nil
	}
	if err := copyKey(c.DB(), src, c.DBAt(to), dst); err != nil {
		return err
	}
	c.DBAt(to).Note(shard.NoteGeneric, "copy_to", dst)
	c.Out.Int(1)
	return nil
}

// copyKey copies the value of a key that exists, with its deadline, over whatever is at dst.
func copyKey(from shard.DB, src []byte, to shard.DB, dst []byte) error {
	atMs, _, err := from.ExpireAt(src)
	if err != nil {
		return err
	}
	v, _, err := readValue(from, src)
	if err != nil {
		return err
	}
	return writeValue(to, dst, &v, atMs)
}

// MOVE key db
func moveCommand(c *Call) error {
	key := c.key()
	n, err := c.database(c.Args[2])
	if err != nil {
		return err
	}
	if n == c.db {
		return resp.ErrSameObject
	}
	from, to := c.DB(), c.DBAt(n)
	found, err := from.Exists(key)
	if err != nil {
		return err
	}
	taken, err := to.Exists(key)
	if err != nil {
		return err
	}
	if found && !taken {
		if err := moveKey(from, to, key); err != nil {
			return err
		}
		from.Note(shard.NoteGeneric, "move_from", key)
		to.Note(shard.NoteGeneric, "move_to", key)
	}
	c.Out.Int(oneIf(found && !taken))
	return nil
}

// moveKey moves a key that exists to a database that lacks it.
func moveKey(from, to shard.DB, key []byte) error {
	if ok, err := from.MoveKey(key, to); ok || err != nil {
		return err
	}
	if err := copyKey(from, key, to, key); err != nil {
		return err
	}
	_, err := from.Delete(key)
	return err
}

// SWAPDB index1 index2
func swapCommand(c *Call) error {
	first, ok := parseInt(c.Args[1])
	if !ok || first < math.MinInt32 || first > math.MaxInt32 {
		return resp.ErrFirstDBIndex
	}
	second, ok := parseInt(c.Args[2])
	if !ok || second < math.MinInt32 || second > math.MaxInt32 {
		return resp.ErrSecondDBIndex
	}
	a, err := c.database(c.Args[1])
	if err != nil {
		return err
	}
	b, err := c.database(c.Args[2])
	if err != nil {
		return err
	}
	if !c.server.routeAlike(a, b) {
		return resp.ErrSwapPinned
	}
	if err := c.tx.SwapDB(a, b); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

// routeAlike tells whether two databases keep every key on the same shards: both pinned to one shard, or neither pinned,
// which shows in their partitioned keys.
func (s *Server) routeAlike(a, b int) bool {
	pinnedA, pinnedB := len(s.router.PartitionedKeys(a)) == 0, len(s.router.PartitionedKeys(b)) == 0
	if !pinnedA || !pinnedB {
		return pinnedA == pinnedB
	}
	return s.router.Route(a, nil).Shard == s.router.Route(b, nil).Shard
}

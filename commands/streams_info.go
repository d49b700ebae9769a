package commands

import (
	"codeq/resp"
	"codeq/shard"
)

// XINFO. What Redis tells of the tree that it keeps a stream in is made up: there is no such tree here.

// infoStream opens the stream that a subcommand of XINFO is about.
func infoStream(c *Call) (shard.Stream, error) {
	stream, err := c.DB().Stream(c.Args[2])
	if err == nil && !stream.Exists() {
		err = resp.ErrNoSuchKey
	}
	return stream, err
}

// replyPair writes a name and an integer of a map.
func replyPair(out *resp.Writer, name string, n int64) {
	out.BulkString(name)
	out.Int(n)
}

func replyPairID(out *resp.Writer, name string, id shard.StreamID) {
	out.BulkString(name)
	replyStreamID(out, id)
}

// replyKnown is replyPair for a number that may not be known.
func replyKnown(out *resp.Writer, name string, n int64, known bool) {
	out.BulkString(name)
	if known {
		out.Int(n)
	} else {
		out.Null()
	}
}

// XINFO CONSUMERS key groupname
func xinfoConsumers(c *Call) error {
	stream, err := infoStream(c)
	if err != nil {
		return err
	}
	group, ok, err := stream.Group(c.Args[3])
	if err != nil {
		return err
	}
	if !ok {
		return resp.ErrNoGroupAtKey(c.Args[2], c.Args[3])
	}
	c.Out.Array(group.Consumers())
	return group.EachConsumer(func(consumer shard.Consumer) error {
		c.Out.Map(3)
		c.Out.BulkString("name")
		c.Out.BulkString(consumer.Name())
		replyPair(c.Out, "pending", consumer.Pending())
		replyPair(c.Out, "idle", max(c.DB().Now()-consumer.SeenMs(), 0))
		return nil
	})
}

// XINFO GROUPS key
func xinfoGroups(c *Call) error {
	stream, err := infoStream(c)
	if err != nil {
		return err
	}
	groups, err := stream.Groups()
	if err != nil {
		return err
	}
	out := c.Out
	out.Array(len(groups))
	for _, g := range groups {
		out.Map(6)
		out.BulkString("name")
		out.BulkString(g.Name())
		replyPair(out, "consumers", int64(g.Consumers()))
		replyPair(out, "pending", g.Pending())
		replyReading(out, g)
	}
	return nil
}

// replyReading writes how far a group has come.
func replyReading(out *resp.Writer, g shard.Group) {
	replyPairID(out, "last-delivered-id", g.Last())
	read, known := g.EntriesRead()
	replyKnown(out, "entries-read", read, known)
	lag, known := g.Lag()
	replyKnown(out, "lag", lag, known)
}

// defaultInfoCount is how many entries of each kind FULL shows unless COUNT is given.
const defaultInfoCount = 10

// XINFO STREAM key [FULL [COUNT count]]
func xinfoStream(c *Call) error {
	stream, err := infoStream(c)
	if err != nil {
		return err
	}
	a := c.args(2)
	full, count := a.token("FULL"), int64(defaultInfoCount)
	if full && len(a.rest) == 2 && a.token("COUNT") {
		if count = a.integer(); count < 0 {
			count = defaultInfoCount
		}
	}
	switch {
	case a.err != nil:
		return a.err
	case a.more():
		return resp.ErrSubcommandArgs("XINFO", c.Args[1])
	}
	out, info := c.Out, stream.Info()
	if full {
		out.Map(9)
	} else {
		out.Map(10)
	}
	replyPair(out, "length", info.Length)
	nodes := (info.Length + shard.StreamTrimBlock - 1) / shard.StreamTrimBlock
	replyPair(out, "radix-tree-keys", nodes)
	replyPair(out, "radix-tree-nodes", nodes+1)
	replyPairID(out, "last-generated-id", info.Last)
	replyPairID(out, "max-deleted-entry-id", info.MaxDeleted)
	replyPair(out, "entries-added", info.EntriesAdded)
	replyPairID(out, "recorded-first-entry-id", info.First)
	if full {
		return replyStreamFull(c, stream, count)
	}
	replyPair(out, "groups", int64(info.Groups))
	for _, end := range []struct {
		name string
		rev  bool
	}{{"first-entry", false}, {"last-entry", true}} {
		out.BulkString(end.name)
		found, err := entriesOf(stream, end.rev, 1)
		switch {
		case err != nil:
			return err
		case found.n == 0:
			out.Null()
		default:
			out.Raw(found.elements.Bytes())
		}
	}
	return nil
}

// entriesOf gathers up to count entries of the stream from one end, or all for 0.
func entriesOf(stream shard.Stream, rev bool, count int64) (found gathered, err error) {
	err = stream.Range(shard.StreamID{}, shard.LastStreamID(), rev, func(id shard.StreamID, fields shard.Fields) bool {
		found.entry(id, fields)
		return int64(found.n) != count
	})
	return found, err
}

// replyStreamFull writes what FULL has besides: entries and groups.
func replyStreamFull(c *Call, stream shard.Stream, count int64) error {
	out := c.Out
	out.BulkString("entries")
	entries, err := entriesOf(stream, false, count)
	if err != nil {
		return err
	}
	entries.reply(out)
	groups, err := stream.Groups()
	if err != nil {
		return err
	}
	out.BulkString("groups")
	out.Array(len(groups))
	for _, g := range groups {
		out.Map(7)
		out.BulkString("name")
		out.BulkString(g.Name())
		replyReading(out, g)
		replyPair(out, "pel-count", g.Pending())
		if err := replyPendingEntries(out, g, nil, count); err != nil {
			return err
		}
		out.BulkString("consumers")
		out.Array(g.Consumers())
		err := g.EachConsumer(func(consumer shard.Consumer) error {
			out.Map(4)
			out.BulkString("name")
			out.BulkString(consumer.Name())
			replyPair(out, "seen-time", consumer.SeenMs())
			replyPair(out, "pel-count", consumer.Pending())
			return replyPendingEntries(out, g, &consumer, count)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replyPendingEntries writes up to count pending entries, or all for 0: of a group with their consumers, or of a consumer.
func replyPendingEntries(out *resp.Writer, g shard.Group, of *shard.Consumer, count int64) error {
	var found gathered
	err := g.EachPending(of, shard.StreamID{}, shard.LastStreamID(), func(p shard.Pending) bool {
		w := &found.elements
		found.n++
		if of == nil {
			w.Array(4)
			replyStreamID(w, p.ID)
			w.BulkString(p.Consumer)
		} else {
			w.Array(3)
			replyStreamID(w, p.ID)
		}
		w.Int(p.DeliveredMs)
		w.Int(p.Deliveries)
		return int64(found.n) != count
	})
	out.BulkString("pending")
	found.reply(out)
	return err
}

package commands

import (
	"bytes"
	"slices"

	"codeq/resp"
	"codeq/shard"
)

// XREAD and XREADGROUP. Both read what is there at once, from all streams. A call with BLOCK that finds nothing waits until
// one of its streams has something, which serve then replies with.

// streamRead is one call.
type streamRead struct {
	out             *resp.Writer
	grouped         bool // XREADGROUP
	group, consumer []byte
	noAck           bool
	count           int64 // 0: all
	blocks          bool
	blockMs         int64 // 0: without end
	keys            [][]byte
	// after are the ids behind which to read, by key; meaningless where fresh says that a group's new entries are asked for.
	after []shard.StreamID
	fresh []bool
}

// parse takes the options, up to the ids.
func (r *streamRead) parse(c *Call, a *arguments) (ids [][]byte) {
	for a.more() {
		left := len(a.rest) - 1
		switch {
		case left >= 1 && a.token("BLOCK"):
			r.blocks = true
			r.blockMs = a.blockTime(c)
		case left >= 1 && a.token("COUNT"):
			r.count = max(a.integer(), 0)
		case left >= 1 && a.token("STREAMS"):
			return r.parseStreams(c, a)
		case left >= 2 && a.token("GROUP"):
			if c.cmd.Name == "xread" {
				a.fail(resp.ErrXreadGroup)
			}
			r.grouped, r.group, r.consumer = true, a.bytes(), a.bytes()
		case a.token("NOACK"):
			if c.cmd.Name == "xread" {
				a.fail(resp.ErrXreadNoAck)
			}
			r.noAck = true
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	a.fail(resp.ErrSyntax)
	return nil
}

// parseStreams takes what follows STREAMS: as many ids as keys.
func (r *streamRead) parseStreams(c *Call, a *arguments) (ids [][]byte) {
	n, inGroup := len(a.rest), c.cmd.Name == "xreadgroup"
	switch {
	case n%2 != 0:
		a.fail(resp.ErrUnbalancedStreams)
	case inGroup && !r.grouped:
		a.fail(resp.ErrXreadgroupNoGroup)
	}
	r.keys = a.take(n / 2)
	return a.all()
}

// blockTime takes the time after BLOCK, which has no place in a script.
func (a *arguments) blockTime(c *Call) int64 {
	if c.script {
		a.fail(resp.ErrBlockInScript(c.Args[0]))
	}
	ms, ok := parseInt(a.bytes())
	switch {
	case !ok:
		a.fail(resp.ErrTimeoutNotInteger)
	case ms < 0:
		a.fail(resp.ErrTimeoutNegative)
	}
	return ms
}

// resolve finds out what the ids mean, and checks the keys and groups.
func (r *streamRead) resolve(db shard.DB, ids [][]byte) error {
	r.after, r.fresh = make([]shard.StreamID, len(ids)), make([]bool, len(ids))
	for i, text := range ids {
		stream, err := db.Stream(r.keys[i])
		if err != nil {
			return err
		}
		if r.grouped {
			_, ok, err := stream.Group(r.group)
			if err != nil {
				return err
			}
			if !ok {
				return resp.ErrNoGroupToRead(r.keys[i], r.group)
			}
		}
		switch string(text) {
		case "$":
			if r.grouped {
				return resp.ErrXreadgroupLast
			}
			r.after[i] = stream.Last()
		case ">":
			if !r.grouped {
				return resp.ErrXreadNew
			}
			r.fresh[i] = true
		default:
			var ok bool
			if r.after[i], _, ok = parseStreamID(text, 0, false); !ok {
				return resp.ErrInvalidStreamID
			}
			// The greatest id means what is new, too.
			r.fresh[i] = r.grouped && r.after[i] == shard.LastStreamID()
		}
	}
	return nil
}

// XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
// XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]
func xread(c *Call) error {
	r := &streamRead{out: c.Out}
	a := arguments{rest: c.Args[1:]}
	ids := r.parse(c, &a)
	if a.err != nil {
		return a.err
	}
	if err := r.resolve(c.DB(), ids); err != nil {
		return err
	}
	served, err := r.readAll(c.DB())
	switch {
	case served || err != nil:
		return err
	case !r.blocks || c.script || c.exec:
		c.Out.NullArray()
		return nil
	}
	b := blocking{kind: shard.KindStream, keys: r.keys, timeout: waitFor(r.blockMs), nothing: replyNullArray}
	if r.grouped {
		b.rivals = string(r.group)
	}
	b.try = func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error) {
		r.out = out
		return r.serve(db, key)
	}
	return c.park(b)
}

// readAll replies with what the streams have now, unless that is nothing.
func (r *streamRead) readAll(db shard.DB) (served bool, err error) {
	if len(r.keys) == 1 {
		return r.read(db, 0, r.out, func() { r.replyStreams(1) })
	}
	var found gathered
	found.elements.SetProto(r.out.Proto())
	for i := range r.keys {
		if _, err := r.read(db, i, &found.elements, func() { found.n++ }); err != nil {
			return false, err
		}
	}
	if found.n > 0 {
		r.replyStreams(found.n)
		r.out.Raw(found.elements.Bytes())
	}
	return found.n > 0, nil
}

// replyStreams begins a reply with the entries of n streams.
func (r *streamRead) replyStreams(n int) {
	if r.out.Proto() == 3 {
		r.out.Map(n)
	} else {
		r.out.Array(n)
	}
}

// read writes the key and the entries of one stream, with begin called before, unless it has none. The history of a consumer
// counts as something even if it is empty.
func (r *streamRead) read(db shard.DB, i int, out *resp.Writer, begin func()) (served bool, err error) {
	stream, err := db.Stream(r.keys[i])
	if err != nil || !stream.Exists() {
		return false, err
	}
	if !r.grouped {
		return r.readAfter(stream, i, out, begin)
	}
	group, _, err := stream.Group(r.group)
	if err != nil {
		return false, err
	}
	if r.fresh[i] {
		if served, err = group.HasNew(); err != nil || !served {
			return false, err
		}
		begin()
		r.replyKey(out, i)
		return true, r.deliver(db, r.keys[i], group, out)
	}
	consumer, err := seeConsumer(db, r.keys[i], group, r.consumer)
	if err != nil {
		return false, err
	}
	begin()
	r.replyKey(out, i)
	return true, r.history(db.Now(), stream, group, consumer, i, out)
}

// replyKey writes the name of a stream; its entries follow.
func (r *streamRead) replyKey(out *resp.Writer, i int) {
	if out.Proto() == 2 {
		out.Array(2)
	}
	out.Bulk(r.keys[i])
}

// readAfter is read for XREAD.
func (r *streamRead) readAfter(stream shard.Stream, i int, out *resp.Writer, begin func()) (served bool, err error) {
	if !r.after[i].Less(stream.Last()) {
		return false, nil
	}
	var found gathered
	from, _ := r.after[i].Next()
	err = stream.Range(from, shard.LastStreamID(), false, func(id shard.StreamID, fields shard.Fields) bool {
		found.entry(id, fields)
		return int64(found.n) != r.count
	})
	if err != nil || found.n == 0 {
		return false, err
	}
	begin()
	r.replyKey(out, i)
	found.reply(out)
	return true, nil
}

// deliver hands new entries of the stream at the key to the consumer and writes them.
func (r *streamRead) deliver(db shard.DB, key []byte, group shard.Group, out *resp.Writer) error {
	consumer, err := seeConsumer(db, key, group, r.consumer)
	if err != nil {
		return err
	}
	if r.count == 1 { // the usual case of a queue, which needs no second buffer
		out.Array(1)
		return group.Deliver(consumer, 1, r.noAck, db.Now(), func(id shard.StreamID, fields shard.Fields) {
			replyEntry(out, id, fields)
		})
	}
	var found gathered
	if err := group.Deliver(consumer, r.count, r.noAck, db.Now(), found.entry); err != nil {
		return err
	}
	found.reply(out)
	return nil
}

// history writes the entries that are pending for the consumer; those that exist count as delivered once more.
func (r *streamRead) history(nowMs int64, stream shard.Stream, group shard.Group, consumer shard.Consumer, i int,
	out *resp.Writer) error {
	from, _ := r.after[i].Next()
	var pending []shard.Pending
	err := group.EachPending(&consumer, from, shard.LastStreamID(), func(p shard.Pending) bool {
		pending = append(pending, p)
		return int64(len(pending)) != r.count
	})
	if err != nil {
		return err
	}
	out.Array(len(pending))
	for _, p := range pending {
		fields, ok, err := stream.Get(p.ID)
		switch {
		case err != nil:
			return err
		case ok:
			replyEntry(out, p.ID, fields)
			err = group.SetPending(consumer, p.ID, nowMs, p.Deliveries+1)
		default:
			out.Array(2)
			replyStreamID(out, p.ID)
			out.NullArray()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// blockedReadCount is how many entries a call that had to wait gets at most, unless it has a COUNT.
const blockedReadCount = 1000

// serve is the attempt of a call that waits at a key: read, but for a group's consumer that waits in vain, because the group or
// the stream is gone. Only new entries are waited for, as the history of a consumer is there at once.
func (r *streamRead) serve(db shard.DB, key []byte) (served bool, err error) {
	stream, err := db.Stream(key)
	if err != nil && err != shard.ErrWrongType {
		return false, err
	}
	if there := err == nil && stream.Exists(); !there {
		if r.grouped {
			return false, resp.ErrStreamGone
		}
		return false, nil
	}
	if r.grouped {
		if _, there, err := stream.Group(r.group); err != nil {
			return false, err
		} else if !there {
			return false, resp.ErrStreamGroupGone
		}
	}
	if r.count == 0 {
		r.count = blockedReadCount
	}
	i := slices.IndexFunc(r.keys, func(k []byte) bool { return bytes.Equal(k, key) })
	return r.read(db, i, r.out, func() { r.replyStreams(1) })
}

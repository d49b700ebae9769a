package commands

import (
	"bytes"
	"math"
	"strconv"

	"codeq/resp"
	"codeq/shard"
)

// Ids of streams' entries: how clients write them, and how entries are written to replies.

// maxStreamIDText is the longest spelling of an id that Redis takes.
const maxStreamIDText = 127

// parseStreamID reads "ms" or "ms-seq"; missing is the sequence number of the first form. With partial, "ms-*" is allowed
// too, which leaves the sequence number open.
func parseStreamID(b []byte, missing uint64, partial bool) (id shard.StreamID, open, ok bool) {
	if len(b) > maxStreamIDText {
		return id, false, false
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	ms, seq, both := bytes.Cut(b, []byte{'-'})
	id.Seq = missing
	if id.Ms, ok = parseUnsigned(ms); !ok || !both {
		return id, false, ok
	}
	if partial && len(seq) == 1 && seq[0] == '*' {
		id.Seq = 0
		return id, true, true
	}
	id.Seq, ok = parseUnsigned(seq)
	return id, false, ok
}

// parseUnsigned reads a number as C's strtoull does, but refuses what overflows, and a negative int64.
func parseUnsigned(b []byte) (n uint64, ok bool) {
	if small, ok := parseInt(b); ok {
		return uint64(small), small >= 0
	}
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	if n, ok = parseDigits(b); !ok {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// streamID takes an id; missing is the sequence number of one that has none.
func (a *arguments) streamID(missing uint64) shard.StreamID {
	id, _, ok := parseStreamID(a.bytes(), missing, false)
	if !ok {
		a.fail(resp.ErrInvalidStreamID)
	}
	return id
}

// intervalEnd takes one end of a range: an id, which "(" before it excludes, or "-" or "+". missing is the sequence number of
// an id that has none. step leads away from an excluded id, into the range; stuck is the error if there is nothing there.
func (a *arguments) intervalEnd(missing uint64, step func(shard.StreamID) (shard.StreamID, bool), stuck error) shard.StreamID {
	b := a.bytes()
	switch {
	case a.err != nil:
		return shard.StreamID{}
	case len(b) == 1 && b[0] == '-':
		return shard.StreamID{}
	case len(b) == 1 && b[0] == '+':
		return shard.LastStreamID()
	}
	excluded := len(b) > 1 && b[0] == '('
	if excluded {
		b = b[1:]
	}
	id, _, ok := parseStreamID(b, missing, false)
	if !ok {
		a.fail(resp.ErrInvalidStreamID)
		return id
	}
	if excluded {
		if id, ok = step(id); !ok {
			a.fail(stuck)
		}
	}
	return id
}

func (a *arguments) intervalStart() shard.StreamID {
	return a.intervalEnd(0, shard.StreamID.Next, resp.ErrInvalidStart)
}

func (a *arguments) intervalStop() shard.StreamID {
	return a.intervalEnd(math.MaxUint64, shard.StreamID.Previous, resp.ErrInvalidEnd)
}

// replyStreamID writes an id.
func replyStreamID(out *resp.Writer, id shard.StreamID) {
	var text [2*20 + 1]byte
	b := strconv.AppendUint(text[:0], id.Ms, 10)
	b = append(b, '-')
	out.Bulk(strconv.AppendUint(b, id.Seq, 10))
}

// replyEntry writes an entry: its id, and its fields and values.
func replyEntry(out *resp.Writer, id shard.StreamID, fields shard.Fields) {
	out.Array(2)
	replyStreamID(out, id)
	out.Array(fields.Len())
	for fields.Len() > 0 {
		out.Bulk(fields.Next())
	}
}

// entry adds an entry to the reply.
func (g *gathered) entry(id shard.StreamID, fields shard.Fields) {
	g.n++
	replyEntry(&g.elements, id, fields)
}

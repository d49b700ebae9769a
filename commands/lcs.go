package commands

import (
	"errors"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// LCS, the longest common subsequence of two strings.
//
// The length of the longest common subsequence of every two beginnings of the strings follows from those of the next
// shorter ones. Redis keeps the whole table of lengths, 4 bytes each, and refuses what exceeds proto-max-bulk-len. The same
// calls are refused here, but the table is not kept: two of its rows suffice for the lengths, and to find the subsequence
// afterwards it suffices to know of each cell where its value came from, which is one bit.

func lcsCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "lcs", Syntax: "LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
			Group: spec.String, Since: "7.0.0", Complexity: "O(N*M) with N and M the lengths of the strings",
			Summary: "Finds the longest sequence of bytes that two strings have in common in the same order.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{{Flags: spec.RO | spec.Access, Begin: spec.Index(1), Find: spec.Range(1, 1, 0)}}}, Run: lcs},
	}
}

// lcsCall is what LCS asks for.
type lcsCall struct {
	length, ranges, withLength bool
	minLength                  int64
}

func parseLCS(a *arguments) (p lcsCall, err error) {
	for a.more() {
		switch behind := len(a.rest) - 1; {
		case a.token("IDX"):
			p.ranges = true
		case a.token("LEN"):
			p.length = true
		case a.token("WITHMATCHLEN"):
			p.withLength = true
		case behind >= 1 && a.token("MINMATCHLEN"):
			p.minLength = a.integer()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if a.err == nil && p.length && p.ranges {
		a.fail(resp.ErrLCSLenAndIdx)
	}
	return p, a.err
}

// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]
func lcs(c *Call) error {
	args := c.args(0)
	x, err := lcsOperand(c.DB(), args.bytes())
	if err != nil {
		return err
	}
	y, err := lcsOperand(c.DB(), args.bytes())
	if err != nil {
		return err
	}
	p, err := parseLCS(args)
	if err != nil {
		return err
	}
	const cellBytes = 4
	if int64(len(x)+1)*int64(len(y)+1)*cellBytes > maxStringBytes {
		return resp.ErrLCSMemory
	}
	if p.length {
		c.Out.Int(int64(fillLCS(x, y, nil)))
		return nil
	}
	came := newBitTable(len(x), len(y))
	length := fillLCS(x, y, came)
	matches := traceLCS(x, y, came)
	if p.ranges {
		p.replyRanges(c.Out, matches, length)
		return nil
	}
	common := make([]byte, 0, length)
	for i := len(matches) - 1; i >= 0; i-- {
		m := matches[i]
		common = append(common, x[m.inX:m.inX+m.length]...)
	}
	c.Out.Bulk(common)
	return nil
}

// lcsOperand reads a string; a key without one counts as an empty string.
func lcsOperand(db shard.DB, key []byte) ([]byte, error) {
	val, _, err := db.Get(key)
	if errors.Is(err, shard.ErrWrongType) {
		return nil, resp.ErrLCSType
	}
	return val, err
}

// bitTable has a bit for every pair of a byte of x and a byte of y.
type bitTable struct {
	bits    []uint64
	columns int
}

func newBitTable(rows, columns int) *bitTable {
	return &bitTable{bits: make([]uint64, (rows*columns+63)/64), columns: columns}
}

func (t *bitTable) set(row, column int) {
	i := row*t.columns + column
	t.bits[i/64] |= 1 << (i % 64)
}

func (t *bitTable) has(row, column int) bool {
	i := row*t.columns + column
	return t.bits[i/64]&(1<<(i%64)) != 0
}

// fillLCS returns the length of the longest common subsequence. shorter, if given, gets a bit where it is better to leave the
// byte of x out than that of y; where both are as good, Redis leaves that of y out.
func fillLCS(x, y []byte, shorter *bitTable) int {
	row := make([]uint32, len(y)+1) // row[j] is for x up to the present byte and the first j bytes of y
	for i := range x {
		diagonal := uint32(0) // row[j] of the row before
		for j := range y {
			above := row[j+1]
			switch {
			case x[i] == y[j]:
				row[j+1] = diagonal + 1
			case above > row[j]:
				if shorter != nil {
					shorter.set(i, j)
				}
			default:
				row[j+1] = row[j]
			}
			diagonal = above
		}
	}
	return int(row[len(y)])
}

// lcsMatch is a run of bytes that x and y have in common.
type lcsMatch struct{ inX, inY, length int }

// traceLCS follows the subsequence from its end to its begin and returns its runs in that order.
func traceLCS(x, y []byte, shorter *bitTable) (matches []lcsMatch) {
	open := false // the last match may be extended
	for i, j := len(x)-1, len(y)-1; i >= 0 && j >= 0; {
		if x[i] != y[j] {
			open = false
			if shorter.has(i, j) {
				i--
			} else {
				j--
			}
			continue
		}
		if !open {
			matches = append(matches, lcsMatch{})
			open = true
		}
		m := &matches[len(matches)-1]
		*m = lcsMatch{inX: i, inY: j, length: m.length + 1}
		i--
		j--
	}
	return matches
}

// replyRanges writes where the runs are, the last one first, and the length of all.
func (p *lcsCall) replyRanges(out *resp.Writer, matches []lcsMatch, length int) {
	long := matches[:0]
	for _, m := range matches {
		if int64(m.length) >= p.minLength {
			long = append(long, m)
		}
	}
	out.Map(2)
	out.BulkString("matches")
	out.Array(len(long))
	for _, m := range long {
		out.Array(int(2 + oneIf(p.withLength)))
		for _, start := range [...]int{m.inX, m.inY} {
			out.Array(2)
			out.Int(int64(start))
			out.Int(int64(start + m.length - 1))
		}
		if p.withLength {
			out.Int(int64(m.length))
		}
	}
	out.BulkString("len")
	out.Int(int64(length))
}

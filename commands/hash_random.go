package commands

import (
	"math"

	"codeq/commands/spec"
	"codeq/resp"
)

// Random fields of a hash, and what HRANDFIELD and ZRANDMEMBER share.

func hashRandomCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "hrandfield", Syntax: "HRANDFIELD key [count [WITHVALUES]]",
			Group: spec.Hash, Since: "6.2.0", Complexity: "O(1) without a count, O(N) with N the count otherwise",
			Summary: "Returns random fields of a hash; with a negative count one may come several times.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: hrandfield},
	}
}

// HRANDFIELD key [count [WITHVALUES]]
func hrandfield(c *Call) error {
	r, err := parseDraw(c.args(1), "WITHVALUES")
	if err != nil {
		return err
	}
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	return replyDraw(c, r, h.Len, h.Random, h.RandomRepeated, (*resp.Writer).Bulk)
}

// drawCall is what HRANDFIELD and ZRANDMEMBER ask for.
type drawCall struct {
	count      int64
	given      bool
	withValues bool
}

// parseDraw parses "[count [WITHVALUES]]"; the word is the command's own.
func parseDraw(a *arguments, word string) (r drawCall, err error) {
	if !a.more() {
		return r, nil
	}
	r.count, r.given = a.signedCount(), true
	if a.more() {
		if r.withValues = a.token(word); !r.withValues {
			a.fail(resp.ErrSyntax)
		}
	}
	if err := a.done(); err != nil {
		return r, err
	}
	// With values the reply has twice as many elements.
	if r.withValues && max(r.count, -r.count) > math.MaxInt64/2 {
		return r, resp.ErrOutOfRange
	}
	return r, nil
}

// replyDraw replies elements of a collection that has the given length: distinct ones, or for a negative count any. write
// writes an element's value. A count that no reply can hold ends when the output buffer is full, which costs the client its
// connection.
func replyDraw[V any](c *Call, r drawCall, length func() (int64, error),
	distinct func(n int64, fn func(name []byte, val V)) error,
	repeated func(n int64, fn func(name []byte, val V) bool) error,
	write func(out *resp.Writer, val V)) error {
	n, err := length()
	switch {
	case err != nil:
		return err
	case n == 0 && !r.given:
		c.Out.Null()
		return nil
	case n == 0 || r.given && r.count == 0:
		c.Out.Array(0)
		return nil
	case !r.given:
		return distinct(1, func(name []byte, _ V) { c.Out.Bulk(name) })
	}
	element := func(name []byte, val V) {
		if r.withValues && c.Out.Proto() == 3 {
			c.Out.Array(2)
		}
		c.Out.Bulk(name)
		if r.withValues {
			write(c.Out, val)
		}
	}
	count := -r.count
	if r.count > 0 {
		count = min(r.count, n)
	}
	elements := count
	if r.withValues && c.Out.Proto() == 2 {
		elements *= 2
	}
	c.Out.Array(int(elements))
	if r.count > 0 {
		return distinct(count, element)
	}
	return repeated(count, func(name []byte, val V) bool {
		element(name, val)
		return !c.Out.Overflowed()
	})
}

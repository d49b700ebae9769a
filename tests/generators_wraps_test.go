package tests

import (
	"slices"
	"strings"

	"codeq/internal/peer"
)

// Any command may come by another one: a script that calls it, or a question about its keys.

// wrap draws a way in which a command of the row is sent.
func (g *gen) wrap(r *row, args []string) (*row, []string) {
	// What Redis says of PFMERGE without a source, and of a number that only looks like one, is its own: see docs/compatibility.md.
	odd := slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(junk(), arg) })
	if g.chance(30) && r.name != "PFMERGE" && !odd {
		return &row{name: r.name, equal: exact}, slices.Concat([]string{"COMMAND", g.pick([]string{"GETKEYS", "GETKEYSANDFLAGS"})}, args)
	}
	if opaque(args[0]) {
		return r, args
	}
	// The keys stay undeclared: neither server minds.
	script := g.pick([]string{"return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))"})
	equal := r.equal
	// What tells of idle times is compared by the order in which it stands, which a table would lose.
	if g.chance(40) && !strings.HasPrefix(r.name, "X") {
		script = "redis.setresp(3) " + script
		equal = func(a, b peer.Reply) bool { return r.equal(a, b) || r.equal(throughTables(a), throughTables(b)) }
	}
	return &row{name: r.name, equal: equal}, slices.Concat([]string{"EVAL", script, "0"}, args)
}

// throughTables puts what is in maps, sets and arrays in one order: in RESP3 they may have been tables of Lua, which have none,
// and in RESP2 all three are arrays.
func throughTables(r peer.Reply) peer.Reply {
	r = mapped(r, throughTables)
	if len(r.Elems) == 0 {
		return r
	}
	size := 1
	if r.Kind == '%' {
		size = 2
	}
	parts := slices.Collect(slices.Chunk(r.Elems, size))
	slices.SortFunc(parts, func(a, b []peer.Reply) int { return strings.Compare(text(a), text(b)) })
	r.Elems = slices.Concat(parts...)
	return r
}

// opaque reports commands that are not called from scripts here. What a script's SELECT chooses, and what stands behind it,
// is compared by TestScriptsAsRedis in package commands.
func opaque(name string) bool {
	return slices.Contains([]string{"SELECT", "FUNCTION", "SCRIPT"}, strings.ToUpper(name))
}

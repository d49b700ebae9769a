package tests

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// comparator says whether two replies to one command count as the same. Anything but exact is a named normalisation.
type comparator func(a, b peer.Reply) bool

// exact wants the same bytes.
func exact(a, b peer.Reply) bool { return reflect.DeepEqual(a, b) }

// unordered takes the elements of an array or set as a multiset.
func unordered(a, b peer.Reply) bool { return grouped(a, b, 1) }

// untilNUL takes elements, of arrays within arrays too, for what stands before their first NUL, by which alone Redis' SORT ALPHA
// orders them.
func untilNUL(a, b peer.Reply) bool { return exact(cutAtNUL(a), cutAtNUL(b)) }

func cutAtNUL(r peer.Reply) peer.Reply {
	elems := slices.Clone(r.Elems)
	for i := range elems {
		elems[i] = cutAtNUL(elems[i])
		elems[i].Str, _, _ = strings.Cut(elems[i].Str, "\x00")
	}
	r.Elems = elems
	return r
}

// pairs takes a map, or RESP2's flat array of names and values, as a set of pairs.
func pairs(a, b peer.Reply) bool { return grouped(a, b, 2) }

// grouped compares groups of so many elements as a multiset.
func grouped(a, b peer.Reply, size int) bool {
	if a.Kind != b.Kind || len(a.Elems) != len(b.Elems) || len(a.Elems)%size != 0 || len(a.Elems) == 0 {
		return exact(a, b)
	}
	return slices.Equal(groups(a.Elems, size), groups(b.Elems, size))
}

func groups(elems []peer.Reply, size int) []string {
	var out []string
	for group := range slices.Chunk(elems, size) {
		out = append(out, text(group))
	}
	slices.Sort(out)
	return out
}

// text writes replies so that different ones give different text.
func text(replies []peer.Reply) string {
	var b strings.Builder
	for _, r := range replies {
		fmt.Fprintf(&b, "%c%q", r.Kind, r.Str)
		if r.Null {
			b.WriteString("null")
		}
		if len(r.Elems) > 0 {
			fmt.Fprintf(&b, "(%s)", text(r.Elems))
		}
	}
	return b.String()
}

// within takes positive numbers as equal that differ by no more than the tolerance: the two servers were asked at
// different moments.
func within(tolerance int) comparator {
	return func(a, b peer.Reply) bool {
		x, errX := strconv.Atoi(a.Str)
		y, errY := strconv.Atoi(b.Str)
		if a.Kind != ':' || b.Kind != ':' || errX != nil || errY != nil || x <= 0 || y <= 0 {
			return exact(a, b)
		}
		return max(x-y, y-x) <= tolerance
	}
}

// compiled is exact but for what a Lua compiler says of a script that it refuses: each has its own words.
func compiled(a, b peer.Reply) bool {
	const refused = "ERR Error compiling script (new function): user_script:"
	if a.Kind == '-' && b.Kind == '-' && strings.HasPrefix(a.Str, refused) && strings.HasPrefix(b.Str, refused) {
		return true
	}
	return exact(a, b)
}

func TestComparators(t *testing.T) {
	for _, c := range []struct {
		name  string
		equal comparator
		a, b  string
		want  bool
	}{
		{"exact same", exact, "$1\r\na\r\n", "$1\r\na\r\n", true},
		{"exact kinds of null", exact, "$-1\r\n", "*-1\r\n", false},
		{"unordered same", unordered, "*2\r\n:1\r\n:2\r\n", "*2\r\n:2\r\n:1\r\n", true},
		{"unordered multiset", unordered, "*3\r\n:1\r\n:2\r\n:2\r\n", "*3\r\n:2\r\n:1\r\n:1\r\n", false},
		{"until NUL", untilNUL, "*2\r\n$0\r\n\r\n$2\r\n\x00a\r\n", "*2\r\n$1\r\n\x00\r\n$0\r\n\r\n", true},
		{"until NUL within", untilNUL, "*1\r\n*2\r\n$0\r\n\r\n$1\r\n\x00\r\n", "*1\r\n*2\r\n$1\r\n\x00\r\n$0\r\n\r\n", true},
		{"until NUL others", untilNUL, "*1\r\n$2\r\na\x00\r\n", "*1\r\n$1\r\nb\r\n", false},
		{"unordered kinds", unordered, "*1\r\n:1\r\n", "~1\r\n:1\r\n", false},
		{"pairs same", pairs, "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n", "*4\r\n+b\r\n:2\r\n+a\r\n:1\r\n", true},
		{"pairs crossed", pairs, "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n", "*4\r\n+a\r\n:2\r\n+b\r\n:1\r\n", false},
		{"within", within(2), ":100\r\n", ":98\r\n", true},
		{"within too far", within(2), ":100\r\n", ":97\r\n", false},
		{"within none", within(2), ":-1\r\n", ":-2\r\n", false},
		{"compiled", compiled, "-ERR Error compiling script (new function): user_script:1: x\r\n",
			"-ERR Error compiling script (new function): user_script:1: y\r\n", true},
		{"compiled other error", compiled, "-ERR a\r\n", "-ERR b\r\n", false},
	} {
		a, errA := peer.Parse([]byte(c.a))
		b, errB := peer.Parse([]byte(c.b))
		if errA != nil || errB != nil {
			t.Fatalf("%s: %v, %v", c.name, errA, errB)
		}
		if got := c.equal(a, b); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

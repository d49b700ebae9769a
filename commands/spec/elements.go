package spec

// Elements tells where the arguments stand that name an element of a collection: a hash field, a set or sorted set
// member. A call on a collection that is spread over shards then needs only the homes of these elements. Make one with
// ElementAt, ElementsFrom or ElementsAfter.
type Elements struct {
	from, step int
	single     bool     // only the argument at from
	options    []string // words that may stand at from and move the elements
	offset     int      // from behind the options to the first element
}

// ElementAt is one element at argument i.
func ElementAt(i int) Elements { return Elements{from: i, step: 1, single: true} }

// ElementsFrom is every step-th argument from i to the end.
func ElementsFrom(i, step int) Elements { return Elements{from: i, step: step} }

// ElementsAfter skips, from argument i on, any of the options (words without arguments); the first element stands offset
// arguments behind them, the others every step arguments to the end.
func ElementsAfter(i, offset, step int, options ...string) Elements {
	return Elements{from: i, step: step, options: options, offset: offset}
}

// Known reports whether the command names its elements at all.
func (e *Elements) Known() bool { return e.step > 0 }

// AppendElements appends the positions of the call's element arguments to dst. Adding none means that the call needs the whole
// collection. It does not allocate if dst has room.
func AppendElements(dst []int, c *Command, args [][]byte) []int {
	e := &c.Elements
	if !e.Known() {
		return dst
	}
	i, end := e.from, len(args)
	for i < end && e.isOption(args[i]) {
		i++
	}
	if e.single {
		end = min(end, i+1)
	}
	for i += e.offset; i < end; i += e.step {
		dst = append(dst, i)
	}
	return dst
}

func (e *Elements) isOption(arg []byte) bool {
	for _, option := range e.options {
		if equalFold(arg, option) {
			return true
		}
	}
	return false
}

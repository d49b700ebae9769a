package scripting

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fakeCaller is a tiny Redis: enough commands to see every kind of reply go in and out of a script.
type fakeCaller struct {
	strings map[string]string
	lists   map[string][]string
	hashes  map[string][][2]string
	scores  map[string]float64 // the members of z
	wrote   bool
	calls   int
	hook    func(args []string) error
}

func newFakeCaller() *fakeCaller {
	return &fakeCaller{
		strings: map[string]string{"s": "v"},
		lists:   map[string][]string{"l": {"a", "b"}},
		hashes:  map[string][][2]string{"h": {{"f", "v"}}},
		scores:  map[string]float64{"a": 1.5, "i": math.Inf(1), "m": math.Inf(-1), "big": 1e20},
	}
}

var errRetry = errors.New("the transaction must run again")

const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

func (f *fakeCaller) Begin(Flags) error { return nil }

func (f *fakeCaller) Wrote() bool { return f.wrote }

func (f *fakeCaller) Call(dst []byte, proto int, raw [][]byte) ([]byte, error) {
	f.calls++
	args := make([]string, len(raw))
	for i, a := range raw {
		args[i] = string(a)
	}
	if f.hook != nil {
		if err := f.hook(args); err != nil {
			return dst, err
		}
	}
	name := strings.ToLower(args[0])
	want, known := fakeArity()[name]
	switch {
	case !known:
		return append(dst, "-ERR Unknown Redis command called from script\r\n"...), nil
	case want != len(args):
		return append(dst, "-ERR Wrong number of args calling Redis command from script\r\n"...), nil
	}
	return f.known(dst, proto, name, args), nil
}

func fakeArity() map[string]int {
	return map[string]int{"get": 2, "set": 3, "echo": 2, "incr": 2, "lpush": 3, "lrange": 4, "hgetall": 2, "type": 2, "rpop": 2, "sadd": 3, "smembers": 2, "zscore": 3,
		"hget": 3, "zrange": 5}
}

func (f *fakeCaller) known(dst []byte, proto int, name string, args []string) []byte {
	_, isString := f.strings[args[1]]
	_, isList := f.lists[args[1]]
	_, isHash := f.hashes[args[1]]
	switch name {
	case "echo":
		return appendBulk(dst, args[1])
	case "set":
		f.wrote = true
		f.strings[args[1]] = args[2]
		return append(dst, "+OK\r\n"...)
	case "type":
		return append(dst, "+"+map[bool]string{true: "string", false: "none"}[isString]+"\r\n"...)
	case "get":
		if isList || isHash {
			return append(dst, wrongType...)
		}
		if !isString {
			return appendNull(dst, proto)
		}
		return appendBulk(dst, f.strings[args[1]])
	case "incr":
		n, err := strconv.Atoi(f.strings[args[1]])
		if err != nil && isString {
			return append(dst, "-ERR value is not an integer or out of range\r\n"...)
		}
		f.strings[args[1]] = strconv.Itoa(n + 1)
		return appendHeader(dst, ':', n+1)
	case "lpush":
		f.lists[args[1]] = append([]string{args[2]}, f.lists[args[1]]...)
		return appendHeader(dst, ':', len(f.lists[args[1]]))
	case "rpop":
		l := f.lists[args[1]]
		if len(l) == 0 {
			return appendNull(dst, proto)
		}
		f.lists[args[1]] = l[:len(l)-1]
		return appendBulk(dst, l[len(l)-1])
	case "lrange":
		dst = appendHeader(dst, '*', len(f.lists[args[1]]))
		for _, v := range f.lists[args[1]] {
			dst = appendBulk(dst, v)
		}
		return dst
	case "zscore":
		if score, ok := f.scores[args[2]]; ok && args[1] == "z" {
			return appendDouble(dst, score, proto)
		}
		return appendNull(dst, proto)
	case "zrange":
		return f.ranked(dst, proto)
	case "hget":
		return appendBulk(dst, f.hashes[args[1]][0][1])
	case "hgetall":
		return f.fields(dst, proto, args[1])
	case "sadd":
		return appendHeader(dst, ':', 1)
	}
	if proto == 3 {
		return appendHeader(dst, '~', 0)
	}
	return appendHeader(dst, '*', 0)
}

func (f *fakeCaller) fields(dst []byte, proto int, key string) []byte {
	kind, n := byte('*'), 2*len(f.hashes[key])
	if proto == 3 {
		kind, n = '%', len(f.hashes[key])
	}
	dst = appendHeader(dst, kind, n)
	for _, pair := range f.hashes[key] {
		dst = appendBulk(appendBulk(dst, pair[0]), pair[1])
	}
	return dst
}

// ranked encodes z with its scores, for RESP3 in pairs.
func (f *fakeCaller) ranked(dst []byte, proto int) []byte {
	members := slices.SortedFunc(maps.Keys(f.scores), func(a, b string) int { return cmp.Compare(f.scores[a], f.scores[b]) })
	if proto == 3 {
		dst = appendHeader(dst, '*', len(members))
	} else {
		dst = appendHeader(dst, '*', 2*len(members))
	}
	for _, m := range members {
		if proto == 3 {
			dst = appendHeader(dst, '*', 2)
		}
		dst = appendDouble(appendBulk(dst, m), f.scores[m], proto)
	}
	return dst
}

// Permits knows the commands that Call knows, and permits all but INCR.
func (f *fakeCaller) Permits(args [][]byte) (known, permitted bool) {
	name := strings.ToLower(string(args[0]))
	_, known = fakeArity()[name]
	return known, name != "incr"
}

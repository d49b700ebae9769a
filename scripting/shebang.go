package scripting

import (
	"strings"

	"codeq/internal/words"
)

// A script may begin with a line such as "#!lua flags=no-writes", a library does begin with one such as
// "#!lua name=mylib". The line is split into words as an inline command is.

// Flags are what a script or a function says about itself.
type Flags uint8

// The flags, and in Names their order in Redis' replies.
const (
	NoWrites Flags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlotKeys
	// Undeclared marks a script without a first line of the kind, about which nothing is known.
	Undeclared
)

// parseFlag finds a flag by its name.
func parseFlag(name string) (Flags, bool) {
	switch name {
	case "no-writes":
		return NoWrites, true
	case "allow-oom":
		return AllowOOM, true
	case "allow-stale":
		return AllowStale, true
	case "no-cluster":
		return NoCluster, true
	case "allow-cross-slot-keys":
		return AllowCrossSlotKeys, true
	}
	return 0, false
}

// Names lists the flags that are set, but for Undeclared.
func (f Flags) Names() []string {
	var names []string
	for i, name := range []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// isShebang tells whether the text begins as such a line does.
func isShebang(text string) bool { return strings.HasPrefix(text, "#!") }

// cutShebang splits a text after its first line. The rest keeps the line's end, so that lines keep their numbers.
func cutShebang(text string) (line, rest string, ok bool) {
	end := strings.IndexAny(text, "\n\x00")
	if end < 0 || text[end] == 0 {
		return "", "", false
	}
	return text[:end], text[end:], true
}

// scriptFlags reads and removes a script's first line, if it is one that says something.
func scriptFlags(body string) (flags Flags, source string, err error) {
	if !isShebang(body) {
		return Undeclared, body, nil
	}
	line, source, ok := cutShebang(body)
	if !ok {
		return 0, "", Error("ERR Invalid script shebang")
	}
	parts, ok := splitWords(line)
	if !ok {
		return 0, "", Error("ERR Invalid engine in script shebang")
	}
	if parts[0] != "#!lua" {
		return 0, "", Error("ERR Unexpected engine in script shebang: " + parts[0])
	}
	for _, word := range parts[1:] {
		list, ok := strings.CutPrefix(word, "flags=")
		if !ok {
			return 0, "", Error("ERR Unknown lua shebang option: " + word)
		}
		if list == "" {
			continue
		}
		for _, name := range strings.Split(list, ",") {
			flag, ok := parseFlag(name)
			if !ok {
				return 0, "", Error("ERR Unexpected flag in script shebang: " + name)
			}
			flags |= flag
		}
	}
	return flags, source, nil
}

// splitWords splits a line into words; not ok if a quote is not closed, or not at a word's end.
func splitWords(text string) (all []string, ok bool) {
	line := []byte(text)
	for next := 0; ; {
		var start, end int
		if start, end, next, ok = words.Next(line, next); !ok {
			return nil, false
		}
		if start == len(line) {
			return all, true
		}
		all = append(all, string(line[start:end]))
	}
}

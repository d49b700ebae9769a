package scripting

import "strings"

// A script may begin with a line such as "#!lua flags=no-writes", a library does begin with one such as
// "#!lua name=mylib". The line is split into words by the rules of Redis' sdssplitargs: "…" knows \n \r \t \b \a \xHH and takes
// any other escaped byte for itself, '…' knows only \', and a closing quote ends the word.

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
	words, ok := splitWords(line)
	if !ok {
		return 0, "", Error("ERR Invalid engine in script shebang")
	}
	if words[0] != "#!lua" {
		return 0, "", Error("ERR Unexpected engine in script shebang: " + words[0])
	}
	for _, word := range words[1:] {
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

// The bytes that end a word. Two more may lie between words.
const (
	wordEnds = " \t\r\n"
	blanks   = wordEnds + "\v\f"
)

// splitWords splits a line into words; not ok if a quote is not closed, or not at a word's end.
func splitWords(line string) (words []string, ok bool) {
	for {
		line = strings.TrimLeft(line, blanks)
		if line == "" {
			return words, true
		}
		var word string
		if word, line, ok = cutWord(line); !ok {
			return nil, false
		}
		words = append(words, word)
	}
}

// cutWord splits the line after its first word.
func cutWord(line string) (word, rest string, ok bool) {
	end := strings.IndexAny(line, wordEnds+`"'`)
	if end < 0 {
		return line, "", true
	}
	if quote := line[end]; quote == '"' || quote == '\'' {
		quoted, rest, ok := unquote(line[end+1:], quote)
		ok = ok && (rest == "" || strings.IndexByte(blanks, rest[0]) >= 0)
		return line[:end] + quoted, rest, ok
	}
	return line[:end], line[end:], true
}

// unquote reads up to the closing quote and returns what lies behind it.
func unquote(s string, quote byte) (text, rest string, ok bool) {
	var b []byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == quote:
			return string(b), s[i+1:], true
		case c == '\\' && i+1 < len(s) && (quote == '"' || s[i+1] == quote):
			i++
			c = s[i]
			if quote == '"' {
				c, i = unescape(s, i)
			}
		}
		b = append(b, c)
	}
	return "", "", false
}

// unescape is the byte that the escape sequence at s[i] stands for, and where that sequence ends.
func unescape(s string, i int) (c byte, last int) {
	if at := strings.IndexByte("nrtba", s[i]); at >= 0 {
		return "\n\r\t\b\a"[at], i
	}
	if s[i] == 'x' && i+2 < len(s) {
		high, ok1 := hexDigit(s[i+1])
		low, ok2 := hexDigit(s[i+2])
		if ok1 && ok2 {
			return high<<4 | low, i + 2
		}
	}
	return s[i], i
}

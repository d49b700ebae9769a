package spec

import "strings"

// Argument is a node of the argument tree that COMMAND DOCS shows.
type Argument struct {
	Name  string
	Type  ArgType
	Token string // the word that stands before the argument, or that a PureToken is
	// KeySpec is the index of the key specification that finds the argument, or -1.
	KeySpec       int
	Optional      bool
	Multiple      bool // may be repeated
	MultipleToken bool // the token is repeated as well
	Arguments     []Argument
}

// ArgType is the type of an argument.
type ArgType uint8

// The types of COMMAND DOCS. OneOf and Block have sub-arguments: alternatives, and a sequence.
const (
	TypeString ArgType = iota
	TypeInteger
	TypeDouble
	TypeKey
	TypePattern
	TypeUnixTime
	TypePureToken
	TypeOneOf
	TypeBlock
)

// String is the type's name in COMMAND DOCS.
func (t ArgType) String() string {
	return [...]string{"string", "integer", "double", "key", "pattern", "unix-time", "pure-token", "oneof", "block"}[t]
}

// leafType finds a type that a syntax line may name after a colon.
func leafType(name string) (ArgType, bool) {
	for t := TypeString; t < TypePureToken; t++ {
		if t.String() == name {
			return t, true
		}
	}
	return 0, false
}

// typeOf is the one place that says what an argument's name implies; "name:type" in a syntax line overrides it.
func typeOf(name string) ArgType {
	switch name {
	case "key", "key1", "key2", "newkey", "source", "destination", "sourcekey", "destkey":
		return TypeKey
	case "count", "numkeys", "index", "index1", "index2", "start", "stop", "end", "offset", "cursor", "rank", "len",
		"num-matches", "increment", "decrement", "bit", "bits", "weight", "limit", "frequency", "version",
		"seconds", "milliseconds", "ms", "ttl",
		"db", "destination-db", "client-id", "port", "protover", "numreplicas",
		"entries_read", "entries_added", "slot", "start-slot", "end-slot", "config-epoch", "cluster_bus_port",
		"priority", "n":
		return TypeInteger
	case "score", "timeout", "radius", "longitude", "latitude", "width", "height":
		return TypeDouble
	case "unix-time-seconds", "unix-time-milliseconds", "unix-ms":
		return TypeUnixTime
	case "pattern":
		return TypePattern
	}
	return TypeString
}

// countWords returns how many words a sequence of arguments takes at least, and whether it may take more.
func countWords(arguments []Argument) (words int, open bool) {
	for i := range arguments {
		n, o := arguments[i].countWords()
		words += n
		open = open || o
	}
	return words, open
}

func (a *Argument) countWords() (words int, open bool) {
	switch a.Type {
	case TypePureToken:
		words = 1
	case TypeBlock:
		words, open = countWords(a.Arguments)
	case TypeOneOf:
		words, open = countAlternatives(a.Arguments)
	default:
		words = 1
	}
	if a.Token != "" && a.Type != TypePureToken {
		words++
	}
	if a.Optional {
		return 0, true
	}
	return words, open || a.Multiple
}

func countAlternatives(alternatives []Argument) (words int, open bool) {
	for i := range alternatives {
		n, o := alternatives[i].countWords()
		open = open || o || (i > 0 && n != words)
		if i == 0 || n < words {
			words = n
		}
	}
	return words, open
}

// Usage is the syntax line for readers: the names of the arguments without types and without the grouping that only
// the argument tree needs.
func (c *Command) Usage() string {
	parts := []string{strings.ToUpper(strings.ReplaceAll(c.Name, "|", " "))}
	for i := range c.derived.arguments {
		parts = append(parts, c.derived.arguments[i].usage())
	}
	return strings.Join(parts, " ")
}

// usage shows an argument with its brackets and its repetition.
func (a *Argument) usage() string {
	body := a.body()
	once := body
	if a.Token != "" && a.Type != TypePureToken {
		once = a.Token + " " + body
	}
	if a.Type == TypeOneOf && (!a.Optional || a.Token != "" || a.Multiple) {
		body = "<" + body + ">"
		once = strings.TrimSpace(a.Token + " " + body)
	}
	out := once
	if a.Multiple && a.MultipleToken {
		out += " [" + once + " ...]"
	} else if a.Multiple {
		out += " [" + body + " ...]"
	}
	if a.Optional {
		return "[" + out + "]"
	}
	return out
}

// body shows an argument alone.
func (a *Argument) body() string {
	switch a.Type {
	case TypePureToken:
		if a.Token == "" {
			return `""`
		}
		return a.Token
	case TypeBlock, TypeOneOf:
		parts := make([]string, len(a.Arguments))
		for i := range a.Arguments {
			parts[i] = a.Arguments[i].usage()
		}
		if a.Type == TypeOneOf {
			return strings.Join(parts, " | ")
		}
		return strings.Join(parts, " ")
	}
	return a.Name
}

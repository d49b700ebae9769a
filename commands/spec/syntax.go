package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// The syntax line. Its grammar:
//
//	line   = name {item}
//	item   = word | TOKEN | TOKEN word | TOKEN group | group | "[" choice "]" | "[" {item} "..." "]"
//	group  = "<" choice ">"
//	choice = {item} {"|" {item}}
//
// A word with a lower-case letter is an argument, any other word is a token that the client sends as it is; `""` is the
// empty string. A token belongs to the argument or group that follows it. Square brackets make their content optional.
// A choice of several makes a oneof; a sequence of several, or a group without a choice, makes a block.
//
//   - "element [element ...]" repeats what stands before; with the token repeated too, "GET pattern [GET pattern ...]", the
//     token is needed each time.
//   - "[LIMIT offset count]": where a token and nothing but plain arguments fill brackets or an alternative, the token is the
//     whole block's. Elsewhere a group says so: "STREAMS <key [key ...] id [id ...]>".
//   - "timeout:integer" overrides the type that typeOf takes from the name.
//   - "pattern#1" says which key specification finds the argument. Without it, the first key argument is the first
//     specification's and so on; those left over are the last one's.

// maxSyntaxDepth bounds the nesting of a syntax line, so that a mistake can't exhaust the stack.
const maxSyntaxDepth = 16

type syntaxParser struct {
	words    []string
	pos      int
	depth    int
	keySpecs int // how many key specifications the command has
	keys     int // key arguments seen so far without a specification of their own
}

// parseSyntax turns a syntax line into the argument tree. An empty line is a container's and has none.
func parseSyntax(name, line string, keySpecs int) ([]Argument, error) {
	if line == "" {
		return nil, nil
	}
	p := &syntaxParser{words: splitSyntax(line), keySpecs: keySpecs}
	for part := range strings.SplitSeq(name, "|") {
		if p.peek() != strings.ToUpper(part) {
			return nil, fmt.Errorf("syntax starts with %q, want the name in upper case", p.peek())
		}
		p.pos++
	}
	arguments, err := p.sequence()
	if err != nil {
		return nil, err
	}
	if p.peek() != "" {
		return nil, fmt.Errorf("syntax has %q in the wrong place", p.peek())
	}
	return arguments, nil
}

func nameWords(name string) int { return 1 + strings.Count(name, "|") }

// splitSyntax cuts a line into words and the signs of the grammar.
func splitSyntax(line string) []string {
	for _, sign := range []string{"[", "]", "<", ">", "|", "..."} {
		line = strings.ReplaceAll(line, sign, " "+sign+" ")
	}
	return strings.Fields(line)
}

func (p *syntaxParser) peek() string {
	if p.pos == len(p.words) {
		return ""
	}
	return p.words[p.pos]
}

func isSign(word string) bool {
	switch word {
	case "", "[", "]", "<", ">", "|", "...":
		return true
	}
	return false
}

func isToken(word string) bool { return !isSign(word) && strings.IndexFunc(word, unicode.IsLower) < 0 }

// sequence reads items up to a sign that ends it.
func (p *syntaxParser) sequence() ([]Argument, error) {
	var items []Argument
	for {
		switch word := p.peek(); {
		case word == "[":
			var err error
			if items, err = p.brackets(items); err != nil {
				return nil, err
			}
		case word == "<" || !isSign(word):
			item, err := p.item()
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		default:
			return items, nil
		}
	}
}

// item reads a word, a token with what belongs to it, or a group.
func (p *syntaxParser) item() (Argument, error) {
	if p.peek() == "<" {
		return p.group()
	}
	word := p.peek()
	p.pos++
	if !isToken(word) {
		return p.leaf(word)
	}
	token := strings.Trim(word, `"`)
	var item Argument
	var err error
	switch next := p.peek(); {
	case next == "<":
		item, err = p.group()
	case !isSign(next) && !isToken(next):
		p.pos++
		item, err = p.leaf(next)
	default:
		name := strings.ToLower(token)
		if name == "" {
			name = "empty_string"
		}
		return Argument{Name: name, Type: TypePureToken, Token: token, KeySpec: -1}, nil
	}
	item.Token = token
	return item, err
}

// leaf reads "name", "name:type", "name#spec".
func (p *syntaxParser) leaf(word string) (Argument, error) {
	word, spec, explicit := strings.Cut(word, "#")
	a := Argument{Name: word, KeySpec: -1}
	a.Type = typeOf(word)
	if i := strings.LastIndexByte(word, ':'); i > 0 {
		if t, ok := leafType(word[i+1:]); ok {
			a.Name, a.Type = word[:i], t
		}
	}
	switch {
	case explicit:
		n, err := strconv.Atoi(spec)
		if err != nil || n < 0 || n >= p.keySpecs {
			return a, fmt.Errorf("syntax names key specification %q of argument %q, which is not there", spec, a.Name)
		}
		a.KeySpec = n
	case a.Type == TypeKey:
		if p.keySpecs == 0 {
			return a, fmt.Errorf("syntax has key argument %q but the command declares no keys", a.Name)
		}
		a.KeySpec = min(p.keys, p.keySpecs-1)
		p.keys++
	}
	return a, nil
}

// choice reads alternatives up to the closing sign.
func (p *syntaxParser) choice(closing string) ([][]Argument, error) {
	if p.depth++; p.depth > maxSyntaxDepth {
		return nil, errors.New("syntax is nested too deeply")
	}
	defer func() { p.depth-- }()
	p.pos++ // the opening sign
	var alternatives [][]Argument
	for {
		items, err := p.sequence()
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return nil, fmt.Errorf("syntax has nothing before %q", p.peek())
		}
		alternatives = append(alternatives, items)
		switch word := p.peek(); word {
		case "|":
			p.pos++
		case closing, "...":
			return alternatives, nil
		default:
			return nil, fmt.Errorf("syntax has %q where %q is missing", word, closing)
		}
	}
}

// group reads "<...>".
func (p *syntaxParser) group() (Argument, error) {
	alternatives, err := p.choice(">")
	if err != nil {
		return Argument{}, err
	}
	if p.peek() != ">" {
		return Argument{}, errors.New("syntax repeats something outside of square brackets")
	}
	p.pos++
	if len(alternatives) == 1 {
		return block(alternatives[0]), nil
	}
	return oneOf(alternatives), nil
}

// brackets reads "[...]", which is an optional item, or repeats the last of the items.
func (p *syntaxParser) brackets(items []Argument) ([]Argument, error) {
	keys := p.keys
	alternatives, err := p.choice("]")
	if err != nil {
		return nil, err
	}
	if p.peek() == "..." {
		p.pos++
		if p.peek() != "]" || len(alternatives) > 1 {
			return nil, errors.New(`syntax has "..." in the wrong place`)
		}
		p.pos++
		p.keys = keys // The repetition names no new keys.
		return repeat(items, alternatives[0])
	}
	p.pos++
	item := oneOf(alternatives)
	item.Optional = true
	return append(items, item), nil
}

// repeat marks the end of items as repeated if it equals the repetition.
func repeat(items, repetition []Argument) ([]Argument, error) {
	start := len(items) - len(repetition)
	if start < 0 || !sameShape(items[start:], repetition) {
		return nil, errors.New(`syntax repeats with "..." something else than what stands before`)
	}
	tail := items[start:]
	item := tail[0]
	if len(tail) > 1 {
		item = block(append([]Argument(nil), tail...))
		if takesToken(tail) {
			item = withBlockToken(item)
		}
	}
	item.Multiple = true
	item.MultipleToken = item.Token != "" && item.Type != TypePureToken && repetition[0].Token != ""
	return append(items[:start], item), nil
}

// sameShape compares a sequence with its repetition, which may leave out the first token.
func sameShape(a, b []Argument) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || x.Type != y.Type || !sameShape(x.Arguments, y.Arguments) {
			return false
		}
		if x.Token != y.Token && (i > 0 || y.Token != "") {
			return false
		}
	}
	return true
}

// single makes one argument of a sequence.
func single(items []Argument) Argument {
	if len(items) == 1 {
		return items[0]
	}
	if takesToken(items) {
		return withBlockToken(block(items))
	}
	return block(items)
}

// takesToken reports whether the sequence is a token and plain arguments only, so that the token is the whole sequence's.
func takesToken(items []Argument) bool {
	for i := range items {
		a := &items[i]
		if a.Optional || a.Multiple || a.Type >= TypePureToken || (a.Token != "") != (i == 0) {
			return false
		}
	}
	return true
}

// withBlockToken moves the token of a block's first argument to the block.
func withBlockToken(b Argument) Argument {
	b.Token, b.Arguments[0].Token = b.Arguments[0].Token, ""
	return b
}

func block(items []Argument) Argument {
	return Argument{Name: joinNames(items), Type: TypeBlock, KeySpec: -1, Arguments: items}
}

// oneOf makes one argument of alternatives; a single one is itself.
func oneOf(alternatives [][]Argument) Argument {
	items := make([]Argument, len(alternatives))
	for i, a := range alternatives {
		items[i] = single(a)
	}
	if len(items) == 1 {
		return items[0]
	}
	return Argument{Name: joinNames(items), Type: TypeOneOf, KeySpec: -1, Arguments: items}
}

func joinNames(items []Argument) string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].Name
	}
	return strings.Join(names, "_")
}

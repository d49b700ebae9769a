package spec

// Sink takes a reply apart into its elements; resp.Writer is one. Map counts pairs.
type Sink interface {
	Array(n int)
	Map(pairs int)
	Set(n int)
	Status(s string)
	BulkString(s string)
	Bulk(b []byte)
	Int(n int64)
	Null()
}

// WriteInfo writes a command's entry of COMMAND and COMMAND INFO: ten elements. A nil command is one that was not found.
func WriteInfo(s Sink, c *Command) {
	if c == nil {
		s.Null()
		return
	}
	s.Array(10)
	s.BulkString(c.Name)
	s.Int(int64(c.derived.arity))
	writeStatusSet(s, c.derived.flags.Names(), "")
	l := c.derived.legacy
	s.Int(int64(l.first))
	s.Int(int64(l.last))
	s.Int(int64(l.step))
	writeStatusSet(s, c.derived.categories.Names(), "@")
	s.Set(len(c.Hints))
	for _, hint := range c.Hints {
		s.BulkString(hint)
	}
	s.Set(len(c.Keys))
	for i := range c.Keys {
		writeKeySpec(s, &c.Keys[i])
	}
	if len(c.derived.subcommands) == 0 {
		s.Set(0)
		return
	}
	s.Array(len(c.derived.subcommands))
	for _, sub := range c.derived.subcommands {
		WriteInfo(s, sub)
	}
}

func writeStatusSet(s Sink, names []string, prefix string) {
	s.Set(len(names))
	for _, name := range names {
		s.Status(prefix + name)
	}
}

func writeKeySpec(s Sink, k *KeySpec) {
	if k.Notes == "" {
		s.Map(3)
	} else {
		s.Map(4)
		writePair(s, "notes", k.Notes)
	}
	s.BulkString("flags")
	writeStatusSet(s, k.Flags.Names(), "")
	s.BulkString("begin_search")
	s.Map(2)
	switch k.Begin.kind {
	case beginIndex:
		writePair(s, "type", "index")
		writeNumbers(s, "index", k.Begin.index)
	case beginKeyword:
		writePair(s, "type", "keyword")
		s.BulkString("spec")
		s.Map(2)
		writePair(s, "keyword", k.Begin.keyword)
		s.BulkString("startfrom")
		s.Int(int64(k.Begin.index))
	default:
		writePair(s, "type", "unknown")
		writeNumbers(s)
	}
	s.BulkString("find_keys")
	s.Map(2)
	switch f := &k.Find; f.kind {
	case findRange:
		writePair(s, "type", "range")
		writeNumbers(s, "lastkey", f.last, "keystep", f.step, "limit", f.limit)
	case findCount:
		writePair(s, "type", "keynum")
		writeNumbers(s, "keynumidx", f.count, "firstkey", f.first, "keystep", f.step)
	default:
		writePair(s, "type", "unknown")
		writeNumbers(s)
	}
}

func writePair(s Sink, key, value string) {
	s.BulkString(key)
	s.BulkString(value)
}

// writeNumbers writes the field "spec" with a map of names and numbers.
func writeNumbers(s Sink, namesAndNumbers ...any) {
	s.BulkString("spec")
	s.Map(len(namesAndNumbers) / 2)
	for _, x := range namesAndNumbers {
		switch x := x.(type) {
		case string:
			s.BulkString(x)
		case int:
			s.Int(int64(x))
		}
	}
}

// WriteDocs writes a command's pair in the map of COMMAND DOCS: its name and what is documented about it.
func WriteDocs(s Sink, c *Command) {
	s.BulkString(c.Name)
	fields := docFields(c)
	pairs := len(fields)
	for _, present := range []bool{c.DocFlags != 0, len(c.History) > 0, len(c.derived.arguments) > 0,
		len(c.derived.subcommands) > 0} {
		if present {
			pairs++
		}
	}
	if c.DeprecatedSince != "" {
		pairs++
	}
	if c.ReplacedBy != "" {
		pairs++
	}
	s.Map(pairs)
	for _, f := range fields {
		writePair(s, f.name, f.value)
	}
	writeDocHistory(s, c)
	if len(c.derived.arguments) > 0 {
		s.BulkString("arguments")
		writeArguments(s, c.derived.arguments)
	}
	if len(c.derived.subcommands) > 0 {
		s.BulkString("subcommands")
		s.Map(len(c.derived.subcommands))
		for _, sub := range c.derived.subcommands {
			WriteDocs(s, sub)
		}
	}
}

type docField struct{ name, value string }

// docFields are the texts that a command has; those left empty are not shown.
func docFields(c *Command) []docField {
	all := []docField{{"summary", c.Summary}, {"since", c.Since}, {"group", c.Group.String()}, {"complexity", c.Complexity}}
	present := all[:0]
	for _, f := range all {
		if f.value != "" {
			present = append(present, f)
		}
	}
	return present
}

// writeDocHistory writes what became of the command: whether it is deprecated, and what changed in it.
func writeDocHistory(s Sink, c *Command) {
	if c.DocFlags != 0 {
		s.BulkString("doc_flags")
		writeStatusSet(s, c.DocFlags.Names(), "")
	}
	if c.DeprecatedSince != "" {
		writePair(s, "deprecated_since", c.DeprecatedSince)
	}
	if c.ReplacedBy != "" {
		writePair(s, "replaced_by", c.ReplacedBy)
	}
	if len(c.History) > 0 {
		s.BulkString("history")
		s.Set(len(c.History))
		for _, change := range c.History {
			s.Array(2)
			s.BulkString(change.Version)
			s.BulkString(change.What)
		}
	}
}

func writeArguments(s Sink, arguments []Argument) {
	s.Array(len(arguments))
	for i := range arguments {
		writeArgument(s, &arguments[i])
	}
}

func writeArgument(s Sink, a *Argument) {
	flags := a.flagNames()
	hasToken := a.Token != "" || a.Type == TypePureToken
	pairs := 2
	for _, present := range []bool{a.KeySpec >= 0, hasToken, len(flags) > 0, len(a.Arguments) > 0} {
		if present {
			pairs++
		}
	}
	s.Map(pairs)
	writePair(s, "name", a.Name)
	writePair(s, "type", a.Type.String())
	if a.KeySpec >= 0 {
		s.BulkString("key_spec_index")
		s.Int(int64(a.KeySpec))
	}
	if hasToken {
		writePair(s, "token", a.Token)
	}
	if len(flags) > 0 {
		s.BulkString("flags")
		writeStatusSet(s, flags, "")
	}
	if len(a.Arguments) > 0 {
		s.BulkString("arguments")
		writeArguments(s, a.Arguments)
	}
}

func (a *Argument) flagNames() []string {
	var names []string
	if a.Optional {
		names = append(names, "optional")
	}
	if a.Multiple {
		names = append(names, "multiple")
	}
	if a.MultipleToken {
		names = append(names, "multiple_token")
	}
	return names
}

// WriteKeys writes the reply of COMMAND GETKEYS.
func WriteKeys(s Sink, keys []KeyRef, args [][]byte) {
	s.Array(len(keys))
	for _, k := range keys {
		s.Bulk(args[k.Pos])
	}
}

// WriteKeysAndFlags writes the reply of COMMAND GETKEYSANDFLAGS.
func WriteKeysAndFlags(s Sink, keys []KeyRef, args [][]byte) {
	s.Array(len(keys))
	for _, k := range keys {
		s.Array(2)
		s.Bulk(args[k.Pos])
		writeStatusSet(s, k.Flags.Names(), "")
	}
}

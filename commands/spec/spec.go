// Package spec owns the declaration of a command: one Command value says all that is known about it, and everything
// else is derived from that value: the arity check, COMMAND and its subcommands, the ACL categories, the positions of
// keys and elements, and the reference page.
//
// It must not know handlers, connections, replies on the wire or the store: it is a leaf and imports nothing of this
// module. The package that runs commands wraps Command in a struct of its own and indexes the wrappers with Table.
//
// It starts no goroutine and holds no lock. NewTable builds a Table once; afterwards a Table is read-only and safe for
// concurrent use.
package spec

// Command declares one command. Zero fields mean "nothing to say" or "derive it".
type Command struct {
	// Name is in lower case. A subcommand's name holds its container's: "client|list".
	Name string
	// Syntax is the usage line, "LPUSH key element [element ...]"; syntax.go describes its grammar. A container that
	// does nothing by itself (CLIENT) has none.
	Syntax string
	// Arity counts the words of the command, its name included; negative means at least that many. Zero derives it
	// from Syntax. Given, it may only be laxer than Syntax, as some of Redis' are.
	Arity int

	Group Group
	Flags Flags
	// ACL replaces the category that the group implies; see Command.Categories. None is expressed by NoCategory.
	ACL Category

	Keys Keys
	// GetKeys finds the keys where Keys can't (an unknown or Incomplete entry) or can't tell how a key is used (a
	// VariableFlags entry). It appends to dst, and returns dst unchanged if the arguments are not valid.
	GetKeys func(dst []KeyRef, args [][]byte) []KeyRef
	// Elements finds the arguments that name an element of the collection; its zero value means that the command
	// needs the whole collection.
	Elements Elements

	Since      string
	Complexity string
	// Summary is one sentence in our own words, with a full stop.
	Summary string
	// Differs says, in sentences, how the command differs from that of Redis 7.0: what docs/compatibility.md tells of it. What
	// holds for all commands stands there. Empty: it does not differ.
	Differs         string
	Hints           []string // tips to clients, in Redis' words: "nondeterministic_output"
	DocFlags        DocFlags
	DeprecatedSince string
	ReplacedBy      string
	History         []Change

	derived derived
}

// Change is an entry of a command's history: what changed in a version.
type Change struct{ Version, What string }

// derived holds what NewTable works out from a declaration.
type derived struct {
	arguments   []Argument
	subcommands []*Command // sorted by name
	arity       int
	flags       Flags
	categories  Category
	legacy      legacyRange
}

// AcceptsArgs is the arity check: whether a call may have n words, the command's name included.
func (c *Command) AcceptsArgs(n int) bool {
	if c.derived.arity >= 0 {
		return n == c.derived.arity
	}
	return n >= -c.derived.arity
}

// EffectiveArity is Arity, or what Syntax implies if Arity was left out.
func (c *Command) EffectiveArity() int { return c.derived.arity }

// EffectiveFlags is Flags with MovableKeys added where the key specifications call for it.
func (c *Command) EffectiveFlags() Flags { return c.derived.flags }

// Has reports whether all the flags of f are set.
func (c *Command) Has(f Flags) bool { return c.derived.flags&f == f }

// Categories is the set of ACL categories that the command is in.
func (c *Command) Categories() Category { return c.derived.categories }

// Arguments is the argument tree that Syntax describes.
func (c *Command) Arguments() []Argument { return c.derived.arguments }

// Subcommands lists the subcommands of a container, sorted by name.
func (c *Command) Subcommands() []*Command { return c.derived.subcommands }

// IsContainer reports whether the command only groups subcommands and does nothing by itself.
func (c *Command) IsContainer() bool { return c.Syntax == "" }

// derive fills in what follows from the declaration. Its errors are those of the syntax line; Validate reports them
// with all others.
func (c *Command) derive() error {
	arguments, err := parseSyntax(c.Name, c.Syntax, len(c.Keys))
	if err != nil {
		return err
	}
	d := &c.derived
	d.arguments = arguments
	d.arity = c.Arity
	if d.arity == 0 {
		d.arity = c.impliedArity()
	}
	d.flags = c.Flags
	if c.Keys.movable() {
		d.flags |= MovableKeys
	}
	d.categories = c.impliedCategories()
	d.legacy = c.Keys.legacyRange()
	return nil
}

// impliedArity counts the words that the syntax line requires.
func (c *Command) impliedArity() int {
	if c.IsContainer() {
		return -2
	}
	words, open := countWords(c.derived.arguments)
	words += nameWords(c.Name)
	if open {
		return -words
	}
	return words
}

// impliedCategories follows Redis: flags imply categories, and so does the group unless the declaration says otherwise.
func (c *Command) impliedCategories() Category {
	acl := c.ACL
	if acl == 0 && !c.IsContainer() {
		acl = c.Group.category()
	}
	acl &^= NoCategory
	f := c.Flags
	if f&Write != 0 {
		acl |= CatWrite
	}
	// A read-only script command may run anything that reads, so Redis keeps it out of @read.
	if f&ReadOnly != 0 && acl&CatScripting == 0 {
		acl |= CatRead
	}
	if f&Admin != 0 {
		acl |= CatAdmin | CatDangerous
	}
	if f&PubSubFlag != 0 {
		acl |= CatPubSub
	}
	if f&Blocking != 0 {
		acl |= CatBlocking
	}
	if f&Fast != 0 {
		return acl | CatFast
	}
	return acl | CatSlow
}

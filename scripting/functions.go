package scripting

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"codeq/scripting/lua"
)

// Functions live in libraries. A library is Lua code that registers functions when it is loaded; a function is called by
// its name.
//
// The code is compiled once. It is run once to learn what it registers, when the library becomes known, and once more on
// each state that a function of it is called on, because a function belongs to its state: see functions_state.go. A set of
// libraries never changes, and neither does a library: a change makes another set, which SetLibraries puts into the place of
// the present one when the change is committed. So a transaction can work on a set of its own, and a state tells by
// a library's address whether it has that very version.

// LoadLimit is how long a library's code may run when it is loaded at a client's request.
const LoadLimit = 500 * time.Millisecond

// Library is a library of functions.
type Library struct {
	name      string
	code      string
	functions []*Function // in the order in which they were registered

	proto *lua.Proto
}

// Name is the library's name.
func (l *Library) Name() string { return l.name }

// Code is the library's whole text.
func (l *Library) Code() string { return l.code }

// Functions lists the library's functions. The caller leaves the list as it is.
func (l *Library) Functions() []*Function { return l.functions }

// Function is a function of a library.
type Function struct {
	Name  string
	Flags Flags
	// Description is nil if the library gives none.
	Description *string

	library *Library
	index   int // in library.functions
}

// Libraries is a set of libraries. The zero value is empty.
type Libraries struct {
	all       []*Library           // by name
	functions map[string]*Function // by name in lower case
	count     int                  // of functions
}

// All lists the libraries in the order of their names. The caller leaves the list as it is.
func (s *Libraries) All() []*Library { return s.all }

// CountFunctions answers how many functions the libraries have.
func (s *Libraries) CountFunctions() int { return s.count }

// Function finds a function by its name, in either case, or answers nil.
func (s *Libraries) Function(name []byte) *Function {
	var room [64]byte
	lower := room[:0]
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	return s.functions[string(lower)]
}

// Library finds a library by its name, whose case counts, or answers nil.
func (s *Libraries) Library(name string) *Library {
	if i, ok := s.find(name); ok {
		return s.all[i]
	}
	return nil
}

func (s *Libraries) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.all, name, func(l *Library, name string) int { return cmp.Compare(l.name, name) })
}

// Without answers the set without the library of that name.
func (s *Libraries) Without(name string) *Libraries {
	rest := make([]*Library, 0, len(s.all))
	for _, l := range s.all {
		if l.name != name {
			rest = append(rest, l)
		}
	}
	return newLibraries(rest)
}

// Join answers the set with all libraries of another one. A library whose name is taken replaces that one, or is refused.
// The error's text is the reply.
func (s *Libraries) Join(other *Libraries, replace bool) (*Libraries, error) {
	kept := s
	for _, l := range other.all {
		if s.Library(l.name) == nil {
			continue
		}
		if !replace {
			return nil, Error("ERR Library " + l.name + " already exists")
		}
		kept = kept.Without(l.name)
	}
	for _, l := range other.all {
		for _, f := range l.functions {
			if kept.Function([]byte(f.Name)) != nil {
				return nil, Error("ERR Function " + f.Name + " already exists")
			}
		}
	}
	return newLibraries(slices.Concat(kept.all, other.all)), nil
}

// newLibraries makes a set of libraries whose names differ. Of functions whose names differ by case alone, which only one
// library can have, the first one is called.
func newLibraries(all []*Library) *Libraries {
	slices.SortFunc(all, func(a, b *Library) int { return cmp.Compare(a.name, b.name) })
	s := &Libraries{all: all, functions: map[string]*Function{}}
	for _, l := range all {
		s.count += len(l.functions)
		for _, f := range l.functions {
			key := strings.ToLower(f.Name)
			if s.functions[key] == nil {
				s.functions[key] = f
			}
		}
	}
	return s
}

// Libraries is the present set.
func (e *Engine) Libraries() *Libraries { return e.libraries.Load() }

// SetLibraries replaces the present set. Calls of functions that are running end undisturbed.
func (e *Engine) SetLibraries(set *Libraries) {
	e.poolMu.Lock()
	defer e.poolMu.Unlock()
	e.libraries.Store(set)
	for _, st := range e.idle {
		st.forgetLibraries(set)
	}
}

// AddLibrary answers the set with the library that the code makes, and the library. One of the same name is replaced, or
// keeps the new one out. The code may run for so long; a limit of 0 means that it may run for any time. The error's text is
// the reply, with its code.
func (e *Engine) AddLibrary(to *Libraries, code []byte, replace bool, limit time.Duration) (*Libraries, *Library, error) {
	if err := e.admitSource(len(code)); err != nil && limit > 0 { // one that is kept was admitted once
		return nil, nil, err
	}
	lib := &Library{code: string(code)}
	source, err := lib.parseHeader()
	if err != nil {
		return nil, nil, err
	}
	if !replace && to.Library(lib.name) != nil {
		return nil, nil, Error("ERR Library '" + lib.name + "' already exists")
	}
	lib.proto, err = lua.Compile(source, "@user_function")
	if err != nil {
		return nil, nil, Error("ERR Error compiling function: " + err.Error())
	}
	if err := e.learnLibrary(lib, limit); err != nil {
		return nil, nil, Error("ERR Error registering functions: " + err.Error())
	}
	if len(lib.functions) == 0 {
		return nil, nil, Error("ERR No functions registered")
	}
	set, err := to.Join(newLibraries([]*Library{lib}), true)
	return set, lib, err
}

// learnLibrary runs the library's code, on any state.
func (e *Engine) learnLibrary(lib *Library, limit time.Duration) error {
	st := e.take()
	defer e.put(st)
	return st.learnLibrary(lib, limit)
}

// badName is Redis' text for the names of libraries and functions alike.
const badName = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"

func isName(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}

// parseHeader reads the library's name from its first line and answers its code without that line.
func (l *Library) parseHeader() (source string, err error) {
	if !isShebang(l.code) {
		return "", Error("ERR Missing library metadata")
	}
	line, source, ok := cutShebang(l.code)
	if !ok {
		return "", Error("ERR Invalid library metadata")
	}
	parts, ok := splitWords(line)
	if !ok {
		return "", Error("ERR Invalid library metadata")
	}
	named := false
	for _, word := range parts[1:] {
		const option = "name="
		switch {
		case len(word) < len(option) || !strings.EqualFold(word[:len(option)], option):
			return "", Error("ERR Invalid metadata value given: " + word)
		case named:
			return "", Error("ERR Invalid metadata value, name argument was given multiple times")
		}
		l.name, named = word[len(option):], true
	}
	switch engine := parts[0][len("#!"):]; {
	case !named:
		return "", Error("ERR Library name was not given")
	case !isName(l.name):
		return "", Error("ERR " + badName)
	case !strings.EqualFold(engine, "lua"):
		return "", Error("ERR Engine '" + engine + "' not found")
	}
	return source, nil
}

// FunctionCall is one call of a function.
type FunctionCall struct {
	Function *Function
	// Command is the whole command that calls it, for LateFunction.
	Command    [][]byte
	Keys, Args [][]byte
	Caller     Caller
	Proto      int // the RESP version of the reply
}

// Call calls a function. What it returns is what Eval returns.
func (e *Engine) Call(dst []byte, c FunctionCall) (reply []byte, raised bool, err error) {
	if err := c.Caller.Begin(c.Function.Flags); err != nil {
		return appendError(dst, err.Error()), false, nil
	}
	st := e.take()
	defer e.put(st)
	mark := len(dst)
	reply, raised, err = st.call(dst, c)
	if err != nil {
		return reply[:mark], false, err
	}
	return reply, raised, nil
}

// LateFunction is what others may know of a call that runs past its limit.
type LateFunction struct {
	Name     string
	Command  []string
	Duration time.Duration
}

// LateFunction tells of the function that runs past its limit; of several, of the one that has run for longest.
func (e *Engine) LateFunction() (LateFunction, bool) {
	now := e.opts.Now()
	e.poolMu.Lock()
	defer e.poolMu.Unlock()
	var longest LateFunction
	found := false
	for st := range e.states {
		if f, ok := st.lateFunction(now); ok && (!found || f.Duration > longest.Duration) {
			longest, found = f, true
		}
	}
	return longest, found
}

// errLoadTimeout stops a library whose code runs for too long.
var errLoadTimeout = errors.New("ERR FUNCTION LOAD timeout")

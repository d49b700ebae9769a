package conventions

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFileLines     = 800
	maxFunctionLines = 70
)

// exceptions are the files and functions that may be longer, each with its reason. An entry that is not needed any more
// fails the test.
func exceptions() map[string]string {
	return map[string]string{
		"shard/bench_test.go:BenchmarkCommit": "a table of operations, then a loop over it",
		"shard/model_test.go:stepList":        "one switch over the operations on a list, each beside its model",
		"scripting/lua/exec.go:execute":       "one switch over the instructions, whose frame is in local variables",
	}
}

// source is a Go file of this repository.
type source struct {
	path string // from its root
	text []byte
	tree *ast.File
	set  *token.FileSet
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) line(node ast.Node) int { return s.set.Position(node.Pos()).Line }

// sources parses every Go file of this repository, other modules included.
func sources(t *testing.T) []*source {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []*source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		foreign := strings.HasPrefix(name, ".") || name == "testdata" || name == "data" || name == "node_modules"
		if entry.IsDir() && path != root && foreign {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		s := &source{set: token.NewFileSet()}
		if s.path, err = filepath.Rel(root, path); err != nil {
			return err
		}
		if s.text, err = os.ReadFile(path); err != nil {
			return err
		}
		s.tree, err = parser.ParseFile(s.set, s.path, s.text, parser.ParseComments)
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no source files found")
	}
	return all
}

func TestLengths(t *testing.T) {
	unused := exceptions()
	allowed := func(name string) bool {
		_, ok := exceptions()[name]
		delete(unused, name)
		return ok
	}
	for _, s := range sources(t) {
		if lines := bytes.Count(s.text, []byte("\n")); lines > maxFileLines && !allowed(s.path) {
			t.Errorf("%s has %d lines; %d are enough", s.path, lines, maxFileLines)
		}
		for _, declaration := range s.tree.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := s.set.Position(function.End()).Line - s.line(function) + 1
			if lines > maxFunctionLines && !isTable(function) && !allowed(s.path+":"+function.Name.Name) {
				t.Errorf("%s:%d: %s has %d lines; %d are enough", s.path, s.line(function), function.Name.Name, lines,
					maxFunctionLines)
			}
		}
	}
	for name, reason := range unused {
		t.Errorf("the exception for %s (%s) is not needed any more", name, reason)
	}
}

// isTable reports whether a function does nothing but return one literal: a table of declarations, which is data and
// reads the same at any length.
func isTable(function *ast.FuncDecl) bool {
	if function.Body == nil || len(function.Body.List) != 1 {
		return false
	}
	result, ok := function.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(result.Results) != 1 {
		return false
	}
	_, ok = result.Results[0].(*ast.CompositeLit)
	return ok
}

// TestErrorTexts keeps the texts of error replies in one file. Tests quote what they expect.
func TestErrorTexts(t *testing.T) {
	const code = "ERR "
	for _, s := range sources(t) {
		if s.isTest() || s.path == filepath.Join("resp", "errors.go") {
			continue
		}
		ast.Inspect(s.tree, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err == nil && strings.HasPrefix(text, code) && text != code && !mayHoldErrors(s.path) {
				t.Errorf("%s:%d: %s: error texts stand in resp/errors.go", s.path, s.line(literal), literal.Value)
			}
			return true
		})
	}
}

// mayHoldErrors names the packages that may not import resp and have texts of their own.
func mayHoldErrors(path string) bool {
	return strings.HasPrefix(path, "scripting"+string(filepath.Separator))
}

func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() {
			continue
		}
		ast.Inspect(s.tree, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel.Name == "Sleep" {
				if from, ok := selector.X.(*ast.Ident); ok && from.Name == "time" {
					t.Errorf("%s:%d: wait for what has to happen, not for time to pass", s.path, s.line(selector))
				}
			}
			return true
		})
	}
}

// TestNoInit keeps the start of the program in one place: cmd.
func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, declaration := range s.tree.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				t.Errorf("%s:%d: no init: what has an effect is called from main", s.path, s.line(function))
			}
		}
	}
}

// TestOnlyCommandsExit: packages return errors; programs decide what an error means.
func TestOnlyCommandsExit(t *testing.T) {
	exits := map[string][]string{"os": {"Exit"}, "log": {"Fatal", "Fatalf", "Fatalln"}, "slog": {"SetDefault"}}
	for _, s := range sources(t) {
		if s.isTest() || s.tree.Name.Name == "main" {
			continue
		}
		ast.Inspect(s.tree, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, ok := selector.X.(*ast.Ident)
			if !ok {
				return true
			}
			for _, name := range exits[from.Name] {
				if selector.Sel.Name == name {
					t.Errorf("%s:%d: %s.%s: only a program may do that", s.path, s.line(selector), from.Name, name)
				}
			}
			return true
		})
	}
}

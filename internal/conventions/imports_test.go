package conventions

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "codeq/"

// arrows lists, for each folder of the module, the folders whose packages it may import. Everyone may import internal
// packages; a folder that is not listed here may import nothing else, and a new folder has to be entered.
func arrows() map[string][]string {
	return map[string][]string{
		"resp":          nil,
		"shard":         nil,
		"supplier":      nil,
		"config":        nil,
		"scripting":     nil,
		"commands/spec": nil,
		"rdb":           nil,
		"queue":         {"shard", "supplier"},
		"commands":      {"commands/spec", "resp", "queue", "shard", "scripting", "supplier", "config", "rdb"},
		"admin":         {"commands", "commands/spec", "resp", "queue", "shard", "supplier", "config"},
		"cmd": {"commands", "commands/spec", "resp", "queue", "shard", "scripting", "supplier", "config",
			"admin"},
		// The generator writes documents from the declarations, so it stands above their packages; no package may
		// import it.
		"internal/generate": {"commands", "commands/spec", "config"},
		"internal":          nil,
		// Outside the servers that they run, and seeing of them what a client sees.
		"bench": nil,
		"tests": nil,
	}
}

// goPackage is the part of `go list -json` that matters here.
type goPackage struct {
	ImportPath   string
	Name         string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Dir,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list found no packages")
	}
	return all
}

// folder is the longest entry of arrows that holds the package, or "".
func folder(importPath string) string {
	path := strings.TrimPrefix(importPath, module)
	best := ""
	for name := range arrows() {
		if (path == name || strings.HasPrefix(path, name+"/")) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

// mayImport says whether an import within the module is allowed.
func mayImport(from, to string) bool {
	a, b := folder(from), folder(to)
	return a == b && a != "cmd" || b == "internal" || slices.Contains(arrows()[a], b)
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		if folder(p.ImportPath) == "" {
			t.Errorf("%s is in a folder that arrows does not have; enter it there, with what it may import", p.ImportPath)
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imported, module) && imported != p.ImportPath && !mayImport(p.ImportPath, imported) {
				t.Errorf("%s imports %s, which is not among what %s may import", p.ImportPath, imported, folder(p.ImportPath))
			}
		}
	}
}

// TestSeparateModule: the module beside this one is a client like any other; `go list` does not show it here.
func TestSeparateModule(t *testing.T) {
	seen := false
	for _, s := range sources(t) {
		if !strings.HasPrefix(filepath.ToSlash(s.path), "e2e/") {
			continue
		}
		seen = true
		for _, spec := range s.tree.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if strings.HasPrefix(imported, module) && folder(imported) != "internal" {
				t.Errorf("%s imports %s; it may import internal packages only", s.path, imported)
			}
		}
	}
	if !seen {
		t.Error("no source file of e2e was found")
	}
}

// TestArrows proves that the check can fail.
func TestArrows(t *testing.T) {
	for _, forbidden := range [][2]string{
		{"codeq/resp", "codeq/shard"}, {"codeq/commands/spec", "codeq/commands"}, {"codeq/shard", "codeq/supplier"},
		{"codeq/scripting", "codeq/resp"}, {"codeq/internal/clock", "codeq/shard"}, {"codeq/tests", "codeq/commands"},
		{"codeq/config", "codeq/internal/generate"}, {"codeq/cmd/codeq-admin", "codeq/cmd/codeq-server"},
	} {
		if mayImport(forbidden[0], forbidden[1]) {
			t.Errorf("%s may import %s", forbidden[0], forbidden[1])
		}
	}
	for _, allowed := range [][2]string{
		{"codeq/commands", "codeq/commands/spec"}, {"codeq/cmd/codeq-server", "codeq/shard"},
		{"codeq/scripting", "codeq/scripting/luaparse"}, {"codeq/resp", "codeq/internal/clock"},
	} {
		if !mayImport(allowed[0], allowed[1]) {
			t.Errorf("%s may not import %s", allowed[0], allowed[1])
		}
	}
}

func TestPackageNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "types", "base", "misc"}
	for _, p := range packages(t) {
		if slices.Contains(vague, p.Name) {
			t.Errorf("%s: package %s: give it a name that says what it owns", p.ImportPath, p.Name)
		}
	}
}

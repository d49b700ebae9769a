// Command generate writes the documents that follow from declarations: docs/commands.md and docs/compatibility.md from those of
// the commands, docs/configuration.md and config.yaml.example from those of the settings. It runs from the module's root.
//
// It must not know what the documents say, but for the part of docs/compatibility.md that no declaration can say, which is in
// compatibility.md. It starts no goroutines and has no locks.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"codeq/commands"
	"codeq/commands/spec"
	"codeq/config"
)

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// document is a generated file.
type document struct {
	path  string // from the module's root
	write func(io.Writer) error
}

func documents() []document {
	return []document{
		{"docs/commands.md", func(w io.Writer) error { return spec.WriteReference(w, commands.Declarations()) }},
		{"docs/compatibility.md", writeCompatibility},
		{"docs/configuration.md", config.WriteReference},
		{"config.yaml.example", config.WriteExample},
	}
}

// generate writes all documents of the module with that root.
func generate(root string) error {
	for _, d := range documents() {
		content, err := d.content()
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.FromSlash(d.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// content is what the file has to hold.
func (d document) content() ([]byte, error) {
	var out bytes.Buffer
	if err := d.write(&out); err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, err)
	}
	return out.Bytes(), nil
}

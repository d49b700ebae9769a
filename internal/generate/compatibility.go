package main

import (
	_ "embed"
	"io"

	"codeq/commands"
	"codeq/commands/spec"
)

// differences is the part of docs/compatibility.md that no declaration can say, since it concerns more than one command.
//
//go:embed compatibility.md
var differences string

// writeCompatibility writes docs/compatibility.md.
func writeCompatibility(w io.Writer) error {
	if _, err := io.WriteString(w, differences); err != nil {
		return err
	}
	return spec.WriteCompatibility(w, commands.Declarations())
}

package main

import (
	"slices"
	"testing"

	"codeq/commands"
	"codeq/internal/peer"
)

// TestEveryCommandOfRedis: each is declared.
func TestEveryCommandOfRedis(t *testing.T) {
	conn := peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)
	reply, err := conn.Call("COMMAND", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	theirs, known := reply.Strings(), []string{}
	for _, c := range commands.Declarations() {
		known = append(known, c.Name)
	}
	for _, name := range theirs {
		// A container that does nothing by itself goes with its subcommands.
		isContainer := slices.ContainsFunc(theirs, func(other string) bool { return len(other) > len(name) && other[:len(name)+1] == name+"|" })
		if !isContainer && !slices.Contains(known, name) {
			t.Errorf("%s is not declared", name)
		}
	}
}

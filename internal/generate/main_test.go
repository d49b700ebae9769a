package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const root = "../.."

func TestFresh(t *testing.T) {
	for _, d := range documents() {
		want, err := d.content()
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(d.path)))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale, run make generate (%v)", d.path, err)
		}
	}
}

func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	if err := generate(dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range documents() {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(d.path)))
		if err != nil || len(content) == 0 {
			t.Errorf("%s: %d bytes, %v", d.path, len(content), err)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The listed kernels are those that the generator writes.
func TestKernelsExist(t *testing.T) {
	for _, k := range kernels {
		paths, err := filepath.Glob(filepath.Join("../..", k.folder, "zz_*_arm64.s"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "TEXT ·"+k.function+"(SB)")
		}
		if !found {
			t.Errorf("no file of %s has %s: correct the list in main.go, and the table in docs/performance.md", k.folder, k.function)
		}
	}
}

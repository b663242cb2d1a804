package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain builds the executable under test.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "trainctl-e2e-")
		if err == nil {
			defer os.RemoveAll(dir)
			trainctl, err = build(dir, "cmd/trainctl")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")) // of the runs; go build wants its own
		return m.Run()
	}())
}

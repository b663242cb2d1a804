package e2e

import (
	"fmt"
	"os"
	"testing"
)

// TestMain builds the executable under test, or takes the one that
// TRAINCTL_E2E_PROGRAM names.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "trainctl-e2e-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = prepareBuilds(dir, os.Getenv("TRAINCTL_E2E_PROGRAM"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

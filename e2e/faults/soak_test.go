//go:build linux

package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	rig.Must(t, err)
	return n
}

// Random processes are killed, stopped, or paused at random moments, on one host and
// on two: TRAINCTL_SOAK_KILLS times, chosen by TRAINCTL_SOAK_SEED.
func TestSoak(t *testing.T) {
	t.Parallel()
	seed := number(t, "TRAINCTL_SOAK_SEED", 1)
	t.Logf("seed %d: %v", seed, soaked(t, number(t, "TRAINCTL_SOAK_KILLS", 10), seed))
}

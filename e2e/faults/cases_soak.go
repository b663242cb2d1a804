//go:build linux

package main

import "time"

const soakKills = 20

// soakCase takes another seed every time and tells it: with TRAINCTL_SOAK_SEED
// and TRAINCTL_SOAK_KILLS the test of the same name repeats it, and does more.
func soakCase(t *trial) {
	seed := int(time.Now().Unix() % 100_000)
	s := soaked(t, soakKills, seed)
	t.saw("seed %d: %d disturbances, %v, equal bits", seed, soakKills, s)
}

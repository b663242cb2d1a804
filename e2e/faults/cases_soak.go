//go:build linux

package main

import "time"

const soakKills = 20

// soakCase uses another seed every time and reports it. TestSoak repeats the case with
// TRAINCTL_SOAK_SEED, and does more of it with TRAINCTL_SOAK_KILLS.
func soakCase(t *trial) {
	seed := int(time.Now().Unix() % 100_000)
	s := soaked(t, soakKills, seed)
	t.saw("seed %d: %d disturbances, %v, equal bits", seed, soakKills, s)
}

//go:build linux

package main

import (
	"slices"
	"time"
)

// fault is one case of the fault matrix.
type fault struct {
	number  int
	name    string        // what goes wrong
	promise string        // what a user may rely on
	limit   time.Duration // of the whole case; 0 is a minute
	needs   []need
	run     func(t *trial)
}

// need says what this machine lacks for a case, or "".
type need func() string

// matrix are all cases in the order of their numbers.
func matrix() []fault {
	all := slices.Concat(killFaults, stopFaults, endFaults, diskFaults, checkpointFaults, dataFaults, configFaults,
		pluginFaults, memoryFaults, networkFaults, memberFaults, valueFaults, soakFaults)
	slices.SortFunc(all, func(a, b fault) int { return a.number - b.number })
	return all
}

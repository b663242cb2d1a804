package bench

import (
	"slices"
	"time"
)

// laps are the durations of calls. The memory is taken before measuring.
type laps []time.Duration

const (
	warmUp    = 5
	maxLaps   = 1 << 20
	askEvery  = 8 // calls between two looks at the clock that all ranks share
	leastLaps = 3 * askEvery
)

func newLaps() laps { return make(laps, 0, maxLaps) }

// percentile sorts the laps; q lies in [0, 1).
func (l laps) percentile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[int(q*float64(len(l)))]
}

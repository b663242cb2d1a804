package shm

import "time"

const (
	// looks is how often a spinner looks between two yields.
	looks = 16
	// crowded is how long a yield takes when somebody computes on the core.
	crowded = 100 * time.Microsecond
	// pause is how many waits a spinner then leaves out.
	pause = 64
)

// Spinner waits for another process without sleeping, in a way that is fair
// also where processes outnumber cores: between looks it yields the core, so
// that the process it waits for can run there, at a tenth of what a sleep and
// a wake-up cost. Where a yield comes back late, the core is wanted for
// computing, and for the next waits the spinner gives up at once: a sleeper is
// let in front of who computes, one that yields is not.
//
// A Spinner belongs to one goroutine at a time. The zero value never spins.
type Spinner struct {
	For   time.Duration // the longest wait
	pause int
}

// Until looks until done reports true, and gives up after s.For.
func (s *Spinner) Until(done func() bool) bool {
	if s.For <= 0 || done() {
		return done()
	}
	if s.pause > 0 {
		s.pause--
		return false
	}
	start := time.Now()
	for last := start; last.Sub(start) < s.For; {
		for range looks {
			if done() {
				return true
			}
		}
		yield()
		now := time.Now()
		if now.Sub(last) > crowded {
			s.pause = pause
			return done()
		}
		last = now
	}
	return done()
}

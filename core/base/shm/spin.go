package shm

import "time"

const (
	// looks is how often a spinner checks between two yields.
	looks = 16
	// crowded is how long a yield takes when another thread computes on the core.
	crowded = 100 * time.Microsecond
	// skipped is how many waits a spinner then leaves out.
	skipped = 64
)

// Spinner waits for another process without sleeping, and is fair even with more
// processes than cores: between checks it yields the core, so that the process it
// waits for can run there. That costs a tenth of a sleep and a wake-up. If a yield
// takes long, another thread computes on the core, and the spinner gives up at once,
// for the next waits as well: the scheduler prefers a thread that wakes up to one that
// computes, but not one that yields.
//
// A Spinner is not safe for concurrent use. The zero value never spins.
type Spinner struct {
	For    time.Duration // the longest wait
	Return bool          // a yield that took long ends its own wait only, not the next 64 as well
	pause  int           // waits to leave out
}

// Until polls until done returns true, and gives up after s.For.
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
			if !s.Return {
				s.pause = skipped
			}
			return done()
		}
		last = now
	}
	return done()
}

package shm

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// brief is the longest sleep that keeps its processor.
	brief = 5 * time.Millisecond
	// habit is how many sleeps in a row must be brief before the next one is expected to be.
	habit = 4
	// lapse is how many more are needed after a sleep that was unexpectedly long.
	lapse = 64
)

// Sleeper waits on futex words that other processes share.
//
// Go's scheduler takes the processor away from a thread that sleeps in a system call
// and starts another thread for it, and its monitor thread then polls every 20 µs for
// a while. That costs a dozen context switches for each sleep, on cores that ranks
// compute on. So a Sleeper that expects a brief sleep, because the last ones were
// brief, keeps its processor. Other goroutines can run before it, and after [brief]
// at the latest.
//
// A Sleeper is not safe for concurrent use.
type Sleeper struct {
	// Shares says that other goroutines of the process compute meanwhile: a sleep never keeps
	// the processor.
	Shares bool
	brief  int // sleeps in a row
}

// Sleep returns when the word differs from value, when WakeAll is called for it, or
// when the timeout passes. It may return early; callers check again.
func (s *Sleeper) Sleep(word *atomic.Uint32, value uint32, timeout time.Duration) {
	start, doubt := time.Now(), 0
	if s.brief >= habit && !s.Shares {
		runtime.Gosched()
		if !futexHold(word, value, min(brief, timeout)) {
			return
		}
		doubt = lapse
	}
	if timeout -= time.Since(start); timeout > 0 {
		futexWait(word, value, timeout)
	}
	if s.brief++; time.Since(start) > brief {
		s.brief = -doubt
	}
}

// WakeAll wakes all threads that sleep on the word.
func WakeAll(word *atomic.Uint32) { futexWakeAll(word) }

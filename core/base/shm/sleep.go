package shm

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// brief is the longest sleep that keeps its processor.
	brief = 5 * time.Millisecond
	// habit is how many sleeps in a row have to be brief before one is expected to be.
	habit = 4
	// lapse is how many more it takes after one that was expected to be brief and was not.
	lapse = 64
)

// Sleeper waits on futex words that other processes share.
//
// Go's scheduler takes the processor away from a thread that sleeps in a system
// call, starts another thread for it, and has its monitor look out every 20 µs
// for a while: a dozen switches between threads for each sleep, on cores that
// ranks compute on. So a Sleeper that expects a brief sleep, because the last
// ones were, keeps its processor. Other goroutines get a chance before, and
// after [brief] at the latest.
//
// A Sleeper belongs to one goroutine at a time.
type Sleeper struct {
	brief int // sleeps in a row
}

// Sleep returns when the word differs from value, somebody wakes those that
// sleep on it, or the timeout passes. It may return early; callers look again.
func (s *Sleeper) Sleep(word *atomic.Uint32, value uint32, timeout time.Duration) {
	start, doubt := time.Now(), 0
	if s.brief >= habit {
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

// WakeAll wakes everybody who sleeps on the word.
func WakeAll(word *atomic.Uint32) { futexWakeAll(word) }

package shm

import (
	"sync/atomic"
	"testing"
)

// sleeping runs a Sleeper on another goroutine until the word changes.
func sleeping(s *Sleeper, word *atomic.Uint32) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for word.Load() == 0 {
			s.Sleep(word, 0, Slice)
		}
	}()
	return done
}

func TestSleeperWakesUp(t *testing.T) {
	for name, s := range map[string]*Sleeper{"cold": {}, "used to brief sleeps": {brief: habit}} {
		t.Run(name, func(t *testing.T) {
			var word atomic.Uint32
			done := sleeping(s, &word)
			word.Store(1)
			WakeAll(&word)
			<-done
		})
	}
}

func TestSleeperLearns(t *testing.T) {
	if !hasFutex {
		t.Skip("no futexes on this system: everybody polls")
	}
	var word atomic.Uint32
	s := &Sleeper{}
	for range habit {
		s.Sleep(&word, 1, Slice) // the word differs: no sleep at all
	}
	if s.brief < habit {
		t.Fatalf("%d brief sleeps after %d that did not last", s.brief, habit)
	}
	s.Sleep(&word, 0, 2*brief)
	if s.brief != -lapse {
		t.Errorf("%d brief sleeps after one that took %v and should have been brief", s.brief, 2*brief)
	}
}

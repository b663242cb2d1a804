package shm

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestSpinnerSeesWhatHappens(t *testing.T) {
	var flag atomic.Bool
	s := Spinner{For: time.Hour}
	looked := make(chan struct{})
	go func() { <-looked; flag.Store(true) }()
	n := 0
	done := func() bool {
		if n++; n == 100 {
			close(looked)
		}
		return flag.Load()
	}
	for !s.Until(done) { // a crowded machine ends it early
		s.pause = 0
	}
}

func TestSpinnerGivesUp(t *testing.T) {
	never := func() bool { return false }
	for _, s := range []Spinner{{}, {For: time.Microsecond}, {For: time.Hour, pause: 1}} {
		if s.Until(never) {
			t.Errorf("%+v saw something", s)
		}
	}
	s := Spinner{For: time.Hour, pause: 2}
	s.Until(never)
	if s.pause != 1 {
		t.Errorf("a wait left out leaves a pause of %d", s.pause)
	}
	if !s.Until(func() bool { return true }) {
		t.Error("a pause hides what has happened already")
	}
}

// A yield that took long leaves out the next waits, unless the spinner is to return to them.
func TestSpinnerLeavesCrowdedCores(t *testing.T) {
	for _, returns := range []bool{false, true} {
		s := Spinner{For: time.Hour, Return: returns}
		slow := func() bool { // as long as another thread's turn
			for end := time.Now().Add(crowded / looks * 2); time.Now().Before(end); {
			}
			return false
		}
		if s.Until(slow) {
			t.Error("it saw something")
		}
		if want := map[bool]int{false: skipped, true: 0}[returns]; s.pause != want {
			t.Errorf("returns %v: %d waits are left out, want %d", returns, s.pause, want)
		}
	}
}

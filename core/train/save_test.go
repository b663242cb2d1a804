package train

import (
	"testing"

	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func TestSaverIsDueAsConfigured(t *testing.T) {
	for every, due := range map[string]struct{ steps, epochs []bool }{
		"3 steps":  {[]bool{false, false, true, false, false, true}, make([]bool, 6)},
		"2 epochs": {make([]bool, 6), []bool{false, true, false, true, false, true}},
		"never":    {make([]bool, 6), make([]bool, 6)},
	} {
		s := newSaver(checkpoint.Config{Every: every}, nil)
		for n := range 6 {
			if got := s.dueAt(n + 1); got != due.steps[n] {
				t.Errorf("%s: after step %d due is %v", every, n+1, got)
			}
			if got := s.dueAfter(n + 1); got != due.epochs[n] {
				t.Errorf("%s: after epoch %d due is %v", every, n+1, got)
			}
		}
		if s.requested() {
			t.Errorf("%s: nobody asks, and a checkpoint is requested", every)
		}
	}
}

// Requests until serve are served by one checkpoint.
func TestRequestsToSaveAreCounted(t *testing.T) {
	asked := int64(0)
	s := newSaver(checkpoint.Config{Every: "never"}, func() int64 { return asked })
	for range 2 {
		if s.requested() {
			t.Error("requested before anybody asked")
		}
		asked += 2
		for range 2 {
			if !s.requested() {
				t.Error("a request was lost")
			}
		}
		s.serve()
	}
}

package app

import (
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
)

// watched are stalls without a process, whose states and clock ticks a test sets.
func watched(t *testing.T, told *[]string, state *byte, cpu *uint64) *stalls {
	s := &stalls{ranks: map[int]*rankState{}, flights: t.TempDir(), stat: func(int) (byte, uint64) { return *state, *cpu }}
	s.find, s.tell = s.cause, func(text string) { *told = append(*told, text) }
	s.progress(0, &event.RankStarted{PID: 77})
	return s
}

// A stopped rank, also the only one of a job, is named after ten seconds without an event of
// any rank: once, and again only after the run continued.
func TestStoppedRankIsNamed(t *testing.T) {
	var told []string
	state, cpu := byte('T'), uint64(0)
	s := watched(t, &told, &state, &cpu)
	for range 9 {
		s.look()
	}
	if len(told) != 0 {
		t.Fatalf("told after 9 s: %q", told)
	}
	for range 30 {
		s.look()
	}
	if len(told) != 1 || !strings.Contains(told[0], "rank 0 (pid 77) is stopped") || !strings.Contains(told[0], "no step for 10s") {
		t.Fatalf("%q", told)
	}
	s.progress(0, nil)
	for range 10 {
		s.look()
	}
	if len(told) != 2 {
		t.Errorf("%q", told)
	}
}

// A rank that is neither stopped nor behind the others is named too, but not while
// it may be setting up, nor when its steps take as long as that.
func TestBusyRankIsNamed(t *testing.T) {
	var told []string
	state, cpu := byte('S'), uint64(0)
	s := watched(t, &told, &state, &cpu)
	look := func(n int, each uint64) {
		for range n {
			cpu += each
			s.look()
		}
	}
	look(30, 0)
	if len(told) != 0 {
		t.Fatalf("told before the first step: %q", told)
	}
	s.longest = 0
	s.progress(0, &event.PhaseChanged{Phase: "train"})
	s.longest = 0
	s.progress(0, &event.StepDone{Step: 5})
	if look(14, 0); len(told) != 0 {
		t.Fatalf("told after 14 s: %q", told)
	}
	if look(10, 0); len(told) != 1 || !strings.Contains(told[0], `rank 0 (pid 77) waits and uses no CPU, after step 5 in phase "train"`) {
		t.Fatalf("%q", told)
	}
	s.progress(0, &event.StepDone{Step: 6}) // a step of 24 s: another of 60 s is nothing to speak of
	if look(60, 100); len(told) != 1 {
		t.Fatalf("%q", told)
	}
	if look(20, 100); len(told) != 2 || !strings.Contains(told[1], "rank 0 (pid 77) is computing, after step 6") {
		t.Fatalf("%q", told)
	}
	s.progress(0, &event.StepDone{Step: 7})
	s.progress(0, &event.Warning{Source: stallSource, Message: "no step for 10s: rank 0 waits for its data"})
	if look(300, 100); len(told) != 2 {
		t.Errorf("told beside the rank's own word: %q", told)
	}
}

package app

import (
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
)

// A stopped rank, also the only one of a job, is named after ten seconds
// without a word of anybody, once, and again only after the run went on.
func TestStoppedRankIsNamed(t *testing.T) {
	var told []string
	s := &stalls{flights: t.TempDir(), pids: map[int]int{}, tell: func(text string) { told = append(told, text) }}
	s.stopped = func(pid int) bool { return pid == 77 }
	s.heard(0, &event.RankStarted{PID: 77})
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
	s.heard(0, nil)
	for range 10 {
		s.look()
	}
	if len(told) != 2 {
		t.Errorf("%q", told)
	}
}

package app

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/report/event"
)

// stallAfter is how long a run may tell of nothing before the ranks that hold
// it up are looked for.
const stallAfter = 10 * time.Second

// stalls looks for ranks of this host that hold the run up, long before a
// deadline ends it. It counts its own ticks rather than time: when this
// process was stopped as well, or the machine was suspended, nobody stalled.
type stalls struct {
	tell    func(string)
	stopped func(pid int) bool

	mu      sync.Mutex
	flights string      // directory of the flight records; "": not known yet
	pids    map[int]int // of the ranks
	quiet   int         // ticks since anybody told of anything
	told    string
}

func newStalls(dir event.RunDir, bus *event.Bus) *stalls {
	s := &stalls{stopped: isStopped, pids: map[int]int{}, tell: func(text string) {
		bus.Emit(&event.Warning{Source: "launch", Message: text})
	}}
	s.in(dir)
	return s
}

// in says where the run directory is; the zero value is nowhere yet.
func (s *stalls) in(dir event.RunDir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir.Path != "" {
		s.flights = dir.Flights()
	}
}

// start looks until stop is called.
func (s *stalls) start() (stop func()) {
	over := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() { s.watch(over) })
	return func() {
		close(over)
		looking.Wait()
	}
}

// heard takes note of a rank's event; started is nil for most.
func (s *stalls) heard(rank int, started *event.RankStarted) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet, s.told = 0, ""
	if started != nil {
		s.pids[rank] = started.PID
	}
}

// watch looks every second until over is closed.
func (s *stalls) watch(over <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			s.look()
		}
	}
}

func (s *stalls) look() {
	s.mu.Lock()
	s.quiet++
	pids, quiet, told, flights := s.halted(), s.quiet, s.told, s.flights
	s.mu.Unlock()
	if time.Duration(quiet)*time.Second < stallAfter {
		return
	}
	text := strings.Join(pids, "; ")
	if r, err := flight.Read(flights); text == "" && err == nil && len(r.Missing) > 0 {
		text = r.Differ
	}
	if text == "" || text == told {
		return
	}
	s.mu.Lock()
	s.told = text
	s.mu.Unlock()
	s.tell(fmt.Sprintf("no step for %v: %s", time.Duration(quiet)*time.Second, text))
}

// halted are the ranks whose processes are stopped, in words; mu is held.
func (s *stalls) halted() (out []string) {
	for rank, pid := range s.pids {
		if s.stopped(pid) {
			out = append(out, fmt.Sprintf("rank %d (pid %d) is stopped by a signal; kill -CONT %d lets it go on", rank, pid, pid))
		}
	}
	slices.Sort(out)
	return out
}

// isStopped reads the state of a process from /proc.
func isStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "t")
}

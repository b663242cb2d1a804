package app

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/report/event"
)

const (
	// stallAfter is the time without events after which the cause of a stall is looked
	// for, long before a deadline ends the run.
	stallAfter = 10 * time.Second
	// busyAfter is the time after which ranks that may just be slow are reported too.
	busyAfter = 15 * time.Second
)

// idleTimer counts the seconds without events of a run. It counts its own ticks rather
// than time, so that a stop of this process, or a suspended machine, is not reported
// as a stall.
type idleTimer struct {
	find func(quiet int) string // describes what delays the run; "": unknown
	tell func(string)

	mu      sync.Mutex
	quiet   int // ticks since the last event
	longest int // the longest pause after which the run continued
	told    string
}

// progress restarts the count.
func (s *idleTimer) progress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, s.quiet)
	s.quiet, s.told = 0, ""
}

// start checks every second until stop is called.
func (s *idleTimer) start() (stop func()) {
	over := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() { s.watch(over) })
	return func() {
		close(over)
		looking.Wait()
	}
}

func (s *idleTimer) watch(over <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.look()
		case <-over:
			return
		}
	}
}

func (s *idleTimer) look() {
	s.mu.Lock()
	s.quiet++
	quiet := s.quiet
	s.mu.Unlock()
	if time.Duration(quiet)*time.Second < stallAfter {
		return
	}
	text := s.find(quiet)
	s.mu.Lock()
	told := s.told
	if text != "" {
		s.told = text
	}
	s.mu.Unlock()
	if text != "" && text != told {
		s.tell(fmt.Sprintf("no step for %v: %s", time.Duration(quiet)*time.Second, text))
	}
}

// stalls looks for ranks of this host that delay the run: those that are stopped,
// those that have not called the collective that the others wait for, and, if the
// ranks report nothing themselves, those that are busy or wait.
type stalls struct {
	idleTimer
	ranks map[int]*rankState // by rank; idleTimer.mu
	named bool               // a rank has reported what it waits for; idleTimer.mu

	flights string // directory of the flight records; "": not known yet; idleTimer.mu
	stat    func(pid int) (state byte, cpu uint64)
}

// rankState is what is known of a rank's process.
type rankState struct {
	pid   int
	step  int    // the last one reported, -1: none; only rank 0 reports steps
	phase string // likewise
	cpu   uint64 // CPU time at the last check, in clock ticks
}

func newStalls(dir event.RunDir, bus *event.Bus) *stalls {
	s := &stalls{ranks: map[int]*rankState{}, stat: processState}
	s.find = s.cause
	s.tell = func(text string) { bus.Emit(&event.Warning{Source: stallSource, Message: text}) }
	s.in(dir)
	return s
}

// stallSource is the source of warnings about stalls.
const stallSource = "launch"

// in sets the directory of the run; the zero value means that there is none yet.
func (s *stalls) in(dir event.RunDir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir.Path != "" {
		s.flights = dir.Flights()
	}
}

// progress records a rank's event; nil is an event that was not decoded. A warning is
// not progress.
func (s *stalls) progress(rank int, e event.Event) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if w, warned := e.(*event.Warning); warned {
		s.named = s.named || w.Source == stallSource
		s.mu.Unlock()
		return
	}
	r := s.ranks[rank]
	if r == nil {
		r = &rankState{step: -1}
		s.ranks[rank] = r
	}
	s.named = false
	switch e := e.(type) {
	case *event.RankStarted:
		*r = rankState{pid: e.PID, step: -1}
	case *event.PhaseChanged:
		r.phase = e.Phase
	case *event.StepDone:
		r.step = e.Step
	}
	s.mu.Unlock()
	s.idleTimer.progress()
}

// lost forgets a rank that an elastic job continues without, and removes its flight record: it
// calls nothing that the others wait for.
func (s *stalls) lost(rank, attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ranks, rank)
	if s.flights != "" {
		_ = os.Remove(flight.Path(s.flights, rank, attempt)) // a rank on another host has none here
	}
}

// cause looks for what delays the run.
func (s *stalls) cause(quiet int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	stopped, busy := s.processes()
	if len(stopped) > 0 {
		return strings.Join(stopped, "; ")
	}
	if r, err := flight.Read(s.flights); err == nil && len(r.Missing) > 0 {
		return r.Differ
	}
	if s.named || time.Duration(quiet)*time.Second < max(busyAfter, 3*time.Duration(s.longest)*time.Second) {
		return ""
	}
	return strings.Join(busy, "; ")
}

// processes describes the ranks that are stopped and what the others do; mu is held.
// Before its first step a rank may be slow without a reason to report.
func (s *stalls) processes() (stopped, busy []string) {
	for rank, r := range s.ranks {
		state, cpu := s.stat(r.pid)
		computed := cpu - r.cpu
		r.cpu = cpu
		name := fmt.Sprintf("rank %d (pid %d)", rank, r.pid)
		switch {
		case r.pid == 0 || state == 0:
		case state == 'T' || state == 't':
			stopped = append(stopped, fmt.Sprintf("%s is stopped by a signal; kill -CONT %d continues it", name, r.pid))
		case r.step < 0:
		case computed > clockTicks/2:
			busy = append(busy, fmt.Sprintf("%s is computing, after step %d in phase %q", name, r.step, r.phase))
		default:
			busy = append(busy, fmt.Sprintf("%s waits and uses no CPU, after step %d in phase %q; kill -QUIT %d ends it and writes where it waits to its log", name, r.step, r.phase, r.pid))
		}
	}
	slices.Sort(stopped)
	slices.Sort(busy)
	return stopped, busy
}

// clockTicks is the number of clock ticks per second in /proc.
const clockTicks = 100

// processState reads the state of a process and its clock ticks in user and
// kernel mode from /proc/PID/stat (proc(5): fields 3, 14 and 15); 0 if it has ended.
func processState(pid int) (state byte, cpu uint64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 13 {
		return 0, 0
	}
	user, _ := strconv.ParseUint(f[11], 10, 64)
	kernel, _ := strconv.ParseUint(f[12], 10, 64)
	return f[0][0], user + kernel
}

// overdue is a plugin that reports an operation which takes long.
type overdue interface {
	Overdue(after time.Duration) string
}

// watchPlugins warns about this rank's plugins that delay it, except for backends,
// which wait for other ranks: the launcher warns about those.
func (r *runner) watchPlugins(bus *event.Bus, plugins ...any) (stop func()) {
	s := &idleTimer{tell: func(text string) { bus.Emit(&event.Warning{Source: stallSource, Message: text}) }}
	s.find = func(int) string {
		for _, p := range plugins {
			if o, ok := p.(overdue); ok {
				if text := o.Overdue(stallAfter - time.Second); text != "" {
					return fmt.Sprintf("rank %d waits for %s", r.p.World.Rank, text)
				}
			}
		}
		return ""
	}
	bus.Add(event.Func(func(r event.Record) {
		if _, warned := r.Event.(*event.Warning); !warned {
			s.progress()
		}
	}))
	return s.start()
}

package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Options of a sweep.
type Options struct {
	FS   checkpoint.FS
	File *File
	Dir  string // the sweep's folder, which is created

	Check func(set []string) (*config.Config, error) // loads the configuration with these --set
	Start Start
	Tell  func(line string) // gets what happens to trials, for people

	Machine      // for trials
	Retry   bool // start failed trials again
	Dry     bool // nothing is run or written
}

// Sweep runs the trials of a file. It belongs to one goroutine.
type Sweep struct {
	Options
	state  state
	unlock func() error

	running map[*Trial]*attempt
	ended   chan *attempt
	free    pool
	asked   os.Signal // that asked to end; nil: none
	failed  error     // that ends the sweep
}

// attempt is a process of a trial.
type attempt struct {
	trial   *Trial
	process Process
	follow  follower
	before  string // the trial's newest run directory until then
	need    need
	gpus    []int // by ordinal
	code    int   // once it has ended
}

// Open checks the configurations of all trials and reads how far the sweep is. Nothing is started. The
// caller must Close it.
func Open(o Options) (*Sweep, error) {
	s := &Sweep{Options: o, running: map[*Trial]*attempt{}, ended: make(chan *attempt)}
	s.free = newPool(&s.Machine)
	trials, err := o.File.Trials()
	if err != nil {
		return nil, err
	}
	if err := o.File.checkTrials(trials, o.Check, &s.Machine); err != nil {
		return nil, err
	}
	s.state = state{Schema: schema, Metric: o.File.Metric, Goal: o.File.Goal, Trials: trials}
	if o.Dry {
		s.unlock = func() error { return nil }
		return s, s.state.restore(o.FS, o.Dir)
	}
	if err := o.FS.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the sweep: %w; fix: choose another with --dir", err)
	}
	if s.unlock, err = o.FS.Lock(filepath.Join(o.Dir, "lock")); err != nil {
		return nil, err
	}
	if err := s.state.restore(o.FS, o.Dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for _, t := range s.state.Trials {
		if o.Retry && t.Status == Failed {
			t.Status, t.Reason = Pending, ""
		}
	}
	return s, nil
}

// Close lets another process work on the sweep.
func (s *Sweep) Close() error { return s.unlock() }

// InterruptedError is the error of a sweep that a signal has ended before all trials were over.
type InterruptedError struct {
	Signal   os.Signal
	Over, Of int
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("the sweep was interrupted after %d of %d trials; the same command continues it", e.Over, e.Of)
}

// ExitCode is that of a program that the signal ends.
func (e *InterruptedError) ExitCode() int {
	if n, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return launch.ExitTerminated
}

// Run runs all trials that are not over. At each tick it reads what they have evaluated. The first signal
// lets them save and end, and a second one is passed on, which kills them; then the error is an
// [*InterruptedError]. No process of a trial is left when it returns.
func (s *Sweep) Run(signals <-chan os.Signal, tick <-chan time.Time) error {
	runtime.LockOSThread() // see Executable
	defer runtime.UnlockOSThread()
	if err := s.recover(signals, tick); err != nil {
		return err
	}
	for {
		s.fail(s.startTrials())
		if len(s.running) == 0 {
			return s.end()
		}
		select {
		case a := <-s.ended:
			s.fail(s.finish(a))
		case <-tick:
			s.fail(s.observe())
		case sig := <-signals:
			s.interrupt(sig)
		}
	}
}

// fail ends the sweep because of an error of the sweep itself, such as a full disk.
func (s *Sweep) fail(err error) {
	if err == nil || s.failed != nil {
		return
	}
	s.failed = err
	s.interrupt(syscall.SIGTERM)
}

func (s *Sweep) interrupt(sig os.Signal) {
	if s.asked == nil {
		s.asked = sig
		if len(s.running) > 0 {
			s.Tell(fmt.Sprintf("%v: running trials save and end; a second signal kills them", sig))
		}
	}
	for _, a := range s.running {
		_ = a.process.Signal(syscall.SIGTERM) // it may have ended
	}
}

func (s *Sweep) end() error {
	over := with(s.state.Trials, Status.Over)
	if s.failed != nil {
		return s.failed
	}
	if s.asked != nil && over < len(s.state.Trials) {
		return &InterruptedError{s.asked, over, len(s.state.Trials)}
	}
	return nil
}

func (s *Sweep) save() error { return s.state.write(s.FS, s.Dir) }

func (s *Sweep) tell(t *Trial, format string, args ...any) {
	s.Tell(fmt.Sprintf("trial %d of %d: ", t.Number, len(s.state.Trials)) + fmt.Sprintf(format, args...))
}

func (s *Sweep) follower(t *Trial) follower {
	return follower{fs: s.FS, dir: filepath.Join(s.Dir, t.Name())}
}

// log is what the processes of a trial print.
func (s *Sweep) log(t *Trial) string { return filepath.Join(s.Dir, t.Name()+".log") }

// recover settles the trials that an earlier process left without an end.
func (s *Sweep) recover(signals <-chan os.Signal, tick <-chan time.Time) error {
	for _, t := range s.state.Trials {
		if t.Status.Over() || t.Status == Pending {
			continue
		}
		follow := s.follower(t)
		run, err := follow.update()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := s.await(t, run, signals, tick); err != nil {
			return err
		}
		if run, err = follow.update(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if run != nil {
			t.measure(run, s.File)
		}
		t.PID = 0
		t.Status, t.Reason = left(t, run)
	}
	return s.save()
}

// left is the verdict on a trial whose process ended unseen. One that did not get to its end is to be
// resumed.
func left(t *Trial, run *rundir.Run) (Status, string) {
	status, reason := Interrupted, ""
	if run != nil && run.Summary != nil {
		status, reason = outcome(run)
	}
	switch {
	case t.Status == Stopping && status != Done:
		return Stopped, t.Reason
	case status == Interrupted:
		return Pending, ""
	}
	return status, reason
}

// await ends the processes of a trial that have outlived an earlier sweep.
func (s *Sweep) await(t *Trial, run *rundir.Run, signals <-chan os.Signal, tick <-chan time.Time) error {
	those := []rundir.Process{{PID: t.PID, Seen: t.Started}}
	if run != nil && run.Host == rundir.Hostname() {
		those = append(those, run.Launcher)
	}
	for asked := false; slices.ContainsFunc(those, rundir.Process.Alive); {
		if !asked {
			asked = true
			s.tell(t, "waits for process %d of the sweep that was killed", t.PID)
			for _, p := range those {
				_ = p.Signal(syscall.SIGTERM) // one of them may have ended
			}
		}
		select {
		case <-tick:
		case sig := <-signals:
			s.asked = sig
			return s.end()
		}
	}
	return nil
}

// startTrials starts trials while there are cores or GPUs for them.
func (s *Sweep) startTrials() error {
	for _, t := range s.state.Trials {
		if s.asked != nil {
			return nil
		}
		if t.Status != Pending {
			continue
		}
		n := s.need(t.config, s.File.Parallel)
		if len(s.running) > 0 && !s.room(n) {
			return nil
		}
		if err := s.start(t, n); err != nil {
			return err
		}
	}
	return nil
}

// room reports whether one more trial may run beside others.
func (s *Sweep) room(n need) bool {
	if most := s.File.Parallel; most > 0 {
		return len(s.running) < most && (n.gpus == 0 || s.free.room(n))
	}
	return s.free.room(n)
}

func (s *Sweep) start(t *Trial, n need) error {
	args := []string{"run", s.File.Config}
	sets := append(t.sets(), "run.name="+config.FormatValue(t.Name()), "run.dir="+config.FormatValue(s.Dir))
	if n.threads > 0 {
		sets = append(sets, fmt.Sprintf("launch.threads_per_rank=%d", n.threads))
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	args = append(args, "--resume", "auto", "--progress", "plain")
	t.Status, t.Reason = Running, ""
	if err := s.save(); err != nil { // first, so that it is known to exist
		return err
	}
	gpus := s.free.take(n)
	p, err := s.Start(args, s.environment(gpus), s.log(t))
	if err != nil {
		s.free.give(n, gpus)
		t.Status = Pending
		return errors.Join(err, s.save())
	}
	s.tell(t, "started%s: %s", s.onGPUs(gpus), describe(t.Settings))
	a := &attempt{trial: t, process: p, follow: s.follower(t), before: t.Run, need: n, gpus: gpus}
	s.running[t] = a
	go func() {
		a.code = p.Wait()
		s.ended <- a
	}()
	t.PID, t.Started = p.PID(), time.Now()
	return s.save()
}

// observe reads what trials have evaluated, and stops those that are worse than the median.
func (s *Sweep) observe() error {
	for _, t := range slices.SortedFunc(maps.Keys(s.running), func(a, b *Trial) int { return a.Number - b.Number }) {
		a := s.running[t]
		run, err := a.follow.update()
		if err != nil {
			return err
		}
		if run == nil {
			continue
		}
		before := len(t.Evaluations)
		t.measure(run, s.File)
		if t.Status != Running || len(t.Evaluations) == before || !s.worse(t) {
			continue
		}
		t.Status = Stopping
		if err := s.save(); err != nil { // first, so that it is not resumed
			return err
		}
		s.tell(t, "stopped: %s", t.Reason)
		_ = a.process.Signal(syscall.SIGTERM) // it may have ended
	}
	return nil
}

// worse applies the median rule to a trial, and says why.
func (s *Sweep) worse(t *Trial) bool {
	if !s.File.stops {
		return false
	}
	var finished [][]Point
	for _, other := range s.state.Trials {
		if other.Status == Done {
			finished = append(finished, other.Evaluations)
		}
	}
	median, of, worse := s.File.Median.worse(t.Evaluations, finished, s.File.Goal)
	if worse {
		best := "no number"
		if t.Value != nil {
			best = number(float64(*t.Value))
		}
		t.Reason = fmt.Sprintf("its best %s after %d evaluations, %s, is worse than the median of %d trials, %s", s.File.Metric, len(t.Evaluations), best, of, number(median))
	}
	return worse
}

// finish takes the result of a process that has ended.
func (s *Sweep) finish(a *attempt) error {
	t := a.trial
	delete(s.running, t)
	s.free.give(a.need, a.gpus)
	run, err := a.follow.update()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if run != nil {
		t.measure(run, s.File)
	}
	t.PID = 0
	t.Status, t.Reason = a.verdict(run, s.log(t))
	text := string(t.Status)
	if t.Value != nil {
		text += fmt.Sprintf(", %s %s at step %d", s.File.Metric, number(float64(*t.Value)), t.Step)
	}
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	s.tell(t, "%s", text)
	return s.save()
}

// verdict is how a trial's process has ended; run is the newest, which may be one before.
func (a *attempt) verdict(run *rundir.Run, log string) (Status, string) {
	if run != nil && run.Dir.Path != a.before && run.Summary != nil {
		status, reason := outcome(run)
		if status == Done || a.trial.Status == Running && status != Interrupted {
			return status, reason
		}
	}
	switch {
	case a.code == launch.ExitOK:
		return Done, ""
	case a.trial.Status == Stopping:
		return Stopped, a.trial.Reason
	case slices.Contains([]int{launch.ExitPreempted, launch.ExitInterrupt, launch.ExitTerminated}, a.code):
		return Interrupted, ""
	case a.code < 0:
		return Failed, "it was killed; see " + log
	}
	return Failed, fmt.Sprintf("exit code %d; see %s", a.code, log)
}

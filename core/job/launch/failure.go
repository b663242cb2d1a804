package launch

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/base/crash"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// Failure is why an attempt ended, ready to be shown (Format) or stored as JSON.
type Failure struct {
	Job         string  `json:"job"`
	Attempt     int     `json:"attempt"` // 0 is the first
	MaxRestarts int     `json:"max_restarts"`
	Root        Cause   `json:"root"`
	Others      []Cause `json:"others,omitempty"`  // failed by themselves, later
	Stopped     []int   `json:"stopped,omitempty"` // ranks that the launcher ended

	// Next is what to continue from, in sentences; the caller of Run knows.
	Next []string `json:"next,omitempty"`
}

// Cause is how one rank, or one launcher, failed.
type Cause struct {
	Rank      int       `json:"rank"` // -1 when no rank is to blame
	LocalRank int       `json:"local_rank"`
	Host      string    `json:"host"`
	PID       int       `json:"pid,omitempty"`
	ExitCode  int       `json:"exit_code"` // minus the signal's number for a signal
	Signal    string    `json:"signal,omitempty"`
	Time      time.Time `json:"time"`
	Step      int64     `json:"step"`              // the last one it told of, -1 for none
	Phase     string    `json:"phase,omitempty"`   // likewise
	Memory    string    `json:"memory,omitempty"`  // evidence of an out-of-memory kill
	Message   string    `json:"message,omitempty"` // what happened, when no process tells
	LastLines []string  `json:"last_lines,omitempty"`

	Account // the rank's own, where it gave one

	// Crash is what the rank's last words, Go's dump of goroutines, come down to.
	Crash *crash.Report `json:"crash,omitempty"`
	Log   string        `json:"log,omitempty"` // file with all of its lines
}

func (e exit) cause(host string, oom int) Cause {
	step, phase := e.w.place()
	c := Cause{Rank: e.w.world.Rank, LocalRank: e.w.world.LocalRank, Host: host, PID: e.w.pid, ExitCode: e.code,
		Time: e.at, Step: step, Phase: phase}
	if e.early {
		c.Message = "it ended before its work was done, as if all had gone well"
	}
	if e.sig != 0 {
		c.ExitCode, c.Signal = -int(e.sig), signalName(e.sig)
	}
	if e.sig == syscall.SIGKILL || e.code == 128+int(syscall.SIGKILL) {
		c.Memory = cgroup.Evidence(oom, e.w.cmd.ProcessState)
	}
	return c
}

// hear adds what the rank said last.
func (c *Cause) hear(w *worker) {
	w.finish()
	c.LastLines, c.Crash, c.Log = w.log.lines(), w.log.crashed(), w.log.path
	c.Step, c.Phase = w.place()
	c.Account = w.why()
}

// signals are those with which processes end, the same numbers everywhere
// but SIGBUS.
var signals = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL", syscall.SIGTRAP: "SIGTRAP",
	syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGXCPU: "SIGXCPU", syscall.SIGXFSZ: "SIGXFSZ",
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2",
}

func signalName(s syscall.Signal) string {
	if name, ok := signals[s]; ok {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// Advice is what to do about the root cause, and next.
func (f *Failure) Advice() []string { return append(f.Root.advice(), f.Next...) }

func (c Cause) advice() []string {
	if c.Crash != nil && c.Signal == "SIGABRT" { // with which GOTRACEBACK=crash ends a panic
		c.Signal, c.ExitCode = "", panicked
	}
	switch {
	case c.Memory != "":
		return []string{ranOut}
	case c.Signal == "SIGKILL":
		return []string{"Somebody killed it" + fromOutside}
	case c.Signal == "SIGSEGV" || c.Signal == "SIGBUS" || c.Signal == "SIGILL" || c.Signal == "SIGABRT" || c.Signal == "SIGFPE":
		return []string{"The process crashed: its stack is in the rank's log. TRAINCTL_CPU=generic rules the assembly kernels out."}
	case c.Signal != "":
		return []string{"Find out who sent " + c.Signal + "; the launcher did not."}
	case c.Rank < 0:
		return []string{"Look at that host and its launcher's own output; the rest of the job was fine until then."}
	}
	if c.Plugin != nil && c.Plugin.Hung {
		return c.hungPlugin()
	}
	if c.Plugin != nil && strings.Contains(c.Plugin.Cause, cgroup.Starved) {
		return []string{ranOut, fmt.Sprintf("It was the %s plugin of rank %d that used it.", c.Plugin.Kind, c.Rank)}
	}
	if fix := usererr.Shortage(strings.Join(append(c.crash(), c.LastLines...), "\n")); fix != "" {
		return []string{fix}
	}
	if c.Crash != nil && c.Crash.Signal != "" {
		return c.crashAdvice()
	}
	if c.Plugin != nil {
		return c.deadPlugin()
	}
	return adviceFor(c.ExitCode)
}

// crashAdvice is about a signal that Go's runtime told of: the exit code is that
// of a panic then.
func (c Cause) crashAdvice() []string {
	name, _, _ := strings.Cut(c.Crash.Signal, ":")
	if c.Crash.Sent {
		return []string{"Find out who sent " + name + "; the launcher did not."}
	}
	return append(adviceFor(panicked), "TRAINCTL_CPU=generic rules the assembly kernels out.")
}

// crash is what Crash says, in lines.
func (c Cause) crash() []string {
	if c.Crash == nil {
		return nil
	}
	return c.Crash.Lines()
}

const (
	ranOut      = "The host ran out of memory: lower the batch or the number of ranks per node, or raise the memory limit."
	fromOutside = " from outside: look for the out-of-memory killer (dmesg), a scheduler's limit, or a person."
)

func adviceFor(code int) []string {
	switch code {
	case ExitOK:
		return []string{"Something in the process, or a plugin that runs in it, called exit: its last lines and its log may show what."}
	case panicked:
		return []string{"The program panicked, which is a fault of trainctl, not of the configuration: the stack is in the rank's log; please report it with that."}
	case ExitRefused:
		return []string{"Fix the configuration, or the data that it names; \"trainctl config check\" shows all problems of a configuration at once. Restarting does not help."}
	case ExitPlugin:
		return []string{"Fix the plugin named above; \"trainctl plugins list\" shows what is found where. Restarting does not help."}
	case ExitRendezvous:
		return []string{"Some ranks never arrived: the lines above name them. \"trainctl env\" shows where this host looks for the others."}
	case ExitCheckpoint:
		return []string{"\"trainctl ckpt verify\" tells which checkpoints are sound; --resume PATH takes another one, model.init the weights alone."}
	case ExitDiverged:
		return []string{"Lower optimizer.lr, warm it up (lr_scheduler.warmup_steps), or clip with train.max_norm: the same run would diverge again."}
	case ExitPreempted:
		return []string{"It was asked to stop, saved, and ended."}
	case ExitPeer:
		return []string{"It gave up because of the rank that its last lines name: look at that rank's log, and whether its process was stopped or is waiting for something."}
	}
	return []string{"Its last lines above usually say it."}
}

const (
	ruleHeavy = "============================================================"
	ruleLight = "------------------------------------------------------------"
)

// Format is the failure as one block for people, built like torchrun's and
// ending in a newline.
func (f *Failure) Format() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("%s\n%s FAILED%s\n%s", ruleHeavy, f.Job, f.attempts(), ruleLight)
	p("Root Cause (first observed failure):")
	f.Root.format(p)
	f.formatOthers(p)
	p("%s\nWhat to do:", ruleLight)
	for _, a := range f.Advice() {
		p("  %s", a)
	}
	p("%s", ruleHeavy)
	return b.String()
}

func (f *Failure) attempts() string {
	if f.MaxRestarts == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d of %d)", f.Attempt+1, f.MaxRestarts+1)
}

func (c Cause) format(p func(string, ...any)) {
	p("  time      : %s", c.Time.Format(time.RFC3339Nano))
	p("  host      : %s", c.Host)
	if c.Rank >= 0 {
		p("  rank      : %d (local_rank: %d)", c.Rank, c.LocalRank)
	}
	if c.PID != 0 {
		p("  pid       : %d", c.PID)
		p("  exitcode  : %s", c.ending())
	}
	if c.Message != "" {
		p("  what      : %s", c.Message)
	}
	if at := c.where(); at != "" {
		p("  last seen : %s", at)
	}
	if c.Memory != "" {
		p("  memory    : %s", c.Memory)
	}
	c.formatCrash(p)
	if c.Plugin != nil {
		p("  plugin    : %v", c.Plugin)
	}
	if len(c.LastLines) > 0 {
		p("  last lines:")
	}
	for _, line := range c.LastLines {
		p("    | %s", line)
	}
	if c.Log != "" {
		p("  all lines : %s", c.Log)
	}
}

func (c Cause) formatCrash(p func(string, ...any)) {
	r := c.Crash
	if r == nil {
		return
	}
	for i, line := range strings.Split(r.Message, "\n") {
		switch {
		case i > 0:
			p("              %s", strings.ReplaceAll(line, "\t", "  "))
		case line != "":
			p("  crash     : %s", line)
		}
	}
	if s := r.SignalText(); s != "" {
		p("  signal    : %s", s)
	}
	if len(r.Frames) > 0 {
		p("  at        : %s\n  stack     :", r.At())
	}
	for _, f := range r.Frames {
		p("    | %s", f)
	}
}

func (c Cause) ending() string {
	if c.Signal != "" {
		return fmt.Sprintf("%d (Signal %d (%s) received by PID %d)", c.ExitCode, -c.ExitCode, c.Signal, c.PID)
	}
	return fmt.Sprintf("%d (pid: %d)", jobCode(c.ExitCode), c.PID)
}

func (c Cause) where() string {
	var parts []string
	if c.Step >= 0 {
		parts = append(parts, fmt.Sprintf("step %d", c.Step))
	}
	if c.Phase != "" {
		parts = append(parts, c.Phase)
	}
	return strings.Join(parts, ", ")
}

// formatOthers folds what followed from the root cause.
func (f *Failure) formatOthers(p func(string, ...any)) {
	if len(f.Others)+len(f.Stopped) == 0 {
		return
	}
	p("%s\nFollowed by:", ruleLight)
	for _, c := range f.Others {
		p("  rank %d on %s, %v later: exitcode %s", c.Rank, c.Host, max(0, c.Time.Sub(f.Root.Time)).Round(time.Millisecond), c.ending())
	}
	if len(f.Stopped) > 0 {
		p("  stopped by the launcher: rank %s", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(f.Stopped)), ", "), "[]"))
	}
}

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

	// Next says what to continue from, in sentences. The caller of Run sets it.
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
	Step      int64     `json:"step"`              // the last one it reported, -1 for none
	Phase     string    `json:"phase,omitempty"`   // likewise
	Memory    string    `json:"memory,omitempty"`  // evidence of an out-of-memory kill
	Message   string    `json:"message,omitempty"` // what happened, when no process reported it
	LastLines []string  `json:"last_lines,omitempty"`

	Account // as the rank reported it, if it did

	// Crash summarizes the goroutine dump that the rank printed as it died.
	Crash *crash.Report `json:"crash,omitempty"`
	Log   string        `json:"log,omitempty"` // file with all of its lines
}

func (e exit) cause(host string, oom int) Cause {
	step, phase := e.w.place()
	c := Cause{Rank: e.w.world.Rank, LocalRank: e.w.world.LocalRank, Host: host, PID: e.w.body.pid(), ExitCode: e.code,
		Time: e.at, Step: step, Phase: phase}
	if e.early {
		c.Message = "it ended before its work was done, with exit code 0"
	}
	if e.sig != 0 {
		c.ExitCode, c.Signal = -int(e.sig), signalName(e.sig)
	}
	if dead := e.w.body.usage(); dead != nil && (e.sig == syscall.SIGKILL || e.code == 128+int(syscall.SIGKILL)) {
		c.Memory = cgroup.Evidence(oom, dead)
	}
	return c
}

// addOutput adds the rank's last output and reports.
func (c *Cause) addOutput(w *worker) {
	w.finish()
	c.LastLines, c.Crash, c.Log = w.log.lines(), w.log.crashed(), w.log.path
	c.Step, c.Phase = w.place()
	c.Account = w.why()
}

// signals names the signals that end processes. Except for SIGBUS they have the
// same numbers on every system.
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

// Advice says what to do about the root cause, and what to continue from.
func (f *Failure) Advice() []string { return append(f.Root.advice(), f.Next...) }

func (c Cause) advice() []string {
	if c.Crash != nil && c.Signal == "SIGABRT" { // GOTRACEBACK=crash ends a panic with it
		c.Signal, c.ExitCode = "", panicked
	}
	switch {
	case c.Memory != "":
		return []string{ranOut}
	case c.Signal == "SIGKILL":
		return []string{"The process was killed" + fromOutside}
	case c.Signal == "SIGSEGV" || c.Signal == "SIGBUS" || c.Signal == "SIGILL" || c.Signal == "SIGABRT" || c.Signal == "SIGFPE":
		return []string{"The process crashed: its stack is in the rank's log. TRAINCTL_CPU=generic runs without the assembly kernels, which rules them out as the cause."}
	case c.Signal != "":
		return []string{"Find out who sent " + c.Signal + "; the launcher did not."}
	case c.Rank < 0:
		return []string{"Look at that host and at the output of its launcher; the other nodes had not failed before."}
	}
	if c.Plugin != nil && c.Plugin.Hung {
		return c.hungPlugin()
	}
	if c.Plugin != nil && strings.Contains(c.Plugin.Cause, cgroup.Starved) {
		return []string{ranOut, fmt.Sprintf("The %s plugin of rank %d used it.", c.Plugin.Kind, c.Rank)}
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

// crashAdvice is for a signal that Go's runtime caught and reported: the exit
// code is then that of a panic.
func (c Cause) crashAdvice() []string {
	name, _, _ := strings.Cut(c.Crash.Signal, ":")
	if c.Crash.Sent {
		return []string{"Find out who sent " + name + "; the launcher did not."}
	}
	return append(adviceFor(panicked), "TRAINCTL_CPU=generic runs without the assembly kernels, which rules them out as the cause.")
}

// crash returns Crash as lines.
func (c Cause) crash() []string {
	if c.Crash == nil {
		return nil
	}
	return c.Crash.Lines()
}

const (
	ranOut      = "The host ran out of memory: lower the batch or the number of ranks per node, or raise the memory limit."
	fromOutside = " from outside: look for the out-of-memory killer (dmesg), a scheduler's limit, or a manual kill."
)

// adviceOf is what to do after an exit code.
var adviceOf = map[int]string{
	ExitOK:         "Code in the process, or in a plugin that runs inside it, called exit: the last lines and the log may show which.",
	panicked:       "The program panicked. This is a bug in trainctl, not a mistake in the configuration: please report it with the stack from the rank's log.",
	ExitRefused:    "Fix the configuration or the data it refers to; \"trainctl config check\" shows all problems of a configuration at once. Restarting does not help.",
	ExitPlugin:     "Fix the plugin named above; \"trainctl plugins list\" shows which plugins are found and where. Restarting does not help.",
	ExitRendezvous: "Some ranks never connected: the lines above list them. \"trainctl env\" shows the address at which this host looks for the others.",
	ExitCheckpoint: "\"trainctl ckpt verify\" shows which checkpoints are intact; --resume PATH resumes from another one, model.init loads only its weights.",
	ExitDiverged:   "Lower optimizer.lr, warm it up (lr_scheduler.warmup_steps), or clip with train.max_norm: the same run would diverge again.",
	ExitNoModel:    "No rank has the weights in memory any more: the lines above say how the last of them ended.",
	ExitPreempted:  "It was asked to stop, saved a checkpoint, and ended.",
	ExitPeer:       "It gave up waiting for another rank, which its last lines name: look at that rank's log, and check whether its process is stopped or waits for something.",
}

func adviceFor(code int) []string {
	if advice, ok := adviceOf[code]; ok {
		return []string{advice}
	}
	return []string{"The last lines above usually say why."}
}

const (
	ruleHeavy = "============================================================"
	ruleLight = "------------------------------------------------------------"
)

// Format returns the failure as one block for people, laid out like torchrun's.
// It ends with a newline.
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

// formatOthers lists the ranks that ended because of the root cause.
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

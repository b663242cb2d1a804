package crash

import (
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/pattern"
)

const (
	maxFrames  = 10
	maxMessage = 6   // lines
	maxLine    = 500 // bytes of a line of the message
)

// Report is how a process crashed.
type Report struct {
	Message   string   `json:"message,omitempty"`   // "panic: boom"; may have several lines
	Signal    string   `json:"signal,omitempty"`    // "SIGSEGV: segmentation violation"
	Address   string   `json:"address,omitempty"`   // the address accessed, "0x8"
	Sent      bool     `json:"sent,omitempty"`      // the signal came from a process, not from a fault
	Foreign   bool     `json:"foreign,omitempty"`   // it came while C code, or other non-Go code, ran
	Goroutine string   `json:"goroutine,omitempty"` // "1 [running]"
	Frames    []string `json:"frames,omitempty"`    // "core/train.(*Loop).step at core/train/step.go:19", the innermost first
}

// Dump parses the lines that a process prints and keeps a bounded number of them.
// The zero value is ready. It is not safe for concurrent use.
type Dump struct {
	// Callers are parts of the names of functions that call code which may hang. In
	// the dump that a process prints on SIGQUIT, Hanging is the goroutine that has
	// one of them in its stack.
	Callers []string

	// Waiting are parts of the names of functions that wait for others: a goroutine inside one of
	// them is not the one that hangs, though one of Callers called it.
	Waiting []string

	begun   bool
	message []string
	signal  []string // name and description, address
	sent    bool
	foreign bool

	head     bool // the message is being read
	stack    stack
	reading  bool // the frames of a goroutine that may be reported
	function string
	chosen   *stack
	hanging  *stack
}

// stack is one goroutine's.
type stack struct {
	name      string
	ours, all []string
}

var (
	sigLine   = pattern.Lazy{Expr: `^(SIG[A-Z0-9]+: .+)$`}
	sigInside = pattern.Lazy{Expr: `^\[signal (SIG[A-Z0-9]+: .+?)(?: code=\S+)?(?: addr=(\S+))?(?: pc=\S+)?\]?$`}
	pcLine    = pattern.Lazy{Expr: `^PC=\S+ m=\S+ sigcode=(\S+)(?: addr=(\S+))?`}
	goroutine = pattern.Lazy{Expr: `^goroutine (\d+) (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?(\[.*\]):$`}
	call      = pattern.Lazy{Expr: `^[^\s"'=]+\(.*\)$`}
	elided    = pattern.Lazy{Expr: `^\.\.\.(\d+|additional) frames elided\.\.\.$`}
	register  = pattern.Lazy{Expr: `^[a-z][a-z0-9]{1,5}\s+0x[0-9a-f]+$`}
)

// openings are the prefixes that begin a dump, besides the name of a signal.
var openings = []string{"panic: ", "fatal error: ", "runtime: out of memory", "runtime: goroutine stack exceeds", "unexpected fault address "}

// others are prefixes of the lines of a dump that no other rule matches.
var others = []string{"\t", "goroutine ", "created by ", "runtime stack:", "runtime: ", "[originating from ", "[signal ", "signal arrived ",
	"-----", "PC=", "stack: frame=", "instruction bytes: "}

// Take reads a line, and reports whether it is part of a dump. Lines that another
// thread prints during the dump are not.
func (d *Dump) Take(line string) bool {
	if !d.begun && !opens(line) {
		return false
	}
	if !d.head && prefixed(line, openings[:2]) {
		*d = Dump{Callers: d.Callers, Waiting: d.Waiting} // an earlier dump did not end the process
	}
	switch {
	case !d.begun || d.head && opens(line):
		d.open(line)
		return true
	case d.about(line):
		d.head = false
		return true
	case d.head && line != "":
		d.say(line)
		return true
	}
	d.head = false
	return d.frame(line) || line == "" || opens(line) || prefixed(line, others) || register.Get().MatchString(line) || elided.Get().MatchString(line)
}

func opens(line string) bool { return prefixed(line, openings) || sigLine.Get().MatchString(line) }

func prefixed(line string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

func (d *Dump) open(line string) {
	d.begun, d.head = true, true
	if sigLine.Get().MatchString(line) {
		d.signal = []string{line, ""}
		return
	}
	d.say(line)
}

func (d *Dump) say(line string) {
	if len(d.message) == maxMessage || strings.HasPrefix(line, "runtime: sp=") {
		return
	}
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	d.message = append(d.message, line)
}

// about reads a line that describes a signal or begins a stack.
func (d *Dump) about(line string) bool {
	if m := sigInside.Get().FindStringSubmatch(line); m != nil {
		if d.signal == nil {
			d.signal = m[1:]
		}
		return true
	}
	if m := pcLine.Get().FindStringSubmatch(line); m != nil {
		if d.sent = m[1] == "0"; !d.sent && d.signal != nil {
			d.signal[1] = m[2]
		}
		return true
	}
	if strings.HasPrefix(line, "signal arrived during cgo") {
		d.foreign = true
		return true
	}
	if m := goroutine.Get().FindStringSubmatch(line); m != nil {
		d.next(m[1] + " " + m[2])
		return true
	}
	return line == "runtime stack:"
}

// next begins another goroutine. The first is the one that crashed; but a signal
// sent by a process may hit an idle thread, and then the first goroutine with our
// own code is more useful.
func (d *Dump) next(name string) {
	d.settle()
	d.stack, d.reading = stack{name: name}, d.chosen == nil || len(d.chosen.ours) == 0 || d.asked()
}

// asked reports whether the dump was caused by SIGQUIT and the hanging goroutine was
// not found yet, or one that waits for a lock, which another may hold.
func (d *Dump) asked() bool {
	return len(d.Callers) > 0 && (d.hanging == nil || d.hanging.locked()) && d.signal != nil && strings.HasPrefix(d.signal[0], "SIGQUIT:")
}

// calls takes the goroutine that is being read for the one that hangs if a
// function is one of Callers: its frames so far are those above.
func (d *Dump) calls(function string) {
	if !d.reading || !d.asked() {
		return
	}
	if among(d.Callers, function) && !slices.ContainsFunc(d.stack.all, func(frame string) bool { return among(d.Waiting, frame) }) {
		if s := d.stack; d.hanging == nil || !s.locked() {
			d.hanging = &s
		}
	}
}

// locked reports whether the goroutine waits for a lock, as Close does while an operation has it.
func (s *stack) locked() bool { return strings.Contains(s.name, "[sync.") }

// among reports whether a name contains one of some parts.
func among(parts []string, name string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
}

// Hanging is the goroutine that hangs: its name, and its frames with the innermost
// first; nil if the dump does not have it.
func (d *Dump) Hanging() []string {
	if d.hanging == nil {
		return nil
	}
	return append([]string{"goroutine " + d.hanging.name}, d.hanging.all...)
}

func (d *Dump) settle() {
	if d.reading && (d.chosen == nil || len(d.chosen.ours) == 0 && len(d.stack.ours) > 0) {
		s := d.stack
		d.chosen = &s
	}
	d.reading = false
}

// frame reads a function, or the file and line of the previous one.
func (d *Dump) frame(line string) bool {
	if place, ok := strings.CutPrefix(line, "\t"); ok {
		if d.function != "" && d.reading {
			d.stack.add(d.function, place)
		}
		d.function = ""
		return true
	}
	d.function = ""
	if !call.Get().MatchString(line) {
		return false
	}
	d.function = line[:strings.LastIndexByte(line, '(')]
	d.calls(d.function)
	return true
}

func (s *stack) add(function, place string) {
	place, _, _ = strings.Cut(place, " +0x") // a path may have spaces
	place, _, _ = strings.Cut(place, " fp=0x")
	text := trim(function) + " at " + trimPlace(function, place)
	if len(s.all) < maxFrames {
		s.all = append(s.all, text)
	}
	if len(s.ours) < maxFrames && ours(function, place) {
		s.ours = append(s.ours, text)
	}
}

// Report returns how the process crashed, nil if there was no dump.
func (d *Dump) Report() *Report {
	if !d.begun {
		return nil
	}
	if d.reading {
		d.settle()
	}
	r := &Report{Message: strings.Join(d.message, "\n"), Sent: d.sent, Foreign: d.foreign}
	if d.signal != nil {
		r.Signal, r.Address = d.signal[0], d.signal[1]
	}
	if c := d.chosen; c != nil {
		r.Goroutine, r.Frames = c.name, c.ours
		if len(c.ours) == 0 {
			r.Frames = c.all
		}
	}
	return r
}

// At is the innermost file and line of our own code; "" if the dump has none.
func (r *Report) At() string {
	if len(r.Frames) == 0 {
		return ""
	}
	_, place, _ := strings.Cut(r.Frames[0], " at ")
	return place
}

// Lines returns the report for people: the message, the signal, and the frames.
func (r *Report) Lines() (out []string) {
	if r.Message != "" {
		out = strings.Split(r.Message, "\n")
	}
	if s := r.SignalText(); s != "" {
		out = append(out, s)
	}
	for _, f := range r.Frames {
		out = append(out, "  "+f)
	}
	return out
}

// SignalText describes the signal and its cause.
func (r *Report) SignalText() string {
	s := r.Signal
	switch {
	case s == "":
		return ""
	case r.Sent:
		s += ", sent by a process"
	case r.Address != "":
		s += ", at address " + r.Address
	}
	if r.Foreign {
		s += ", in non-Go code"
	}
	return s
}

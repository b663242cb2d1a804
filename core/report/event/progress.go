package event

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// RedrawEvery bounds how often the status block is drawn: ten times a second.
const RedrawEvery = 100 * time.Millisecond

// ProgressOptions configure how progress is shown.
type ProgressOptions struct {
	Mode    string                      // "auto", "plain" or "none"; empty: auto
	Env     func(string) (string, bool) // os.LookupEnv; nil: no variable is set
	LogFreq int                         // steps between plain lines; 0: as in PlanMade, else 100
	Width   int                         // of the terminal in columns; 0: ask it
	live    *bool                       // tests: whether it is a terminal
}

// Progress shows a run to people: on a terminal a status block that is redrawn
// in place below the notices, elsewhere plain lines, one every few steps and at the end
// of every epoch. It shows rank 0's steps and the problems of all ranks. It is safe for
// concurrent use.
type Progress struct {
	mu      sync.Mutex
	w       io.Writer
	mode    mode
	color   bool
	width   func() int
	logFreq int

	state   status
	drawn   bool // the block is on the screen, starting at the cursor
	redrawn time.Time
	held    []*pending
	paused  bool   // by Ctrl-Z: the shell uses the screen
	unwatch func() // ends watchTerminal
}

type mode uint8

const (
	silent mode = iota
	plain
	live
)

// NewProgress writes to w, usually standard error through a lossy.Writer, so that a
// blocked terminal blocks nothing else. Mode "auto" draws on a terminal, unless TERM is
// dumb or CI is set, and writes plain lines otherwise. Colour needs a terminal and an
// unset NO_COLOR.
func NewProgress(w io.Writer, o ProgressOptions) *Progress {
	env := func(name string) string {
		if o.Env == nil {
			return ""
		}
		v, _ := o.Env(name)
		return v
	}
	terminal, width := terminalOf(w)
	real := terminal
	if o.live != nil {
		terminal = *o.live
	}
	if o.Width > 0 {
		width = func() int { return o.Width }
	}
	p := &Progress{w: w, width: width, logFreq: o.LogFreq, unwatch: func() {}}
	dumb := env("TERM") == "dumb"
	switch {
	case o.Mode == "none":
		p.mode = silent
	case o.Mode == "plain" || !terminal || dumb || env("CI") != "":
		p.mode = plain
	default:
		p.mode = live
	}
	if p.mode == live && real {
		p.watchTerminal()
	}
	p.color = terminal && !dumb && env("NO_COLOR") == "" || env("CLICOLOR_FORCE") != "" && env("NO_COLOR") == ""
	return p
}

// DroppedLines is the line that replaces progress lines which a terminal or a pipe did
// not accept in time; it is the notice of a lossy.Writer.
func DroppedLines(lines int) []byte {
	return fmt.Appendf(nil, "\r[%d lines are missing here: this output was not read for a while; trainctl logs latest shows the ranks' lines]\n", lines)
}

// terminalOf reports whether w is a terminal, and returns a function for its width.
func terminalOf(w io.Writer) (bool, func() int) {
	narrow := func() int { return 80 }
	if l, ok := w.(interface{ Output() io.Writer }); ok {
		w = l.Output()
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, narrow
	}
	return true, func() int {
		n, _, err := term.GetSize(int(f.Fd()))
		if err != nil || n < 1 {
			return 80
		}
		return n
	}
}

// Emit processes an event and shows what is due. It ignores errors of the terminal,
// since they cannot be reported anywhere.
func (p *Progress) Emit(r Record) {
	if p.mode == silent {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, last := r.Event.(*RunDone); last {
		p.flush()
	}
	for _, n := range p.state.take(r) {
		if troubled(r) {
			p.hold(n, r.Rank)
		} else {
			p.notice(n)
		}
	}
	switch p.mode {
	case plain:
		if p.state.due(r, p.logFreq) {
			p.write(p.state.line() + "\n")
		}
	case live:
		p.draw(r)
	}
}

// Write shows whole lines, such as the output of ranks, above the block, which the next
// event redraws. Every mode shows them.
func (p *Progress) Write(lines []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
	if e := p.erase(); e != "" {
		p.write(e)
	}
	return p.w.Write(lines)
}

// troubled shows messages that any rank may send, several of them with the same text.
func troubled(r Record) bool {
	switch e := r.Event.(type) {
	case *Warning:
		return r.Rank >= 0
	case *PluginLog:
		return r.Rank >= 0 && (e.Level == "error" || e.Level == "warn")
	}
	return false
}

// notice writes a line that stays, above the block.
func (p *Progress) notice(n notice) {
	text := printable(n.text)
	if p.color && n.color != "" {
		text = "\x1b[" + n.color + "m" + text + "\x1b[0m"
	}
	p.write(p.erase() + text + "\n")
}

// draw redraws the block when it is time, and always when the phase changes. It skips a
// terminal that has not accepted the previous output yet.
func (p *Progress) draw(r Record) {
	switch r.Event.(type) {
	case *StepDone:
		if r.Time.Sub(p.redrawn) < RedrawEvery && p.drawn {
			return
		}
	case *RunDone:
		return
	}
	if b, ok := p.w.(interface{ Busy() bool }); p.paused || ok && b.Busy() {
		return
	}
	p.redrawn = r.Time
	p.block(true)
}

// block draws the block. If it will be redrawn, the cursor goes back to its first
// character, so that clearing everything after the cursor erases it, even if the
// terminal has rewrapped it, and never touches the lines above.
func (p *Progress) block(again bool) {
	lines := p.state.block(p.width() - 1)
	if len(lines) == 0 {
		return
	}
	for i, l := range lines {
		lines[i] = printable(l)
	}
	if !again {
		p.write(p.erase() + strings.Join(lines, "\n") + "\n")
		return
	}
	out := p.erase() + Block(lines)
	p.drawn = true
	p.write(out)
}

// Block is what draws lines on a terminal so that EraseBlock removes them again: the cursor returns
// to the first character of the first line.
func Block(lines []string) string {
	out := strings.Join(lines, "\n") + "\r"
	if up := len(lines) - 1; up > 0 {
		out += fmt.Sprintf("\x1b[%dA", up)
	}
	return out
}

// EraseBlock clears from the start of the line to the end of the screen.
const EraseBlock = "\r\x1b[J"

// erase returns the code that removes the block: clear to the end of the screen.
func (p *Progress) erase() string {
	if !p.drawn {
		return ""
	}
	p.drawn = false
	return EraseBlock
}

func (p *Progress) write(s string) { _, _ = io.WriteString(p.w, s) }

// watchTerminal redraws the block when the terminal's width changes and when the process
// continues after a stop. It removes the block before Ctrl-Z stops the process, so that
// the shell's prompt has its own line.
func (p *Progress) watchTerminal() {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGWINCH, syscall.SIGCONT)
	if !signal.Ignored(syscall.SIGTSTP) { // it is ignored where no shell does job control
		signal.Notify(c, syscall.SIGTSTP)
	}
	done := make(chan struct{})
	p.unwatch = func() { signal.Stop(c); close(c); <-done }
	go func() {
		defer close(done)
		for s := range c {
			if s == syscall.SIGTSTP {
				p.stop()
				continue
			}
			p.redraw(s == syscall.SIGCONT)
		}
	}()
}

func (p *Progress) redraw(resumed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn || resumed && p.paused {
		p.block(true)
	}
	p.paused = p.paused && !resumed
}

// stop clears the block and stops the process, as SIGTSTP would have.
func (p *Progress) stop() {
	p.mu.Lock()
	p.paused = true
	if e := p.erase(); e != "" {
		p.write(e)
	}
	p.mu.Unlock()
	if b, ok := p.w.(interface{ Busy() bool }); ok {
		for deadline := time.Now().Add(drained); b.Busy() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// drained is how long a stop waits for the terminal to accept pending output.
const drained = 300 * time.Millisecond

// printable removes control sequences from text of plugins and peers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// displayWidth is the number of columns that a terminal needs for s: CJK
// characters and emoji take two.
func displayWidth(s string) int { return runewidth.StringWidth(s) }

// clip keeps a line from wrapping.
func clip(s string, columns int) string {
	if columns < 1 {
		return s
	}
	return runewidth.Truncate(s, columns, "…")
}

// Close leaves the last block on the screen.
func (p *Progress) Close() error {
	p.unwatch()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
	if p.drawn {
		p.block(false)
	}
	return nil
}

var _ Sink = (*Progress)(nil)

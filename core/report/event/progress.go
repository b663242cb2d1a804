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

// ProgressOptions say how progress is shown.
type ProgressOptions struct {
	Mode    string                      // "auto", "plain" or "none"; empty: auto
	Env     func(string) (string, bool) // os.LookupEnv; nil: no variable is set
	LogFreq int                         // steps between plain lines; 0: what PlanMade says, else 100
	Width   int                         // of the terminal in columns; 0: ask it
	live    *bool                       // tests: whether it is a terminal
}

// Progress shows a run to people: on a terminal a status block that is redrawn
// in place below the notices, elsewhere plain lines, one every few steps and at
// the end of every epoch. It shows rank 0's steps and everybody's trouble.
// Emit and Write may be called from any goroutine.
type Progress struct {
	mu      sync.Mutex
	w       io.Writer
	mode    mode
	color   bool
	width   func() int
	logFreq int

	state   status
	drawn   bool // the block is on the screen, behind the cursor
	redrawn time.Time
	held    []*fold
	paused  bool   // by Ctrl-Z: the screen is the shell's
	unwatch func() // ends watchTerminal
}

type mode uint8

const (
	silent mode = iota
	plain
	live
)

// NewProgress writes to w, usually standard error through a lossy.Writer, so
// that nobody waits for a terminal that stopped taking output. Mode "auto" draws on a
// terminal, unless TERM is dumb or CI is set, and writes plain lines otherwise.
// Colour needs a terminal and an unset NO_COLOR.
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

// DroppedLines is the line that stands in the progress where a terminal or a
// pipe did not take some; a lossy.Writer takes it as its notice.
func DroppedLines(lines int) []byte {
	return fmt.Appendf(nil, "\r[%d lines are missing here: this output was not read for a while; trainctl logs latest shows the ranks' lines]\n", lines)
}

// terminalOf tells whether w is one and how to ask for its width.
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

// Emit takes an event into account and shows what is due. Errors of the
// terminal are ignored: there is nobody left to tell.
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

// Write puts whole lines of others, such as the output of ranks, above the
// block, which the next event draws again. Every mode shows them.
func (p *Progress) Write(lines []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
	if e := p.erase(); e != "" {
		p.write(e)
	}
	return p.w.Write(lines)
}

// troubled tells what any rank may say, and several in the same words.
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

// draw renews the block when it is time, and always when the work changes. A
// terminal that has yet to take what there was gets no more of it.
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

// block draws the block. The cursor goes back to its first character if it is
// to be drawn again, so that erasing it is clearing what is behind the cursor,
// however the terminal has wrapped it meanwhile: nothing above is ever touched.
func (p *Progress) block(again bool) {
	lines := p.state.block(p.width() - 1)
	if len(lines) == 0 {
		return
	}
	out := p.erase()
	for i, l := range lines {
		if i > 0 {
			out += "\n"
		}
		out += printable(l)
	}
	if !again {
		p.write(out + "\n")
		return
	}
	out += "\r"
	if up := len(lines) - 1; up > 0 {
		out += fmt.Sprintf("\x1b[%dA", up)
	}
	p.drawn = true
	p.write(out)
}

// erase gives the code that removes the block: clear to the end of the screen.
func (p *Progress) erase() string {
	if !p.drawn {
		return ""
	}
	p.drawn = false
	return "\r\x1b[J"
}

func (p *Progress) write(s string) { _, _ = io.WriteString(p.w, s) }

// watchTerminal draws the block anew when the terminal has another width, or is
// ours again after a stop, and takes it away before Ctrl-Z stops us, so that the
// shell's prompt has a line of its own.
func (p *Progress) watchTerminal() {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGWINCH, syscall.SIGCONT)
	if !signal.Ignored(syscall.SIGTSTP) { // as it is where no shell has jobs
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

// drained is how long a stop waits for the terminal to take what there is.
const drained = 300 * time.Millisecond

// printable takes from text of plugins and peers what could steer the terminal.
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

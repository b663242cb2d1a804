package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// terminal gives a run a terminal of so many columns as standard error, and the
// end of it at which a person sits.
func terminal(t *testing.T, r *proc, columns uint16) *os.File {
	t.Helper()
	person, screen, err := pty.Open()
	must(t, err)
	must(t, pty.Setsize(person, &pty.Winsize{Rows: 24, Cols: columns}))
	t.Cleanup(func() { person.Close(); screen.Close() })
	r.cmd.Stderr = screen
	r.cmd.Env = append(r.cmd.Env, "TERM=xterm", "CI=", "LC_ALL=C.UTF-8")
	return person
}

// steps counts the steps that rank 0 of the n-th run has written.
func (p *place) steps(n int) int {
	b, _ := os.ReadFile(filepath.Join(p.runDir(n), "events.jsonl"))
	return bytes.Count(b, []byte(`"event":"step"`))
}

// more waits until the n-th run has made that many more steps.
func (p *place) more(t *testing.T, n, steps int) {
	t.Helper()
	want := p.steps(n) + steps
	eventually(t, "more steps", func() bool { return p.steps(n) >= want })
}

// A terminal that takes nothing (Ctrl-S, a stalled ssh) and a reader of events
// that does not read hold up neither training nor signals.
func TestUnreadOutputHoldsUpNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	args := append([]string{"run", p.config, "--events", "json", "--resume", "auto"}, endless("checkpoint.every=\"1000000 steps\"")...)
	r := p.command(args...)
	terminal(t, r, 80) // nobody reads
	unread, out, err := os.Pipe()
	must(t, err)
	defer unread.Close()
	r.cmd.Stdout = out
	r.start(t)
	must(t, out.Close())
	p.trained(t, r, 1, 1)
	p.more(t, 1, 5000) // more than terminal and pipes hold
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	r.wait(t).expect(t, 75)
}

// A launcher that was stopped for longer than any timeout of the ranks goes on
// as if nothing had been, and so do they.
func TestStoppedLauncherGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t, `checkpoint.every="1000000 steps"`, `backend.timeout="2s"`)
	kill(t, r.cmd.Process.Pid, syscall.SIGSTOP)
	p.more(t, 1, 5000) // more than the pipe to the launcher holds
	time0 := p.steps(1)
	kill(t, r.cmd.Process.Pid, syscall.SIGCONT)
	eventually(t, "the launcher to show newer steps", func() bool { return p.steps(1) > time0+100 })
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	res := r.wait(t).expect(t, 75)
	if strings.Contains(res.stderr, "FAILED") {
		t.Errorf("a rank is blamed:\n%s", res.stderr)
	}
}

// A healthy run shows its progress to who follows its log.
func TestLogsFollowShowsProgress(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start(t, append([]string{"run", p.config, "--progress", "none"}, endless("train.log_freq=10")...)...)
	p.trained(t, r, 1, 1)
	logs := p.start(t, "logs", "job", "--follow")
	eventually(t, "progress in the followed log", func() bool {
		s := logs.stdout.String()
		return strings.Contains(s, "[rank 0] epoch ") && strings.Contains(s, "  step 30/") && strings.Contains(s, "  loss ")
	})
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	r.wait(t).expect(t, 143)
	logs.wait(t).expect(t, 0)
}

// tty reads what a terminal of a run shows from now on.
type tty struct {
	person *os.File
	mu     sync.Mutex
	seen   []byte
}

func watchTerminal(person *os.File) *tty {
	w := &tty{person: person}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			w.mu.Lock()
			w.seen = append(w.seen, b[:n]...)
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

// since gives what came after the first n bytes, and how many there are.
func (w *tty) since(n int) (string, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.seen[n:]), len(w.seen)
}

// blockLine finds the line of a block that is drawn after n bytes: what is
// between clearing the screen and the end of the line.
var blockLine = regexp.MustCompile(`\x1b\[J([^\r\n]*eta [^\r\n]*)\r\n`)

// The block fits the terminal at every width, also one that it is given while
// the run goes on and no step ends, and the same program is plain where it must be.
func TestBlockOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.command(append([]string{"run", p.config}, endless()...)...)
	person := terminal(t, r, 200)
	screen := watchTerminal(person)
	r.start(t)
	p.trained(t, r, 1, 3)
	for _, columns := range []int{200, 80, 60, 40} {
		_, mark := screen.since(0)
		must(t, pty.Setsize(person, &pty.Winsize{Rows: 24, Cols: uint16(columns)}))
		kill(t, r.cmd.Process.Pid, syscall.SIGWINCH) // which a terminal sends to its session; the test has another one
		eventually(t, fmt.Sprintf("a block of %d columns", columns), func() bool {
			text, _ := screen.since(mark)
			all := blockLine.FindAllStringSubmatch(text, -1)
			if len(all) < 3 { // the first may be of before
				return false
			}
			line := all[2][1]
			n := utf8.RuneCountInString(line)
			return n < columns && strings.Contains(line, "eta ") && (columns < 200 || strings.Contains(line, " lr "))
		})
	}
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	r.wait(t).expect(t, 143)
}

// Ctrl-Z leaves the shell a clean line: the block is cleared before the launcher
// stops, and drawn again after fg.
func TestStopClearsTheBlock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.command(append([]string{"run", p.config}, endless()...)...)
	person := terminal(t, r, 80)
	screen := watchTerminal(person)
	r.start(t)
	p.trained(t, r, 1, 3)
	pid := r.cmd.Process.Pid
	eventually(t, "a block", func() bool { text, _ := screen.since(0); return blockLine.MatchString(text) })
	kill(t, pid, syscall.SIGTSTP)
	eventually(t, "the launcher to stop", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(b), ") T ")
	})
	eventually(t, "the block to be cleared", func() bool {
		text, _ := screen.since(0)
		return strings.HasSuffix(text, "\r\x1b[J")
	})
	_, mark := screen.since(0)
	kill(t, pid, syscall.SIGCONT)
	eventually(t, "the block again", func() bool { text, _ := screen.since(mark); return strings.Contains(text, "eta ") })
	kill(t, pid, syscall.SIGTERM)
	r.wait(t).expect(t, 143)
}

// SIGUSR1 saves and the run goes on; with launch.requeue it saves and ends with
// the code that batch systems requeue for.
func TestSaveSignal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t, `checkpoint.every="1000000 steps"`)
	kill(t, r.cmd.Process.Pid, syscall.SIGUSR1)
	eventually(t, "a checkpoint", func() bool {
		all, _ := filepath.Glob(filepath.Join(p.runDir(1), "checkpoints", "*", "manifest.json"))
		return len(all) > 0
	})
	p.more(t, 1, 10)
	kill(t, p.worker(t, 1).pid, syscall.SIGUSR1) // as srun sends it to the ranks
	eventually(t, "another checkpoint", func() bool {
		b, _ := os.ReadFile(filepath.Join(p.runDir(1), "events.jsonl"))
		return bytes.Count(b, []byte(`"event":"checkpoint_saved"`)) >= 2
	})
	p.more(t, 1, 10)
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	r.wait(t).expect(t, 75).says(t, "the ranks save a checkpoint after the current step and continue")

	again := p.start(t, append([]string{"run", p.config}, endless(`checkpoint.every="1000000 steps"`, "launch.requeue=true")...)...)
	p.trained(t, again, 2, 3)
	kill(t, again.cmd.Process.Pid, syscall.SIGUSR1)
	again.wait(t).expect(t, 75).says(t, "continue with --resume auto")
}

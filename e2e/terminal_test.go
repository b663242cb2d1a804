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

	"github.com/trainctl/trainctl/e2e/rig"
)

// terminal gives a run a terminal of so many columns as standard error, and the
// end of it at which a person sits.
func terminal(t *testing.T, r *rig.Proc, columns uint16) *os.File {
	t.Helper()
	person, screen, err := pty.Open()
	rig.Must(t, err)
	rig.Must(t, pty.Setsize(person, &pty.Winsize{Rows: 24, Cols: columns}))
	t.Cleanup(func() { person.Close(); screen.Close() })
	r.Cmd.Stderr = screen
	r.Cmd.Env = append(r.Cmd.Env, "TERM=xterm", "CI=", "LC_ALL=C.UTF-8")
	return person
}

// A terminal that takes nothing (Ctrl-S, a stalled ssh) and a reader of events
// that does not read hold up neither training nor signals.
func TestUnreadOutputHoldsUpNothing(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := append([]string{"run", p.Config, "--events", "json", "--resume", "auto"}, rig.Endless("checkpoint.every=\"1000000 steps\"")...)
	r := p.Command(args...)
	terminal(t, r, 80) // without a reader
	unread, out, err := os.Pipe()
	rig.Must(t, err)
	defer unread.Close()
	r.Cmd.Stdout = out
	r.Start(t)
	rig.Must(t, out.Close())
	p.WaitForSteps(t, r, 1, 1)
	p.WaitForMoreSteps(t, 1, 5000) // more than terminal and pipes hold
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 75)
}

// A launcher that was stopped for longer than any timeout of the ranks continues
// as if nothing had been, and so do they.
func TestStoppedLauncherGoesOn(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t, `checkpoint.every="1000000 steps"`, `backend.timeout="2s"`)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGSTOP)
	p.WaitForMoreSteps(t, 1, 5000) // more than the pipe to the launcher holds
	time0 := p.StepsDone(1)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGCONT)
	rig.Eventually(t, "the launcher to show newer steps", func() bool { return p.StepsDone(1) > time0+100 })
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	res := r.Wait(t).Expect(t, 75)
	if strings.Contains(res.Stderr, "FAILED") {
		t.Errorf("a rank is blamed:\n%s", res.Stderr)
	}
}

// A normal run shows its progress in its log.
func TestLogsFollowShowsProgress(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.Start(t, append([]string{"run", p.Config, "--progress", "none"}, rig.Endless("train.log_freq=10")...)...)
	p.WaitForSteps(t, r, 1, 1)
	logs := p.Start(t, "logs", "job", "--follow")
	rig.Eventually(t, "progress in the followed log", func() bool {
		s := logs.Stdout.String()
		return strings.Contains(s, "[rank 0] epoch ") && strings.Contains(s, "  step 30/") && strings.Contains(s, "  loss ")
	})
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 143)
	logs.Wait(t).Expect(t, 0)
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

// onTerminal starts an endless run on a terminal and waits until it trains. It also
// returns the end of the terminal that a person has, and what is shown there.
func onTerminal(t *testing.T, columns uint16) (*rig.Proc, *os.File, *tty) {
	t.Helper()
	p := rig.NewPlace(t)
	r := p.Command(append([]string{"run", p.Config}, rig.Endless()...)...)
	person := terminal(t, r, columns)
	screen := watchTerminal(person)
	r.Start(t)
	p.WaitForSteps(t, r, 1, 3)
	return r, person, screen
}

// The block fits the terminal at every width, also one that it is given while
// the run continues and no step ends, and the same program is plain where it must be.
func TestBlockOnATerminal(t *testing.T) {
	t.Parallel()
	r, person, screen := onTerminal(t, 200)
	for _, columns := range []int{200, 80, 60, 40} {
		_, mark := screen.since(0)
		rig.Must(t, pty.Setsize(person, &pty.Winsize{Rows: 24, Cols: uint16(columns)}))
		rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGWINCH) // which a terminal sends to its session; the test has another one
		rig.Eventually(t, fmt.Sprintf("a block of %d columns", columns), func() bool {
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
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 143)
}

// Ctrl-Z leaves the shell a clean line: the block is cleared before the launcher
// stops, and drawn again after fg.
func TestStopClearsTheBlock(t *testing.T) {
	t.Parallel()
	r, _, screen := onTerminal(t, 80)
	pid := r.Cmd.Process.Pid
	rig.Eventually(t, "a block", func() bool { text, _ := screen.since(0); return blockLine.MatchString(text) })
	rig.Signal(t, pid, syscall.SIGTSTP)
	rig.Eventually(t, "the launcher to stop", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(b), ") T ")
	})
	rig.Eventually(t, "the block to be cleared", func() bool {
		text, _ := screen.since(0)
		return strings.HasSuffix(text, "\r\x1b[J")
	})
	_, mark := screen.since(0)
	rig.Signal(t, pid, syscall.SIGCONT)
	rig.Eventually(t, "the block again", func() bool { text, _ := screen.since(mark); return strings.Contains(text, "eta ") })
	rig.Signal(t, pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 143)
}

// SIGUSR1 saves and the run continues; with launch.requeue it saves and ends with
// the code that batch systems requeue for.
func TestSaveSignal(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t, `checkpoint.every="1000000 steps"`)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGUSR1)
	rig.Eventually(t, "a checkpoint", func() bool {
		all, _ := filepath.Glob(filepath.Join(p.RunDir(1), "checkpoints", "*", "manifest.json"))
		return len(all) > 0
	})
	p.WaitForMoreSteps(t, 1, 10)
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGUSR1) // as srun sends it to the ranks
	rig.Eventually(t, "another checkpoint", func() bool {
		b, _ := os.ReadFile(filepath.Join(p.RunDir(1), "events.jsonl"))
		return bytes.Count(b, []byte(`"event":"checkpoint_saved"`)) >= 2
	})
	p.WaitForMoreSteps(t, 1, 10)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 75).Prints(t, "the ranks save a checkpoint after the current step and continue")

	again := p.Start(t, append([]string{"run", p.Config}, rig.Endless(`checkpoint.every="1000000 steps"`, "launch.requeue=true")...)...)
	p.WaitForSteps(t, again, 2, 3)
	rig.Signal(t, again.Cmd.Process.Pid, syscall.SIGUSR1)
	again.Wait(t).Expect(t, 75).Prints(t, "continue with --resume auto")
}

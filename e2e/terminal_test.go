package e2e

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

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

// watched reads what a terminal shows.
func watched(person io.Reader) (text func() string) {
	var mu sync.Mutex
	var seen bytes.Buffer
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			mu.Lock()
			seen.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return seen.String()
	}
}

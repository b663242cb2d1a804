package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one process of a place, as /proc shows it.
type process struct {
	pid, parent int
	args        []string
	env         []string
}

func (p process) isWorker() bool { return len(p.args) > 1 && p.args[1] == "worker" }

// plugin is the kind that the process serves, "" if none.
func (p process) plugin() string {
	if len(p.args) > 2 && p.args[1] == "plugin" {
		return p.args[2]
	}
	return ""
}

func (p process) has(env string) bool { return slices.Contains(p.env, env) }

func (p process) rank() int {
	for _, e := range p.env {
		if v, ok := strings.CutPrefix(e, "RANK="); ok {
			n, err := strconv.Atoi(v)
			if err == nil {
				return n
			}
		}
	}
	return -1
}

// processes are the living processes that run the place's executable. Zombies
// have none.
func (p *place) processes() (found []process) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || strings.TrimSuffix(exe, " (deleted)") != p.exe {
			continue
		}
		dir := filepath.Dir(link)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		found = append(found, process{pid: pid, parent: parentOf(dir), args: fields(dir + "/cmdline"), env: fields(dir + "/environ")})
	}
	return found
}

func parentOf(dir string) int {
	stat, _ := os.ReadFile(dir + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	if f := strings.Fields(rest); len(f) > 1 {
		n, _ := strconv.Atoi(f[1])
		return n
	}
	return 0
}

func fields(path string) []string {
	b, _ := os.ReadFile(path)
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// worker waits for the process of a rank.
func (p *place) worker(t tester, rank int) process {
	t.Helper()
	return p.find(t, "a worker of rank "+strconv.Itoa(rank), func(q process) bool { return q.isWorker() && q.rank() == rank })
}

// pluginOf waits for the plugin of a kind that a rank has started.
func (p *place) pluginOf(t tester, kind string, rank int) process {
	t.Helper()
	w := p.worker(t, rank)
	return p.find(t, "a "+kind+" plugin", func(q process) bool { return q.plugin() == kind && q.parent == w.pid })
}

func (p *place) find(t tester, what string, match func(process) bool) (found process) {
	t.Helper()
	eventually(t, what, func() bool {
		all := p.processes()
		i := slices.IndexFunc(all, match)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// interruptAgain presses Ctrl-C until the program ends: signals that come at once
// are one request.
func (r *proc) interruptAgain(t tester) result {
	t.Helper()
	over := make(chan struct{})
	var pressing sync.WaitGroup
	pressing.Go(func() {
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-over:
				return
			case <-again.C:
				_ = r.cmd.Process.Signal(syscall.SIGINT)
			}
		}
	})
	defer pressing.Wait()
	defer close(over)
	return r.wait(t)
}

// eventually polls until a condition holds.
func eventually(t tester, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	for !holds() {
		if t.Context().Err() != nil || time.Since(began) > patience {
			t.Fatalf("waited %v in vain for %s", time.Since(began).Round(time.Millisecond), what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// trained waits until r, the n-th run of the place, has made that many steps.
func (p *place) trained(t tester, r *proc, n, steps int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error:\n%s", r.stderr.String())
		}
	})
	eventually(t, "steps in events.jsonl", func() bool {
		b, _ := os.ReadFile(filepath.Join(p.runDir(n), "events.jsonl"))
		return strings.Count(string(b), `"event":"step"`) >= steps
	})
}

// checkClean asserts that nothing is left of the place's runs: no process, no
// temporary file or socket. A process may take a moment to be gone.
func (p *place) checkClean(t tester) {
	t.Helper()
	p.checkProcesses(t)
	p.checkFiles(t)
}

func (p *place) checkProcesses(t tester) {
	t.Helper()
	var left []process
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if left = p.processes(); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, q := range left {
		t.Errorf("process %d is left: %v", q.pid, q.args)
		if q, err := os.FindProcess(q.pid); err == nil {
			_ = q.Kill()
		}
	}
}

func (p *place) checkFiles(t tester) {
	t.Helper()
	files, err := os.ReadDir(p.tmp)
	must(t, err)
	for _, f := range files {
		t.Errorf("a temporary file is left: %s", f.Name())
	}
	shared, _ := filepath.Glob("/dev/shm/*trainctl*")
	for _, f := range shared {
		t.Errorf("a shared-memory file is left: %s", f)
	}
}

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Process is one process of a place, as /proc shows it.
type Process struct {
	PID, parent int
	Args        []string
	Env         []string
}

func (p Process) IsWorker() bool { return len(p.Args) > 1 && p.Args[1] == "worker" }

// Plugin returns the kind of plugin that the process serves, "" for none.
func (p Process) Plugin() string {
	for _, e := range p.Env {
		if kind, ok := strings.CutPrefix(e, pb.EnvKind+"="); ok && !p.IsWorker() {
			return kind
		}
	}
	return ""
}

func (p Process) HasEnv(env string) bool { return slices.Contains(p.Env, env) }

func (p Process) Rank() int {
	for _, e := range p.Env {
		if v, ok := strings.CutPrefix(e, "RANK="); ok {
			n, err := strconv.Atoi(v)
			if err == nil {
				return n
			}
		}
	}
	return -1
}

// Processes returns the processes that run an executable in the place's directory:
// trainctl, or a plugin given by path. Zombies do not count.
func (p *Place) Processes() (found []Process) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || filepath.Dir(exe) != filepath.Dir(p.Exe) {
			continue
		}
		dir := filepath.Dir(link)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		found = append(found, Process{PID: pid, parent: parentOf(dir), Args: NulFields(dir + "/cmdline"), Env: NulFields(dir + "/environ")})
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

func NulFields(path string) []string {
	b, _ := os.ReadFile(path)
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Worker waits for the process of a rank.
func (p *Place) Worker(t TB, rank int) Process {
	t.Helper()
	return p.Find(t, "a worker of rank "+strconv.Itoa(rank), func(q Process) bool { return q.IsWorker() && q.Rank() == rank })
}

// PluginOf waits for the plugin of a kind that a rank has started.
func (p *Place) PluginOf(t TB, kind string, rank int) Process {
	t.Helper()
	w := p.Worker(t, rank)
	return p.Find(t, "a "+kind+" plugin", func(q Process) bool { return q.Plugin() == kind && q.parent == w.PID })
}

func (p *Place) Find(t TB, what string, match func(Process) bool) (found Process) {
	t.Helper()
	Eventually(t, what, func() bool {
		all := p.Processes()
		i := slices.IndexFunc(all, match)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// InterruptUntilExit sends SIGINT until the program ends: signals that arrive together
// count as one.
func (r *Proc) InterruptUntilExit(t TB) Result {
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
				_ = r.Cmd.Process.Signal(syscall.SIGINT)
			}
		}
	})
	defer pressing.Wait()
	defer close(over)
	return r.Wait(t)
}

// Eventually polls until a condition holds.
func Eventually(t TB, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	for !holds() {
		if t.Context().Err() != nil || time.Since(began) > Timeout {
			t.Fatalf("waited %v for %s", time.Since(began).Round(time.Millisecond), what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// WaitForSteps waits until r, the n-th run of the place, has made that many steps.
func (p *Place) WaitForSteps(t TB, r *Proc, n, steps int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error:\n%s", r.Stderr.String())
		}
	})
	Eventually(t, "steps in events.jsonl", func() bool { return p.StepsDone(n) >= steps })
}

// WaitForMoreSteps waits until the n-th run has made that many more steps.
func (p *Place) WaitForMoreSteps(t TB, n, steps int) {
	t.Helper()
	want := p.StepsDone(n) + steps
	Eventually(t, "more steps", func() bool { return p.StepsDone(n) >= want })
}

// StepsDone counts the steps that rank 0 of the n-th run has written.
func (p *Place) StepsDone(n int) int {
	return strings.Count(ReadFile(filepath.Join(p.RunDir(n), "events.jsonl")), `"event":"step"`)
}

// checkClean asserts that the place's runs left nothing: no process, no
// temporary file or socket. A process may take a moment to end.
func (p *Place) checkClean(t TB) {
	t.Helper()
	p.CheckProcesses(t)
	p.CheckFiles(t)
}

func (p *Place) CheckProcesses(t TB) {
	t.Helper()
	var left []Process
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if left = p.Processes(); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, q := range left {
		t.Errorf("process %d is left: %v", q.PID, q.Args)
		if q, err := os.FindProcess(q.PID); err == nil {
			_ = q.Kill()
		}
	}
}

func (p *Place) CheckFiles(t TB) {
	t.Helper()
	files, err := os.ReadDir(p.Tmp)
	Must(t, err)
	for _, f := range files {
		t.Errorf("a temporary file is left: %s", f.Name())
	}
	shared, _ := filepath.Glob("/dev/shm/*trainctl*")
	for _, f := range shared {
		t.Errorf("a shared-memory file is left: %s", f)
	}
}

// Descendants returns the processes of the place below one of them.
func (p *Place) Descendants(pid int) (pids []int) {
	all := p.Processes()
	in := map[int]bool{pid: true}
	for range all {
		for _, q := range all {
			if in[q.parent] {
				in[q.PID] = true
			}
		}
	}
	for _, q := range all {
		if in[q.PID] && q.PID != pid {
			pids = append(pids, q.PID)
		}
	}
	return pids
}

// AnyAlive reports whether one of the processes has not ended.
func AnyAlive(pids []int) bool {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, ok := strings.Cut(string(stat), ") "); err == nil && ok && !strings.HasPrefix(rest, "Z") {
			return true
		}
	}
	return false
}

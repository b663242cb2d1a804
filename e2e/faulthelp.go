//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/report/event"
)

// lengthy is a run of 800 steps that saves every 16 of them, with batch norm,
// dropout and momentum. It takes some seconds.
func lengthy(more ...string) []string {
	return append([]string{"run", "job.toml"}, set(append([]string{
		"train.epochs=200", "train.eval_every=0", "train.log_freq=1000000", `checkpoint.every="16 steps"`, "checkpoint.keep=2", "optimizer.momentum=0.9",
		"dataset.options.shape=[1, 4, 4]",
		`model.layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="flatten"}, {type="dropout"}, {type="linear", out_features=4}]`,
		`backend.timeout="4s"`, `dataset.timeout="4s"`, `backend.init_timeout="20s"`,
	}, more...)...)...)
}

// whole runs a command line undisturbed and gives its run's summary.
func (p *place) whole(t tester, n int, args ...string) event.Summary {
	t.Helper()
	p.trainctl(t, args...).expect(t, 0)
	return p.summary(t, n)
}

// since is the time from an instant to the end of a run.
func (r result) since(r0 *proc, at time.Time) time.Duration { return r0.began.Add(r.took).Sub(at) }

// soon asserts a bound on how long something took, and notes it.
func (t *trial) soon(what string, took, limit time.Duration) {
	if took > limit {
		t.Errorf("%s after %v, promised within %v", what, took.Round(time.Millisecond), limit)
	}
	t.saw("%s after %.2f s", what, took.Seconds())
}

// ended notes an exit code and asserts it.
func (t *trial) ended(r result, code int) result {
	r.expect(t, code)
	t.saw("exit %d", code)
	return r
}

// matches asserts that standard error has a match of each pattern.
func (r result) matches(t tester, patterns ...string) result {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(r.stderr) {
			t.Errorf("standard error has no match of %q:\n%s", p, r.stderr)
		}
	}
	return r
}

// eventsOf are the records of a kind in the n-th run's events.jsonl.
func eventsOf[E event.Event](t tester, p *place, n int) (found []E) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.runDir(n), "events.jsonl"))
	must(t, err)
	for line := range bytes.Lines(b) {
		r, err := event.Decode(line)
		if err != nil {
			continue // the reader is ahead of the writer
		}
		if e, ok := r.Event.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// checkpoints is the directory of the n-th run's checkpoints.
func (p *place) checkpoints(n int) string { return filepath.Join(p.runDir(n), "checkpoints") }

// newest is the step of the newest checkpoint in a directory, -1 without one.
func newest(dir string) int {
	step := -1
	names, _ := filepath.Glob(filepath.Join(dir, "step-*"))
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(name), "step-%d", &n); err == nil && !strings.Contains(name, ".") {
			step = max(step, n)
		}
	}
	return step
}

// resumed is the step from which the n-th run went on.
func (p *place) resumed(t tester, n int) int {
	t.Helper()
	loaded := eventsOf[*event.CheckpointLoaded](t, p, n)
	if len(loaded) == 0 {
		t.Fatalf("run %d loaded no checkpoint", n)
	}
	return loaded[0].Step
}

// watch calls f for every name that is made or moved into a directory, until f
// says that it has seen enough.
func watch(t tester, dir string, f func(name string, moved bool) (enough bool)) {
	t.Helper()
	eventually(t, dir, func() bool { _, err := os.Stat(dir); return err == nil })
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	file := os.NewFile(uintptr(fd), "inotify")
	defer file.Close()
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_CREATE)
	must(t, err)
	if deadline, ok := t.Context().Deadline(); ok {
		must(t, file.SetReadDeadline(deadline))
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		must(t, err)
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			mask := uint32(rest[4]) | uint32(rest[5])<<8 | uint32(rest[6])<<16 | uint32(rest[7])<<24
			size := int(rest[12]) | int(rest[13])<<8
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00"))
			if f(name, mask&unix.IN_MOVED_TO != 0) {
				return
			}
			rest = rest[unix.SizeofInotifyEvent+size:]
		}
	}
}

// matching are the paths below a directory that match a pattern.
func matching(dir, pattern string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	return paths
}

// stepEvent is an optimizer step in events.jsonl.
type stepEvent = *event.StepDone

// latest is what the file of that name says in the n-th run's checkpoints.
func (p *place) latest(t tester, n int) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.checkpoints(n), "latest"))
	must(t, err)
	return strings.TrimSpace(string(b))
}

// asWriter starts a worker of one rank that writes into the n-th run's directory.
func (p *place) asWriter(t tester, n int) *proc {
	t.Helper()
	r := p.command("worker", p.config)
	r.cmd.Env = append(r.cmd.Env, "TRAINCTL_RUN_DIR="+p.runDir(n), "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
		"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", freePort(t)))
	return r.start(t)
}

// below are the processes of the place that descend from one of them.
func (p *place) below(pid int) (pids []int) {
	all := p.processes()
	in := map[int]bool{pid: true}
	for range all {
		for _, q := range all {
			if in[q.parent] {
				in[q.pid] = true
			}
		}
	}
	for _, q := range all {
		if in[q.pid] && q.pid != pid {
			pids = append(pids, q.pid)
		}
	}
	return pids
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, ok := strings.Cut(string(stat), ") "); err == nil && ok && !strings.HasPrefix(rest, "Z") {
			return true
		}
	}
	return false
}

// faulty puts the plugin that misbehaves into the place.
func (p *place) faulty(t tester) {
	t.Helper()
	p.provide(t, "e2e/testdata/faulty")
}

// withFault are the settings that give a kind of plugin a fault.
func (p *place) withFault(kind, what string) []string {
	return endless(kind+`.plugin="./faulty"`, fmt.Sprintf("%s.options.fault=%q", kind, what))
}

// read is the content of a file, "" if it cannot be read.
func read(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// blockSays asserts that the one failure block holds all of the texts.
func (r result) blockSays(t tester, texts ...string) result {
	t.Helper()
	_, block, ok := strings.Cut(r.stderr, " FAILED")
	if !ok || strings.Contains(block, " FAILED") {
		t.Errorf("there is not one failure block:\n%s", r.stderr)
	}
	for _, s := range texts {
		if !strings.Contains(block, s) {
			t.Errorf("the failure block does not say %q:\n%s", s, r.stderr)
		}
	}
	return r
}

// hasLandlock is the need of the sandbox.
func hasLandlock() string {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		return "this kernel has no Landlock: " + errno.Error()
	}
	return ""
}

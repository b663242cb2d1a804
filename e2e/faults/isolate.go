//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/e2e/rig"
)

// isolatedKey marks the process that runs the cases.
const isolatedKey = "TRAINCTL_FAULTS_ISOLATED"

func isolated() bool { return os.Getenv(isolatedKey) != "" }

// isolate starts the command again in a mount namespace of its own, so that
// no mount survives it however it ends.
func isolate(stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(stderr, "faults: %v\n", err)
		return 2
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolatedKey+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	runtime.LockOSThread() // whose end would be the child's
	stops := make(chan os.Signal, 4)
	signal.Notify(stops, syscall.SIGINT, syscall.SIGTERM)
	if err = cmd.Start(); err == nil {
		go func() {
			for s := range stops {
				_ = cmd.Process.Signal(s)
			}
		}()
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(stderr, "faults: %v\n", err)
		return 2
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1
}

// prepareFaults makes this process the one to which orphans go, furnishes the
// namespace and builds what the cases run, unless they run a given program.
func prepareFaults(dir, program string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	if os.Getuid() == 0 {
		for _, at := range []string{"/dev/shm", "/run/netns"} {
			if err := errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, "mode=1777")); err != nil {
				return fmt.Errorf("a private %s: %w", at, err)
			}
		}
	}
	return rig.Prepare(dir, program)
}

// inventory is what this process has on the machine, in words.
type inventory struct {
	dir  string
	have map[string]bool
}

func takeInventory(dir string) inventory {
	v := inventory{dir: dir, have: map[string]bool{}}
	lists := [][]string{v.children(), v.mounts(), v.loops(), named("cgroup", "/sys/fs/cgroup/*/"+cgroupName()+"*")}
	if isolated() && os.Getuid() == 0 { // elsewhere other programs leave theirs
		lists = append(lists, named("network namespace", "/run/netns/*"), named("shared memory", "/dev/shm/*"))
	}
	for _, list := range lists {
		for _, what := range list {
			v.have[what] = true
		}
	}
	return v
}

// compare fails the case for everything that was not there before it. What
// ends by itself has that much time.
func (v inventory) compare(t *trial, patience time.Duration) {
	var left []string
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		reap()
		left = nil
		for what := range maps.Keys(takeInventory(v.dir).have) {
			if !v.have[what] {
				left = append(left, what)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	slices.Sort(left)
	for _, what := range left {
		t.Errorf("left behind: %s", what)
	}
	v.killChildren()
}

// children are the living processes below this one, adopted ones included.
func (v inventory) children() (found []string) {
	for _, pid := range descendants() {
		found = append(found, fmt.Sprintf("process %d (%s)", pid, strings.Join(rig.NulFields(fmt.Sprintf("/proc/%d/cmdline", pid)), " ")))
	}
	return found
}

// killChildren keeps one case from disturbing the next.
func (v inventory) killChildren() {
	for _, pid := range descendants() {
		if !v.have[fmt.Sprintf("process %d (%s)", pid, strings.Join(rig.NulFields(fmt.Sprintf("/proc/%d/cmdline", pid)), " "))] {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	reap()
}

// descendants are the pids of living processes below this one.
func descendants() (pids []int) {
	parents := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, _ := os.ReadFile(dir + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[0] != "Z" && f[0] != "X" {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			parents[pid], _ = strconv.Atoi(f[1])
		}
	}
	self := os.Getpid()
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == self {
				pids = append(pids, pid)
				break
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// reap collects adopted children that have ended. There is no other wait for a child
// between two cases.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}

func (v inventory) mounts() (found []string) {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], v.dir+"/") {
			found = append(found, "mount "+f[4])
		}
	}
	return found
}

func (v inventory) loops() (found []string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if strings.HasPrefix(string(b), v.dir+"/") {
			found = append(found, "loop device on "+strings.TrimSpace(string(b)))
		}
	}
	return found
}

func named(what, pattern string) (found []string) {
	paths, _ := filepath.Glob(pattern)
	for _, p := range paths {
		found = append(found, what+" "+p)
	}
	return found
}

// cgroupName begins the names of this process's cgroups.
func cgroupName() string { return fmt.Sprintf("trainctl-faults-%d", os.Getpid()) }

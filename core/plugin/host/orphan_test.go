package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
)

// beHost is a process that starts one plugin of each kind, prints their
// numbers and waits to be killed.
func beHost() {
	h := host.New(host.Options{Builtins: builtins})
	ctx := context.Background()
	b, err1 := h.StartBackend(ctx, "fake")
	d, err2 := h.StartDataset(ctx, "fake")
	p, err3 := h.StartPrecision(ctx, "fake")
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv("TEST_HOST") == "stopped" {
		_ = syscall.Kill(b.PID(), syscall.SIGSTOP)
		awaitStop(b.PID())
	}
	fmt.Println(b.PID(), d.PID(), p.PID())
	select {}
}

// awaitStop polls until a process is stopped, with all its threads. SIGSTOP takes
// effect when each next runs, and a process that stops only after its host's
// death cannot be woken any more.
func awaitStop(pid int) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !stopped(pid); time.Sleep(time.Millisecond) {
	}
}

// stopped is true where /proc is absent, as the state is unknown there.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is sound
	for _, t := range threads {
		stat, err := os.ReadFile(t)
		if _, after, ok := strings.Cut(string(stat), ") "); err == nil && ok && !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}

func TestNothingSurvivesTheHost(t *testing.T) {
	for _, mode := range []string{"running", "stopped"} {
		t.Run(mode, func(t *testing.T) {
			tmp := t.TempDir()
			exe, err := os.Executable()
			must(t, err)
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), "TEST_HOST="+mode, "TMPDIR="+tmp)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			must(t, err)
			var pids [3]int
			if _, err := fmt.Sscan(line, &pids[0], &pids[1], &pids[2]); err != nil {
				t.Fatal(line)
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait()
			for _, pid := range pids {
				awaitEnd(t, pid)
			}
			left, err := filepath.Glob(filepath.Join(tmp, "*"))
			must(t, err)
			if len(left) > 0 {
				t.Errorf("left behind: %s", strings.Join(left, ", "))
			}
		})
	}
}

// awaitEnd polls until a process that is not our child is gone or a zombie.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d survived its host", pid)
		}
	}
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

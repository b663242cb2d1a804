package sweep

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/launch"
)

// Process is a trial that runs.
type Process interface {
	PID() int
	Signal(os.Signal) error
	Wait() int // the exit code; negative: a signal ended it
}

// Start starts a trial, with variables besides those of this process. What it prints is appended to the file log.
type Start func(args, env []string, log string) (Process, error)

// Executable starts trials as processes of a trainctl. Each has a process group of its own, so that only
// the sweep signals it, and on Linux it is asked to save and end if the sweep is killed. The caller
// must stay on its thread while trials run: their parent is the thread.
func Executable(path string) Start {
	return func(args, env []string, log string) (Process, error) {
		out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, launch.ProcAttr(syscall.SIGTERM)
		defer out.Close()
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("cannot start %s: %w", path, usererr.Explained(err))
		}
		return process{cmd}, nil
	}
}

type process struct{ *exec.Cmd }

func (p process) PID() int { return p.Process.Pid }

func (p process) Signal(s os.Signal) error { return p.Process.Signal(s) }

func (p process) Wait() int {
	_ = p.Cmd.Wait() // the state says how it ended
	return p.ProcessState.ExitCode()
}

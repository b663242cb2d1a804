package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/trainctl/trainctl/core/base/pipe"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// process is a rank that is a process, with a process group of its own.
type process struct{ cmd *exec.Cmd }

// startProcess starts one rank as a process. It closes events, the end of the pipe that the rank
// writes to, which the process has then inherited.
func (l *launcher) startProcess(w *worker, env []string, key secret.Secret, events *os.File) error {
	c := l.o.Command(w.world)
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.SysProcAttr = c.Dir, ProcAttr(syscall.SIGKILL)

	out, outChild, err1 := w.pipe()
	errs, errsChild, err2 := w.pipe()
	keyChild, err3 := key.Pipe()
	storesChild, err4 := w.storesPipe(l.o.Etcd != nil)
	theirs := []*os.File{outChild, errsChild, events, keyChild, storesChild}
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("pipes of rank %d: %w", w.world.Rank, usererr.Explained(err))
	}
	cmd.Stdout, cmd.Stderr = outChild, errsChild
	fd := 3 + len(c.ExtraFiles)
	cmd.ExtraFiles = append(append(cmd.ExtraFiles, c.ExtraFiles...), l.lifeline, events, keyChild)
	cmd.Env = append(append(append(os.Environ(), env...), c.Env...),
		fmt.Sprintf("%s=%d", EnvLifelineFD, fd), fmt.Sprintf("%s=%d", EnvEventFD, fd+1), fmt.Sprintf("%s=%d", secret.EnvFD, fd+2))

	if storesChild != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, storesChild)
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", rank.EnvStoreFD, fd+3))
	}
	if err := l.spawner.start(cmd); err != nil {
		return fmt.Errorf("cannot start rank %d: %w", w.world.Rank, usererr.Explained(err))
	}
	w.body = &process{cmd}
	w.pumps.Go(func() { w.pumpLines(&pipe.Reader{File: out}) })
	w.pumps.Go(func() { w.pumpLines(&pipe.Reader{File: errs}) })
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// wait also kills what is left of the process group.
func (p *process) wait() (code int, sig syscall.Signal) {
	err := p.cmd.Wait()
	code = p.cmd.ProcessState.ExitCode()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		sig = ws.Signal()
	}
	if err != nil && code == 0 {
		code = ExitFailed // not a failure of the process, but its output may be incomplete
	}
	p.kill()
	ownChildren.forget(p.pid())
	return code, sig
}

// signal signals only the rank, which stops its own children.
func (p *process) signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// kill kills the process group.
func (p *process) kill() { syscall.Kill(-p.pid(), syscall.SIGKILL) }

func (p *process) usage() *os.ProcessState { return p.cmd.ProcessState }

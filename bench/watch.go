package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corebench "github.com/trainctl/trainctl/core/bench"
)

// between two looks at the memory of a job.
const between = 250 * time.Millisecond

// watch runs a program to its end and returns its standard output and the
// largest proportional set size seen of it and all its descendants, in bytes.
// When ctx ends, it and its descendants get SIGTERM, since PyTorch's ranks outlive the process that started them, and ten seconds.
func watch(ctx context.Context, program string, args, env []string) (stdout []byte, pss int64, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	look := time.NewTicker(between)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				err = fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, strings.TrimSpace(problems.String()))
			}
			return out.Bytes(), pss, err
		case <-look.C:
			pss = max(pss, corebench.PSS(cmd.Process.Pid))
		}
	}
}

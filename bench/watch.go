package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// between two looks at the memory of a job.
const between = 250 * time.Millisecond

// watch runs a program to its end and returns its standard output and the
// largest proportional set size seen of it and all its descendants, in bytes.
// When ctx ends, the program gets SIGTERM and ten seconds.
func watch(ctx context.Context, program string, args, env []string) (stdout []byte, pss int64, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
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
			pss = max(pss, pssOf(cmd.Process.Pid))
		}
	}
}

// pssOf adds up a process and its descendants; 0 where /proc does not say.
func pssOf(root int) (total int64) {
	children := childrenByParent()
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		total += field(fmt.Sprintf("/proc/%d/smaps_rollup", todo[0]), "Pss") << 10
		todo = append(todo, children[todo[0]]...)
	}
	return total
}

func childrenByParent() map[int][]int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		parent := int(field(f, "PPid"))
		children[parent] = append(children[parent], pid)
	}
	return children
}

// field is a number of a file of "Key: number unit" lines; 0 if there is none,
// or the process is gone.
func field(path, key string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && name == key {
			n, _ := strconv.ParseInt(strings.Fields(value + " 0")[0], 10, 64)
			return n
		}
	}
	return 0
}

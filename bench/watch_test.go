package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWatchEndsDescendants cancels a program whose child outlives it, as PyTorch's ranks do, unless it gets the signal, too.
func TestWatchEndsDescendants(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		const script = `exec 3>"$1"; (echo ready >&3; sleep 30; echo late >&3) & wait`
		_, _, err := watch(ctx, "sh", []string{"-c", script, "sh", pipe}, nil)
		done <- err
	}()
	from, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	lines := bufio.NewScanner(from)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("got %q", lines.Text())
	}
	cancel()
	if lines.Scan() {
		t.Errorf("the child went on: got %q", lines.Text())
	}
	if err := <-done; err == nil {
		t.Error("a program that was ended had no error")
	}
}

package usererr

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestShortage(t *testing.T) {
	for err, want := range map[syscall.Errno]string{
		syscall.EMFILE: "ulimit -n", syscall.EAGAIN: "ulimit -u", syscall.EFBIG: "ulimit -f", syscall.ENOSPC: "--run-dir", syscall.ENOMEM: "ulimit -v",
	} {
		text := fmt.Errorf("rank 1: %w", &os.PathError{Op: "open", Path: "x", Err: err}).Error()
		if got := Shortage(text); !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := Shortage("open x: no such file or directory"); got != "" {
		t.Error(got)
	}
}

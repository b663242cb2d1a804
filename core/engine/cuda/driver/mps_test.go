package driver

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe that a daemon left behind is not mistaken for a running daemon.
func TestStaleMPSPipe(t *testing.T) {
	dir := t.TempDir()
	getenv := func(string) string { return dir }
	if _, on := MPS(getenv); on || staleMPS(getenv) != "" {
		t.Error("an empty folder is taken for MPS")
	}
	control := filepath.Join(dir, "control")
	if err := syscall.Mkfifo(control, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, on := MPS(getenv); on || staleMPS(getenv) != dir {
		t.Error("a pipe without a reader is taken for MPS")
	}
	daemon, err := syscall.Open(control, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(daemon)
	if _, on := MPS(getenv); !on || staleMPS(getenv) != "" {
		t.Error("a daemon that listens is not seen")
	}
}

// The same where the daemon's end is a socket.
func TestStaleMPSSocket(t *testing.T) {
	dir := t.TempDir()
	getenv := func(string) string { return dir }
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "control")})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as when the daemon is killed
	if _, on := MPS(getenv); !on || staleMPS(getenv) != "" {
		t.Error("a daemon that listens is not seen")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, on := MPS(getenv); on || staleMPS(getenv) != dir {
		t.Error("a socket without a listener is taken for MPS")
	}
}

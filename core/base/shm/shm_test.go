package shm_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/shm"
)

func TestArenaIsSharedThroughADescriptor(t *testing.T) {
	a, b := socketPair(t)
	arena := newArena(t, 1<<16)
	if err := shm.SendFile(a, 42, arena.File()); err != nil {
		t.Fatal(err)
	}
	tag, f, err := shm.RecvFile(b)
	if err != nil || tag != 42 {
		t.Fatalf("RecvFile: tag %d, %v", tag, err)
	}
	other, err := shm.Map(f, arena.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.Bytes()[1<<16-1] = 7
	if arena.Bytes()[1<<16-1] != 7 {
		t.Error("the two mappings show different memory")
	}
	if flags, _ := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
		t.Error("a received descriptor would be inherited by every child")
	}
}

func TestRecvFileRefuses(t *testing.T) {
	a, b := socketPair(t)
	if _, err := a.Write(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shm.RecvFile(b); err == nil {
		t.Error("a message without a descriptor was accepted")
	}
	_ = b.SetReadDeadline(time.Now())
	if _, _, err := shm.RecvFile(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past the deadline: %v", err)
	}
	_ = b.SetReadDeadline(time.Time{})
	_ = a.Close()
	if _, _, err := shm.RecvFile(b); !errors.Is(err, io.EOF) {
		t.Errorf("after the peer's end: %v", err)
	}
}

func TestMapRefuses(t *testing.T) {
	arena := newArena(t, 1<<16)
	if _, err := shm.Map(dup(t, arena.File()), 1<<16+1); err == nil {
		t.Error("a mapping beyond the end was accepted")
	}
	if _, err := shm.Map(dup(t, arena.File()), 0); err == nil {
		t.Error("an empty mapping was accepted")
	}
	plain, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	_ = plain.Truncate(1 << 16)
	if _, err := shm.Map(plain, 1<<16); err == nil && shm.DefaultBell() == (shm.Bell{}) {
		t.Error("a file that can be truncated was accepted")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, size := range []int{0, -1} {
		if _, err := shm.New("x", size); err == nil {
			t.Errorf("size %d was accepted", size)
		}
	}
}

func newArena(t *testing.T, size int) *shm.Arena {
	t.Helper()
	a, err := shm.New("test", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Error(err)
		}
	})
	if slices.ContainsFunc(a.Bytes(), func(b byte) bool { return b != 0 }) {
		t.Error("a new arena is not zero")
	}
	return a
}

func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "dup")
}

func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "pair")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.(*net.UnixConn)
	}
	return conn(fds[0]), conn(fds[1])
}

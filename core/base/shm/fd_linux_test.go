//go:build !portable

package shm_test

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/shm"
)

// A rank without privileges waits while as many descriptors of its user are on their way as the kernel
// allows, which many ranks on one host reach.
func TestDescriptorsOnTheirWay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to send as a user that sends nothing else")
	}
	const limit, all, user = 128, 400, 61234
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}))
	t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
	a, b := socketPair(t)
	arena := newArena(t, 4096)
	sent, failed := make(chan struct{}, all), make(chan error, 1)
	go func() {
		defer a.CloseWrite()   // ends the receiver's wait if sending has failed
		runtime.LockOSThread() // until the goroutine ends: the thread, which has another user, ends with it
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); errno != 0 {
			failed <- errno
			return
		}
		for range all {
			if err := shm.SendFile(a, 1, arena.File()); err != nil {
				failed <- err
				return
			}
			sent <- struct{}{}
		}
	}()
	next := func() {
		select {
		case <-sent:
		case err := <-failed:
			t.Fatal(err)
		}
	}
	for range limit + 1 { // the next one does not fit
		next()
	}
	for range all {
		_, f, err := shm.RecvFile(b)
		must(t, err)
		must(t, f.Close())
	}
	for range all - limit - 1 {
		next()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

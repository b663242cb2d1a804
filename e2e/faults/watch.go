//go:build linux

package main

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/e2e/rig"
)

// watch calls f for every name that is made or moved into a directory, until f
// returns true.
func watch(t rig.TB, dir string, f func(name string, moved bool) (enough bool)) {
	t.Helper()
	rig.Eventually(t, dir, func() bool { _, err := os.Stat(dir); return err == nil })
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	rig.Must(t, err)
	file := os.NewFile(uintptr(fd), "inotify")
	defer file.Close()
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_CREATE)
	rig.Must(t, err)
	if deadline, ok := t.Context().Deadline(); ok {
		rig.Must(t, file.SetReadDeadline(deadline))
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		rig.Must(t, err)
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			mask := uint32(rest[4]) | uint32(rest[5])<<8 | uint32(rest[6])<<16 | uint32(rest[7])<<24
			size := int(rest[12]) | int(rest[13])<<8
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00"))
			if f(name, mask&unix.IN_MOVED_TO != 0) {
				return
			}
			rest = rest[unix.SizeofInotifyEvent+size:]
		}
	}
}

// hasLandlock is the need of the sandbox.
func hasLandlock() string {
	if err := sandbox.Supported(); err != nil {
		return err.Error()
	}
	return ""
}

//go:build !portable

package launch

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// children lists the child processes of this one, from /proc/<pid>/stat. The
// program name in it may contain any character, so the fields are counted from
// the last parenthesis: state, parent, group.
func children() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var found []int
	self, buf := []byte(strconv.Itoa(os.Getpid())), make([]byte, 1024) // the program name has at most 64 bytes
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat := readStat(name, buf) // nil if it has ended
		_, after, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		_, after, _ = bytes.Cut(after, []byte(" ")) // the state
		if parent, _, ok := bytes.Cut(after, []byte(" ")); ok && bytes.Equal(parent, self) {
			found = append(found, pid)
		}
	}
	return found
}

// readStat reads /proc/<pid>/stat into a buffer. It makes no os.File: a machine may run thousands of processes.
func readStat(pid string, buf []byte) []byte {
	fd, err := syscall.Open("/proc/"+pid+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	n, err := syscall.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// killOrphan kills an adopted child.
func killOrphan(pid int) { syscall.Kill(pid, syscall.SIGKILL) }

// reapOrphan reports whether an adopted child has ended, and frees its process id.
func reapOrphan(pid int) bool {
	ended, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return ended == pid || err == syscall.ECHILD
}

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
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	self := []byte(strconv.Itoa(os.Getpid()))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && bytes.Equal(fields[1], self) {
			found = append(found, pid)
		}
	}
	return found
}

// killOrphan kills an adopted child.
func killOrphan(pid int) { syscall.Kill(pid, syscall.SIGKILL) }

// reapOrphan reports whether an adopted child has ended, and frees its process id.
func reapOrphan(pid int) bool {
	ended, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return ended == pid || err == syscall.ECHILD
}

//go:build !portable

package launch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ProcAttr puts a process into a process group of its own and makes the kernel send it a signal when
// the thread that started it ends; see spawner.
func ProcAttr(death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
}

// setSubreaper makes this process the parent of descendants whose parent ends, so
// that none escapes by leaving its group. Where the kernel refuses, only the
// processes in the ranks' groups are found.
func setSubreaper(on bool) {
	var v uintptr
	if on {
		v = 1
	}
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, v, 0, 0, 0)
}

package rundir

import (
	"time"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of macOS' sys/proc.h: a process that has ended and whose parent has not waited for it.
const zombie = 5

// processStart asks the kernel; state is that of proc(5) on Linux where it is "Z".
func processStart(pid int) (began time.Time, state string, ok bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return began, "", false
	}
	if p.Proc.P_stat == zombie {
		state = "Z"
	}
	return time.Unix(p.Proc.P_starttime.Unix()), state, true
}

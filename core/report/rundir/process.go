package rundir

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a process of this host that an event of a run names.
type Process struct {
	PID  int
	Seen time.Time // when it existed
}

// slack is how far the clock that counts from the boot may be off.
const slack = 2 * time.Second

// Alive reports whether the process still exists. One that began after the event is another one that
// was given the same number. Only systems without /proc other than macOS do not say when processes
// began; there any process of that number counts.
func (p Process) Alive() bool {
	if p.PID <= 0 || syscall.Kill(p.PID, 0) == syscall.ESRCH {
		return false
	}
	began, state, ok := processStart(p.PID)
	return !ok || state != "Z" && !began.After(p.Seen.Add(slack))
}

// Signal signals the process if it is still the same one; if not, the error matches
// os.ErrProcessDone.
func (p Process) Signal(s os.Signal) error {
	if !p.Alive() {
		return os.ErrProcessDone
	}
	q, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	return q.Signal(s)
}

// ticks is the unit of times in /proc, the same on every Linux that Go supports.
const ticks = 100

// CPU is how much processor time the process has taken, on all cores together; false if it has
// ended, or where there is no /proc.
func (p Process) CPU() (time.Duration, bool) {
	fields, ok := processStat(p.PID)
	if !ok || !p.Alive() {
		return 0, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64) // fields 14 and 15 of proc(5)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err1 == nil && err2 == nil
}

// processStat is the fields of /proc/PID/stat from the third on, at least 20.
func processStat(pid int) (fields []string, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, false
	}
	fields = strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // a name may have spaces
	return fields, len(fields) >= 20
}

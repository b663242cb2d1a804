//go:build !portable

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// processTime is the time that the threads of a process have spent on a core, and
// ready to run without one; 0 where that is unknown. See the kernel's
// Documentation/scheduler/sched-stats.rst, schedstat of a task.
func processTime(pid int) (t cpuTime) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return t
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		var used, ready int64
		if _, err := fmt.Sscan(string(text), &used, &ready); err == nil {
			t.used += time.Duration(used)
			t.ready += time.Duration(ready)
		}
	}
	return t
}

// threadTime is the CPU time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

//go:build !portable

package cores

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Current returns the number of the core that runs this goroutine now, -1 if that is not
// known. It takes a tenth of a microsecond.
func Current() int {
	var core uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); errno != 0 {
		return -1
	}
	return int(core)
}

// Thread returns the thread that runs this goroutine now, as Leave takes it.
func Thread() int {
	id, _, _ := unix.RawSyscall(unix.SYS_GETTID, 0, 0, 0)
	return int(id)
}

// Leave moves a thread of this process from a core to the next one on which it may run and
// which is not taken. If there is none, the thread stays. It may run on the same cores as
// before, so the system may move it again.
func Leave(thread, from int, taken []int) {
	var allowed, only unix.CPUSet
	if unix.SchedGetaffinity(thread, &allowed) != nil {
		return
	}
	to := next(from, &allowed, taken)
	if to == from {
		return
	}
	only.Set(to)
	if unix.SchedSetaffinity(thread, &only) == nil {
		_ = unix.SchedSetaffinity(thread, &allowed) // it was allowed before
	}
}

// next returns from if there is no other.
func next(from int, allowed *unix.CPUSet, taken []int) int {
	const most = 64 * len(unix.CPUSet{})
	for i := 1; i < most; i++ {
		if core := (from + i) % most; allowed.IsSet(core) && !slices.Contains(taken, core) {
			return core
		}
	}
	return from
}

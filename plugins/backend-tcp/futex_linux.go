package tcp

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The futex operations of linux/futex.h, without FUTEX_PRIVATE_FLAG: the words
// are shared by processes.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps while the word has the value, at most for d. It may return
// early; callers look again.
func futexWait(word *atomic.Uint32, value uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes all sleepers.
func futexWake(word *atomic.Uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, math.MaxInt32, 0, 0, 0)
}

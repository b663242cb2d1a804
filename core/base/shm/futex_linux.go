//go:build !portable

package shm

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hasFutex = true

// The operations without FUTEX_PRIVATE_FLAG: the word is shared by processes.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps while the word has the given value, at most for the
// timeout. It returns early on any signal, and callers look again anyway.
func futexWait(word *atomic.Uint32, value uint32, timeout time.Duration) {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait,
		uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexHold is a futexWait without telling Go's scheduler, so that the thread keeps
// its processor. It reports whether the timeout has passed. A signal, with which the
// runtime preempts a thread, ends it.
func futexHold(word *atomic.Uint32, value uint32, timeout time.Duration) (late bool) {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, e := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait,
		uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
	return e == unix.ETIMEDOUT
}

// futexWake wakes one sleeper. It never blocks, so the scheduler need not know.
func futexWake(word *atomic.Uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, 1, 0, 0, 0)
}

func futexWakeAll(word *atomic.Uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, math.MaxInt32, 0, 0, 0)
}

// yield lets another thread run on this core, if one is ready.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

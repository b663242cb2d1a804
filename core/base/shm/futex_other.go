//go:build unix && (!linux || portable)

package shm

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Without futexes both ends poll and need no wake-ups: a Sleeper does not sleep.
const hasFutex = false

func futexWait(*atomic.Uint32, uint32, time.Duration) {}

func futexHold(*atomic.Uint32, uint32, time.Duration) bool { return true }

func futexWakeAll(*atomic.Uint32) {}

func futexWake(*atomic.Uint32) {}

func yield() { runtime.Gosched() }

//go:build unix && !linux

package shm

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Without futexes everybody polls, and nobody has to be woken.
const hasFutex = false

func futexWait(*atomic.Uint32, uint32, time.Duration) {}

func futexWake(*atomic.Uint32) {}

func yield() { runtime.Gosched() }

package shm

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// Slice is the longest sleep on a doorbell; after it a waiter checks whether the peer
// is alive.
const Slice = 100 * time.Millisecond

// EnvDoorbell selects how to wait: "futex" (Linux) or "poll". The two ends of a ring
// may differ.
const EnvDoorbell = "TRAINCTL_DOORBELL"

// EnvSpin is a duration such as "30us": how long to spin before sleeping, see
// [Spinner]. "0" sleeps at once.
const EnvSpin = "TRAINCTL_SPIN"

// Bell is how an end of a ring waits.
type Bell struct {
	// Spin is how long to spin on the ring before sleeping; see Spinner.
	Spin time.Duration
	// Poll sleeps in short naps instead of on a futex.
	Poll bool
}

// defaultSpin covers an operation on about 100 KiB. For longer operations the cost of
// a sleep does not matter.
const defaultSpin = 50 * time.Microsecond

// DefaultSpin is how long to spin before sleeping on this system, unless EnvSpin is
// set.
func DefaultSpin() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(EnvSpin)); err == nil {
		return max(d, 0)
	}
	if !hasFutex {
		return 0
	}
	return defaultSpin
}

// DefaultBell is what the environment variables set; by default, a short spin and
// then a sleep on a futex if the system has them.
func DefaultBell() Bell {
	return Bell{Spin: DefaultSpin(), Poll: !hasFutex || os.Getenv(EnvDoorbell) == "poll"}
}

// waiter is a Bell in use by the goroutine that waits at one end of a ring.
type waiter struct {
	Bell
	spin  Spinner
	sleep Sleeper
}

func newWaiter(b Bell) waiter { return waiter{Bell: b, spin: Spinner{For: b.Spin}} }

// channel is one direction of a ring: a count of messages, and the words to
// wait on for it.
type channel struct {
	tail  *atomic.Uint64
	bell  *atomic.Uint32
	sleep *atomic.Uint32
}

func channelAt(mem []byte, off int) channel {
	return channel{
		tail:  word64(mem, off+chanTail),
		bell:  word32(mem, off+chanBell),
		sleep: word32(mem, off+chanSleep),
	}
}

// publish makes the messages up to n visible and wakes a sleeping reader.
func (c channel) publish(n uint64) {
	c.tail.Store(n)
	c.bell.Add(1)
	if c.sleep.Load() != 0 {
		futexWake(c.bell)
	}
}

// wake makes the reader check again although nothing was published.
func (c channel) wake() {
	c.bell.Add(1)
	futexWake(c.bell)
}

// wait returns when the count differs from seen, the bell rings, or the
// timeout passes. The order matters: announce the sleep, check again, sleep only if
// the bell has not rung since before the announcement. A writer either sees the
// announcement or has rung before the second check.
func (c channel) wait(b *waiter, seen uint64, timeout time.Duration) {
	rung := c.bell.Load()
	if b.spin.Until(func() bool { return c.tail.Load() != seen }) {
		return
	}
	if b.Poll {
		c.poll(rung, seen, timeout)
		return
	}
	c.sleep.Store(1)
	if c.tail.Load() == seen {
		b.sleep.Sleep(c.bell, rung, timeout)
	}
	c.sleep.Store(0)
}

// poll sleeps for increasing times, up to a millisecond.
func (c channel) poll(rung uint32, seen uint64, timeout time.Duration) {
	end := time.Now().Add(timeout)
	for range 16 {
		if c.changed(rung, seen) {
			return
		}
		runtime.Gosched()
	}
	for nap := 20 * time.Microsecond; !c.changed(rung, seen) && time.Now().Before(end); nap = min(2*nap, time.Millisecond) {
		time.Sleep(nap)
	}
}

func (c channel) changed(rung uint32, seen uint64) bool {
	return c.tail.Load() != seen || c.bell.Load() != rung
}

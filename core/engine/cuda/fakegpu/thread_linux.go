//go:build !portable

package fakegpu

import "golang.org/x/sys/unix"

// thread identifies the thread that calls, as a context is current on one thread.
func thread() int { return unix.Gettid() }

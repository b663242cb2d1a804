//go:build !portable

package tcp

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Plugins that spin while they wait keep every core equally busy, so the system sees
// no imbalance and may leave two of them on one core for the whole job. The plugins
// detect that themselves: each writes the number of its core to its control page.

const (
	// spreadSize is the smallest buffer for which plugins compare their cores.
	spreadSize = 256 << 10
	// spreadRest is the number of such collectives for which a plugin stays on the core that it
	// moved to: with more plugins than cores, moving again and again gains nothing.
	spreadRest = 16
)

// currentCPU returns the core that runs this goroutine now, plus one; 0 if the system
// call fails.
func currentCPU() uint32 {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return cpu + 1
}

// spread moves this plugin to a core without a plugin if it shares its own with that
// of a lower rank. All have written their cores.
func (l *local) spread() {
	if l.rest > 0 {
		l.rest--
		return
	}
	if taken, crowded := l.cores(); crowded {
		leave(int(l.pages[l.b.group.Rank].cpu().Load())-1, &taken)
		l.rest = spreadRest
	}
}

// cores returns the cores with a plugin, and whether this plugin is not the first on
// its core.
func (l *local) cores() (taken unix.CPUSet, crowded bool) {
	me := l.b.group.Rank
	mine := l.pages[me].cpu().Load()
	for r, p := range l.pages {
		if p == nil || p.cpu().Load() == 0 {
			continue
		}
		at := p.cpu().Load()
		taken.Set(int(at) - 1)
		crowded = crowded || r < me && at == mine
	}
	return taken, crowded
}

// leave moves this thread from its core to the next that is allowed and not
// taken. The system may move it again afterwards.
func leave(from int, taken *unix.CPUSet) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var allowed, only unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return
	}
	to := nextCore(from, &allowed, taken)
	if to == from {
		return
	}
	only.Set(to)
	if unix.SchedSetaffinity(0, &only) == nil {
		_ = unix.SchedSetaffinity(0, &allowed) // it was allowed before
	}
}

// nextCore returns from if there is no other.
func nextCore(from int, allowed, taken *unix.CPUSet) int {
	const most = 64 * len(unix.CPUSet{})
	for i := 1; i < most; i++ {
		if cpu := (from + i) % most; allowed.IsSet(cpu) && !taken.IsSet(cpu) {
			return cpu
		}
	}
	return from
}

package tcp

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Plugins that wait for one another by looking keep every core equally busy,
// so the system sees nothing to balance and may leave two of them on one core,
// reducing one after the other, for as long as the job runs. The plugins see it
// themselves: each says on its control page which core it is on.

const (
	// spreadSize is the least buffer that is worth asking where one is.
	spreadSize = 256 << 10
	// spreadRest is for how many of them a plugin stays where it moved to,
	// whatever it sees: in a crowd nobody gains by moving on and on.
	spreadRest = 16
)

// here is the core that runs this goroutine now, plus one; 0 where the system
// does not say.
func here() uint32 {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return cpu + 1
}

// spread moves this plugin to a core without one where it shares its own with
// a rank before it. All have said where they are.
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

// cores are those with a plugin, and whether this one is not the first on its own.
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
// taken. Afterwards the system may move it on as before.
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

// nextCore is from where there is no other.
func nextCore(from int, allowed, taken *unix.CPUSet) int {
	const most = 64 * len(unix.CPUSet{})
	for i := 1; i < most; i++ {
		if cpu := (from + i) % most; allowed.IsSet(cpu) && !taken.IsSet(cpu) {
			return cpu
		}
	}
	return from
}

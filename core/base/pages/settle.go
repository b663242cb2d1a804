package pages

import (
	"os"
	"runtime"
	"runtime/debug"
)

// garbage is how many bytes a settled process allocates between two collections, if it keeps more.
const garbage = 16 << 20

// Settle is for a process that has allocated what it keeps. What getting ready took goes back to the kernel: memory, which
// the runtime would hold for a heap of twice the size, and pages of the program. From then on the heap is collected after
// some megabytes of garbage, not after as many as a model takes. A GOGC in the environment decides that instead.
func Settle() {
	debug.FreeOSMemory()
	GiveBackProgram()
	if os.Getenv("GOGC") != "" {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(percent(m.HeapAlloc))
}

// percent is the GOGC of a process that keeps so many bytes: Go's own, unless that is more than garbage.
func percent(kept uint64) int { return int(max(1, min(100, 100*garbage/max(1, kept)))) }

//go:build !portable

package pages

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// populated is how many bytes get their pages in one call, and the fewest for which that pays.
const populated = 4 << 20

// much is how many bytes make the pages of the program worth their time: some milliseconds, which the first step of a
// small job has not.
const much = 64 << 20

// Populate lets the kernel give memory its pages while the caller prepares other things, instead of one
// by one in the first step. What the memory contains stays. All of it is resident from then on, so it is for
// memory that will be written as a whole. A process that takes much gives back the pages of
// its program that starting took, else its peak would have both.
func Populate(mem []byte) {
	if len(mem) < populated {
		return
	}
	takesMuch := len(mem) >= much
	if takesMuch {
		tookMuch.Store(true)
	}
	go func() {
		if takesMuch {
			GiveBackProgram()
		}
		give(mem)
	}()
}

var tookMuch atomic.Bool

// Ready is for a process about to compute for the first time. If it has taken much memory, what getting ready needed of
// the program goes back first.
func Ready() {
	if tookMuch.Load() {
		GiveBackProgram()
	}
}

// give gives pages to memory but for the parts of a page at its ends. Kernels before 5.14 cannot, and nothing depends on it.
func give(mem []byte) {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & uintptr(page-1))
	mem = mem[min(skip, len(mem)):]
	for len(mem) >= page {
		n := min(len(mem), populated) &^ (page - 1)
		if unix.Madvise(mem[:n], unix.MADV_POPULATE_WRITE) != nil {
			return
		}
		mem = mem[n:]
	}
}

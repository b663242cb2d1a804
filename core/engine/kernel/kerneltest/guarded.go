package kerneltest

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Guarded returns room for n elements, all zero, that ends where memory that may not be touched begins, or
// begins where such memory ends. It is there until the test ends.
func Guarded[T float32 | int32](t *testing.T, n int, atEnd bool) []T {
	t.Helper()
	page := syscall.Getpagesize()
	size := kernel.CeilDiv(4*n, page) * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
	for _, guard := range [][]byte{m[:page], m[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	at := page
	if atEnd {
		at += size - 4*n
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&m[at])), n)
}

// GuardedRoom is room for some arrays, each of which begins behind a page that may not be touched, and ends before one.
type GuardedRoom [][]float32

// NewGuardedRoom returns room for so many arrays of up to so many elements. It is there until the test ends.
func NewGuardedRoom(t *testing.T, arrays, elems int) GuardedRoom {
	t.Helper()
	g := make(GuardedRoom, arrays)
	for i := range g {
		g[i] = Guarded[float32](t, elems, true)
	}
	return g
}

// Test calls f for arrays of these sizes with random values at the beginning of the room, at its end, and elsewhere. It fails if f touches
// what lies beside them, or if those that are not scratch memory, the first ones, differ afterwards.
func (g GuardedRoom) Test(t *testing.T, what string, scratch int, sizes []int, f func(v [][]float32, atEnd bool)) {
	t.Helper()
	for _, atEnd := range []bool{false, true} {
		inside, other := make([][]float32, len(sizes)), make([][]float32, len(sizes))
		for i, n := range sizes {
			if inside[i] = g[i][:n]; atEnd {
				inside[i] = g[i][len(g[i])-n:]
			}
			other[i] = Random[float32](uint64(i), n)
			copy(inside[i], other[i])
		}
		if !within(t, what, func() { f(inside, atEnd) }) {
			continue
		}
		f(other, atEnd)
		for i := range len(sizes) - scratch {
			SameBits(t, what, inside[i], other[i])
		}
	}
}

// Cases is n, of which short tests take an eighth.
func Cases(n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

// within reports whether f touched nothing that it may not, and where it did.
func within(t *testing.T, what string, f func()) (ok bool) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: %v\n%s", what, r, debug.Stack())
		}
	}()
	f()
	return true
}

package kerneltest

import (
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

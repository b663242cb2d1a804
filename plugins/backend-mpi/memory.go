package mpi

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// region is memory outside Go's heap that grows and is never unmapped: libraries for fast
// networks register the memory that they are given with the network card, and would not
// notice that Go's runtime returns pages to the system.
type region struct{ mem []byte }

const regionUnit = 1 << 20

// bytes returns the first n bytes of the region. What was in it is lost if it grows.
func (r *region) bytes(n int) ([]byte, error) {
	if n > len(r.mem) {
		size := max((n+regionUnit-1)/regionUnit*regionUnit, 2*len(r.mem))
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, fmt.Errorf("backend mpi: %d MiB of memory: %w", size>>20, err)
		}
		r.mem = mem
	}
	return r.mem[:n:n], nil
}

// address is where mapped memory begins, for the library.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

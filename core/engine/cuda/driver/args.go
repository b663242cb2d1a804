package driver

import "unsafe"

// Args packs the parameters of a kernel for LaunchKernel. Add each in the
// kernel's order, by its C type; then pass Pointer. The zero value is empty;
// Reset keeps the memory for the next launch.
type Args struct {
	words    []uint64
	pointers []unsafe.Pointer
}

// Reset empties the list.
func (a *Args) Reset() { a.words = a.words[:0] }

// Ptr adds a pointer to device memory.
func (a *Args) Ptr(p DevicePtr) { a.words = append(a.words, uint64(p)) }

// I32 adds an int.
func (a *Args) I32(v int32) { a.words = append(a.words, uint64(uint32(v))) }

// F64 adds a double.
func (a *Args) F64(v float64) { a.words = append(a.words, *(*uint64)(unsafe.Pointer(&v))) }

// Pointer is the array of pointers to the parameters, nil for a kernel
// without any. It is valid until the list changes.
func (a *Args) Pointer() *unsafe.Pointer {
	a.pointers = a.pointers[:0]
	for i := range a.words {
		a.pointers = append(a.pointers, unsafe.Pointer(&a.words[i]))
	}
	return unsafe.SliceData(a.pointers)
}

package fakegpu

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// Vector reads and writes numbers of any type.
type Vector struct {
	DType tensor.DType
	Bytes []byte
}

// At is number i.
func (v Vector) At(i int) float64 { return tensor.Number(v.DType, v.Bytes, i) }

// Set makes number i x, rounded to the type.
func (v Vector) Set(i int, x float64) { tensor.SetNumber(v.DType, v.Bytes, i, x) }

// within is memory of the process, which has to lie in one allocation.
func (p *Process) within(what string, at driver.DevicePtr, n uintptr) []byte {
	b := p.at(at, n)
	if b == nil {
		p.m.mistake("%s: %d bytes at %#x are not allocated", what, n, at)
		return make([]byte, n)
	}
	return b
}

// vector is device memory as numbers.
func (p *Process) vector(what string, at driver.DevicePtr, d tensor.DType, n int) Vector {
	return Vector{d, p.within(what, at, uintptr(n*d.Size()))}
}

// misaligned reports whether the libraries would refuse one of the operands,
// for they were promised multiples of 16 bytes.
func misaligned(operands ...driver.DevicePtr) bool {
	return slices.ContainsFunc(operands, func(p driver.DevicePtr) bool { return p%16 != 0 })
}

// scribble is what a workspace has when a library is done with it.
func scribble(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// drop forgets a handle that has to be there.
func dropHandle[K ~uintptr, V any](m *Machine, of map[K]V, k K) error {
	if _, ok := of[k]; !ok {
		m.mistake("%T %d is destroyed, and is not there", k, k)
	}
	delete(of, k)
	return nil
}

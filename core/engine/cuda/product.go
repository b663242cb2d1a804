package cuda

import (
	"math/bits"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// factors are where a product's matrices lie. add is read at each launch: D is
// added to what is there unless it is 0.
type factors struct {
	a, b, d, bias, aux driver.DevicePtr
	add                *int32
}

// aligned reports whether an address is as products need it.
func aligned(p driver.DevicePtr) bool { return bits.TrailingZeros64(uint64(p)|1<<63) >= 4 }

// product adds a matrix product to the step; false where cuBLASLt is missing
// or has no algorithm for it, and kernels of our own must do.
func (b *binder) product(p product, f factors) bool {
	l := b.m.dev.lib.blas
	if l == nil || b.err != nil || p.d == tensor.F64 {
		return false
	}
	for _, at := range []driver.DevicePtr{f.a, f.b, f.d, f.bias, f.aux} {
		if !b.measure && !aligned(at) {
			return false
		}
	}
	best, err := l.choose(p)
	if err != nil || best == nil {
		b.err = err
		return err != nil
	}
	work := b.scratch(int(best.WorkspaceSize))
	if b.measure {
		return true
	}
	x, err := l.describe(p, f.bias, f.aux)
	if err != nil {
		b.err = err
		return true
	}
	b.m.owned = append(b.m.owned, x.free)
	stream, algo, one := b.m.dev.stream, best.Algo, float32(1)
	beta := new(float32)
	b.call("cublasLtMatmul", func() error {
		if *beta = 0; f.add != nil && *f.add != 0 {
			*beta = 1
		}
		return l.api.Matmul(l.handle, x.desc, unsafe.Pointer(&one), f.a, x.a, f.b, x.b, unsafe.Pointer(beta), f.d, x.d, f.d, x.d,
			&algo, work, best.WorkspaceSize, stream)
	})
	return true
}

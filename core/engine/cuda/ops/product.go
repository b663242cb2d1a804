package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/library"
	"github.com/trainctl/trainctl/core/tensor"
)

// product adds a matrix product to the step; false where cuBLASLt is missing
// or has no algorithm for it, and kernels of our own must do.
func (b *binder) product(p library.Product, o library.Operands) bool {
	l := b.lib.BLAS
	if l == nil || b.err != nil || p.D == tensor.F64 || !b.measure && !o.Aligned() {
		return false
	}
	best, err := l.Choose(p)
	if err != nil || best == nil {
		b.err = err
		return err != nil
	}
	work := b.scratch(int(best.WorkspaceSize))
	if b.measure {
		return true
	}
	run, free, err := l.Launch(p, best, o, work)
	b.library("cublasLtMatmul", run, free, err)
	return true
}

// convolve adds a convolution of cuDNN's to the step, if there is a plan for it.
func (b *binder) convolve(c library.Convolution, x, w, y driver.DevicePtr) bool {
	n := b.lib.DNN
	if n == nil || b.err != nil {
		return false
	}
	p, err := n.Plan(c)
	if err != nil || p == nil {
		b.err = err
		return err != nil
	}
	work := b.scratch(p.Workspace)
	if b.measure {
		return true
	}
	run, free, err := n.Launch(p, x, w, y, work)
	b.library("cudnnBackendExecute", run, free, err)
	return true
}

// library adds what a library has prepared.
func (b *binder) library(name string, run, free func() error, err error) {
	if free != nil {
		b.m.OnFree(free)
	}
	if b.err = err; err == nil {
		b.call(name, run)
	}
}

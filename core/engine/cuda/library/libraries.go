package library

import (
	"errors"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
)

// Libraries are the libraries that a device uses besides the driver and NVRTC. Kernels
// of our own take the place of one that is nil.
type Libraries struct {
	DNN  *DNN
	BLAS *BLAS

	g       *gpu.GPU
	missing []error // why one is nil, or does not do what it is there for
}

// New are none yet.
func New(g *gpu.GPU) *Libraries { return &Libraries{g: g} }

// Open finds the libraries and makes them ready. What is unavailable costs speed, no more.
func (l *Libraries) Open(f *dl.Finder) {
	defer l.g.Enter()()
	if api, err := driver.OpenBlasLt(f); err != nil {
		l.missing = append(l.missing, err)
	} else {
		l.UseBLAS(api)
	}
	if api, err := driver.OpenDNN(f); err != nil { // behind cuBLASLt and NVRTC, which it needs
		l.missing = append(l.missing, err)
	} else {
		l.UseDNN(api)
	}
	var free, total uintptr
	if l.DNN != nil && l.g.CU.MemGetInfo(&free, &total) == nil {
		l.DNN.limit = min(convWorkspace, int(total/16))
	}
}

// UseBLAS makes a cuBLASLt ready that was opened.
func (l *Libraries) UseBLAS(api *driver.BlasLt) {
	var err error
	if l.BLAS, err = openBLAS(api, l.g.Stream); err != nil {
		l.BLAS, l.missing = nil, append(l.missing, err)
	}
}

// UseDNN makes a cuDNN ready that was opened.
func (l *Libraries) UseDNN(api *driver.DNN) {
	var err error
	if l.DNN, err = openDNN(api, l.g.Stream); err != nil {
		l.DNN, l.missing = nil, append(l.missing, err)
	}
}

// Close destroys the handles. Plans are freed when the process ends.
func (l *Libraries) Close() (err error) {
	if l.DNN != nil {
		err = l.DNN.api.Destroy(l.DNN.handle)
	}
	if l.BLAS != nil {
		err = errors.Join(err, l.BLAS.api.Destroy(l.BLAS.handle))
	}
	l.DNN, l.BLAS = nil, nil
	return err
}

// Missing lists the libraries that the device does not use, or in which convolutions
// of the programs bound so far, and why; nil if it has all. It computes the same,
// slowly.
func (l *Libraries) Missing() error { return errors.Join(l.missing...) }

// AllowTF32 lets products and convolutions of float32 numbers be made of their upper 11 bits by
// tensor cores, in programs that are bound from now on. They are not by default.
func (l *Libraries) AllowTF32(on bool) {
	if b := l.BLAS; b != nil {
		b.tf32 = on
		clear(b.chosen)
	}
	if n := l.DNN; n != nil {
		n.tf32 = on
		clear(n.plans)
	}
}

// Planned reports whether cuDNN has a plan for a convolution. If it has none
// for another reason than a kernel that does not exist, the reason is noted.
func (l *Libraries) Planned(c Convolution) bool {
	if l.DNN == nil {
		return false
	}
	p, err := l.DNN.Plan(c)
	if err != nil {
		l.missing = append(l.missing, err)
	}
	return p != nil
}

package cuda

import (
	"errors"

	"github.com/trainctl/trainctl/core/engine/cuda/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// libraries are what the device uses beside the driver and NVRTC. Kernels of
// our own take the place of one that is nil.
type libraries struct {
	dnn     *dnn
	blas    *blas
	missing []error // why one is nil, or does not do what it is there for
}

// link finds the libraries and makes them ready. What is unavailable costs speed, no more.
func (d *Device) link(f *dl.Finder) {
	defer d.enter()()
	if api, err := driver.OpenBlasLt(f); err != nil {
		d.lib.missing = append(d.lib.missing, err)
	} else if d.lib.blas, err = openBlas(api); err != nil {
		d.lib.blas, d.lib.missing = nil, append(d.lib.missing, err)
	}
	if api, err := driver.OpenDNN(f); err != nil { // behind cuBLASLt and NVRTC, which it needs
		d.lib.missing = append(d.lib.missing, err)
	} else if d.lib.dnn, err = openDNN(api, d.stream); err != nil {
		d.lib.dnn, d.lib.missing = nil, append(d.lib.missing, err)
	}
	var free, total uintptr
	if d.lib.dnn != nil && d.cu.MemGetInfo(&free, &total) == nil {
		d.lib.dnn.limit = min(convWorkspace, int(total/16))
	}
}

// close gives the handles back. What plans were made of goes with the process.
func (l *libraries) close() (err error) {
	if l.dnn != nil {
		err = l.dnn.api.Destroy(l.dnn.handle)
	}
	if l.blas != nil {
		err = errors.Join(err, l.blas.api.Destroy(l.blas.handle))
	}
	l.dnn, l.blas = nil, nil
	return err
}

// Missing says which libraries the device does without, or in which
// convolutions of the programs bound so far, and why; nil if it has all. It
// computes the same, slowly.
func (d *Device) Missing() error { return errors.Join(d.lib.missing...) }

// AllowTF32 lets products and convolutions of float32 numbers be made of their upper 11 bits by
// tensor cores, in programs that are bound from now on. They are not by default.
func (d *Device) AllowTF32(on bool) {
	if b := d.lib.blas; b != nil {
		b.tf32 = on
		clear(b.chosen)
	}
	if n := d.lib.dnn; n != nil {
		n.tf32 = on
		clear(n.plans)
	}
}

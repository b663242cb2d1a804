package amx

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// emulated makes Run multiply in plain Go.
var emulated bool

// Emulate makes Run multiply in plain Go until restore is called: for tests of what calls it, on CPUs that have all of the level but
// AMX. No product may run meanwhile.
func Emulate() (restore func()) {
	old := emulated
	emulated = true
	return func() { emulated = old }
}

// emulate is Run by the definition.
func (p *Product) emulate() {
	off := unsafe.Slice(p.Off, p.Steps)
	for i := range p.Count {
		b, c := unsafe.Add(unsafe.Pointer(p.B), i*p.BMove), unsafe.Add(unsafe.Pointer(p.C), i*p.CMove)
		for row := range p.rows {
			for col := range p.cols {
				for step, s := range off {
					p.multiply(2*row+col, unsafe.Add(unsafe.Pointer(p.A), row*p.ANext+int(s.A)), unsafe.Add(b, col*p.BNext+int(s.B)),
						unsafe.Add(c, row*p.cDown+col*p.CNext), p.Add == 0 && step == 0)
				}
			}
		}
	}
}

// multiply is a step of one tile of sums.
func (p *Product) multiply(tile int, a, b, c unsafe.Pointer, first bool) {
	rows, cols, pairs := int(p.config[48+tile]), int(p.config[16+2*tile])/4, int(p.config[48+6])
	for i := range rows {
		x := unsafe.Slice((*uint16)(unsafe.Add(a, i*p.ARow)), 2*pairs)
		sums := unsafe.Slice((*float32)(unsafe.Add(c, i*p.CRow)), cols)
		if first {
			clear(sums)
		}
		for l := range pairs {
			y := unsafe.Slice((*uint16)(unsafe.Add(b, l*p.BRow)), 2*cols)
			for j := range sums {
				for half := range 2 {
					sums[j] += kernel.FactorBF16(x[2*l+half]) * kernel.FactorBF16(y[2*j+half])
				}
			}
		}
	}
}

package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// taps calls f for every product of the convolution: the offsets into x, w and y that meet.
func eachProduct(p *Shape, f func(x, w, y int)) {
	oh, ow := p.OutH(), p.OutW()
	cg, kg := p.C/p.GroupCount(), p.K/p.GroupCount()
	for n := range p.N {
		for k := range p.K {
			for c := range cg {
				xc := (n*p.C + k/kg*cg + c) * p.H * p.W
				for r := range p.R {
					for s := range p.S {
						eachProductOfRow(p, xc, ((k*cg+c)*p.R+r)*p.S+s, (n*p.K+k)*oh*ow, r, s, f)
					}
				}
			}
		}
	}
}

func eachProductOfRow(p *Shape, xc, w, yk, r, s int, f func(x, w, y int)) {
	oh, ow := p.OutH(), p.OutW()
	for i := range oh {
		h := i*p.StrideH - p.PadH + r*p.DilationH()
		if h < 0 || h >= p.H {
			continue
		}
		for j := range ow {
			if v := j*p.StrideW - p.PadW + s*p.DilationW(); v >= 0 && v < p.W {
				f(xc+h*p.W+v, w, yk+i*ow+j)
			}
		}
	}
}

func convRef[T kernel.Float](p *Shape, x, w, bias, y []T) {
	hw := p.OutH() * p.OutW()
	for i := range p.N * p.K {
		var b T
		if bias != nil {
			b = bias[i%p.K]
		}
		elementwise.Fill(y[i*hw:][:hw], b)
	}
	eachProduct(p, func(xi, wi, yi int) { y[yi] += x[xi] * w[wi] })
}

func convGradInputRef[T kernel.Float](p *Shape, dy, w, dx []T) {
	clear(dx[:p.N*p.C*p.H*p.W])
	eachProduct(p, func(xi, wi, yi int) { dx[xi] += dy[yi] * w[wi] })
}

func convGradWeightRef[T kernel.Float](p *Shape, x, dy, dw []T, accumulate bool) {
	if !accumulate {
		clear(dw[:p.K*p.C/p.GroupCount()*p.R*p.S])
	}
	eachProduct(p, func(xi, wi, yi int) { dw[wi] += x[xi] * dy[yi] })
}

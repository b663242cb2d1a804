package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestAnyShapeStaysInside has pooling of any kind beside pages that may not be touched.
func TestAnyShapeStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		const room = 1 << 17
		g, r := kerneltest.NewGuardedRoom(t, 5, room), rand.New(rand.NewPCG(3, 8))
		for range kerneltest.Cases(2000) {
			p := anyShape(r)
			p.Prepare()
			planes, in, out := p.N*p.C, p.H*p.W, p.OutH()*p.OutW()
			sizes := []int{planes * in, planes * out, planes * out, max(p.MaxScratch(), p.MaxGradScratch(), p.Scratch(), p.GradScratch())}
			if max(sizes[0], sizes[1], sizes[3]) > room {
				continue
			}
			g.Test(t, fmt.Sprintf("maxima, %+v", p), 1, sizes, func(v [][]float32, _ bool) {
				idx := unsafe.Slice((*int32)(unsafe.Pointer(&v[2][0])), len(v[2]))
				MaxPool2D(&p, v[0], v[1], idx, v[3])
				MaxPool2DGrad(&p, v[1], idx, v[0], v[3])
			})
			g.Test(t, fmt.Sprintf("means, %+v", p), 1, sizes, func(v [][]float32, _ bool) {
				AvgPool2D(&p, v[0], v[1], v[3])
				AvgPool2DGrad(&p, v[1], v[0], v[3])
			})
		}
	})
}

// anyShape is windows of up to 5×5, half of them with stride 2 or as long as they are.
func anyShape(r *rand.Rand) Shape {
	p := Shape{N: 1 + r.IntN(3), C: 1 + r.IntN(20), R: 1 + r.IntN(5), S: 1 + r.IntN(5), StrideH: 1 + r.IntN(4), StrideW: 1 + r.IntN(4), CeilMode: r.IntN(3) == 0, CountIncludePad: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		p.S = p.R
		p.StrideH, p.StrideW = 2, 2
	}
	if r.IntN(4) == 0 {
		p.StrideH, p.StrideW = p.R, p.S
	}
	if r.IntN(3) == 0 {
		p.PadH, p.PadW = r.IntN(p.R/2+1), r.IntN(p.S/2+1)
	}
	p.H, p.W = p.R+r.IntN(20), p.S+r.IntN(40)
	if r.IntN(5) == 0 {
		p.H, p.W = p.R, p.S
	}
	return p
}

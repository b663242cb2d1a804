package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// The convolution of bfloat16 images by definition: the float32 one over what their
// elements are as float32, an image at a time, rounded once.

// widened is the room for one image's copies.
type widened struct {
	image Shape // of one image
	x, y  int   // elements of its input and output
	w     int   // elements of the filters
}

func newWidened(p *Shape) widened {
	v := widened{image: *p, x: p.C * p.H * p.W, y: p.K * p.OutH() * p.OutW(), w: p.K * p.PatchSize()}
	v.image.N, v.image.Batch = 1, 0
	return v
}

func widenedScratch(p *Shape) int {
	v := newWidened(p)
	return v.x + v.y + v.w + Scratch[float32](&v.image)
}

// cut divides scratch into the copies of the input, the output and the filters, and what
// the float32 kernel takes.
func (v *widened) cut(scratch []float32) (x, y, w, rest []float32) {
	x, scratch = scratch[:v.x], scratch[v.x:]
	y, scratch = scratch[:v.y], scratch[v.y:]
	return x, y, scratch[:v.w], scratch[v.w:]
}

// copyIn widens elements into dst.
func copyIn(dst []float32, src []uint16) {
	convert.Convert(tensor.F32, tensor.Bytes(dst), tensor.BF16, tensor.Bytes(src[:len(dst)]))
}

// copyOut rounds elements of src.
func copyOut(dst []uint16, src []float32) {
	for i, v := range src {
		dst[i] = kernel.RoundBF16(v)
	}
}

func widenedForward(p *Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	v := newWidened(p)
	wideX, wideY, wideW, rest := v.cut(scratch)
	copyIn(wideW, w)
	for n := range p.N {
		copyIn(wideX, x[n*v.x:])
		Forward(&v.image, wideX, wideW, bias, wideY, rest)
		copyOut(y[n*v.y:], wideY)
	}
}

func widenedGradInput(p *Shape, dy, w, dx []uint16, scratch []float32) {
	v := newWidened(p)
	wideDx, wideDy, wideW, rest := v.cut(scratch)
	copyIn(wideW, w)
	for n := range p.N {
		copyIn(wideDy, dy[n*v.y:])
		GradInput(&v.image, wideDy, wideW, wideDx, rest)
		copyOut(dx[n*v.x:], wideDx)
	}
}

func widenedGradWeight(p *Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	v := newWidened(p)
	wideX, wideDy, _, rest := v.cut(scratch)
	for n := range p.N {
		copyIn(wideX, x[n*v.x:])
		copyIn(wideDy, dy[n*v.y:])
		GradWeight(&v.image, wideX, wideDy, dw, rest, accumulate || n > 0)
	}
}

package adaptive

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// The windows of an axis are those of the definition.
func TestAxis(t *testing.T) {
	for in := 1; in < 40; in++ {
		for out := 1; out < 40; out++ {
			a := newAxis(in, out)
			for i := range out {
				from, to := a.next()
				if wantFrom, wantTo := i*in/out, kernel.CeilDiv((i+1)*in, out); from != wantFrom || to != wantTo {
					t.Fatalf("window %d of %d over %d is [%d, %d), want [%d, %d)", i, out, in, from, to, wantFrom, wantTo)
				}
			}
		}
	}
}

// Means of windows and their gradients are those of the definition, for outputs that are fewer, as many or more than inputs, and for planes
// that are transposed and larger ones.
func TestAvgPool2D(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, c := range [][4]int{{40, 40, 7, 7}, {33, 32, 6, 5}, {12, 16, 33, 40}, {32, 32, 7, 7}, {7, 7, 3, 3}, {13, 29, 4, 11}, {2, 3, 7, 7}, {1, 1, 7, 7}, {5, 40, 1, 6}, {9, 5, 9, 2}, {6, 6, 6, 6}, {8, 8, 1, 1}, {6, 4, 3, 2}} {
			h, w, oh, ow := c[0], c[1], c[2], c[3]
			const planes = 3 * 23 // more than are transposed at a time
			in, out := planes*h*w, planes*oh*ow
			x, dy := kerneltest.Random[float32](1, in), kerneltest.Random[float32](2, out)
			wantY, wantDx := make([]float64, out), make([]float64, in)
			for o := range wantY {
				plane, i, j := o/(oh*ow), o/ow%oh, o%ow
				h0, h1, w0, w1 := i*h/oh, kernel.CeilDiv((i+1)*h, oh), j*w/ow, kernel.CeilDiv((j+1)*w, ow)
				for row := h0; row < h1; row++ {
					for column := w0; column < w1; column++ {
						at, count := (plane*h+row)*w+column, float64((h1-h0)*(w1-w0))
						wantY[o] += float64(x[at]) / count
						wantDx[at] += float64(dy[o]) / count
					}
				}
			}
			y, dx := kerneltest.Exactly[float32](out), kerneltest.Exactly[float32](in)
			AvgPool2D(planes/3, 3, h, w, oh, ow, x, y.Room, kerneltest.Poisoned[float32](Scratch(h, w, oh, ow)))
			AvgPool2DGrad(planes/3, 3, h, w, oh, ow, dy, dx.Room, kerneltest.Poisoned[float32](Scratch(h, w, oh, ow)))
			name := fmt.Sprint(" of ", c)
			y.Check(t, "y"+name)
			dx.Check(t, "dx"+name)
			kerneltest.CloseTo(t, "y"+name, y.Room, narrow(wantY), 1e-6)
			kerneltest.CloseTo(t, "dx"+name, dx.Room, narrow(wantDx), 1e-6)
		}
	})
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

package images

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestOutputsInLanesHaveTheBitsOfImagesInLanes has every stride and dilation, outputs that fill vectors and such that do not, sums of one part and
// of several, with and without a bias.
func TestOutputsInLanesHaveTheBitsOfImagesInLanes(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("plain Go has one algorithm")
		}
		r := rand.New(rand.NewPCG(5, 23))
		taken := 0
		for range 150 {
			groups := 1 + r.IntN(2)
			p := geometry.Shape{
				N: kernel.Lanes(), C: groups * (1 + r.IntN(40)), H: 3 + r.IntN(12), W: 3 + r.IntN(12), K: groups * (1 + r.IntN(40)), R: 1 + r.IntN(4), S: 1 + r.IntN(4),
				StrideH: 1 + r.IntN(3), StrideW: 1 + r.IntN(3), PadH: r.IntN(3), PadW: r.IntN(3), DilH: 1 + r.IntN(2), DilW: 1 + r.IntN(2), Groups: groups,
			}
			if p.Validate() != nil || !Takes(&p) {
				continue
			}
			for _, d := range []geometry.Direction{geometry.ToOutput, geometry.ToInput} {
				if c := newPass(&p, d); c.fitsOutputs() {
					taken++
					compareOutputs(t, &c)
				}
			}
		}
		if taken < 50 {
			t.Errorf("only %d convolutions had outputs in the lanes", taken)
		}
	})
}

func compareOutputs(t *testing.T, c *pass) {
	t.Helper()
	p := c.p
	x, w := kerneltest.Random[float32](1, p.N*c.in.between), kerneltest.Random[float32](2, p.K*p.PatchSize())
	bias := kerneltest.Random[float32](3, p.K)
	for _, b := range [][]float32{nil, bias} {
		if c.grad && b != nil {
			continue
		}
		scratch, got := kerneltest.Exactly[float32](c.outputScratch()), kerneltest.Exactly[float32](p.N*c.out.between)
		c.runOutputs(x, w, b, got.Room, scratch.Room)
		want := make([]float32, len(got.Room))
		c.runLanes(x, w, b, want, make([]float32, Scratch(p, c.direction())))
		if !slices.Equal(got.Room, want) {
			t.Fatalf("%v, direction %d, bias %v: other bits than with images in the lanes", p, c.direction(), b != nil)
		}
		scratch.Check(t, p.String())
		got.Check(t, p.String())
	}
}

package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/im2col"
)

// Images that fill too little of a vector are computed with outputs in the lanes, or by another algorithm, which adds up products in the same order, so
// that an image has the same bits in any batch: package direct if a sum has so few products that neither cuts it, and package im2col else.

// split leaves those images to p that are computed in lanes, and returns how many are not.
func (c *pass) split() (rest int) {
	rest = c.p.N % narrow
	if c.seesOnePixel() {
		return 0
	}
	if c.p.N > narrow && rest >= c.least() { // some are computed twice
		return 0
	}
	c.p.N -= rest
	return rest
}

// Fill reports whether any images of p are computed in lanes.
func Fill(p *geometry.Shape, d geometry.Direction) bool {
	if d == geometry.ToWeight || p.N >= narrow {
		return true
	}
	c := newPass(p, d)
	return c.seesOnePixel() || c.takesOutputs()
}

// leastOf is what least gives for a shape.
var leastOf geometry.Memo[int]

// least is the fewest images that take at least as long as a narrow vector of images in lanes.
func (c *pass) least() int {
	return leastOf.Of(c.p, c.direction(), func() int {
		q := *c.p
		q.N = kernel.Lanes()
		all := newPass(&q, c.direction())
		vector := all.otherCycles() * narrow / float64(q.N)
		for q.N = 1; q.N < narrow; q.N++ {
			rest := c.restCycles(&q)
			if all.fitsOutputs() {
				rest = min(rest, all.outputCycles())
			}
			if rest >= vector {
				break
			}
		}
		return q.N
	})
}

// restCycles is how long the other algorithm takes.
func (c *pass) restCycles(q *geometry.Shape) float64 {
	var t cost.Terms
	d := c.direction()
	if c.byRows {
		t = direct.Terms(q, d)
		return direct.Rates.Cycles(&t)
	}
	t = im2col.Terms(q, d)
	return im2col.Rates.Cycles(&t)
}

// restScratch is the scratch elements that it needs.
func (c *pass) restScratch() int {
	switch {
	case c.byRows && c.grad:
		return direct.Scratch(c.p, geometry.ToInput)
	case c.byRows:
		return direct.Scratch(c.p, geometry.ToOutput)
	case c.grad:
		return im2col.GradInputScratch(c.p)
	}
	return im2col.Scratch(c.p)
}

// runRest computes them.
func (c *pass) runRest(x, w, bias, y, scratch []float32) {
	switch {
	case c.takesOutputs():
		c.runOutputs(x, w, bias, y, scratch)
	case c.byRows && c.grad:
		direct.GradInput(c.p, x, w, y, scratch)
	case c.byRows:
		direct.Forward(c.p, x, w, bias, y, scratch)
	case c.grad:
		im2col.GradInput(c.p, x, w, y, scratch)
	default:
		im2col.Forward(c.p, x, w, bias, y, scratch)
	}
}

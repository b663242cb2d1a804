package winograd

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// The float32 weight gradient with output channels in lanes, in vectors of eight at every level. With AVX2, registers
// hold too few sums for products of pixels in lanes to keep up with loading them; with AVX-512, rows of few
// pixels leave lanes idle. dy is
// transposed, band by band, to vectors of 16 channels; each is multiplied with the pixels
// that the taps of a filter's row see from there, which lie side by side in a framed image.
// No lane idles, whatever the width of an image.

// bandVectors bounds the vectors of 16 channels of a band, so that it stays in L1.
const bandVectors = 256

// TakesLanes reports whether LanesGradWeight computes the weight gradient.
func TakesLanes(p *geometry.Shape) bool {
	level := kernel.Current()
	return (level == kernel.AVX2 || level == kernel.AVX512) && p.Stride1() && p.FitsFrame() && p.GroupCount() == 1 && p.DilationW() == 1 &&
		p.S >= 3 && p.S <= 7 && p.K%channelLanes == 0
}

// lanesCall is such a weight gradient.
type lanesCall struct {
	p         *geometry.Shape
	frame     geometry.Frame
	blocks    int // of 16 channels at a time
	rows      int // of a band
	width     int // vectors of a band's row: pixels, of which the kernel takes two at a time
	image     []float32
	band, end int       // first row of dy, and the last and one
	grads     []float32 // [blocks][rows][width][16]
	sums      []float32 // [K/16][C][R][S][16]
}

func newLanesCall(p *geometry.Shape) lanesCall {
	c := lanesCall{p: p, frame: p.InputFrame(), blocks: 1, width: (p.OutW() + 1) &^ 1}
	if p.S == 3 && p.K%(2*channelLanes) == 0 {
		c.blocks = 2
	}
	c.rows = min(p.OutH(), max(1, bandVectors/c.blocks/c.width))
	return c
}

// gradElems is the room of a block of a band, and what the last row's copy writes too far.
func (c *lanesCall) gradElems() int { return (c.rows*c.width + channelLanes) * channelLanes }

// LanesScratch is the number of scratch elements that LanesGradWeight needs.
func LanesScratch(p *geometry.Shape) int {
	c := newLanesCall(p)
	return c.frame.Elems() + c.blocks*c.gradElems() + p.K*p.PatchSize()
}

// LanesGradWeight writes or adds the gradient of the weights to dw.
func LanesGradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	c := newLanesCall(p)
	c.image, scratch = scratch[:c.frame.Elems()], scratch[c.frame.Elems():]
	c.grads, scratch = scratch[:c.blocks*c.gradElems()], scratch[c.blocks*c.gradElems():]
	c.sums = scratch[:p.K*p.PatchSize()]
	clear(c.image)
	clear(c.sums)
	oh, plane := p.OutH(), p.OutH()*p.OutW()
	for n := range p.N {
		c.frame.Fill(x[n*p.C*p.H*p.W:], c.image)
		for k := 0; k < p.K; k += c.blocks * channelLanes {
			for c.band = 0; c.band < oh; c.band += c.rows {
				c.end = min(c.band+c.rows, oh)
				for b := range c.blocks {
					c.transpose(dy[(n*p.K+k+b*channelLanes)*plane:], c.grads[b*c.gradElems():])
				}
				c.add(k * p.PatchSize())
			}
		}
	}
	c.store(dw, accumulate)
}

// transpose copies a band of 16 planes of dy to vectors of channels. What the last columns
// write too far is overwritten by the first ones of the next row.
func (c *lanesCall) transpose(dy, dst []float32) {
	ow, plane := c.p.OutW(), c.p.OutH()*c.p.OutW()
	for col := (ow - 1) / channelLanes * channelLanes; col >= 0; col -= channelLanes {
		vecPlanesToLanes(c.end-c.band, &dy[c.band*ow+col], 4*plane, 4*ow, kernel.FirstLanes(min(channelLanes, ow-col)),
			&dst[col*channelLanes], 4*c.width*channelLanes, 4*ow*(c.end-c.band))
	}
}

// add adds the products of a band to the sums from element at on.
func (c *lanesCall) add(at int) {
	p := c.p
	t := pointTile{count: 1, blocks: c.end - c.band, steps: c.width, jump: 4 * (c.frame.Width - c.width), add: 1, b0: &c.grads[0], b1: &c.grads[(c.blocks-1)*c.gradElems()]}
	other := (c.blocks - 1) * channelLanes * p.PatchSize()
	for i := range p.C * p.R {
		ch, r := i/p.R, i%p.R
		row := ch*c.frame.Plane + (c.band+r*p.DilationH())*c.frame.Width
		for s := 0; s < p.S; {
			taps := tapsAtOnce(p.S - s)
			sums := c.sums[at+(i*p.S+s)*channelLanes:]
			t.a, t.c0, t.c1 = &c.image[row+s], &sums[0], &sums[other]
			t.count = 1
			runTapSums(taps, c.blocks, &t)
			s += taps
		}
	}
}

// tapsAtOnce is how many of n taps in a row the next kernel takes.
func tapsAtOnce(n int) int {
	if n == 7 {
		return 4
	}
	return n
}

// runTapSums sums the products of some taps with one or two blocks of channels.
func runTapSums(taps, blocks int, t *pointTile) {
	switch {
	case taps == 3 && blocks == 2:
		vecTapSums3x2(t)
	case taps == 3:
		vecTapSums3x1(t)
	case taps == 4:
		vecTapSums4x1(t)
	case taps == 5:
		vecTapSums5x1(t)
	case taps == 6:
		vecTapSums6x1(t)
	}
}

// store writes or adds the sums to dw [K, C, R, S].
func (c *lanesCall) store(dw []float32, accumulate bool) {
	taps := c.p.PatchSize()
	for k := range c.p.K {
		row := dw[k*taps:][:taps]
		from := c.sums[k/channelLanes*channelLanes*taps+k%channelLanes:]
		for i := range row {
			v := from[i*channelLanes]
			if accumulate {
				v += row[i]
			}
			row[i] = v
		}
	}
}

package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// dense is the gradient of weights of a convolution with several channels in a group. The planes of each channel of
// some images lie side by side in a frame, and those of dy with the same pitch and zeros between them. So for each
// tap, the sums over pixels of all filters and channels are one matrix product of long rows, in which
// dy is packed once, and x is read where the tap sees it: no column matrix exists.
type dense struct {
	planeFrame
	p                 *geometry.Shape
	channels, filters int // of a group
	pixels            int // of a row of the product: what lies between the first and the last pixel
}

func newDense(p *geometry.Shape) dense {
	d := dense{p: p, channels: p.C / p.GroupCount(), filters: p.K / p.GroupCount()}
	d.planeFrame = inputFrame(p, denseElems/max(d.channels, d.filters))
	if d.w%(narrow*min(p.StrideW, 2)) == 0 && p.OutW()%narrow == 0 { // copies write nothing behind a row
		d.width -= narrow
		d.phase -= narrow * d.rows
	}
	d.pixels = (p.OutH()-1)*d.width + (d.images-1)*d.pitch + p.OutW()
	return d
}

// line is the elements of a filter's row of dy, to which copies write a vector too much.
func (d *dense) line() int { return d.p.OutH()*d.width + narrow }

// sums is the elements of the gradient of a group: [taps][filters][channels].
func (d *dense) sums() int { return d.p.R * d.p.S * d.filters * d.channels }

func (d dense) scratch() int {
	return d.channels*d.elems() + d.filters*d.line() + gemm.PackedElems(d.filters, d.pixels) + d.p.GroupCount()*d.sums()
}

// gradWeight is GradWeight.
func (d *dense) gradWeight(x, dy, dw, scratch []float32, accumulate bool) bool {
	p, plane := d.p, d.p.OutH()*d.p.OutW()
	d.prepare(p.C*p.H*p.W, p.W)
	frames, scratch := scratch[:d.channels*d.elems()], scratch[d.channels*d.elems():]
	grads, scratch := scratch[:d.filters*d.line()], scratch[d.filters*d.line():]
	all, packed := scratch[:p.GroupCount()*d.sums()], scratch[p.GroupCount()*d.sums():]
	clear(frames)
	clear(all)
	for g := range p.GroupCount() {
		clear(grads)
		for n := 0; n < p.N; n += d.images {
			images := min(d.images, p.N-n)
			for c := range d.channels {
				d.fill(images, x[(n*p.C+g*d.channels+c)*p.H*p.W:], frames[c*d.elems():])
			}
			d.fillGrads(images, dy[(n*p.K+g*d.filters)*plane:], grads)
			d.addTaps(frames, grads, packed, all[g*d.sums():])
		}
	}
	if !sumsUp(all) {
		return false
	}
	for g := range p.GroupCount() {
		d.store(all[g*d.sums():], dw[g*d.sums():][:d.sums()], accumulate)
	}
	return true
}

// fillGrads copies a group's planes of dy, with the pitch of the frame. Images that are missing in the last batch are zero.
func (d *dense) fillGrads(images int, dy, grads []float32) {
	if images < d.images {
		clear(grads)
	}
	p, plane := d.p, d.p.OutH()*d.p.OutW()
	c := geometry.PlaneCopy{Images: images, Rows: p.OutH(), SrcImage: 4 * p.K * plane, SrcRow: 4 * p.OutW(), DstImage: 4 * d.pitch, DstRow: 4 * d.width}
	c.SetWidth(p.OutW(), 1)
	for k := range d.filters {
		c.Images, c.Src, c.Dst = images, &dy[k*plane], &grads[k*d.line()]
		c.Frame()
	}
}

// addTaps adds the products of dy with what every tap sees.
func (d *dense) addTaps(frames, grads, packed, sums []float32) {
	p, size := d.p, d.filters*d.channels
	gemm.PackRows(d.filters, d.pixels, grads, d.line(), packed)
	for tap := range p.R * p.S {
		at := d.at(tap/p.S*p.DilationH(), tap%p.S*p.DilationW())
		gemm.AddPacked(d.filters, d.channels, d.pixels, packed, frames[at:], d.elems(), sums[tap*size:], d.channels)
	}
}

// store puts the sums into dw, [filters][channels][taps].
func (d *dense) store(sums, dw []float32, accumulate bool) {
	taps := d.p.R * d.p.S
	for tap := range taps {
		from := sums[tap*d.filters*d.channels:][:d.filters*d.channels]
		for i, v := range from {
			if accumulate {
				v += dw[i*taps+tap]
			}
			dw[i*taps+tap] = v
		}
	}
}

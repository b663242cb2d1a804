package planes

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/lines"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
)

// dotsOut is how dy is read for the gradient of weights: from its place, where rows are whole
// vectors, and else from a frame as wide as that of x.
type dotsOut struct {
	f      *planeFrame
	h, w   int
	lanes  int
	blocks int // vectors of a row
	framed bool
	calls  []dotsCall
}

func newDotsOut(p *geometry.Shape, f *planeFrame) dotsOut {
	o := dotsOut{f: f, h: p.OutH(), w: p.OutW(), lanes: kernel.Lanes()}
	o.framed = o.w%narrow > 0
	all := o.w
	if o.framed {
		all = (f.images-1)*f.pitch + o.w
	}
	if kernel.CeilDiv(all, o.lanes)*o.lanes > kernel.CeilDiv(all, narrow)*narrow {
		o.lanes = narrow
	}
	o.blocks = kernel.CeilDiv(all, o.lanes)
	return o
}

// line is the elements between the rows of a frame of dy.
func (o *dotsOut) line() int { return o.blocks*o.lanes + narrow }

// GradWeight writes or adds the gradient of the weights to dw. It reports false, and leaves dw alone, if a sum is
// not a number: an infinite input has met the zeros between two planes, and another algorithm has to tell.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) bool {
	if !p.Depthwise() {
		d := newDense(p)
		return d.gradWeight(x, dy, dw, scratch, accumulate)
	}
	if reachesAcross(p) {
		a := newAcross(p, scratch)
		a.gradWeight(x, dy, dw, accumulate)
		return true
	}
	if s, ok := thirdsOf(p, geometry.ToWeight); ok {
		return writeSums(s.WeightSums(x, dy, scratch), dw, accumulate)
	}
	if f, ok := foursOf(p); ok {
		return writeSums(f.WeightSums(x, dy, scratch), dw, accumulate)
	}
	if l, ok := lines.Of(p); ok {
		return writeSums(l.WeightSums(x, dy, scratch), dw, accumulate)
	}
	if !takesSmall(p, geometry.ToWeight) && takesWide(p, geometry.ToWeight) {
		return wideGradWeight(p, x, dy, dw, scratch, accumulate)
	}
	if takesTiles(p, geometry.ToWeight) {
		return tilesGradWeight(p, x, dy, dw, scratch, accumulate)
	}
	if !takesSmall(p, geometry.ToWeight) && slides(p, geometry.ToWeight) {
		return slideGradWeight(p, x, dy, dw, scratch, accumulate)
	}
	n := p.K * p.R * p.S
	sums, scratch := scratch[:n], scratch[n:]
	clear(sums)
	if takesSmall(p, geometry.ToWeight) {
		smallSums(p, x, dy, sums, scratch)
	} else if takesWideStrided(p, geometry.ToWeight) {
		wideStridedSums(p, x, dy, sums, scratch)
	} else if isStrided(p, geometry.ToWeight) {
		s, lanes := newStrided(p, scratch)
		s.gradWeight(x, dy, sums, lanes)
	} else {
		framedSums(p, x, dy, sums, scratch)
	}
	return writeSums(sums, dw, accumulate)
}

// writeSums writes or adds sums to dw, and reports whether they are numbers: else it leaves dw alone.
func writeSums(sums, dw []float32, accumulate bool) bool {
	if !sumsUp(sums) {
		return false
	}
	if accumulate {
		elementwise.AddTo(dw[:len(sums)], sums)
	} else {
		copy(dw, sums)
	}
	return true
}

// framedSums adds the gradient of the weights to sums, from planes in frames.
func framedSums(p *geometry.Shape, x, dy, sums, scratch []float32) {
	f, taps, plane := inputFrame(p, planeElems), p.R*p.S, p.OutH()*p.OutW()
	o := newDotsOut(p, &f)
	f.prepare(p.C*p.H*p.W, p.W)
	o.calls, scratch = f.dotsCalls(p, scratch)
	frame, grads := scratch[:f.elems()], scratch[f.elems():][:o.h*o.line()]
	clear(frame)
	clear(grads)
	for n := 0; n < p.N; n += f.images {
		images := min(f.images, p.N-n)
		if images < f.images { // images of the batch before are zero in dy
			clear(grads)
		}
		for k := range p.K {
			if multiplier := p.K / p.C; k%multiplier == 0 {
				f.fill(images, x[(n*p.C+k/multiplier)*p.H*p.W:], frame)
			}
			from, to := dy[(n*p.K+k)*plane:], sums[k*taps:][:taps]
			if !o.framed {
				o.columns(images, p.K*plane, o.w, frame, from, to)
				continue
			}
			c := geometry.PlaneCopy{Images: images, Rows: o.h, Src: &from[0], SrcImage: 4 * p.K * plane, SrcRow: 4 * o.w, Dst: &grads[0], DstImage: 4 * f.pitch, DstRow: 4 * o.line()}
			c.SetWidth(o.w, 1)
			c.Frame()
			o.columns(1, 0, o.line(), frame, grads, to)
		}
	}
}

// sumsUp reports whether x has no NaN, nor infinities of both signs.
func sumsUp(x []float32) bool { return !math.IsNaN(reduce.Sum64(x)) }

// dotsCall is a call of the micro-kernel for some columns of taps, one row of the frame after every other.
type dotsCall struct {
	height, views int32
	every         int32
	dw, row       int32 // the first weight, and the distance of those below it
	x             [9]int32
}

const dotsCallElems = int(unsafe.Sizeof(dotsCall{}) / 4)

// dotsCalls lists them in scratch.
func (f *planeFrame) dotsCalls(p *geometry.Shape, scratch []float32) (calls []dotsCall, rest []float32) {
	calls = unsafe.Slice((*dotsCall)(unsafe.Pointer(&scratch[0])), p.R*p.S)[:0]
	rest = scratch[p.R*p.S*dotsCallElems:]
	if taps := p.R * p.S; p.StrideH > 1 && taps <= planeViews[0] { // columns would be short, and calls many
		c := dotsCall{height: 1, views: int32(taps), every: 1}
		for i := range c.x {
			t := min(i, taps-1)
			c.x[i] = int32(f.at(t/p.S*p.DilationH(), t%p.S*p.DilationW()))
		}
		return append(calls, c), rest
	}
	for a := range p.StrideH {
		h := filterRows(p, a)
		for done := 0; done < h.N; {
			left := h.N - done
			c := dotsCall{every: 1, row: int32(h.EveryTap * p.S), height: int32(kernel.CeilDiv(left, kernel.CeilDiv(left, columnTaps)))}
			if h.N > 1 {
				c.every = int32(h.EveryTap * p.DilationH() / p.StrideH)
			}
			first := h.FirstTap + done*h.EveryTap
			for s := 0; s < p.S; s += int(c.views) {
				c.dw, c.views = int32(first*p.S+s), int32(min(planeViews[c.height-1], p.S-s))
				for i := range c.x {
					c.x[i] = int32(f.at(first*p.DilationH(), (s+min(i, int(c.views)-1))*p.DilationW()))
				}
				calls = append(calls, c)
			}
			done += int(c.height)
		}
	}
	return calls, rest
}

// columns adds the sums of every tap to dw, from images of dy whose rows lie line elements apart.
func (o *dotsOut) columns(images, image, line int, frame, dy, dw []float32) {
	var sums [columnTaps * columnTaps]float32
	t := planeDots{xImage: 4 * (o.f.pitch - o.blocks*o.lanes), dyImage: 4 * (image - o.blocks*o.lanes), out: &sums[0]}
	for i := range o.calls {
		c := &o.calls[i]
		every, height, views := int(c.every), int(c.height), planeViews[c.height-1]
		for j, x := range c.x[:views] {
			t.x[j] = &frame[x]
		}
		t.xRow, t.dyRow = 4*every*o.f.width, 4*every*line
		for e := range min(every, o.h) {
			t.images, t.blocks, t.rows = images, o.blocks, o.h
			if every > 1 {
				t.rows = kernel.CeilDiv(o.h-e, every)
			}
			t.off, t.dy = 4*e*o.f.width, &dy[e*line]
			runPlaneDots(o.lanes, height, &t)
			for j := range height {
				to := dw[int(c.dw)+j*int(c.row):]
				for k, v := range sums[j*views:][:c.views] {
					to[k] += v
				}
			}
		}
	}
}

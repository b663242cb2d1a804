package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Depthwise convolution: every output channel sees one channel, so that there is no matrix
// product, and vectors are pixels of one plane. The planes of a channel of some images are
// copied into frames of zeros, which are split by the phases of the stride; then
// every stride, dilation and filter is a list of offsets. Where rows are no whole vectors,
// a plane is one long row, whose vectors go over the ends of rows, and what lies between
// is dropped. What pads the end of a row there also pads the beginning of the next. So an
// infinite input may give NaN in gradients of weights that do not meet it.

// planeTile is a call of the micro-kernel for groups of vectors: y = bias + Σ weights·x, where
// tap i sees x at the byte offset off[i]. Groups, vectors of a group and images lie as many
// bytes apart as their steps say. The kernel counts in images. The layout is known to gen/conv/planes.go.
type planeTile struct {
	images, xImage, yImage int
	groups, xGroup, yGroup int
	taps                   int
	off                    *int32
	weights                *float32
	bias                   float32
	x, y                   *float32
	xStep, yStep           int
}

// planeViews is how many taps a call of planeDots takes.
const planeViews = 9

// planeDots is a call of the micro-kernel of weight gradients: out[i] = Σ dy·x[i] over vectors
// of rows of images. Behind each row, and each image, addresses move on by as many bytes
// more. The kernel counts in images. The layout is known to gen/conv/planes.go.
type planeDots struct {
	images, rows, vectors          int
	xNext, xImage, dyNext, dyImage int
	dy, out                        *float32
	x                              [planeViews]*float32
}

// planeCopy is a call of the copies of rows. All steps are bytes; vectors are the whole ones of a
// row before its last, and tail and tail2 the lanes of the last. odd is the distance of the odd elements'
// place. The kernel counts in images. The layout is known to gen/conv/planes.go.
type planeCopy struct {
	images, rows, vectors              int
	src, dst                           *float32
	odd                                int
	srcImage, srcRow, dstImage, dstRow int
	tail, tail2                        kernel.Mask
}

// setWidth is for rows of n elements in steps of some vectors of eight.
func (c *planeCopy) setWidth(n, vectors int) {
	const eight = 8
	c.vectors = (n - 1) / (eight * vectors)
	n -= c.vectors * eight * vectors
	c.tail, c.tail2 = kernel.FirstOfEight(min(n, eight)), kernel.FirstOfEight(max(0, n-eight))
}

// planeElems bounds the frames that are worked on at once, so that they stay in the L1 cache.
const planeElems = 1 << 11

// planeFrame is where the planes of one channel lie: [images][phases of rows][phases of
// columns][rows][width]. Element (0, 0) of a plane is top and left elements from the corner, before the split.
type planeFrame struct {
	stepH, stepW, top, left int
	h, w                    int // of what is copied: the rest is never looked at
	rows, width             int
	phase, image            int // elements
}

// newPlaneFrame is for planes of h×w of whose phases rows×columns are looked at.
func newPlaneFrame(h, w, stepH, stepW, top, left, rows, columns int) planeFrame {
	f := planeFrame{stepH: stepH, stepW: stepW, top: top, left: left, rows: rows}
	shared := left / stepW
	last := min(columns-1, (left+w-1)/stepW)
	f.width = max(columns-shared, last+1)
	f.h, f.w = min(h, rows*stepH-top), min(w, (last+1)*stepW-left)
	f.phase = rows*f.width + shared + kernel.Block
	f.image = stepH * stepW * f.phase
	return f
}

// at is the place that an element of the padded plane has in the frame.
func (f *planeFrame) at(row, col int) int {
	return (row%f.stepH*f.stepW+col%f.stepW)*f.phase + row/f.stepH*f.width + col/f.stepW
}

// fill copies planes of rows of n elements, between elements apart, into cleared frames.
func (f *planeFrame) fill(images, between, n int, x, frames []float32) {
	for i := range min(f.stepH, f.h) {
		c := planeCopy{images: images, rows: kernel.CeilDiv(f.h-i, f.stepH), src: &x[i*n], srcImage: 4 * between, srcRow: 4 * f.stepH * n, dstImage: 4 * f.image, dstRow: 4 * f.width}
		to := f.at(f.top+i, f.left)
		c.dst = &frames[to]
		switch f.stepW {
		case 1:
			c.setWidth(f.w, 1)
			vecFramePlanes(&c)
		case 2:
			c.setWidth(f.w, 2)
			c.odd = 4 * (f.at(f.top+i, f.left+1) - to)
			vecSplitPlanes(&c)
		default:
			f.split(&c, i, between, n, x, frames)
		}
	}
}

// split is fill for the rows i, i+stepH and so on, one element after the other.
func (f *planeFrame) split(c *planeCopy, i, between, n int, x, frames []float32) {
	for image := range c.images {
		for r := range c.rows {
			from := x[image*between+(i+r*f.stepH)*n:][:f.w]
			for j, v := range from {
				frames[image*f.image+f.at(f.top+i+r*f.stepH, f.left+j)] = v
			}
		}
	}
}

// planeOut is how h×w pixels are computed from frames whose rows lie width apart: as vectors of their
// rows, or as those of one long row.
type planeOut struct {
	h, w, width int
	lanes       int
	long        int // vectors of the long row, or 0
}

func newPlaneOut(h, w, width int) planeOut {
	const narrow, long = 8, 64
	o := planeOut{h: h, w: w, width: width, lanes: kernel.Lanes()}
	n := (h-1)*width + w
	switch {
	case w%o.lanes == 0:
	case w%narrow == 0:
		o.lanes = narrow
	default:
		if n < long {
			o.lanes = narrow
		}
		o.long = kernel.CeilDiv(n, o.lanes)
	}
	return o
}

// line is the elements between the rows of the result, where it is not written to its place; elems those of an image.
func (o *planeOut) line() int {
	if o.long > 0 {
		return o.width
	}
	return o.w
}

func (o *planeOut) elems() int {
	if o.long > 0 {
		return o.long * o.lanes
	}
	return o.h * o.w
}

// run computes the pixels of some images. xImage is the elements between their frames, yImage
// those between results, and line those between rows of the result if it is not one long row.
func (o *planeOut) run(t planeTile, images, xImage, yImage, line int, x, y []float32) {
	t.xImage, t.yImage = 4*xImage, 4*yImage
	count, blocks, step := o.h, o.w/o.lanes, o.width
	if o.long > 0 {
		count, blocks, step, line = o.long, 1, o.lanes, o.lanes
	}
	t.xStep, t.yStep = 4*step, 4*line
	for b := range blocks {
		done := 0
		for vectors := 8; vectors > 0; vectors /= 2 {
			if t.groups = (count - done) / vectors; t.groups == 0 {
				continue
			}
			t.images, t.xGroup, t.yGroup = images, 4*vectors*step, 4*vectors*line
			t.x, t.y = &x[b*o.lanes+done*step], &y[b*o.lanes+done*line]
			runPlaneTile(o.lanes, vectors, &t)
			done += t.groups * vectors
		}
	}
}

// Takes reports whether a convolution is depthwise, and its planes are looked at.
func Takes(p *geometry.Shape, d geometry.Direction) bool {
	if p.GroupCount() < 2 || p.C != p.GroupCount() {
		return false
	}
	f := inputFrame(p)
	if d == geometry.ToInput {
		f = newPlaneGrad(p).planeFrame
	}
	return f.h > 0 && f.w > 0
}

// inputFrame is that of x.
func inputFrame(p *geometry.Shape) planeFrame {
	return newPlaneFrame(p.H, p.W, p.StrideH, p.StrideW, p.PadH, p.PadW,
		p.OutH()+(p.R-1)*p.DilationH()/p.StrideH, p.OutW()+(p.S-1)*p.DilationW()/p.StrideW)
}

// batch is how many images' frames are worked on at once, of so many channels.
func (f *planeFrame) batch(images, channels int) int {
	return min(images, max(1, planeElems/(channels*f.image)))
}

// taps writes the byte offset of every tap.
func (f *planeFrame) taps(p *geometry.Shape, off []int32) {
	for i := range off {
		off[i] = int32(4 * f.at(i/p.S*p.DilationH(), i%p.S*p.DilationW()))
	}
}

// cutTaps cuts a table of n offsets from scratch.
func cutTaps(n int, scratch []float32) (off []int32, rest []float32) {
	return unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), n), scratch[n:]
}

// Scratch is the number of scratch elements that a direction needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	f, taps, channels := inputFrame(p), p.R*p.S, 1
	out := newPlaneOut(p.OutH(), p.OutW(), f.width)
	if d == geometry.ToInput {
		g := newPlaneGrad(p)
		f, out, channels = g.planeFrame, g.out(p.H), p.K/p.GroupCount()
		return 2*channels*taps + f.batch(p.N, channels)*(channels*f.image+p.StrideW*out.elems()) + 2*kernel.Block
	}
	return taps + f.batch(p.N, 1)*(f.image+out.elems()+kernel.Block) + 2*kernel.Block
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	f, taps, plane := inputFrame(p), p.R*p.S, p.OutH()*p.OutW()
	out, batch := newPlaneOut(p.OutH(), p.OutW(), f.width), f.batch(p.N, 1)
	off, scratch := cutTaps(taps, scratch)
	f.taps(p, off)
	frames, long := scratch[:batch*f.image+kernel.Block], scratch[batch*f.image+kernel.Block:]
	clear(frames)
	t := planeTile{taps: taps, off: &off[0]}
	for n := 0; n < p.N; n += batch {
		images := min(batch, p.N-n)
		for k := range p.K {
			if multiplier := p.K / p.C; k%multiplier == 0 {
				f.fill(images, p.C*p.H*p.W, p.W, x[(n*p.C+k/multiplier)*p.H*p.W:], frames)
			}
			if t.weights = &w[k*taps]; bias != nil {
				t.bias = bias[k]
			}
			to := y[(n*p.K+k)*plane:]
			if out.long == 0 {
				out.run(t, images, f.image, p.K*plane, out.w, frames, to)
				continue
			}
			out.run(t, images, f.image, out.elems(), 0, frames, long)
			out.cut(images, long, to, p.K*plane, out.w)
		}
	}
}

// cut copies the rows of long ones to y, whose images and rows lie so many elements apart.
func (o *planeOut) cut(images int, long, y []float32, between, line int) {
	c := planeCopy{images: images, rows: o.h, src: &long[0], srcImage: 4 * o.elems(), srcRow: 4 * o.line(), dst: &y[0], dstImage: 4 * between, dstRow: 4 * line}
	c.setWidth(o.w, 1)
	vecCutPlanes(&c)
}

// planeGrad is the frame of dy, from which every phase of dx is a convolution with stride 1.
type planeGrad struct {
	planeFrame
	p *geometry.Shape
}

func newPlaneGrad(p *geometry.Shape) planeGrad {
	top, rows := leadOf(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
	left, columns := leadOf(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	return planeGrad{newPlaneFrame(p.OutH(), p.OutW(), 1, 1, top, left, rows, columns), p}
}

// leadOf is how far any phase looks back before dy, and how many elements from there on are looked at.
func leadOf(in, out, stride, pad, taps, dil int) (lead, elems int) {
	end := 0
	for a := range stride {
		if h := geometry.NewPhase(a, in, out, stride, pad, taps, dil); h.N > 0 {
			lead = max(lead, -h.Axis.Least())
			end = max(end, kernel.CeilDiv(in, stride)+h.Axis.First)
		}
	}
	return lead, end + lead
}

// out is how a phase of h rows is computed. All have as many columns, if the last counts or not.
func (g *planeGrad) out(h int) planeOut {
	return newPlaneOut(h, kernel.CeilDiv(g.p.W, g.p.StrideW), g.width)
}

// setTaps lists the taps that reach a phase of dx of group c, and their weights.
func (g *planeGrad) setTaps(h, v *geometry.Phase, channel int, w []float32, off []int32, weights []float32) int {
	p, n := g.p, 0
	for k := range p.K / p.C {
		for r := range h.N {
			for s := range v.N {
				row, col := h.Axis.First+r*h.Axis.Step+g.top, v.Axis.First+s*v.Axis.Step+g.left
				off[n] = int32(4 * (k*channel + row*g.width + col))
				weights[n] = w[(k*p.R+h.FirstTap+r*h.EveryTap)*p.S+v.FirstTap+s*v.EveryTap]
				n++
			}
		}
	}
	return n
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	g, multiplier, plane := newPlaneGrad(p), p.K/p.C, p.OutH()*p.OutW()
	batch, taps := g.batch(p.N, multiplier), multiplier*p.R*p.S
	channel := batch * g.image
	off, scratch := cutTaps(taps, scratch)
	weights, scratch := scratch[:taps], scratch[taps:]
	frames, room := scratch[:multiplier*channel+kernel.Block], scratch[multiplier*channel+kernel.Block:]
	clear(frames)
	for n := 0; n < p.N; n += batch {
		images := min(batch, p.N-n)
		for c := range p.C {
			for k := range multiplier {
				g.fill(images, p.K*plane, p.OutW(), dy[(n*p.K+c*multiplier+k)*plane:], frames[k*channel:])
			}
			for a := range p.StrideH {
				if h := geometry.NewPhase(a, p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH()); h.Pixels > 0 {
					g.rows(&h, images, channel, w[c*taps:][:taps], frames, off, weights, room, dx[(n*p.C+c)*p.H*p.W:])
				}
			}
		}
	}
}

// rows computes one phase of the rows of dx, of one channel of some images.
func (g *planeGrad) rows(h *geometry.Phase, images, channel int, w, frames []float32, off []int32, weights, room, dx []float32) {
	p, out := g.p, g.out(h.Pixels)
	between, line := p.C*p.H*p.W, p.StrideH*p.W
	dx = dx[h.Pixel*p.W:]
	size := images * out.elems()
	for a := range p.StrideW {
		v := geometry.NewPhase(a, p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
		t := planeTile{taps: g.setTaps(h, &v, channel, w, off, weights), off: &off[0], weights: &weights[0]}
		to := room[v.Pixel*size:]
		switch {
		case t.taps == 0:
			clear(to[:size])
		case p.StrideW == 1 && out.long == 0:
			out.run(t, images, g.image, between, line, frames, dx)
			return
		default:
			out.run(t, images, g.image, out.elems(), out.line(), frames, to)
		}
	}
	switch p.StrideW {
	case 1:
		out.cut(images, room, dx, between, line)
	case 2:
		c := planeCopy{images: images, rows: h.Pixels, src: &room[0], srcImage: 4 * out.elems(), srcRow: 4 * out.line(), dst: &dx[0], dstImage: 4 * between, dstRow: 4 * line, odd: 4 * size}
		c.setWidth(p.W, 2)
		vecJoinPlanes(&c)
	default:
		g.join(&out, images, room, dx)
	}
}

// join writes the phases of rows of dx, one element after the other.
func (g *planeGrad) join(o *planeOut, images int, room, dx []float32) {
	p, size := g.p, images*o.elems()
	for i := range images {
		for r := range o.h {
			to := dx[i*p.C*p.H*p.W+r*p.StrideH*p.W:][:p.W]
			for j := range to {
				to[j] = room[j%p.StrideW*size+i*o.elems()+r*o.line()+j/p.StrideW]
			}
		}
	}
}

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	f, taps, plane := inputFrame(p), p.R*p.S, p.OutH()*p.OutW()
	out, batch := newPlaneOut(p.OutH(), p.OutW(), f.width), f.batch(p.N, 1)
	off, scratch := cutTaps(taps, scratch)
	f.taps(p, off)
	clear(scratch[:batch*(f.image+out.elems()+kernel.Block)+2*kernel.Block])
	frames, long := scratch[:batch*f.image+kernel.Block], scratch[batch*f.image+kernel.Block:]
	between := out.elems() + kernel.Block
	for n := 0; n < p.N; n += batch {
		t := planeDots{rows: out.h, vectors: out.w / out.lanes, xNext: 4 * (f.width - out.w), xImage: 4 * (f.image - out.h*f.width), dyImage: 4 * (p.K - 1) * plane}
		if out.long > 0 {
			t = planeDots{rows: 1, vectors: out.long, xImage: 4 * (f.image - out.elems()), dyImage: 4 * kernel.Block}
		}
		images := min(batch, p.N-n)
		for k := range p.K {
			if multiplier := p.K / p.C; k%multiplier == 0 {
				f.fill(images, p.C*p.H*p.W, p.W, x[(n*p.C+k/multiplier)*p.H*p.W:], frames)
			}
			from := dy[(n*p.K+k)*plane:]
			if t.dy = &from[0]; out.long > 0 {
				out.frame(images, p.K*plane, between, from, long)
				t.dy = &long[0]
			}
			out.dots(t, images, frames, off, dw[k*taps:], accumulate || n > 0)
		}
	}
}

// frame copies the rows of dy to long ones, whose gaps are cleared.
func (o *planeOut) frame(images, between, image int, dy, long []float32) {
	c := planeCopy{images: images, rows: o.h, src: &dy[0], srcImage: 4 * between, srcRow: 4 * o.w, dst: &long[0], dstImage: 4 * image, dstRow: 4 * o.width}
	c.setWidth(o.w, 1)
	vecFramePlanes(&c)
}

// dots writes or adds the sums of the taps to dw.
func (o *planeOut) dots(t planeDots, images int, frames []float32, off []int32, dw []float32, add bool) {
	var sums [planeViews]float32
	t.out = &sums[0]
	for tap := 0; tap < len(off); tap += planeViews {
		for i := range t.x {
			t.x[i] = &frames[off[min(tap+i, len(off)-1)]/4]
		}
		t.images = images
		runPlaneDots(o.lanes, &t)
		to := dw[tap:min(tap+planeViews, len(off))]
		for i, v := range sums[:len(to)] {
			if add {
				v += to[i]
			}
			to[i] = v
		}
	}
}

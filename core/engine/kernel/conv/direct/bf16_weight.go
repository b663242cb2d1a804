package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// dotColsBF16 is how many views of x the micro-kernel of bfloat16 takes.
const dotColsBF16 = 5

// TakesWeightBF16 reports whether the weight gradient is computed directly: by filters of 1×1 as a product of
// matrices, else where rows of pixels fill their vectors.
func TakesWeightBF16(p *geometry.Shape) bool {
	if pointwise(p) {
		return p.OutH()*p.OutW() >= fewWeightPixels
	}
	ow := p.OutW()
	return kernel.HasBF16() && p.GroupCount() == 1 && p.Stride1() && p.FitsFrame() && p.K >= maxDotRows &&
		4*ow >= 3*kernel.CeilDiv(ow, kernel.PairLanes)*kernel.PairLanes
}

// weightCallBF16 is a weight gradient over a batch of images in frames of bfloat16.
type weightCallBF16 struct {
	p      geometry.Shape
	frame  geometry.Frame
	size   int      // elements of a framed image, with what a vector may read past it
	images []uint16 // framed
	taps   []int32  // place of each tap's first element in the frame
	steps  []dotStep
	dw     []float32
	add    bool
	sums   [maxDotRows * dotColsBF16]float32
}

func newWeightCallBF16(p *geometry.Shape) weightCallBF16 {
	f := p.InputFrame()
	return weightCallBF16{p: *p, frame: f, size: (f.Elems() + 2*kernel.PairLanes - 1) &^ (kernel.PairLanes - 1)}
}

// batch is how many images stay framed at a time.
func (d *weightCallBF16) batch() int {
	return max(1, min(d.p.N, gradBatchElems/(d.frame.Elems()+kernel.PairLanes)))
}

// stepsOf counts the vectors of a framed image.
func (d *weightCallBF16) stepsOf() int {
	return d.p.OutH() * kernel.CeilDiv(d.p.OutW(), kernel.PairLanes)
}

// BF16WeightScratch is the number of scratch elements that GradWeightBF16 needs.
func BF16WeightScratch(p *geometry.Shape) int {
	if !TakesWeightBF16(p) {
		return 0
	}
	if pointwise(p) {
		return pixelScratch(p)
	}
	d := newWeightCallBF16(p)
	const perStep = int(unsafe.Sizeof(dotStep{}) / 4)
	return kernel.Block + p.PatchSize() + d.batch()*(d.stepsOf()*perStep+d.size/2)
}

// GradWeightBF16 writes or adds the gradient of the weights to dw, unrounded.
func GradWeightBF16(p *geometry.Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	if pointwise(p) {
		gradPixelWeight(p, x, dy, dw, scratch, accumulate)
		return
	}
	d := newWeightCallBF16(p)
	d.dw = dw
	batch := d.batch()
	d.reserve(batch, scratch)
	for n := 0; n < p.N; n += batch {
		count := min(batch, p.N-n)
		for b := range count {
			d.fill(x[(n+b)*p.C*p.H*p.W:], d.images[b*d.size:])
		}
		d.steps = d.steps[:count*d.stepsOf()]
		d.add = accumulate || n > 0
		d.run(dy[n*p.K*p.OutH()*p.OutW():])
	}
}

// reserve cuts the images, which start as zeros and each at a line of the cache, and the tables from scratch.
func (d *weightCallBF16) reserve(batch int, scratch []float32) {
	p, f := &d.p, d.frame
	const perStep, line = int(unsafe.Sizeof(dotStep{}) / 4), 4 * kernel.Block
	scratch = scratch[-uintptr(unsafe.Pointer(&scratch[0]))%line/4:]
	d.images = unsafe.Slice((*uint16)(unsafe.Pointer(&scratch[0])), batch*d.size)
	clear(d.images)
	scratch = scratch[batch*d.size/2:]
	steps := batch * d.stepsOf()
	d.setSteps(unsafe.Slice((*dotStep)(unsafe.Pointer(&scratch[0])), steps))
	scratch = scratch[steps*perStep:]
	d.taps = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), p.PatchSize())
	for i := range d.taps {
		ch, r, s := i/(p.R*p.S), i%(p.R*p.S)/p.S, i%p.S
		d.taps[i] = int32(ch*f.Plane + r*p.DilationH()*f.Width + s*p.DilationW())
	}
}

// fill copies an image's planes into a frame whose border is zero already.
func (d *weightCallBF16) fill(x, dst []uint16) {
	f := d.frame
	for c := range f.Channels {
		for i := range f.H {
			copy(dst[f.First()+c*f.Plane+i*f.Width:][:f.W], x[(c*f.H+i)*f.W:])
		}
	}
}

// setSteps lists in steps the vectors of output pixels of a batch of images.
func (d *weightCallBF16) setSteps(steps []dotStep) {
	oh, ow := d.p.OutH(), d.p.OutW()
	perRow := kernel.CeilDiv(ow, kernel.PairLanes)
	d.steps = steps
	for s := range d.steps {
		b, v := s/(oh*perRow), s%(oh*perRow)
		row, col := v/perRow, v%perRow*kernel.PairLanes
		d.steps[s] = dotStep{
			dy:    int32(2 * (b*d.p.K*oh*ow + row*ow + col)),
			x:     int32(2 * (b*d.size + row*d.frame.Width + col)),
			lanes: kernel.Mask(1)<<min(kernel.PairLanes, ow-col) - 1,
		}
	}
}

// run computes dw tile by tile. The last tiles of either direction overlap those
// before them, and leave what is done already.
func (d *weightCallBF16) run(dy []uint16) {
	plane, taps := d.p.OutH()*d.p.OutW(), d.p.PatchSize()
	t := dotTile{count: len(d.steps), steps: &d.steps[0], stride: 2 * plane, out: &d.sums[0]}
	for k := 0; k < d.p.K; k += maxDotRows {
		first := min(k, d.p.K-maxDotRows)
		t.dy = (*float32)(unsafe.Pointer(&dy[first*plane]))
		for tap := 0; tap < taps; tap += dotColsBF16 {
			for j := range dotColsBF16 {
				t.x[j] = (*float32)(unsafe.Pointer(&d.images[d.taps[min(tap+j, taps-1)]]))
			}
			runPairDots(&t)
			d.store(first, k, min(k+maxDotRows, d.p.K), tap)
		}
	}
}

// store puts the sums of filters [from, to) into dw; the tile starts at filter first.
func (d *weightCallBF16) store(first, from, to, tap int) {
	taps := d.p.PatchSize()
	for k := from; k < to; k++ {
		sums := d.sums[(k-first)*dotColsBF16:][:min(dotColsBF16, taps-tap)]
		row := d.dw[k*taps+tap:][:len(sums)]
		for j, v := range sums {
			if d.add {
				v += row[j]
			}
			row[j] = v
		}
	}
}

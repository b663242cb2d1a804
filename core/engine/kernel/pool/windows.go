package pool

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// windows are the tables with which vector kernels pool float32 planes of one geometry. They are only read, so that
// several goroutines may use them.
type windows struct {
	shape    Shape
	frame    geometry.Frame // of a plane, split by the stride
	border   []int32        // places in the frame around the plane
	taps     []windowTap    // in the order of a plane's elements
	columns  []int32
	first    []int32
	rows     []rowAt
	divisors []float32 // of each output's mean
	grad     geometry.Frame
	phases   []gradPhase
}

// gradPhase is the pixels of an image that see the outputs through the same taps.
type gradPhase struct {
	h, w  geometry.Phase
	taps  []windowTap // in the order of the outputs
	joins bool        // the last column phase of some rows
}

// fewestColumns is how many outputs a row has to have: narrower planes take less time in plain Go.
const fewestColumns = 4

// Prepare makes the tables for vector kernels, if there are any for this geometry. Without
// them, plain Go pools.
func (p *Shape) Prepare() {
	p.separate = newSeparate(p)
	g := geometry.Shape{N: 1, C: 1, H: p.H, W: p.W, K: 1, R: p.R, S: p.S, StrideH: p.StrideH, StrideW: p.StrideW, PadH: p.PadH, PadW: p.PadW}
	if kernel.Current() == kernel.Generic || p.OutW() < fewestColumns || g.OutH() != p.OutH() || g.OutW() != p.OutW() || !g.FitsFrame() {
		return
	}
	w := &windows{shape: *p, frame: g.InputFrame(), grad: g.GradFrame()}
	w.findBorder()
	w.findWindows()
	w.findDivisors()
	if p.R >= p.StrideH && p.S >= p.StrideW { // every pixel is seen
		g.Phases(func(h, v geometry.Phase) { w.phases = append(w.phases, w.newPhase(h, v)) })
		for i := range w.phases {
			w.phases[i].joins = i == len(w.phases)-1 || w.phases[i+1].h.Pixel != w.phases[i].h.Pixel
		}
	}
	p.windows = w
}

// MaxScratch is how many elements MaxPool2D needs.
func (p *Shape) MaxScratch() int {
	if p.Halves() || p.windows == nil {
		return 0
	}
	return p.windows.frame.Elems()
}

// Scratch is how many elements AvgPool2D needs.
func (p *Shape) Scratch() int {
	if p.windows == nil || p.apart() {
		return 0
	}
	return p.windows.frame.Elems()
}

// GradScratch is how many elements AvgPool2DGrad needs.
func (p *Shape) GradScratch() int {
	if !p.spreads() {
		return 0
	}
	w := p.windows
	return w.grad.Elems() + w.shares() + w.phaseRoom()
}

// spreads reports whether vector kernels compute the gradient of average pooling.
func (p *Shape) spreads() bool {
	return p.separate == nil && p.windows != nil && p.windows.phases != nil
}

func (w *windows) findBorder() {
	p, top := w.shape, w.shape.PadH
	for row := range p.H + 2*p.PadH {
		for col := range p.W + 2*p.PadW {
			if row < top || row >= top+p.H || col < p.PadW || col >= p.PadW+p.W {
				w.border = append(w.border, int32(w.frame.At(row, col)))
			}
		}
	}
}

func (w *windows) findWindows() {
	p := w.shape
	for r := range p.R {
		for s := range p.S {
			w.taps = append(w.taps, windowTap{offset: 4 * w.frame.At(r, s), place: int32(r*p.W + s)})
		}
	}
	w.columns = make([]int32, kernel.CeilDiv(p.OutW(), kernel.Block)*kernel.Block)
	w.first = make([]int32, len(w.columns))
	for j := range w.columns {
		at := min(j, p.OutW()-1)*p.StrideW - p.PadW
		w.columns[j], w.first[j] = int32(at), int32(max(at, 0))
	}
	for i := range p.OutH() {
		at := i*p.StrideH - p.PadH
		w.rows = append(w.rows, rowAt{inside: int32(max(at, 0) * p.W), start: int32(at * p.W)})
	}
}

func (w *windows) findDivisors() {
	w.divisors = make([]float32, w.shape.OutH()*w.shape.OutW()+kernel.Block)
	for i := range w.divisors {
		w.divisors[i] = 1
	}
	for i := range w.shape.OutH() {
		w.shape.eachWindow(i, func(o, _, _, _, _, count int) { w.divisors[i*w.shape.OutW()+o] = float32(count) })
	}
}

func (w *windows) newPhase(h, v geometry.Phase) gradPhase {
	f := gradPhase{h: h, w: v}
	top, left := w.grad.Corner()
	for r := h.N - 1; r >= 0; r-- {
		for s := v.N - 1; s >= 0; s-- {
			at := w.grad.At(top+h.Axis.First+r*h.Axis.Step, left+v.Axis.First+s*v.Axis.Step)
			f.taps = append(f.taps, windowTap{offset: 4 * at})
		}
	}
	return f
}

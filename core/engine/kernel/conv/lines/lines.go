package lines

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Lines is a depthwise convolution of planes of one row, or of one column, with a filter that lies along it, or of planes with a filter of one tap. What a tap sees of a row
// is the row itself, some elements on; see windows.
type Lines struct {
	images, channels int
	outputs          int // of each channel
	in, out          int // elements of a row of x, and of y
	taps, step       int // elements of x from what a tap sees to what the next one does
	stride, pad      int
}

const (
	shortest = 8      // elements of a row of x, or of results of one
	mostTaps = 1 << 9 // of all outputs of a channel, if there are several
)

// Of is the convolution along rows that p is, if it is one.
func Of(p *geometry.Shape) (l Lines, ok bool) {
	l = Lines{images: p.N, channels: p.C, outputs: p.K / p.C}
	switch {
	case !p.Depthwise():
		return l, false
	case p.R*p.S == 1 && p.PadH+p.PadW == 0 && p.StrideH*p.StrideW == 1: // a plane is one row
		l.in, l.out, l.taps, l.step, l.stride = p.H*p.W, p.H*p.W, 1, 1, 1
	case p.R == 1 && p.PadH == 0 && p.H == 1:
		l.in, l.out, l.taps, l.step, l.stride, l.pad = p.W, p.OutW(), p.S, p.DilationW(), p.StrideW, p.PadW
	case p.S == 1 && p.PadW == 0 && p.W == 1:
		l.in, l.out, l.taps, l.step, l.stride, l.pad = p.H, p.OutH(), p.R, p.DilationH(), p.StrideH, p.PadH
	default:
		return l, false
	}
	if l.outputs > 1 && l.outputs*l.taps > mostTaps {
		return l, false
	}
	return l, l.stride <= 2 && min(l.out, kernel.CeilDiv(l.in, l.stride)) >= shortest && l.pad <= (l.taps-1)*l.step
}

// Forward computes y = conv(x, w) + bias; bias may be nil. Scratch has the elements that l.Scratch says.
func (l *Lines) Forward(x, w, bias, y, scratch []float32) { l.results(false, x, w, bias, y, scratch) }

// GradInput computes the gradient of x from dy and w, and overwrites dx.
func (l *Lines) GradInput(dy, w, dx, scratch []float32) { l.results(true, dy, w, nil, dx, scratch) }

// results computes y from x, or, if back, dx from dy.
func (l *Lines) results(back bool, x, weights, bias, y, scratch []float32) {
	w := l.windowsOf(back)
	w.setTables(l, back, scratch)
	images, rows := w.atOnce(l.images, w.channels)
	for n := 0; n < l.images; n += images {
		for row := 0; row < w.channels; row += rows {
			for output := range w.writes {
				t := w.call(n, min(images, l.images-n), row, min(rows, w.channels-row), output, x, y)
				filter := row*l.outputs + output
				w.setWeights(&t, weights[filter*w.taps:])
				t.weightsRow, t.bias = 4*l.outputs*w.taps, &geometry.NoBias[0]
				if bias != nil {
					t.bias, t.biasRow = &bias[filter], 4*l.outputs
				}
				w.run(&t)
			}
		}
	}
}

// WeightSums is the gradient of the weights, [channels][taps], in scratch: all of what other images see through a weight is added up. They are no
// numbers if x or dy has elements that are none.
func (l *Lines) WeightSums(x, dy, scratch []float32) []float32 {
	w, lanes := l.windowsOf(false), kernel.Lanes()
	w.forWeights()
	scratch = w.setTables(l, false, scratch)
	most, filters := w.summed(), w.writes*w.taps
	sums, scratch := scratch[:most*filters*lanes], scratch[most*filters*lanes:]
	ordered, totals := scratch[:most*filters], scratch[most*filters:][:w.channels*filters]
	for first := 0; first < w.channels; first += most {
		n := min(most, w.channels-first)
		w.sum(l.images, first, n, x, dy, sums[:n*filters*lanes])
		geometry.LaneSums(lanes, sums[:n*filters*lanes], ordered[:n*filters])
		for output := range w.writes {
			w.reorder(ordered[output*n*w.taps:][:n*w.taps], totals[first*filters+output*w.taps:])
		}
	}
	return totals
}

// of is the convolution that a direction computes, without its tables.
func (l *Lines) of(d geometry.Direction) windows {
	w := l.windowsOf(d == geometry.ToInput)
	if d == geometry.ToWeight {
		w.forWeights()
	}
	return w
}

// Scratch is the number of scratch elements that a direction needs.
func (l Lines) Scratch(d geometry.Direction) int {
	w := l.of(d)
	n := w.elems()
	if d == geometry.ToWeight {
		n += w.writes * w.taps * (w.summed()*(kernel.Lanes()+1) + w.channels)
	}
	return n
}

// Work is how often a direction does what takes time.
type Work struct {
	Rows                        float64 // of results
	Products, Loads             float64 // vectors that are multiplied, and those that are loaded or stored, where a window slides along rows
	WindowProducts, WindowLoads float64 // the same, elsewhere
	Tiles                       float64 // of rows, for each group of taps, there
}

// Work counts what a direction does.
func (l Lines) Work(d geometry.Direction) (work Work) {
	w := l.of(d)
	rows, vectors := float64(l.images*l.channels*w.writes), w.vectors()
	work.Rows = rows
	if w.slides {
		work.Products, work.Loads = rows*float64(vectors*l.taps), rows*float64(w.stride*(vectors+1)+w.phases*vectors)
		if d == geometry.ToWeight {
			work.Loads += rows * float64(l.taps) / float64(min(w.slideImages(), l.images)) // sums
		}
		return work
	}
	groups := w.reads * min(l.taps, kernel.CeilDiv((l.taps-1)*l.step+1, l.stride*(w.lanes+1)))
	loads := w.stride*groups*(vectors+w.tileCount()) + w.phases*vectors
	if d == geometry.ToWeight {
		loads += l.taps * w.tileCount() // sums
	}
	work.WindowProducts, work.WindowLoads = rows*float64(w.reads*vectors*l.taps), rows*float64(loads)
	work.Tiles = rows * float64(groups*w.tileCount())
	return work
}

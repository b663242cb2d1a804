package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// tapTable lists the taps of a convolution from a frame, column by column.
type tapTable struct {
	columns [columnTaps]int // of one tap, of two, and so on
	every   int             // rows of the frame from a tap of a column to the next
	off     []int32         // byte offset of each column's first tap, those of most taps first
	index   []int32         // of each tap's weight
}

// newTable takes the room for n taps from scratch.
func newTable(n int, scratch []float32) (t tapTable, rest []float32) {
	t.every = 1
	t.off = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), n)[:0]
	t.index = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[n])), n)[:0]
	return t, scratch[2*n:]
}

// add lists n taps below each other, row elements apart, as columns of at most columnTaps: those of
// size taps. The first sees the element at, and its weight has that index.
func (t *tapTable) add(size, n, at, row, index, indexStep int) {
	for n > 0 {
		height := kernel.CeilDiv(n, kernel.CeilDiv(n, columnTaps))
		if height == size {
			t.columns[size-1]++
			t.off = append(t.off, int32(4*at))
			for i := range height {
				t.index = append(t.index, int32(index+i*indexStep))
			}
		}
		n, at, index = n-height, at+height*row, index+height*indexStep
	}
}

// inputTaps are those of the filter of p over x.
func (f *planeFrame) inputTaps(p *geometry.Shape, scratch []float32) (t tapTable, rest []float32) {
	t, rest = newTable(p.R*p.S, scratch)
	for size := columnTaps; size > 0; size-- {
		for i := range p.S * p.StrideH {
			s, h := i%p.S, filterRows(p, i/p.S)
			if h.N > 1 {
				t.every = h.EveryTap * p.DilationH() / p.StrideH
			}
			t.add(size, h.N, f.at(h.FirstTap*p.DilationH(), s*p.DilationW()), t.every*f.width, h.FirstTap*p.S+s, h.EveryTap*p.S)
		}
	}
	return t, rest
}

// filterRows are the rows of a filter that see a phase of x's rows.
func filterRows(p *geometry.Shape, phase int) geometry.Phase {
	return geometry.NewPhase(phase, 0, 0, p.StrideH, 0, p.R, p.DilationH())
}

// set makes the kernel see the table.
func (t *tapTable) set(tile *planeTile) {
	tile.columns = t.columns
	if len(t.off) > 0 {
		tile.off = &t.off[0]
	}
}

// pack copies the weights of channels, row elements apart, in the order of the table.
func (t *tapTable) pack(channels, row int, w, packed []float32) {
	for c := range channels {
		from, to := w[c*row:], packed[c*len(t.index):][:len(t.index)]
		for i, index := range t.index {
			to[i] = from[index]
		}
	}
}

package conv

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestLines has filters of one row and of one column over every length up to some vectors, rows that see one vector and many, strides of 1 and 2,
// dilations, paddings from none to one as long as the filter, and up to four outputs of each channel, in images of one row, of one column and of some of both.
func TestLines(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		var lengths []int
		for length := 1; length <= 140; length += 1 + length/40 {
			lengths = append(lengths, length)
		}
		for _, length := range append(lengths, 301, 400, 613) { // these are three tiles and more
			for i, taps := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 33} {
				stride, dilation, pad := 1+(length+i)%2, 1+(length+2*i)%3, 0
				if reach := (taps - 1) * dilation; reach > 0 {
					pad = (length*7 + i*3) % (reach + 1)
					if i%2 > 0 {
						pad = reach / 2
					}
				}
				other := 1
				if (length+i)%3 == 0 {
					other = 1 + (length+2*i)%5
				}
				p := Shape{N: 1 + (length+i)%9, C: 2 + (length+2*i)%4, H: other, W: length, R: 1, S: taps, StrideH: 1, StrideW: stride, PadW: pad, DilW: dilation}
				column := p
				column.H, column.W, column.R, column.S, column.StrideH, column.StrideW = length, other, taps, 1, stride, 1
				column.PadH, column.PadW, column.DilH, column.DilW = pad, 0, dilation, 1
				for _, p := range []Shape{p, column} {
					for _, outputs := range []int{1, 2 + (length+i)%3} {
						if p.K, p.Groups = p.C*outputs, p.C; p.Validate() == nil {
							testAlgorithm(t, Planes, &p)
						}
					}
				}
			}
		}
	})
}

// TestLinesOfManyTaps has as many taps in all outputs of a channel as package lines takes, and more, and filters of one output with as many.
func TestLinesOfManyTaps(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for _, p := range []Shape{
			{N: 2, C: 3, K: 3 * 16, H: 1, W: 70, R: 1, S: 32, StrideH: 1, StrideW: 1, PadW: 20, Groups: 3},
			{N: 2, C: 3, K: 3 * 16, H: 1, W: 70, R: 1, S: 33, StrideH: 1, StrideW: 2, PadW: 20, Groups: 3},
			{N: 1, C: 2, K: 2 * 170, H: 1, W: 40, R: 1, S: 3, StrideH: 1, StrideW: 2, PadW: 1, Groups: 2},
			{N: 1, C: 2, K: 2, H: 1, W: 560, R: 1, S: 520, StrideH: 1, StrideW: 1, PadW: 3, Groups: 2},
		} {
			testAlgorithm(t, Planes, &p)
		}
	})
}

// TestLinesKeepToTheirRows has a channel that is not a number: vectors at the ends of rows must not see the rows beside them, not even times zero.
func TestLinesKeepToTheirRows(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		defer Force(Planes)()
		for _, taps := range []int{1, 2, 3, 5, 7, 9, 11, 31} {
			for _, length := range []int{16, 19, 33, 50, 100, 131} {
				for stride := 1; stride <= 2; stride++ {
					testKeepsToRows(t, &Shape{N: 2, C: 3, K: 3, H: 1, W: length, R: 1, S: taps, StrideH: 1, StrideW: stride, PadW: taps / 2, Groups: 3})
				}
			}
		}
	})
}

func testKeepsToRows(t *testing.T, p *Shape) {
	t.Helper()
	if p.Validate() != nil {
		return
	}
	rows := func(n int) []float32 {
		v := make([]float32, p.N*p.C*n)
		for i := range v {
			if v[i] = 1; i/n%p.C == 1 {
				v[i] = float32(math.NaN())
			}
		}
		return v
	}
	x, dy, w, scratch := rows(p.W), rows(p.OutW()), make([]float32, p.C*p.S), make([]float32, Scratch[float32](p))
	for i := range w {
		w[i] = 1
	}
	y, dx, dw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
	Forward(p, x, w, nil, y, scratch)
	GradInput(p, dy, w, dx, scratch)
	GradWeight(p, x, dy, dw, scratch, false)
	for name, v := range map[string][]float32{"y": y, "dx": dx, "dw": dw} {
		n := p.OutW()
		switch name {
		case "dx":
			n = p.W
		case "dw":
			n = p.S
		}
		for i, e := range v {
			if i/n%p.C != 1 && e != e {
				t.Fatalf("%s of %v: element %d is %v", name, p, i, e)
			}
		}
	}
}

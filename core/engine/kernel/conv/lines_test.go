package conv

import (
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

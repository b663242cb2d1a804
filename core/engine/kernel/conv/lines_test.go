package conv

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestLines has filters of one row and of one column over every length up to some vectors, rows that see one vector and many, strides of 1 and 2,
// dilations, and paddings from none to one as long as the filter, in images of one row, of one column and of some of both.
func TestLines(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		var lengths []int
		for length := 1; length <= 140; length += 1 + length/40 {
			lengths = append(lengths, length)
		}
		for _, length := range append(lengths, 301, 400, 613) { // these are three tiles and more
			for i, taps := range []int{1, 2, 3, 4, 7, 9, 17, 33} {
				stride, dilation, pad := 1+(length+i)%2, 1+(length*i)%3, 0
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
					if p.K, p.Groups = p.C, p.C; p.Validate() == nil {
						testAlgorithm(t, Planes, &p)
					}
				}
			}
		}
	})
}

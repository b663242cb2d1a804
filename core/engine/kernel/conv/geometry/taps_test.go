package geometry

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// tapShapes are images of every width up to several vectors, and filters that overlap or leave elements out.
func tapShapes() (all []Shape) {
	add := func(p Shape) {
		if p.N, p.C, p.K = 1, 3, 1; p.Validate() == nil && p.OutH() > 0 && p.OutW() > 0 && p.FitsTaps() {
			all = append(all, p)
		}
	}
	for side := 1; side <= 70; side++ {
		for filter := 1; filter <= 8; filter++ {
			for _, stride := range []int{1, filter - 1, filter, filter + 1} {
				add(Shape{H: min(side, 9+side%3), W: side, R: filter, S: filter, StrideH: stride, StrideW: stride, PadH: side % 3, PadW: filter % 2})
			}
		}
		for stride := 2; stride <= 5; stride++ { // one tap without padding
			add(Shape{H: min(side, 9+side%3), W: side, R: 1, S: 1, StrideH: stride, StrideW: stride})
			add(Shape{H: side%3 + 1, W: 2 * side, R: 1, S: 1, StrideH: 2, StrideW: stride})
		}
		add(Shape{H: side, W: 7, R: 2, S: 1, StrideH: 3, StrideW: 1, PadH: 1})
		add(Shape{H: 6, W: side, R: 3, S: 3, StrideH: 2, StrideW: 1, PadH: 2, PadW: 2, DilH: 2, DilW: 3})
		add(Shape{H: 5, W: 2 * side, R: 1, S: 16, StrideH: 2, StrideW: 16})
		add(Shape{H: 12, W: side + 10, R: 5, S: 5, StrideH: 5 + side%2, StrideW: 5}) // fewer channels than rows of taps
	}
	return all
}

// eachSeen calls f for each row of the matrix and pixel, with the place of what is seen in the image, or -1.
func eachSeen(p *Shape, f func(row, pixel, at int)) {
	for row := range p.C * p.R * p.S {
		c, r, s := row/p.R/p.S, row/p.S%p.R, row%p.S
		for pixel := range p.OutH() * p.OutW() {
			i, j := pixel/p.OutW()*p.StrideH+r*p.DilationH()-p.PadH, pixel%p.OutW()*p.StrideW+s*p.DilationW()-p.PadW
			if i < 0 || i >= p.H || j < 0 || j >= p.W {
				f(row, pixel, -1)
			} else {
				f(row, pixel, (c*p.H+i)*p.W+j)
			}
		}
	}
}

func atVectorLevels(t *testing.T, f func(t *testing.T)) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("taps are for vectors")
		}
		f(t)
	})
}

func TestGather(t *testing.T) {
	atVectorLevels(t, func(t *testing.T) {
		for _, p := range tapShapes() {
			taps, line := NewTaps(&p, false), p.OutH()*p.OutW()+kernel.Block
			room, got := kerneltest.Exactly[float32](taps.Elems()), kerneltest.Exactly[float32](p.C*p.R*p.S*line)
			taps.SetTables(room.Room)
			image := kerneltest.Random[float32](1, p.C*p.H*p.W)
			taps.Gather(p.C, image, got.Room, line)
			name := fmt.Sprintf("%+v", p)
			eachSeen(&p, func(row, pixel, at int) {
				want := float32(0)
				if at >= 0 {
					want = image[at]
				}
				if v := got.Room[row*line+pixel]; v != want {
					t.Fatalf("%s: row %d, pixel %d: got %v, want %v", name, row, pixel, v, want)
				}
			})
			room.Check(t, name)
			got.Check(t, name)
		}
	})
}

func TestScatter(t *testing.T) {
	atVectorLevels(t, func(t *testing.T) {
		for _, p := range tapShapes() {
			if p.StrideH < p.R || p.StrideW < p.S || p.DilationW() > 1 {
				continue
			}
			taps, line := NewTaps(&p, true), p.OutH()*p.OutW()+kernel.Block
			room, got := kerneltest.Exactly[float32](taps.Elems()), kerneltest.Exactly[float32](p.C*p.H*p.W)
			taps.SetTables(room.Room)
			matrix, want := kerneltest.Random[float32](1, p.C*p.R*p.S*line), make([]float32, p.C*p.H*p.W)
			taps.Scatter(p.C, got.Room, matrix, line)
			eachSeen(&p, func(row, pixel, at int) {
				if at >= 0 {
					want[at] = matrix[row*line+pixel]
				}
			})
			name := fmt.Sprintf("%+v", p)
			kerneltest.SameBits(t, name, got.Room, want)
			room.Check(t, name)
			got.Check(t, name)
		}
	})
}

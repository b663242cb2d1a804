package geometry

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// windowShapes are tapShapes, planes of several units of rows, and channels of several calls.
func windowShapes() (all []Shape) {
	for _, p := range tapShapes() {
		if p.FitsWindows() {
			all = append(all, p)
		}
	}
	for side := 22; side < 60; side += 5 {
		all = append(all, Shape{N: 1, C: 2, H: side, W: side + 3, K: 1, R: 3, S: 5, StrideH: 1, StrideW: 1, PadH: 1, PadW: 2})
	}
	return append(all,
		Shape{N: 1, C: 1, H: 3, W: mostPlaces + 30, K: 1, R: 1, S: 4, StrideH: 1, StrideW: 1},
		Shape{N: 1, C: mostGroups/4 + 3, H: 4, W: 6, K: 1, R: 4, S: 4, StrideH: 1, StrideW: 1},
	)
}

// TestWindowsOfChannels copies a few channels after the other, the last of which are fewer.
func TestWindowsOfChannels(t *testing.T) {
	atVectorLevels(t, func(t *testing.T) {
		const images, most = 5, 3
		for _, p := range windowShapes() {
			p.C = 2*most + 1
			taps, pixels := p.R*p.S, p.OutH()*p.OutW()
			line := images*pixels + kernel.Block
			whole, parts := NewWindows(&p), NewWindows(&p)
			whole.SetTables(make([]float32, whole.Elems()))
			parts.SetTables(make([]float32, parts.Elems()))
			x, want := kerneltest.Random[float32](1, images*p.C*p.H*p.W), make([]float32, p.C*taps*line)
			whole.Gather(images, 0, p.C, x, want, line)
			for first := 0; first < p.C; first += most {
				count := min(most, p.C-first)
				got := kerneltest.Exactly[float32](count * taps * line)
				parts.Gather(images, first, count, x, got.Room, line)
				for row := range count * taps {
					kerneltest.SameBits(t, fmt.Sprintf("row %d of channels from %d of %+v", row, first, p), got.Room[row*line:][:images*pixels], want[(first*taps+row)*line:][:images*pixels])
				}
				got.Check(t, fmt.Sprintf("%+v", p))
			}
		}
	})
}

func TestWindows(t *testing.T) {
	atVectorLevels(t, func(t *testing.T) {
		for i, p := range windowShapes() {
			for _, images := range []int{1, 2, 1 + i%37} {
				windows, pixels := NewWindows(&p), p.OutH()*p.OutW()
				line := images*pixels + kernel.Block
				room, got := kerneltest.Exactly[float32](windows.Elems()), kerneltest.Exactly[float32](p.C*p.R*p.S*line)
				windows.SetTables(room.Room)
				size := p.C * p.H * p.W
				x := kerneltest.Random[float32](1, images*size)
				windows.Gather(images, 0, p.C, x, got.Room, line)
				name := fmt.Sprintf("%d of %+v", images, p)
				eachSeen(&p, func(row, pixel, at int) {
					for i := range images {
						want := float32(0)
						if at >= 0 {
							want = x[i*size+at]
						}
						if v := got.Room[row*line+i*pixels+pixel]; v != want {
							t.Fatalf("%s: row %d, pixel %d of image %d: got %v, want %v", name, row, pixel, i, v, want)
						}
					}
				})
				room.Check(t, name)
				got.Check(t, name)
			}
		}
	})
}

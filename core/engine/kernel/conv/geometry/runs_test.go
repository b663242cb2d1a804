package geometry

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestRunsAreCopiedExactly copies runs of every width both ways, between images whose rows runs do not fill and a matrix whose rows have room
// behind them, beside pages that may not be touched, and holds every element against plain Go.
func TestRunsAreCopiedExactly(t *testing.T) {
	const images, channels, rows, wide, room, between = 3, 2, 4, 3, 1, 2
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("needs vectors")
		}
		g := kerneltest.NewGuardedRoom(t, 2, 1<<14)
		for n := LeastRun; n <= 40; n++ {
			width := wide*(n+between) - between // the last run ends the row
			plane := rows * width
			line := channels*rows*n + room
			x, y := images*channels*plane, (images*wide-1)*line+channels*rows*n
			copyOf := func(v [][]float32) RunCopy {
				return RunCopy{
					Images: images, Bands: channels, Rows: rows, Runs: wide, Src: &v[0][0], Dst: &v[1][0],
					SrcSteps: RunSteps{Image: channels * plane, Band: plane, Row: width, Run: n + between},
					DstSteps: RunSteps{Image: wide * line, Band: rows * n, Row: n, Run: line},
				}
			}
			for way := range 8 {
				back, swapOuter, swapInner := way&1 > 0, way&2 > 0, way&4 > 0
				g.Test(t, fmt.Sprintf("runs of %d, back: %v, loops exchanged: %v and %v", n, back, swapOuter, swapInner), 0, []int{x, y}, func(v [][]float32, _ bool) {
					c := copyOf(v)
					if back {
						c = c.Reversed()
					}
					want := [2][]float32{append([]float32(nil), v[0]...), append([]float32(nil), v[1]...)}
					copyRunsInGo(c, n, want, back)
					if swapOuter {
						c.SwapOuter()
					}
					if swapInner {
						c.SwapInner()
					}
					c.Copy(n)
					kerneltest.SameBits(t, "src", v[0], want[0])
					kerneltest.SameBits(t, "dst", v[1], want[1])
				})
			}
		}
	})
}

// copyRunsInGo is Copy between two slices, of which the second is the source if back is set.
func copyRunsInGo(c RunCopy, n int, v [2][]float32, back bool) {
	src, dst := v[0], v[1]
	if back {
		src, dst = dst, src
	}
	at := func(s RunSteps, i, b, r, k int) int { return i*s.Image + b*s.Band + r*s.Row + k*s.Run }
	for i := range c.Images {
		for b := range c.Bands {
			for r := range c.Rows {
				for k := range c.Runs {
					copy(dst[at(c.DstSteps, i, b, r, k):][:n], src[at(c.SrcSteps, i, b, r, k):])
				}
			}
		}
	}
}

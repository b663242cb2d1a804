package gemm

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Tiles beside each other are the products, and the pointers stay inside the matrices: the garbage collector looks at
// those of a Tile, and ends the program where one points to memory that it has taken back.
func TestTilesBesideEachOther(t *testing.T) { kerneltest.AtEachLevel(t, atTilesBesideEachOther) }

func atTilesBesideEachOther(t *testing.T) {
	if kernel.Current() == kernel.Generic {
		t.Skip("plain Go has no tiles of vectors")
	}
	for _, lanes := range []int{8, kernel.Lanes()} {
		s := TileOf(lanes)
		for rows := 1; rows <= len(together)+1; rows++ {
			for count := 1; count <= 9; count++ {
				besideEachOther(t, s, rows, count)
			}
		}
	}
}

func besideEachOther(t *testing.T, s TileShape, rows, count int) {
	const k = 3
	line := count * s.cols
	a, b, c := make([]float32, k*rows), make([]float32, k*line), make([]float32, rows*line)
	for i := range a {
		a[i] = float32(i + 1)
	}
	for i := range b {
		b[i] = float32(i % 17)
	}
	off := [k]int32{0, int32(4 * line), int32(8 * line)}
	tile := Tile{
		K: k, A: &a[0], B0: &b[0], B1: &b[s.Lanes], Off: &off[0], C0: &c[0], C1: &c[s.Lanes], Ldc: 4 * line,
		N0: s.Mask(s.Lanes), N1: s.Mask(s.Lanes), Ahead: -1, Count: count, BNext: 4 * s.cols, CNext: 4 * s.cols,
	}
	s.Run(rows, &tile)
	for i, got := range c {
		var want float32
		for l := range k {
			want += a[l*rows+i/line] * b[l*line+i%line]
		}
		if got != want {
			t.Fatalf("%d tiles of %d rows by %d columns: element %d is %v, not %v", count, rows, s.cols, i, got, want)
		}
	}
	last := (count - 1) * s.cols
	if tile.B0 != &b[last] || tile.B1 != &b[last+s.Lanes] || tile.C0 != &c[last] || tile.C1 != &c[last+s.Lanes] {
		t.Errorf("%d tiles of %d rows by %d columns: the pointers do not stay at the last tile", count, rows, s.cols)
	}
}

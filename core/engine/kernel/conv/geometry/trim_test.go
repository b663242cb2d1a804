package geometry

import (
	"slices"
	"testing"
)

// What is left of filters that reach beyond the image, and that nothing is cut off where that would not pay or would change the output.
func TestTrimmed(t *testing.T) {
	for _, c := range []struct {
		p                                 Shape
		ok                                bool
		first, column, rows, columns, pad int
	}{
		{Shape{H: 1, W: 1, R: 3, S: 3, PadH: 1, PadW: 1}, true, 1, 1, 1, 1, 0},
		{Shape{H: 2, W: 2, R: 7, S: 7, PadH: 3, PadW: 3}, true, 2, 2, 3, 3, 1},
		{Shape{H: 8, W: 8, R: 3, S: 3, PadH: 12, PadW: 12, DilH: 12, DilW: 12}, true, 1, 1, 1, 1, 0},
		{Shape{H: 1, W: 40, R: 5, S: 5, PadH: 2, PadW: 2}, true, 2, 0, 1, 5, 0},
		{Shape{H: 2, W: 2, R: 3, S: 3, PadH: 1, PadW: 1}, false, 0, 0, 3, 3, 1}, // all is seen
		{Shape{H: 2, W: 2, R: 3, S: 3, PadH: 1, PadW: 1, StrideH: 2, StrideW: 2}, true, 1, 1, 2, 2, 0},
		{Shape{H: 1, W: 2, R: 1, S: 3, PadW: 1, StrideH: 2, StrideW: 2}, false, 0, 1, 1, 2, 0}, // too much is
		{Shape{H: 8, W: 8, R: 3, S: 3, PadH: 6, PadW: 6, DilH: 6, DilW: 6}, false, 0, 0, 3, 3, 6},
		{Shape{H: 1, W: 1, R: 2, S: 2, PadH: 3, PadW: 3, StrideH: 9, StrideW: 9, DilH: 2, DilW: 2}, false, 2, 2, 0, 0, 0}, // nothing is
	} {
		c.p.N, c.p.C, c.p.K, c.p.StrideH, c.p.StrideW = 1, 1, 1, max(c.p.StrideH, 1), max(c.p.StrideW, 1)
		got, ok := c.p.Trimmed()
		if ok != c.ok || ok && (got.first != c.first || got.column != c.column || got.R != c.rows || got.S != c.columns || got.PadH != c.pad) {
			t.Errorf("%v: %v, %+v", &c.p, ok, got)
		}
	}
}

// Parts are copied and written back where they belong, of more filters than are copied at a time.
func TestTrimCopies(t *testing.T) {
	p := Shape{N: 1, C: 5, K: 31, H: 2, W: 1, R: 7, S: 5, StrideH: 1, StrideW: 1, PadH: 3, PadW: 2}
	trim, ok := p.Trimmed()
	if !ok || trim.R != 3 || trim.S != 1 {
		t.Fatalf("%v, %+v", ok, trim)
	}
	whole := make([]float32, p.K*p.C*p.R*p.S)
	for i := range whole {
		whole[i] = float32(i)
	}
	var want []float32
	inside := make([]float32, len(whole))
	for i := range whole {
		if r, s := i/p.S%p.R, i%p.S; r >= 2 && r < 5 && s == 2 {
			want, inside[i] = append(want, whole[i]), whole[i]
		}
	}
	part := make([]float32, trim.Elems())
	Cut(&trim, whole, part)
	if !slices.Equal(part, want) {
		t.Errorf("parts are %v, want %v", part, want)
	}
	written := slices.Repeat([]float32{1}, len(whole))
	Spread(&trim, part, written, false)
	if !slices.Equal(written, inside) {
		t.Error("other gradients than those of the parts, or none of them")
	}
	Spread(&trim, part, written, true)
	for i := range inside {
		inside[i] *= 2
	}
	if !slices.Equal(written, inside) {
		t.Error("gradients are not added")
	}
}

package move

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Permutation is a copy of a tensor with its dimensions in another order, reduced
// to the dimensions that matter: those of one element are gone, and neighbours
// that stay together are one.
type Permutation struct {
	Sizes   []int // of the output's dimensions
	Strides []int // in elements of the input, of the same dimensions
}

// NewPermutation is the copy in which dimension i of the output is dimension dims[i] of the input.
func NewPermutation(shape, dims []int) Permutation {
	strides, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i], n = n, n*shape[i]
	}
	var p Permutation
	for _, d := range dims {
		size, stride := shape[d], strides[d]
		last := len(p.Sizes) - 1
		switch {
		case size == 1:
		case last >= 0 && p.Strides[last] == size*stride:
			p.Sizes[last], p.Strides[last] = p.Sizes[last]*size, stride
		default:
			p.Sizes, p.Strides = append(p.Sizes, size), append(p.Strides, stride)
		}
	}
	if p.Sizes == nil {
		return Permutation{[]int{1}, []int{1}}
	}
	return p
}

// Permute writes the permutation of src to dst, which must not overlap.
func Permute[E any](p Permutation, dst, src []E) {
	permute(p.Sizes, p.Strides, dst, src)
}

// Transpose writes rows [rows, cols] of src, which is [cols, rows], to dst, which must not overlap.
func Transpose[E any](rows, cols int, dst, src []E) { transpose(rows, cols, rows, dst, src) }

// tile is the edge of the squares that a transposition takes at a time, so that the
// cache lines that it reads across stay until all of their elements are used.
const tile = 16

func permute[E any](sizes, strides []int, dst, src []E) {
	n := len(sizes)
	switch {
	case n == 1 && strides[0] == 1:
		copy(dst[:sizes[0]], src)
		return
	case n == 1:
		for i := range dst[:sizes[0]] {
			dst[i] = src[i*strides[0]]
		}
		return
	case n == 2 && strides[0] == 1:
		transpose(sizes[0], sizes[1], strides[1], dst, src)
		return
	}
	each := 1
	for _, size := range sizes[1:] {
		each *= size
	}
	for i := range sizes[0] {
		permute(sizes[1:], strides[1:], dst[i*each:][:each], src[i*strides[0]:])
	}
}

// transpose writes rows [rows, cols] of which the elements of a column are neighbours in src.
func transpose[E any](rows, cols, stride int, dst, src []E) {
	if squares(rows, cols, stride, dst, src) {
		return
	}
	for r0 := 0; r0 < rows; r0 += tile {
		r1 := min(rows, r0+tile)
		for c0 := 0; c0 < cols; c0 += tile {
			c1 := min(cols, c0+tile)
			for r := r0; r < r1; r++ {
				to := dst[r*cols:][:cols]
				for c := c0; c < c1; c++ {
					to[c] = src[c*stride+r]
				}
			}
		}
	}
}

// squares is transpose by vectors, if there are any for the type and the matrix is not too narrow. Squares at the ends
// begin earlier, where others have been.
func squares[E any](rows, cols, stride int, dst, src []E) bool {
	const narrow = kernel.Block / 2
	if kernel.Current() == kernel.Generic || unsafe.Sizeof(*new(E)) != unsafe.Sizeof(float32(0)) || min(rows, cols) < narrow {
		return false
	}
	lanes := kernel.Lanes()
	if min(rows, cols) < lanes {
		lanes = narrow
	}
	to, from := floats(dst[:rows*cols]), floats(src[:(cols-1)*stride+rows])
	run := func(n, r, c int) {
		vecTransposeSquares(lanes, n, &from[c*stride+r], 4*stride, 4*lanes*stride, &to[r*cols+c], 4*cols, 4*lanes)
	}
	for first := 0; first < rows; first += lanes {
		r := min(first, rows-lanes)
		run(cols/lanes, r, 0)
		if cols%lanes > 0 {
			run(1, r, cols-lanes)
		}
	}
	return true
}

// floats views elements of four bytes as float32, which are only copied.
func floats[E any](x []E) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

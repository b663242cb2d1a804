package geometry

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// RunLength is how many elements a copy moves at a time. It may write too much,
// which is overwritten by the next copy, and read as much: buffers end with such a slack.
const RunLength = 16

// Band is a run of rows of one image; before it come so many rows of the block.
type Band struct{ Image, Row, Rows, Before int }

// BandAt is the part of the block [first, end) that begins at row and belongs
// to one image of perImage rows.
func BandAt(first, row, end, perImage int) Band {
	s := Band{Image: row / perImage, Row: row % perImage, Before: row - first}
	s.Rows = min(perImage-s.Row, end-row)
	return s
}

// CopyRuns copies rows of n elements, which lie step apart in src, to one piece.
func CopyRuns[T kernel.Float](rows, n int, src []T, step int, dst []T) {
	if kernel.Is32[T]() && kernel.Current() == kernel.AVX512 {
		vecCopyRuns(rows, kernel.CeilDiv(n, kernel.Block), &kernel.As32(src)[0], 4*step, &kernel.As32(dst)[0], 4*n)
		return
	}
	for i := range rows {
		from, to := src[i*step:], dst[i*n:]
		for j := 0; j < n; j += RunLength {
			*(*[RunLength]T)(to[j:]) = *(*[RunLength]T)(from[j:])
		}
	}
}

// SplitPhase copies src[at], src[at+stride] and so on, as far as they exist.
func SplitPhase[T kernel.Float](src, dst []T, at, stride int) {
	if at < 0 {
		skip := kernel.CeilDiv(-at, stride)
		dst, at = dst[min(skip, len(dst)):], at+skip*stride
	}
	switch {
	case at >= len(src), len(dst) == 0:
	case stride == 1:
		copy(dst, src[at:])
	default:
		dst = dst[:min(len(dst), kernel.CeilDiv(len(src)-at, stride))]
		if stride == 2 && kernel.Is32[T]() && kernel.Current() == kernel.AVX512 {
			vecPickPairs(len(dst), &kernel.As32(src[at:])[0], &kernel.As32(dst)[0])
			return
		}
		for j := range dst {
			dst[j] = src[at]
			at += stride
		}
	}
}

// CopyPlane copies rows of n elements, at most 16 or whole vectors, to places
// line apart. It may write zeros behind a row.
func CopyPlane(rows int, plane []float32, n int, frame []float32, line int) {
	for col := 0; col < n; col += kernel.Block {
		gemm.PackAlong(rows, &plane[col], 4*n, kernel.FirstLanes(min(kernel.Block, n-col)), &frame[col], 4*line)
	}
}

// CopyVectors copies rows of n vectors of 16 elements, which lie srcStep bytes apart in
// src and dstStep in dst.
func CopyVectors(rows, n int, src *float32, srcStep int, dst *float32, dstStep int) {
	vecCopyRuns(rows, n, src, srcStep, dst, dstStep)
}

// SpreadPhase reverses SplitPhase: it copies src to every stride-th element of dst.
func SpreadPhase[T kernel.Float](src, dst []T, stride int) {
	if stride == 2 && kernel.Is32[T]() && kernel.Current() == kernel.AVX512 {
		vecSpreadPairs(len(src), &kernel.As32(src)[0], &kernel.As32(dst)[0])
		return
	}
	for j, v := range src {
		dst[j*stride] = v
	}
}

// CopyFours copies rows of four elements, which lie srcStep elements apart in src and dstStep in dst.
func CopyFours(rows int, src []float32, srcStep int, dst []float32, dstStep int) {
	vecCopyFours(rows, &src[0], 4*srcStep, &dst[0], 4*dstStep)
}

package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

// The copies of convolution by columns exist for AVX-512 alone.

// vecCopyRuns copies rows of n elements, rounded up to vectors, from places step apart.
func vecCopyRuns(rows, n int, src []float32, step int, dst []float32) {
	copyRunsAVX512(rows, kernel.CeilDiv(n, kernel.Block), &src[0], 4*step, &dst[0], 4*n)
}

// spreadPairs writes src to every second element of dst.
func spreadPairs(src, dst []float32) { spreadPairsAVX512(len(src), &src[0], &dst[0]) }

// pickPairs reads dst from every second element of src.
func pickPairs(src, dst []float32) { pickPairsAVX512(len(dst), &src[0], &dst[0]) }

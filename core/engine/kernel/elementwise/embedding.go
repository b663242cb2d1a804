package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

// Embedding copies the rows of table [·, dim] that indices name to y [len(indices), dim].
func Embedding[T kernel.Float](indices []int32, dim int, table, y []T) {
	for i, at := range indices {
		copy(y[i*dim:][:dim], table[int(at)*dim:][:dim])
	}
}

// EmbeddingGrad adds each row of dy [len(indices), dim] to the row of dtable that
// its index names; without accumulate, dtable is cleared first.
func EmbeddingGrad[T kernel.Float](indices []int32, dim int, dy, dtable []T, accumulate bool) {
	if !accumulate {
		clear(dtable)
	}
	for i, at := range indices {
		AddTo(dtable[int(at)*dim:][:dim], dy[i*dim:][:dim])
	}
}

package elementwise

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestEmbedding(t *testing.T) {
	table, y := []float32{0, 1, 10, 11, 20, 21}, make([]float32, 6)
	Embedding([]int32{2, 0, 2}, 2, table, y)
	kerneltest.CloseTo(t, "y", y, []float32{20, 21, 0, 1, 20, 21}, 0)
	EmbeddingGrad([]int32{2, 0, 2}, 2, []float32{1, 2, 3, 4, 5, 6}, table, true)
	kerneltest.CloseTo(t, "accumulated", table, []float32{3, 5, 10, 11, 26, 29}, 0)
	EmbeddingGrad([]int32{1}, 2, []float32{7, 8}, table, false)
	kerneltest.CloseTo(t, "overwritten", table, []float32{0, 0, 7, 8, 0, 0}, 0)
}

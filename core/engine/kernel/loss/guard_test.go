package loss

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestAnyRowsStayInside has softmax and cross entropies of any size beside pages that may not be touched.
func TestAnyRowsStayInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		g, r := kerneltest.NewGuardedRoom(t, 5, 1<<16), rand.New(rand.NewPCG(4, 13))
		for range kerneltest.Cases(300) {
			rows, cols := 1+r.IntN(40), 1+r.IntN([]int{4, 40, 1000}[r.IntN(3)])
			all := rows * cols
			g.Test(t, fmt.Sprintf("%d rows of %d", rows, cols), 0, []int{all, all, all, all, rows}, func(v [][]float32, _ bool) {
				target := unsafe.Slice((*int32)(unsafe.Pointer(&v[4][0])), rows)
				for i := range target {
					target[i] = int32(i % cols)
				}
				Softmax(rows, cols, v[0], v[1])
				SoftmaxGrad(rows, cols, v[1], v[2], v[3])
				SoftmaxCrossEntropy(rows, cols, v[0], target, Criterion{}, v[1], v[3], 1)
				SoftCrossEntropy(rows, cols, v[0], v[1], Criterion{}, v[2], 1)
				MSE(v[0], v[1], v[2], 1)
				BCEWithLogits(v[0], v[1], v[3], 1)
			})
		}
	})
}

package layernorm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestAnyRowsStayInside has layer norms of any size beside pages that may not be touched.
func TestAnyRowsStayInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		const room = 1 << 16
		g, r := kerneltest.NewGuardedRoom(t, 10, room), rand.New(rand.NewPCG(4, 12))
		for range kerneltest.Cases(300) {
			rows, cols := 1+r.IntN(40), 1+r.IntN([]int{4, 40, 700}[r.IntN(3)])
			all := rows * cols
			sizes := []int{all, all, all, all, cols, cols, cols, cols, rows, rows}
			g.Test(t, fmt.Sprintf("%d rows of %d", rows, cols), 0, sizes, func(v [][]float32, _ bool) {
				x, dy, y, dx, gamma, beta, dgamma, dbeta, mean, invstd := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]
				LayerNorm(rows, cols, x, gamma, beta, 1e-5, y, mean, invstd)
				LayerNormGrad(rows, cols, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, true)
				RMSNorm(rows, cols, x, gamma, 1e-5, y, invstd)
				RMSNormGrad(rows, cols, x, dy, invstd, gamma, dx, dgamma, true)
			})
		}
	})
}

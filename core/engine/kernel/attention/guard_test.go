package attention

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestAnyHeadStaysInside has heads of any size, with rows side by side or apart, beside pages that may not be touched.
func TestAnyHeadStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		g, r := kerneltest.NewGuardedRoom(t, 10, 1<<17), rand.New(rand.NewPCG(4, 14))
		for range kerneltest.Cases(200) {
			h := Head{Queries: 1 + r.IntN([]int{5, 90, 200}[r.IntN(3)]), Dim: 1 + r.IntN([]int{8, 70}[r.IntN(2)]), Causal: r.IntN(2) == 0}
			if h.Keys = h.Queries; !h.Causal && r.IntN(2) == 0 {
				h.Keys = 1 + r.IntN(150)
			}
			stride := h.Dim + r.IntN(2)*r.IntN(20)
			rows := func(n int) int { return (n-1)*stride + h.Dim }
			q, k := rows(h.Queries), rows(h.Keys)
			g.Test(t, fmt.Sprintf("%+v, rows %d apart", h, stride), 1, []int{q, k, k, q, q, q, k, k, h.Queries, max(ForwardScratch(h), BackwardScratch(h))}, func(v [][]float32, _ bool) {
				row := func(i int) Rows[float32] { return Rows[float32]{v[i], stride} }
				Forward(h, nil, row(0), row(1), row(2), row(3), v[8], v[9])
				Backward(h, nil, row(0), row(1), row(2), row(3), row(4), v[8], row(5), row(6), row(7), v[9])
			})
		}
	})
}

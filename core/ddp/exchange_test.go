package ddp

import (
	"fmt"
	"slices"
	"testing"
)

func TestExchange(t *testing.T) {
	for _, world := range []int{1, 2, 4} {
		size := ExchangeBytes(5, world)
		onRanks(t, world, size, func(g *Group) error {
			e := NewExchange(g, Region{0, size})
			for n := range 6 {
				mine, sum := make([]float64, n), make([]float64, n)
				var want []float64
				for r := range world {
					for i := range n {
						want = append(want, float64(10*r+i))
						sum[i] += float64(10*r + i)
					}
				}
				copy(mine, want[g.Rank*n:])
				all, err := e.Gather(mine)
				if err != nil {
					return err
				}
				if !slices.Equal(all, want) {
					return fmt.Errorf("rank %d gathered %v, want %v", g.Rank, all, want)
				}
				if err := e.Sum(mine); err != nil {
					return err
				}
				if !slices.Equal(mine, sum) {
					return fmt.Errorf("rank %d: the sum is %v, want %v", g.Rank, mine, sum)
				}
			}
			return nil
		})
	}
}

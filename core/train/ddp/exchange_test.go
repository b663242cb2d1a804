package ddp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
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

// What layers exchange goes another way than what the training loop reduces.
func TestExchangeHasItsOwnChannel(t *testing.T) {
	size := ExchangeBytes(5, 2)
	onRanks(t, 2, size, func(g *Group) error {
		var made []string
		backend := g.comm
		g.comm = &ddptest.Backend{Do: func(c *sdk.Collective) error {
			made = append(made, c.String())
			_, err := backend.Submit(c)
			return err
		}}
		e := NewExchange(g, Region{0, size})
		if err := e.Sum([]float64{1}); err != nil {
			return err
		}
		if _, err := e.Gather([]float64{1}); err != nil {
			return err
		}
		if err := g.Barrier(); err != nil {
			return err
		}
		var own []bool
		for _, c := range made {
			own = append(own, strings.HasSuffix(c, "channel 1"))
		}
		if want := []bool{true, true, false}; !slices.Equal(own, want) {
			return fmt.Errorf("rank %d called %v", g.Rank, made)
		}
		return nil
	})
}

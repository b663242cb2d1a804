package ddp

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
)

// onRanks runs do on every rank of a world, each with an arena of the given
// size that ends in the scratch region.
func onRanks(t *testing.T, world, size int, do func(g *Group) error) {
	t.Helper()
	meet := membackend.NewWorld()
	arenas := make([]*sdk.Arena, world)
	for r := range arenas {
		arenas[r] = ddptest.NewArena(t, size+ScratchBytes)
	}
	var ranks errgroup.Group
	for r, arena := range arenas {
		ranks.Go(func() (err error) {
			b := meet.New()
			if err := b.Open(t.Context(), sdk.Group{JobID: "j", Rank: r, WorldSize: world, Timeout: 10 * time.Second}, nil); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.Close()) }()
			return do(NewGroup(r, world, &ddptest.Backend{Do: func(c *sdk.Collective) error { return b.Do(context.Background(), c) }}, arena, Region{Offset: size, Size: ScratchBytes}))
		})
	}
	if err := ranks.Wait(); err != nil {
		t.Fatal(err)
	}
}

// wide is an element as a float64.
func wide(t tensor.Tensor, i int) float64 {
	switch t.DType {
	case tensor.F16:
		return float64(tensor.F32FromF16(tensor.View[uint16](t.Data)[i]))
	case tensor.BF16:
		return float64(tensor.F32FromBF16(tensor.View[uint16](t.Data)[i]))
	case tensor.F64:
		return t.F64()[i]
	}
	return float64(t.F32()[i])
}

package ddp

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/tensor"
)

// calls does collectives when they are submitted, one after the other.
type calls struct {
	backend sdk.Backend
	made    []string
}

func (c *calls) Submit(call *sdk.Collective) (uint64, error) {
	c.made = append(c.made, call.String())
	return call.Seq, c.backend.Do(context.Background(), call)
}

func (c *calls) Wait(uint64) error { return nil }

// lonely takes calls and forgets them.
type lonely struct{}

func (lonely) Submit(*sdk.Collective) (uint64, error) { return 0, nil }
func (lonely) Wait(uint64) error                      { return nil }

func newArena(t testing.TB, size int) *sdk.Arena {
	t.Helper()
	a, err := shm.New("test", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return &sdk.Arena{ID: 1, Name: "test", Arena: a}
}

// onRanks runs do on every rank of a world, each with an arena of the given
// size that ends in the scratch region.
func onRanks(t *testing.T, world, size int, do func(g *Group) error) {
	t.Helper()
	meet := membackend.NewWorld()
	arenas := make([]*sdk.Arena, world)
	for r := range arenas {
		arenas[r] = newArena(t, size+ScratchBytes)
	}
	var ranks errgroup.Group
	for r, arena := range arenas {
		ranks.Go(func() (err error) {
			b := meet.New()
			if err := b.Open(t.Context(), sdk.Group{JobID: "j", Rank: r, WorldSize: world, Timeout: 10 * time.Second}, nil); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.Close()) }()
			return do(NewGroup(r, world, &calls{backend: b}, arena, Region{Offset: size, Size: ScratchBytes}))
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

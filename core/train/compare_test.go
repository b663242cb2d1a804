package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
)

// wrong is a backend whose sums of gradients are off by one unit in the last
// place on one rank in one step.
type wrong struct {
	sdk.Backend
	rank, step int
	mine       int
	reduced    atomic.Int64
}

func (w *wrong) Open(ctx context.Context, g sdk.Group, o sdk.Options) error {
	w.mine = g.Rank
	return w.Backend.Open(ctx, g, o)
}

func (w *wrong) Do(ctx context.Context, c *sdk.Collective) error {
	err := w.Backend.Do(ctx, c)
	if err == nil && c.Op == sdk.OpAllReduce && c.Bucket == 0 && int(w.reduced.Add(1)) == w.step && w.mine == w.rank {
		v := tensor.View[float32](c.Buf)
		for i := range v { // some of them are lost in a rounding
			v[i] = math.Nextafter32(v[i], 1)
		}
	}
	return err
}

// wrongly gives every rank a backend that is wrong on one, and rank 0 a store.
func wrongly(t *testing.T, dir string, rank, step int, change func(s *outline.Settings)) func(rank int, d *Deps) {
	net := membackend.NewWorld()
	saves := saving(t, dir, checkpoint.Config{Every: "2 steps", Async: true}, change)
	return func(r int, d *Deps) {
		saves(r, d)
		d.Backend = host.InProcessBackend(&wrong{Backend: net.New(), rank: rank, step: step})
	}
}

// A sum that is off by one unit in the last place on one rank is found at the
// next checkpoint, before it is written, and the rank is named by all.
func TestRanksCompareTheirStates(t *testing.T) {
	for _, c := range []struct {
		world, rank, step int
		change            func(s *outline.Settings)
		want              string // on the rank itself
		saved             int    // the newest checkpoint
	}{
		{3, 1, 4, nil, "rank 1 differs from the other 2 in parameters, buffers or optimizer state after step 4, first in ", 2},
		{4, 0, 3, nil, "rank 0 differs from the other 3", 2},
		{3, 2, 1, func(s *outline.Settings) { s.Optimizer = optim.DefaultFor("adamw") }, "this was the first comparison", 0},
		{2, 1, 6, nil, "ranks 0 and 1 differ in parameters, buffers or optimizer state (with two ranks there is no majority to tell which one is wrong) after step 6", 4},
		{3, 1, 4, func(s *outline.Settings) { s.Model = nn.Config{Name: "convnet"}; s.DDP.BroadcastBuffers = false }, "all were equal after step 2", 2},
	} {
		t.Run(fmt.Sprintf("%d ranks, rank %d, step %d", c.world, c.rank, c.step), func(t *testing.T) {
			dir := t.TempDir()
			errs := onRanks(t, c.world, wrongly(t, dir, c.rank, c.step, func(s *outline.Settings) {
				s.Train.Epochs = 20
				if c.change != nil {
					c.change(s)
				}
			}), trainAndClose)
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("rank %d: %v", r, err)
				}
				var peer *ddp.PeerFailed
				if blames := errors.As(err, &peer); blames != (c.world > 2 && r != c.rank) || blames && peer.Rank != c.rank {
					t.Errorf("rank %d blames %+v", r, peer)
				}
			}
			snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), dir)
			if c.saved == 0 && errors.Is(err, checkpoint.ErrNone) {
				return
			}
			if err != nil || snap.Step != c.saved {
				t.Errorf("the newest checkpoint is not that of step %d: %v", c.saved, err)
			}
		})
	}
}

// Ranks that are what they should be agree, whatever is switched on.
func TestHealthyRanksAgree(t *testing.T) {
	for name, change := range map[string]func(s *outline.Settings){
		"lars":                    func(s *outline.Settings) { s.Optimizer = optim.DefaultFor("lars") },
		"powersgd":                func(s *outline.Settings) { s.DDP.Compress = "powersgd" },
		"no buffers broadcast":    func(s *outline.Settings) { s.Model = nn.Config{Name: "convnet"}; s.DDP.BroadcastBuffers = false },
		"fp16 on the wire":        func(s *outline.Settings) { s.DDP.Compress = "fp16" },
		"sync batch norm":         func(s *outline.Settings) { s.Model = nn.Config{Name: "convnet"}; s.DDP.SyncBatchNorm = true },
		"a shard is longer, join": func(s *outline.Settings) { s.Sampler.Pad = "none"; s.DDP.Uneven = "join" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			errs := onRanks(t, 4, saving(t, dir, checkpoint.Config{Every: "1 steps", Async: true}, change), trainAndClose)
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}

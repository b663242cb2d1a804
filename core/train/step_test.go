package train

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// counter counts the collectives that a rank submits.
type counter [sdk.OpRecv + 1]atomic.Int64

func (c *counter) count(b host.Collectives) host.Collectives {
	return tapped{b, func(call *sdk.Collective) error { c[call.Op].Add(1); return nil }}
}

// Only the last micro-step of a step communicates: every bucket once, and the
// scalars. The buffers are broadcast once per step, before its first pass.
func TestAccumulatedStepsCommunicateOnce(t *testing.T) {
	const steps, buckets = 2, 10
	var counters [2]counter
	errs := onRanks(t, 2, func(rank int, d *Deps) {
		d.Backend = counters[rank].count(d.Backend)
		s := &d.Settings
		s.Model = nn.Config{Name: "convnet"}
		s.DatasetOptions["train_samples"] = int64(2 * 4 * 4 * steps)
		s.Train.AccumulateSteps, s.Train.EvalEvery = 4, 0
		s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		begun := counters[d.World.Rank][sdk.OpBroadcast].Load()
		if err := tr.Run(ctx); err != nil {
			return err
		}
		if tr.reducer.Buckets() != buckets || tr.pos.Step != steps {
			t.Errorf("%d buckets, %d steps", tr.reducer.Buckets(), tr.pos.Step)
		}
		// The end of the run settles the buffers once more.
		if got := counters[d.World.Rank][sdk.OpBroadcast].Load() - begun; got != steps+1 {
			t.Errorf("rank %d: %d broadcasts of the buffers in %d steps", d.World.Rank, got, steps)
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r := range counters {
		if got := counters[r][sdk.OpAllReduce].Load(); got != steps*(buckets+1) {
			t.Errorf("rank %d: %d all-reduces in %d steps of 4 micro-steps over %d buckets", r, got, steps, buckets)
		}
	}
}

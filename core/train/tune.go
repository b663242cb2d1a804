package train

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// tune chooses the buckets if their caps are "auto": ranks measure a pass and the
// backend, and all use the choice of rank 0. Sums do not depend on buckets, so the
// result of a run does not depend on the measurement.
func (t *Trainer) tune(ctx context.Context) error {
	if t.Settings.DDP.BucketCapMB.IsAuto() && t.World.Size > 1 {
		if err := t.retune(ctx); err != nil {
			return fmt.Errorf("measuring the caps of buckets: %w", err)
		}
	}
	t.record()
	t.planMade()
	return nil
}

func (t *Trainer) retune(ctx context.Context) error {
	own := ddp.Pace{Ready: make([]time.Duration, len(t.outline.Gradients))}
	var cost [2]float64 // of the slowest all-reduce: ns, and ns per byte
	err := t.recovery.Do(ctx, recovery.Stage{Name: "pace", Result: cost[:]}, func(context.Context) (err error) {
		cost, err = t.measure(&own)
		return err
	})
	if err != nil {
		return err
	}
	b, err := json.Marshal(own)
	if err != nil {
		return err
	}
	all, err := t.Gather(ctx, "pace", b)
	if err != nil {
		return err
	}
	var pace ddp.Pace
	if err := json.Unmarshal(all[0], &pace); err != nil {
		return err
	}
	pace.Alpha, pace.Beta = time.Duration(cost[0]), cost[1]
	cfg := t.Settings.DDP
	cfg.BucketCapMB = ddp.AutoCap
	t.outline.Fill(&cfg, func() ddp.Pace { return pace })
	t.memory.Place(cfg, t.outline)
	t.model.Values = t.memory.State(t.model.Graph.StateDict(), t.outline.Plan.StateSpecs())
	if err := t.equip(); err != nil {
		return err
	}
	t.Events.Emit(&event.BucketsChosen{
		FirstMB: cfg.FirstBucketMB, CapMB: float64(cfg.BucketCapMB), Buckets: len(t.outline.Buckets),
		ExposedMS: event.Millis(pace.Exposed(cfg, t.outline.Gradients, t.outline.Buckets)), PassMS: event.Millis(pace.End),
		AlphaUS: float64(pace.Alpha) / float64(time.Microsecond), GBPerSec: 1 / pace.Beta,
	})
	return nil
}

// measure times passes over an empty batch, and all-reduces over the memory of
// the gradients. All ranks do it at the same time, as they will, and agree on
// the slowest all-reduce.
func (t *Trainer) measure(own *ddp.Pace) (cost [2]float64, err error) {
	err = t.measurePass(own)
	clear(t.memory.Bytes(t.memory.All)) // zero as before: the weights come later
	if err != nil {
		return cost, err
	}
	alpha, beta, err := t.measureReduce()
	if err != nil {
		return cost, err
	}
	cost = [2]float64{float64(alpha), beta}
	return cost, t.group.Scalars(sdk.Max, cost[:])
}

// measureReduce computes latency and time per byte from two message sizes.
func (t *Trainer) measureReduce() (alpha time.Duration, beta float64, err error) {
	const small = 4 << 10
	large := min(t.memory.All.Offset, 4<<20) &^ (small - 1)
	least, err := t.timeReduce(min(small, t.memory.All.Offset))
	if err != nil || large <= small {
		return least, outline.NominalBeta, err
	}
	most, err := t.timeReduce(large)
	beta = max(0.001, float64(most-least)/float64(large-small))
	return max(time.Microsecond, least-time.Duration(beta*small)), beta, err
}

// timedPasses is the number of timed passes; the last one, with warm caches, is used.
// All ranks run the same number, because synchronised norms communicate.
const timedPasses = 2

func (t *Trainer) measurePass(p *ddp.Pace) error {
	rows := t.shapes()[0]
	args := plan.Args{
		Input: make([]byte, rows*t.spec.Input.Bytes()), Target: make([]byte, rows*t.spec.Target.Bytes()),
		LossScale: 1, LossDivisor: 1, Exchange: t.passes.Exchange,
	}
	var begin time.Time
	args.OnGrad = func(param int) {
		t.device.Fail(t.device.Wait()) // the hook is called when the gradient is still being computed
		p.Ready[param] = time.Since(begin)
	}
	args.OnUnused = args.OnGrad
	for range timedPasses {
		begin = time.Now()
		if res := t.passes.Programs.Train[rows].Run(args); res.Err != nil {
			return res.Err
		}
		p.End = time.Since(begin)
	}
	return nil
}

// The number of timed all-reduces of a size: fewer where they take long, as on hosts with many
// more ranks than cores.
const (
	mostLaps  = 12
	leastLaps = 2
	lapsTime  = 20 * time.Millisecond // of all
)

// timeReduce is the shortest of a few all-reduces of n bytes. All ranks run as many, because they
// go by the time of the slowest first one.
func (t *Trainer) timeReduce(n int) (least time.Duration, err error) {
	laps := leastLaps
	for lap := 0; lap < laps; lap++ {
		if err := t.group.Barrier(); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := t.reducer.Trial(n); err != nil {
			return 0, err
		}
		d := time.Since(begin)
		if lap == 0 || d < least {
			least = d
		}
		if lap == 0 {
			slowest := [1]float64{float64(d)}
			if err := t.group.Scalars(sdk.Max, slowest[:]); err != nil {
				return 0, err
			}
			laps = min(mostLaps, max(leastLaps, int(float64(lapsTime)/max(1, slowest[0]))))
		}
	}
	return least, nil
}

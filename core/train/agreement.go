package train

import (
	"context"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// The totals that ranks sum in every step, with one small all-reduce after the last
// bucket.
const (
	sumLoss = iota
	sumCorrect
	sumCounted
	sumRows
	sumStop  // ranks that were asked to stop
	sumSave  // ranks that were asked to save
	sumEnded // ranks whose data ended, where that must not be
	sumCount
)

// sums holds the totals of a step or of an evaluation.
type sums [sumCount]float64

// agreement is what ranks exchange through the backend besides gradients, so that all
// make the same decisions: totals in every step, one number per rank, a flag.
type agreement struct {
	group    *ddp.Group
	recovery *recovery.Recovery

	totals   sums // of the last step, over all ranks
	pending  ddp.Pending
	numbers  []float64  // of every rank, by rank
	overflow [1]float64 // 1 if a gradient of some rank is not finite
}

func newAgreement(g *ddp.Group, r *recovery.Recovery) agreement {
	return agreement{group: g, recovery: r, numbers: make([]float64, g.World)}
}

// requests are the flags that this rank sends to all in a step.
type requests struct{ stop, save, ended bool }

// gradients is the stage that ends with the totals of a step.
func (a *agreement) gradients() recovery.Stage {
	return recovery.Stage{Name: "gradients", Result: a.totals[:], Changes: true}
}

// start starts to sum what ranks report about a step, after its buckets.
func (a *agreement) start(m measures, r requests) (err error) {
	a.totals = sums{
		sumLoss: m.loss, sumCorrect: float64(m.correct), sumCounted: float64(m.counted), sumRows: float64(m.rows),
		sumStop: flag(r.stop), sumSave: flag(r.save), sumEnded: flag(r.ended),
	}
	a.pending, err = a.group.StartScalars(sdk.Sum, a.totals[:])
	return err
}

// finish waits for the totals.
func (a *agreement) finish() error { return a.group.FinishScalars(a.pending, a.totals[:]) }

// stop, ended and saveAsked report what any rank asked for in the last step.
func (a *agreement) stop() bool      { return a.totals[sumStop] > 0 }
func (a *agreement) ended() bool     { return a.totals[sumEnded] > 0 }
func (a *agreement) saveAsked() bool { return a.totals[sumSave] > 0 }

// loss is the mean over ranks that had data in the last step.
func (a *agreement) loss(active int) float64 { return a.totals[sumLoss] / float64(active) }

// gather returns one number per rank, by rank, valid until the next call.
func (a *agreement) gather(ctx context.Context, own float64) ([]float64, error) {
	return a.numbers, a.recovery.Do(ctx, recovery.Stage{Name: "numbers", Result: a.numbers}, func(context.Context) error {
		all, err := a.group.Gather(own)
		if err == nil {
			copy(a.numbers, all)
		}
		return err
	})
}

// anyOverflow reports on all ranks whether a gradient of any rank is not finite.
func (a *agreement) anyOverflow(ctx context.Context, o *optim.Optimizer) (bool, error) {
	err := a.recovery.Do(ctx, recovery.Stage{Name: "finite", Result: a.overflow[:]}, func(context.Context) error {
		own := !o.GradsFinite()
		if err := o.Err(); err != nil {
			return err
		}
		found, err := a.group.Any(own)
		if err == nil {
			a.overflow[0] = flag(found)
		}
		return err
	})
	return a.overflow[0] > 0, err
}

// sum adds up the totals of an evaluation.
func (a *agreement) sum(ctx context.Context, s *sums) error {
	return a.recovery.Do(ctx, recovery.Stage{Name: "totals", Result: s[:]}, func(context.Context) error {
		return a.group.Scalars(sdk.Sum, s[:])
	})
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

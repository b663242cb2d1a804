package agreement

import (
	"context"
	"slices"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// The totals that ranks sum in every step, with one small all-reduce after the last
// bucket.
const (
	SumLoss = iota
	SumCorrect
	SumCounted
	SumRows
	sumStop  // ranks that were asked to stop
	SumSave  // ranks that were asked to save
	sumEnded // ranks whose data ended where that is not allowed
	sumJoin  // ranks that know that others wait to join
	sumNews  // ranks that have events for the run's files
	sumCount
)

// Totals holds the totals of a step or of an evaluation.
type Totals [sumCount]float64

// Agreement is what ranks exchange through the backend besides gradients, so that all
// make the same decisions: totals in every step, one number per rank, a flag.
type Agreement struct {
	group    *ddp.Group
	recovery *recovery.Recovery

	Totals   Totals // of the last step, over all ranks
	pending  ddp.Pending
	numbers  []float64  // of every rank, by rank
	overflow [1]float64 // 1 if a gradient of some rank is not finite
}

// New returns the agreement of a group's ranks; r repeats its exchanges when the process group breaks.
func New(g *ddp.Group, r *recovery.Recovery) Agreement {
	return Agreement{group: g, recovery: r, numbers: make([]float64, g.World)}
}

// Regroup follows a change of the group.
func (a *Agreement) Regroup() { a.numbers = make([]float64, a.group.World) }

// Requests are the flags that this rank sends to all in a step.
type Requests struct{ Stop, Save, Ended, Join, News bool }

// Gradients is the stage that ends with the totals of a step.
func (a *Agreement) Gradients() recovery.Stage {
	return recovery.Stage{Name: "gradients", Result: a.Totals[:], Changes: true}
}

// Start starts to sum what ranks report about a step, after its buckets.
func (a *Agreement) Start(m passes.Measures, r Requests) (err error) {
	a.Totals = Totals{
		SumLoss: m.Loss * m.Weight, SumCorrect: float64(m.Correct), SumCounted: float64(m.Counted), SumRows: float64(m.Rows),
		sumStop: Flag(r.Stop), SumSave: Flag(r.Save), sumEnded: Flag(r.Ended), sumJoin: Flag(r.Join), sumNews: Flag(r.News),
	}
	a.pending, err = a.group.StartScalars(sdk.Sum, a.Totals[:])
	return err
}

// Alone sets the totals of a step without an exchange: samples are those of all ranks as planned, and
// the rest is this rank's.
func (a *Agreement) Alone(m passes.Measures, samples int) {
	a.Totals = Totals{SumLoss: m.Loss * float64(a.group.World), SumCorrect: float64(m.Correct), SumCounted: float64(m.Counted), SumRows: float64(samples)}
}

// Finish waits for the totals.
func (a *Agreement) Finish() error { return a.group.FinishScalars(a.pending, a.Totals[:]) }

// Stop, Ended, SaveAsked, JoinAsked and News report what any rank asked for in the last step.
func (a *Agreement) Stop() bool      { return a.Totals[sumStop] > 0 }
func (a *Agreement) Ended() bool     { return a.Totals[sumEnded] > 0 }
func (a *Agreement) SaveAsked() bool { return a.Totals[SumSave] > 0 }
func (a *Agreement) JoinAsked() bool { return a.Totals[sumJoin] > 0 }
func (a *Agreement) News() bool      { return a.Totals[sumNews] > 0 }

// Served records that the ranks that wanted to join were admitted.
func (a *Agreement) Served() { a.Totals[sumJoin] = 0 }

// Loss is the mean over ranks that had data in the last step.
func (a *Agreement) Loss(active int) float64 { return a.Totals[SumLoss] / float64(active) }

// Gather returns one number per rank, by rank, valid until the next call.
func (a *Agreement) Gather(ctx context.Context, own float64) ([]float64, error) {
	numbers := a.numbers
	err := a.recovery.Do(ctx, recovery.Stage{Name: "numbers", Result: numbers}, func(context.Context) error {
		all, err := a.group.Gather(own)
		if err == nil {
			numbers = numbers[:copy(numbers, all)]
		}
		return err
	})
	return numbers, err
}

// AnyOverflow reports on all ranks whether a gradient of any rank is not finite.
func (a *Agreement) AnyOverflow(ctx context.Context, o *optim.Optimizer) (bool, error) {
	err := a.recovery.Do(ctx, recovery.Stage{Name: "finite", Result: a.overflow[:]}, func(context.Context) error {
		own := !o.GradsFinite()
		if err := o.Err(); err != nil {
			return err
		}
		found, err := a.group.Any(own)
		if err == nil {
			a.overflow[0] = Flag(found)
		}
		return err
	})
	return a.overflow[0] > 0, err
}

// Sum adds up the totals of an evaluation over all ranks. own returns this rank's part; it is
// called again if the stage is repeated.
func (a *Agreement) Sum(ctx context.Context, own func() (Totals, error)) (s Totals, err error) {
	err = a.recovery.Do(ctx, recovery.Stage{Name: "totals", Result: s[:]}, func(context.Context) (err error) {
		if s, err = own(); err != nil {
			return err
		}
		return a.group.Scalars(sdk.Sum, s[:])
	})
	return s, err
}

// SumAll adds up numbers over all ranks in place. own writes this rank's; it is called again if the
// stage is repeated.
func (a *Agreement) SumAll(ctx context.Context, name string, sums []float64, own func(dst []float64)) error {
	return a.recovery.Do(ctx, recovery.Stage{Name: name, Result: sums}, func(context.Context) error {
		clear(sums)
		own(sums)
		for part := range slices.Chunk(sums, ddp.ScratchBytes/8) {
			if err := a.group.Scalars(sdk.Sum, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Concat returns the bytes of all ranks, one rank's after the other. It is for a few hundred: each is sent as a
// number, so that the exchange can be repeated as every other.
func (a *Agreement) Concat(ctx context.Context, name string, own []byte) ([]byte, error) {
	sizes, err := a.Gather(ctx, float64(len(own)))
	if err != nil {
		return nil, err
	}
	begin, total := 0, 0
	for r, n := range sizes {
		if r == a.group.Rank {
			begin = total
		}
		total += int(n)
	}
	sums := make([]float64, total)
	err = a.SumAll(ctx, name, sums, func(dst []float64) {
		for i, c := range own {
			dst[begin+i] = float64(c)
		}
	})
	all := make([]byte, total)
	for i, v := range sums {
		all[i] = byte(v)
	}
	return all, err
}

// Flag is 1 for true.
func Flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

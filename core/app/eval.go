package app

import (
	"context"
	"errors"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
)

// Evaluation is the result of evaluating a checkpoint.
type Evaluation struct {
	Checkpoint string
	Step       int
	Samples    int
	Loss       float64
	Accuracy   float64 // negative: the model does not classify

	// As in event.EvalDone; 0: none.
	Tokens      int
	Perplexity  float64
	BitsPerByte float64
	Metrics     *event.EvalMetrics
}

// Evaluate runs a checkpoint over the test split in this process, with the
// data set and precision plugins of the configuration. There are no other
// ranks, so no backend is started.
func Evaluate(ctx context.Context, o Options) (Evaluation, error) {
	o.EvalOnly = true
	res := Evaluation{Checkpoint: o.Resume, Accuracy: -1}
	parts := fx.Options(
		fx.Replace(rank.Single()),
		fx.Replace(ready[host.Collectives](alone{})),
		fx.Decorate(func(bus *event.Bus) *event.Bus {
			bus.Add(event.Func(func(r event.Record) { res.take(r.Event) }))
			return bus
		}),
	)
	err := withRunner(o, []fx.Option{parts}, func(r *runner) error {
		d, err := r.deps(ctx)
		if err != nil {
			return err
		}
		t, err := train.Setup(ctx, d)
		if err != nil {
			return err
		}
		if _, _, err = t.Evaluate(ctx); err != nil {
			return err
		}
		return t.Vacate()
	})
	return res, err
}

func (e *Evaluation) take(ev event.Event) {
	switch ev := ev.(type) {
	case *event.CheckpointLoaded:
		e.Checkpoint, e.Step = ev.Path, ev.Step
	case *event.EvalDone:
		e.Samples, e.Loss, e.Accuracy = ev.Samples, ev.Loss, ev.Accuracy
		e.Tokens, e.Perplexity, e.BitsPerByte, e.Metrics = ev.Tokens, ev.Perplexity, ev.BitsPerByte, ev.Metrics
	}
}

// alone is the backend of a world of one rank: there is nothing to do.
type alone struct{}

var errAlone = errors.New("a collective in a world of one rank")

func (alone) Info() sdk.Info {
	return sdk.Info{Kind: sdk.KindBackend, Name: "none", Determinism: "bitwise"}
}

func (alone) Open(context.Context, sdk.Group, sdk.Options) error { return nil }
func (alone) Attach(context.Context, *sdk.Arena) error           { return nil }
func (alone) Listen(context.Context) ([]byte, error)             { return nil, nil }
func (alone) Connect(context.Context, [][]byte) error            { return nil }
func (alone) Submit(*sdk.Collective) (uint64, error)             { return 0, errAlone }
func (alone) Wait(uint64) error                                  { return errAlone }
func (alone) PID() int                                           { return 0 }
func (alone) Close(context.Context) error                        { return nil }

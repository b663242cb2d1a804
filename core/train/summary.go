package train

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/replica"
	"github.com/trainctl/trainctl/core/train/report"
)

// outcome is what a rank contributes to the summary.
type outcome struct {
	Params  string
	PeakRSS int64
	Waits   []byte // of the last steps, as float32 milliseconds

	Replaced map[string]int `json:",omitempty"` // plugins, by kind
	Events   []byte         `json:",omitempty"` // for the run's files, since the last step
}

// replaced is how often this rank's plugins were replaced, except for its backend.
func (t *Trainer) replaced() map[string]int {
	n := map[string]int{}
	for kind, p := range map[sdk.Kind]any{sdk.KindDataset: t.Dataset, sdk.KindPrecision: t.Precision} {
		if r, ok := p.(interface{ Replaced() int }); ok && r.Replaced() > 0 {
			n[string(kind)] = r.Replaced()
		}
	}
	return n
}

// Summary collects the result of the run over all ranks. All ranks call it
// after Run; every rank gets the same summary.
func (t *Trainer) Summary(ctx context.Context) (event.Summary, error) {
	if err := t.device.Download(); err != nil {
		return event.Summary{}, err
	}
	mine := outcome{Params: ddp.Hash(t.model.Values), Waits: t.report.Waits(), Replaced: t.replaced(), Events: t.Events.Outbox()}
	if t.PeakRSS != nil {
		mine.PeakRSS = t.PeakRSS()
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return event.Summary{}, err
	}
	all, err := t.Gather(ctx, "outcome", b)
	if err != nil {
		return event.Summary{}, err
	}
	s := t.ownSummary()
	s.PluginRestarts = map[string]int{}
	var waits [][]float32
	for r, b := range all {
		var o outcome
		if err := json.Unmarshal(b, &o); err != nil {
			return s, fmt.Errorf("rank %d's outcome: %w", r, err)
		}
		s.ParamsSHA256 = append(s.ParamsSHA256, o.Params)
		s.Memory.PeakRSSBytes = append(s.Memory.PeakRSSBytes, o.PeakRSS)
		waits = append(waits, report.Floats(o.Waits))
		t.Events.Deliver(o.Events)
		for kind, n := range o.Replaced {
			s.PluginRestarts[kind] += n
		}
	}
	s.Comm.ExposedMSP50, s.Comm.ImbalanceMSP50 = report.DivideWaits(waits)
	t.nameSlowest(&s, waits)
	if v := replica.Compare(s.ParamsSHA256); !v.Equal {
		return s, fmt.Errorf("%v at the end of the run: the backend plugin, the precision plugin or memory is faulty; fix: check them on that rank", v)
	}
	return s, nil
}

// Weights are the parameters and buffers, in the precision in which the optimizer keeps them, after
// Summary on rank 0. Their memory belongs to the trainer.
func (t *Trainer) Weights() []tensor.Named { return t.model.Named(t.model.Full()) }

// nameSlowest names the rank that the others waited for, if that cost more than a fifth of a step.
func (t *Trainer) nameSlowest(s *event.Summary, waits [][]float32) {
	r, waited := report.Slowest(waits), float64(s.Comm.ImbalanceMSP50)
	if r < 0 || waited < float64(s.Train.StepMSP50)/5 {
		return
	}
	s.Comm.SlowestRank = &r
	if t.World.Rank == 0 {
		t.Events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
			"rank %d was slower than the others: they waited %.3g ms of a step of %.3g ms for it; fix: check what else runs on its host, and its clock rate", r, waited, float64(s.Train.StepMSP50))})
	}
}

func (t *Trainer) ownSummary() event.Summary {
	s := event.Summary{
		Schema: event.Schema, Name: t.Settings.Run.Name, Status: "ok", WorldSize: t.World.Size, Device: t.Device.Name(),
		Backend: t.Backend.Info().Name, Precision: t.policy.Name,
		Dataset: event.DatasetSummary{Plugin: t.Settings.Dataset, Source: t.spec.Source, TrainSamples: t.spec.TrainSamples, TestSamples: t.spec.TestSamples, Validation: t.spec.Validation, Classes: t.spec.ClassNames},
		Epochs:  t.pos.Epoch, Steps: t.pos.Step, Restarts: t.World.RestartCount,
	}
	if t.Plugins != nil {
		s.Plugins = t.Plugins()
	}
	t.report.Summarize(&s)
	if d := t.outline.Division; d.Shares != nil {
		s.Train.Shares = d.Shares.Whole()
	}
	s.Layers = t.passes.Layers()
	s.EarlyStop = t.saver.early.summary()
	s.Comm.BucketCapsMB = t.outline.CapsMB
	s.Comm.Buckets, s.Comm.BytesPerStep = t.reducer.Buckets(), int64(t.outline.BytesPerStep(t.Settings.DDP))
	s.Comm.BackendRestarts = t.recovery.Group.Replaced() - len(t.recovery.Group.Changes)
	s.Comm.Elastic = t.recovery.Group.Changes
	s.Time.TotalS = event.Number(time.Since(t.Started).Seconds())
	return s
}

// record switches the timeline on if the configuration says so.
func (t *Trainer) record() {
	if !t.Settings.Timeline {
		return
	}
	micro := t.outline.Division.Accumulate
	collectives := 2*t.reducer.Buckets() + micro*len(t.outline.Plan.Exchanges()) + 5 // buffers, inputs, totals, used parameters, finite
	t.trace = timeline.New(t.Started, 3*micro+2+collectives)
	t.group.Trace(t.trace)
	t.feeder.Trace(t.trace)
	t.passes.Record(t.trace, t.World.Rank == 0 && t.Device.Name() == "cpu")
	t.recovery.Group.Trace = t.trace
}

// Timeline is what this rank recorded; nil when it is off.
func (t *Trainer) Timeline() []timeline.Slice { return t.trace.Slices() }

// TimelineOn reports whether ranks record what they do.
func (t *Trainer) TimelineOn() bool { return t.trace != nil }

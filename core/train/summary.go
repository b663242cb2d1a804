package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// outcome is what a rank contributes to the summary.
type outcome struct {
	Params  string
	PeakRSS int64
	Waits   []byte // of the last steps, as float32 milliseconds
}

// Summary collects the result of the run over all ranks. All ranks call it
// after Run; every rank gets the same summary.
func (t *Trainer) Summary(ctx context.Context) (event.Summary, error) {
	if err := t.device.download(); err != nil {
		return event.Summary{}, err
	}
	mine := outcome{Params: ddp.Hash(t.model.values), Waits: tensor.Bytes(t.report.stats.waits.last())}
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
	var waits [][]float32
	for r, b := range all {
		var o outcome
		if err := json.Unmarshal(b, &o); err != nil {
			return s, fmt.Errorf("rank %d's outcome: %w", r, err)
		}
		s.ParamsSHA256 = append(s.ParamsSHA256, o.Params)
		s.Memory.PeakRSSBytes = append(s.Memory.PeakRSSBytes, o.PeakRSS)
		waits = append(waits, floats(o.Waits))
	}
	s.Comm.ExposedMSP50, s.Comm.ImbalanceMSP50 = divideWaits(waits)
	t.nameSlowest(&s, waits)
	if v := compareRanks(s.ParamsSHA256); !v.equal {
		return s, fmt.Errorf("%v at the end of the run: the backend plugin, the precision plugin or memory is faulty; fix: check them on that rank", v)
	}
	return s, nil
}

// nameSlowest names the rank for which the others stood still, where that cost
// more than a fifth of a step.
func (t *Trainer) nameSlowest(s *event.Summary, waits [][]float32) {
	r, waited := slowest(waits), float64(s.Comm.ImbalanceMSP50)
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
	st := &t.report.stats
	s := event.Summary{
		Schema: event.Schema, Name: t.Settings.Run.Name, Status: "ok", WorldSize: t.World.Size, Device: t.Device.Name(),
		Backend: t.Backend.Info().Name, Precision: t.policy.Name,
		Dataset: event.DatasetSummary{Plugin: t.Settings.Dataset, Source: t.spec.Source, TrainSamples: t.spec.TrainSamples, TestSamples: t.spec.TestSamples, Classes: t.spec.ClassNames},
		Epochs:  t.pos.Epoch, Steps: t.pos.Step, Restarts: t.World.RestartCount,
	}
	if t.Plugins != nil {
		s.Plugins = t.Plugins()
	}
	s.Train.Loss = event.Number(st.lossMean) // of the checkpoint, where no step was left to do
	if st.steps > 0 {
		s.Time.ToFirstStepS = event.Number(st.firstStep.Seconds())
	}
	if wall := st.last.Sub(st.mark).Seconds(); st.steps > warmup && wall > 0 {
		s.Train.SamplesPerSec = event.Number(st.samples / wall)
	}
	s.Train.StepMSP50, s.Train.StepMSP99 = quantile(st.stepMS, 0.5), quantile(st.stepMS, 0.99)
	s.Comm.BucketCapsMB = t.outline.CapsMB
	s.Comm.Buckets, s.Comm.BytesPerStep = t.reducer.Buckets(), int64(t.reducer.BytesPerStep())
	s.Comm.BackendRestarts = t.recovery.Group.Replaced()
	s.Time.TrainS = event.Number(st.end.Sub(st.begin).Seconds())
	s.Time.TotalS = event.Number(time.Since(t.Started).Seconds())
	if t.report.evaluated {
		s.Eval = &event.EvalSummary{Loss: event.Number(t.report.metrics.value("eval.loss"))}
		if acc, ok := t.report.metrics["eval.accuracy"]; ok {
			n := event.Number(acc.value)
			s.Eval.Accuracy = &n
		}
	}
	return s
}

// quantile of values in any order; 0 without values.
func quantile(v []float64, q float64) event.Number {
	if len(v) == 0 {
		return 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return event.Number(s[min(len(s)-1, int(q*float64(len(s))))])
}

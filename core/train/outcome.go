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

// warmup steps are left out of throughput and step times.
const warmup = 10

// stats are what the summary is made of. Slices have their full capacity from
// the start: a step does not allocate.
type stats struct {
	begin, end time.Time
	firstStep  time.Duration // since Started; 0 until there was one
	mark       time.Time     // end of the last warm-up step
	samples    float64       // over all ranks, since mark
	steps      int           // in this process
	stepMS     []float64
	waits      waits
	last       time.Time // end of the last step
	lossMean   float64
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stepDone records and reports a step.
func (t *Trainer) stepDone(in inputs, m measures, lr, norm float64, applied bool, took time.Duration) {
	s := &t.stats
	now := time.Now()
	s.steps++
	waited := t.group.Exposed()
	if s.steps == 1 {
		s.firstStep = now.Sub(t.Started)
	}
	s.last = now
	s.lossMean = t.sums[sumLoss] / float64(in.active)
	if s.steps > warmup {
		s.samples += t.sums[sumRows]
		if len(s.stepMS) < cap(s.stepMS) {
			s.stepMS = append(s.stepMS, ms(took))
		}
		s.waits.add(waited)
	} else {
		s.mark = now
	}
	t.vals.set("train.loss", s.lossMean, t.pos.Step)
	t.done = event.StepDone{
		Step: t.pos.Step, Epoch: t.pos.Epoch, Loss: m.loss, LossMean: s.lossMean, Accuracy: -1, LR: lr,
		StepMS: ms(took), DataMS: ms(m.data), CommMS: ms(waited),
		Samples: int(t.sums[sumRows]), SamplesPerSec: t.sums[sumRows] / took.Seconds(),
		GradNorm: norm, Skipped: !applied,
	}
	if t.spec.Classes > 0 && t.sums[sumCounted] > 0 {
		t.done.Accuracy = t.sums[sumCorrect] / t.sums[sumCounted]
	}
	if t.policy.Dynamic || t.policy.Scale != 1 {
		t.done.Scale = t.scale
	}
	t.Events.Emit(&t.done)
	if !isFinite(s.lossMean) {
		t.warnLoss()
	}
}

// warnLoss says once that the loss is not finite.
func (t *Trainer) warnLoss() {
	if t.lossWarned {
		return
	}
	t.lossWarned = true
	ends := "the run goes on as PyTorch's would, because train.max_skips is 0"
	if n := t.diverges.limit; n > 0 {
		ends = fmt.Sprintf("the run ends after %d such steps in a row (train.max_skips)", n)
	}
	t.Events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
		"the loss is %v at step %d; %s; lower optimizer.lr or clip with train.max_norm", t.stats.lossMean, t.pos.Step, ends)})
}

func (t *Trainer) planMade(took time.Duration) {
	p, n := t.outline.Plan, t.outline.Steps
	t.stats.stepMS = make([]float64, 0, min(n, 1<<20))
	t.stats.waits = newWaits()
	params := 0
	for _, q := range t.model.graph.Params() {
		params += q.Shape.Elems()
	}
	mem := p.Memory(t.Device)
	copies := t.outline.CopyBytes()
	t.Events.Emit(&event.PlanMade{
		Parameters: int64(params), Buckets: t.reducer.Buckets(), BytesPerStep: int64(t.reducer.BytesPerStep()),
		MemoryBytes: int64(mem.Params + mem.Grads + copies + mem.Buffers + mem.Activations + mem.Workspace), PlanSteps: len(p.Steps()),
		Epochs: t.Settings.Train.Epochs, StepsPerEpoch: t.outline.StepsPerEpoch, Steps: n, LogFreq: t.Settings.Train.LogFreq, TookMS: ms(took),
	})
}

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
	mine := outcome{Params: ddp.Hash(t.model.values), Waits: tensor.Bytes(t.stats.waits.last())}
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
		return s, fmt.Errorf("%v at the end of the run: a fault of the backend or precision plugin, or of memory; fix: look at them there", v)
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
			"rank %d was slower than the others: they waited %.3g ms of a step of %.3g ms for it; look at what else runs on its host and at its clock rate", r, waited, float64(s.Train.StepMSP50))})
	}
}

func (t *Trainer) ownSummary() event.Summary {
	st := &t.stats
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
	s.Comm.BackendRestarts = t.processGroup.Replaced()
	s.Time.TrainS = event.Number(st.end.Sub(st.begin).Seconds())
	s.Time.TotalS = event.Number(time.Since(t.Started).Seconds())
	if t.evaluated {
		s.Eval = &event.EvalSummary{Loss: event.Number(t.vals.value("eval.loss"))}
		if acc, ok := t.vals["eval.accuracy"]; ok {
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

package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/metric"
	"github.com/trainctl/trainctl/core/train/recovery"
)

func (t *Trainer) evalBatch() int { return t.Settings.Train.EvalRows(t.outline.Batch) }

func (t *Trainer) evalIndices() []int64 {
	return data.EvalShard(t.spec.TestSamples, t.World.Size, t.World.Rank)
}

// evaluate runs the test split with rank 0's batch statistics. Every sample
// is on one rank, and sums, not means, are reduced, so the result does not
// depend on the number of ranks.
func (t *Trainer) evaluate(ctx context.Context) (err error) {
	if t.spec.TestSamples == 0 {
		return nil
	}
	begin := time.Now()
	t.enter("eval")
	if err := t.settleBuffers(ctx); err != nil {
		return err
	}
	if err := t.commonAverages(ctx); err != nil {
		return err
	}
	shard, ranks := agreement.Totals{}, 0
	sums, err := t.agreement.Sum(ctx, func() (_ agreement.Totals, err error) {
		if ranks == t.World.Size { // of the same samples as before
			return shard, nil
		}
		mark := t.trace.Now()
		ranks = t.World.Size
		shard, err = t.evalShard()
		t.trace.Since(timeline.Compute, "evaluation", -1, mark)
		return shard, err
	})
	if err == nil {
		err = t.exchangeShards(ctx)
	}
	if err != nil {
		return fmt.Errorf("evaluation after step %d: %w", t.pos.Step, err)
	}
	var detail *event.Evaluation
	if t.passes.Counter != nil {
		if detail, err = t.detail(ctx); err != nil {
			return fmt.Errorf("evaluation after step %d: %w", t.pos.Step, err)
		}
	}
	t.report.Evaluation(t.pos, &sums, detail, time.Since(begin))
	if detail != nil && t.WriteEvaluation != nil {
		if err := t.keep(detail); err != nil {
			return fmt.Errorf("evaluation after step %d: %w", t.pos.Step, err)
		}
	}
	if err := t.observe(); err != nil {
		return err
	}
	t.enter("train")
	return nil
}

// commonAverages prepares what is evaluated where ranks have different moving averages of weights: of
// different parameters, or because each trains on its own. The mean of averages is the average of the mean.
func (t *Trainer) commonAverages(ctx context.Context) error {
	if t.passes.Local && t.updater.Optimizer.HasAverage() {
		return t.replication.Averaging.Averages(t.updater.Optimizer)
	}
	return t.exchangeShards(ctx)
}

// exchangeShards exchanges weights and moving averages of which each rank has a part, and gives all ranks
// all parts of what is now in the place of the weights; again, it exchanges them back.
func (t *Trainer) exchangeShards(ctx context.Context) error {
	s := &t.replication.Shards
	if !s.Divided() || !t.updater.Optimizer.HasAverage() {
		return nil
	}
	t.updater.Optimizer.UseAverage()
	return t.recovery.Do(ctx, recovery.Stage{Name: stageShards}, func(context.Context) error { return s.Publish() })
}

// detail adds up the counts of the metrics over all ranks.
func (t *Trainer) detail(ctx context.Context) (*event.Evaluation, error) {
	sums := make([]float64, t.passes.Counter.Len())
	if err := t.agreement.SumAll(ctx, "metrics", sums, t.passes.Counter.Values); err != nil {
		return nil, err
	}
	e := t.passes.Counter.Result(sums, t.spec.ClassNames, func(index int64) (string, int64) {
		if d, ok := t.Dataset.(interface {
			Origin(index int64) (at int64, held bool)
		}); ok {
			if at, held := d.Origin(index); held {
				return "train", at
			}
		}
		return "test", index
	})
	return &e, nil
}

// keep writes an evaluation, with pictures of the worst samples if they are images, else with their numbers or
// tokens. A rank reads these again: which samples are the worst on all ranks is known only now.
func (t *Trainer) keep(e *event.Evaluation) error {
	show := func(s *event.WorstSample, input []byte) error {
		s.Input = metric.Excerpt(&t.spec, input)
		return nil
	}
	if p := metric.NewPictures(t.spec.Input, t.Settings.DatasetOptions); p != nil {
		show = func(s *event.WorstSample, input []byte) (err error) {
			s.Picture, err = p.PNG(input)
			return err
		}
	}
	if err := t.show(e.Worst, t.passes.Counter.Listed(metric.MostPictures), show); err != nil {
		return err
	}
	err := t.WriteEvaluation(e)
	if t.EvalOnly {
		return err
	}
	if err != nil {
		t.Events.Emit(&event.Warning{Source: "eval", Message: err.Error() + "; training continues"})
	}
	return nil
}

// show reads test samples again and calls show with each. Where the data set ends early, it leaves out the rest.
func (t *Trainer) show(samples []event.WorstSample, indices []int64, show func(s *event.WorstSample, input []byte) error) error {
	if len(indices) == 0 {
		return nil
	}
	loader := data.NewLoader(t.Dataset, LoaderSlots(t.Settings.Sampler), t.evalBatch(), t.Settings.Run.Seed)
	if err := loader.Start(sdk.Test, 0, indices, 0); err != nil {
		return err
	}
	for len(indices) > 0 {
		b, err := loader.Next()
		if errors.Is(err, data.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		each := len(b.Input) / b.Rows
		for i := range b.Rows {
			if err := show(&samples[i], b.Input[i*each:(i+1)*each]); err != nil {
				return err
			}
		}
		samples, indices = samples[b.Rows:], indices[b.Rows:]
	}
	return nil
}

// evalShard adds up loss and hits over this rank's part of the test split.
func (t *Trainer) evalShard() (total agreement.Totals, err error) {
	loader := data.NewLoader(t.Dataset, LoaderSlots(t.Settings.Sampler), t.evalBatch(), t.Settings.Run.Seed)
	if err := t.feeder.Stop(); err != nil {
		return total, err
	}
	t.feeder.Forget()
	if o := t.updater.Optimizer; o.HasAverage() && !t.replication.Shards.Divided() { // what is evaluated
		o.UseAverage()
		defer o.UseAverage()
	}
	indices := t.evalIndices()
	if err := loader.Start(sdk.Test, 0, indices, 0); err != nil {
		return total, err
	}
	if t.passes.Counter != nil {
		t.passes.Counter.Reset()
	}
	for range loader.Len() {
		b, err := loader.Next()
		if err != nil {
			return total, fmt.Errorf("evaluation: %w", err)
		}
		res := t.passes.Programs.Eval[b.Rows].Run(plan.Args{Input: b.Input, Target: b.Target, LossScale: 1, LossDivisor: 1, Rank: t.World.Rank})
		if res.Err != nil {
			return total, fmt.Errorf("evaluation: %w", res.Err)
		}
		if t.passes.Counter != nil {
			t.passes.Counter.Add(t.passes.Programs.Logits[b.Rows], b.Target, indices[:b.Rows])
			indices = indices[b.Rows:]
		}
		total[agreement.SumLoss] += res.LossSum
		total[agreement.SumCorrect] += float64(res.Correct)
		total[agreement.SumCounted] += float64(res.Counted)
		total[agreement.SumRows] += float64(res.Rows)
	}
	return total, nil
}

// Evaluate runs one evaluation over the loaded weights and returns its result.
func (t *Trainer) Evaluate(ctx context.Context) (loss, accuracy float64, err error) {
	if err := t.evaluate(ctx); err != nil {
		return 0, 0, err
	}
	return t.report.Metrics.Value("eval.loss"), t.report.Metrics.Value("eval.accuracy"), nil
}

package train

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/outline"
)

// BenchmarkHostStep is what the host does for a step of a GPU rank: the loop as it
// is, the ConvNet at batch 100, over a driver that does nothing. As long as the
// GPU has work meanwhile costs nothing; the rest of it is time that a GPU idles.
func BenchmarkHostStep(b *testing.B) {
	for name, change := range map[string]func(*outline.Settings){
		"sgd":     func(*outline.Settings) {},
		"clipped": func(s *outline.Settings) { s.Train.MaxNorm = 1 },
	} {
		b.Run(name, func(b *testing.B) { benchmarkHostStep(b, change) })
	}
}

func benchmarkHostStep(b *testing.B, change func(*outline.Settings)) {
	cudatest.Libraries(b, 1)
	b.Setenv("CUDA_FAKE_NULL", "1")
	const warm = 50
	var before, after runtime.MemStats
	errs := onRanks(b, 1, func(_ int, d *Deps) {
		d.Device = fakeGPU(b, 0)
		d.Dataset = &instant{Dataset: d.Dataset.(*host.Dataset)}
		s := &d.Settings
		s.Model = nn.Config{Name: "convnet"}
		s.DatasetOptions["shape"], s.DatasetOptions["classes"] = []int64{1, 28, 28}, int64(10)
		s.DatasetOptions["train_samples"] = int64(60_000)
		s.Train.PerRankBatch, s.Train.EvalEvery, s.Train.Epochs, s.Train.MaxSteps = 100, 0, 0, warm+b.N
		change(s)
		d.Events.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.StepDone); ok && e.Step == warm {
				runtime.ReadMemStats(&before)
				b.ResetTimer()
			} else if ok && e.Step == warm+b.N {
				b.StopTimer()
				runtime.ReadMemStats(&after)
			}
		}))
	}, func(ctx context.Context, d Deps) error { return trainToTheEnd(ctx, d) })
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "mallocs/step")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(time.Microsecond), "µs/step")
}

// instant is a data set that has every batch ready: the first that each slot got.
type instant struct {
	*host.Dataset
	requested [64]bool
	batch     [64][2][]byte
}

func (d *instant) Request(slot int, split sdk.Split, epoch int, seed uint64, indices []int64) error {
	if d.requested[slot] && len(indices) == 100 {
		return nil
	}
	d.requested[slot], d.batch[slot] = true, [2][]byte{}
	return d.Dataset.Request(slot, split, epoch, seed, indices)
}

func (d *instant) Wait(slot int) (input, target []byte, err error) {
	if b := &d.batch[slot]; b[0] == nil {
		b[0], b[1], err = d.Dataset.Wait(slot)
	}
	return d.batch[slot][0], d.batch[slot][1], err
}

package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

// ending is the data set of testdata/join.py. It ends after a number of batches
// of two samples.
type ending struct {
	rank, samples, batches int
	given                  int
	epoch                  int
}

func (d *ending) Info() sdk.Info { return sdk.Info{Name: "ending"} }
func (d *ending) Close() error   { return nil }

func (d *ending) Open(context.Context, sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return sdk.DatasetSpec{
		Source: "test", Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 4, 4}}, Target: tensor.Spec{DType: tensor.I32},
		Classes: 3, TrainSamples: d.samples,
	}, nil
}

func (d *ending) Fill(_ context.Context, b *sdk.Batch) error {
	if b.Epoch != d.epoch {
		d.epoch, d.given = b.Epoch, 0
	}
	if d.given == d.batches {
		return sdk.ErrEndOfData
	}
	d.given++
	x, y := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	for s, i := range b.Indices {
		y[s] = int32(i % 3)
		for k := range 16 {
			x[16*s+k] = float32(math.Sin(float64(16*i + int64(k))))
		}
	}
	return nil
}

// uneven gives rank r a data set of counts[r] batches, and the model of join.py.
func uneven(counts []int, change func(s *outline.Settings)) func(rank int, d *Deps) {
	return func(rank int, d *Deps) {
		most := 0
		for _, n := range counts {
			most = max(most, n)
		}
		s := &d.Settings
		d.Dataset = host.InProcessDataset(&ending{rank: rank, samples: 2 * len(counts) * (most + 1), batches: counts[rank]})
		s.DatasetOptions, s.Dataset = nil, "ending"
		s.Run.DType, s.Sampler.Shuffle, s.Train.PerRankBatch, s.Train.EvalEvery = "f64", false, 2, 0
		two, three := 2, 3
		s.Model = nn.Config{Layers: []nn.LayerConfig{
			{Type: "conv2d", Args: op.Args{"out_channels": two, "kernel_size": op.Pair{3, 3}}}, {Type: "batchnorm2d"}, {Type: "relu"}, {Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": three}},
		}}
		s.Optimizer.LR, s.Optimizer.Momentum, s.Optimizer.WeightDecay = 0.1, 0.9, 0.01
		change(s)
	}
}

// outcomes trains and returns every rank's model, steps, and error.
func outcomes(t *testing.T, counts []int, change func(s *outline.Settings)) (models []map[string][]float64, steps []int, errs []error) {
	t.Helper()
	return run(t, counts, change, nil)
}

// run is outcomes with a look at each rank before it trains.
func run(t *testing.T, counts []int, change func(s *outline.Settings), look func(tr *Trainer)) (models []map[string][]float64, steps []int, errs []error) {
	t.Helper()
	models, steps = make([]map[string][]float64, len(counts)), make([]int, len(counts))
	errs = onRanks(t, len(counts), uneven(counts, change), func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		for i, e := range tr.model.Graph.StateDict() {
			for k := range e.Spec.Shape.Elems() {
				start := math.Cos(float64(k+10*e.Index)) / 4
				switch v := tr.model.Values[i]; {
				case e.Buffer:
				case v.DType == tensor.F64:
					v.F64()[k] = start
				default:
					v.F32()[k] = float32(start)
				}
			}
		}
		if look != nil {
			look(tr)
		}
		if err := tr.device.Upload(); err != nil {
			return err
		}
		err = errors.Join(tr.Run(ctx), tr.device.Download())
		m := map[string][]float64{}
		for i, e := range tr.model.Graph.StateDict() {
			for k := range e.Spec.Shape.Elems() {
				switch v := tr.model.Values[i]; v.DType {
				case tensor.F64:
					m[e.Name] = append(m[e.Name], v.F64()[k])
				case tensor.F32:
					m[e.Name] = append(m[e.Name], float64(v.F32()[k]))
				default:
					m[e.Name] = append(m[e.Name], float64(tensor.View[int64](v.Data)[k]))
				}
			}
		}
		models[d.World.Rank], steps[d.World.Rank] = m, tr.pos.Step
		return err
	})
	return models, steps, errs
}

// The model after uneven inputs is the one of DistributedDataParallel with
// join(), on every rank, running statistics included.
func TestJoinIsTorchs(t *testing.T) {
	b, err := os.ReadFile("testdata/join.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string][]float64
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for _, initial := range []bool{true, false} {
		models, steps, errs := outcomes(t, []int{5, 3, 4}, func(s *outline.Settings) {
			s.DDP.Uneven, s.DDP.DivideByInitial = ddp.UnevenJoin, initial
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for r, m := range models {
			if steps[r] != 5 {
				t.Errorf("rank %d made %d steps", r, steps[r])
			}
			for name, w := range want[fmt.Sprint(initial)] {
				for i, v := range m[name] {
					if math.Abs(v-w[i]) > 1e-6*(1+math.Abs(w[i])) {
						t.Errorf("divide by %v, rank %d: %s[%d] is %v, want %v", initial, r, name, i, v, w[i])
					}
				}
			}
		}
	}
}

// A rank that ran out between two micro-steps has seen fewer batches than the
// others: the statistics that count at the end are not its own.
func TestJoinEndsWithTheMostMicroSteps(t *testing.T) {
	opts, problems := sdk.CheckOptions("", synthetic.New().Info().Options, map[string]any{
		"shape": []any{int64(2), int64(3), int64(3)}, "classes": int64(3), "train_samples": int64(5), // 2, 2 and 1 on three ranks
	})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	errs := onRanks(t, 3, func(_ int, d *Deps) {
		s := &d.Settings
		s.DatasetOptions, s.DDP.Uneven, s.Sampler.Pad = opts, ddp.UnevenJoin, data.PadNone
		s.Train.PerRankBatch, s.Train.AccumulateSteps, s.Train.EvalEvery = 1, 3, 0
		three := 3
		s.Model = nn.Config{Layers: []nn.LayerConfig{{Type: "batchnorm2d"}, {Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": three}}}}
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		err = tr.Run(ctx)
		for i, e := range tr.model.Graph.StateDict() {
			if e.Name == "0.num_batches_tracked" && tensor.View[int64](tr.model.Values[i].Data)[0] != 2 {
				t.Errorf("rank %d ends with the statistics of %v batches, want those of two", d.World.Rank, tensor.View[int64](tr.model.Values[i].Data)[0])
			}
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// stop ends an epoch at the first rank without data, and leaves no trace of a step begun by others.
func TestStopIsTheShortestInput(t *testing.T) {
	got, steps, errs := outcomes(t, []int{5, 2, 4}, func(s *outline.Settings) { s.DDP.Uneven = ddp.UnevenStop })
	want, _, more := outcomes(t, []int{5, 5, 5}, func(s *outline.Settings) { s.Train.MaxSteps = 2 })
	if err := errors.Join(append(errs, more...)...); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || steps[0] != 2 {
		t.Errorf("%d steps\n%v\n%v", steps[0], got[0], want[0])
	}
}

// Ranks without data keep up with synchronised batch norms, micro-steps, many
// buckets, factors of low rank and clipping: all ranks end with the same model.
func TestJoinWithAllOptions(t *testing.T) {
	for name, change := range map[string]func(s *outline.Settings){
		"synchronised": func(s *outline.Settings) { s.DDP.SyncBatchNorm = true },
		"micro-steps":  func(s *outline.Settings) { s.Train.AccumulateSteps = 2 },
		"both, summed": func(s *outline.Settings) {
			s.DDP.SyncBatchNorm, s.Train.AccumulateSteps, s.Train.AccumulateMean = true, 3, false
		},
		"buckets, predivided": func(s *outline.Settings) { s.DDP.BucketCapMB, s.DDP.FirstBucketMB, s.DDP.PredivideFactor = 0, 0, 2 },
		"factors":             func(s *outline.Settings) { s.Run.DType, s.DDP.Compress, s.DDP.PowerSGDStart = "f32", "powersgd", 0 },
		"own statistics":      func(s *outline.Settings) { s.DDP.BroadcastBuffers, s.Train.MaxNorm = false, 0.1 },
	} {
		t.Run(name, func(t *testing.T) {
			models, _, errs := outcomes(t, []int{1, 7, 4}, func(s *outline.Settings) {
				s.DDP.Uneven, s.DDP.DivideByInitial, s.Train.Epochs = ddp.UnevenJoin, false, 2
				change(s)
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for r := range models {
				if fmt.Sprint(models[r]) != fmt.Sprint(models[0]) {
					t.Errorf("ranks 0 and %d\n%v\n%v", r, models[0], models[r])
				}
			}
		})
	}
}

// The last rank with data trains on one element for some steps: its running
// variance, which has no sample then, stays, and nothing becomes NaN.
func TestJoinWithOneElementInTheWorld(t *testing.T) {
	models, steps, errs := outcomes(t, []int{1, 4}, func(s *outline.Settings) {
		s.DDP.Uneven, s.DDP.SyncBatchNorm, s.Train.PerRankBatch = ddp.UnevenJoin, true, 1
		s.Model.Layers[0].Args["kernel_size"] = op.Pair{4, 4} // of images of 4 × 4
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if steps[0] != 4 {
		t.Errorf("%d steps", steps[0])
	}
	for r, m := range models {
		for name, values := range m {
			for _, v := range values {
				if math.IsNaN(v) {
					t.Errorf("rank %d: %s is %v", r, name, values)
					break
				}
			}
		}
		if n := m["1.num_batches_tracked"]; len(n) != 1 || n[0] != 4 {
			t.Errorf("rank %d: %v batches tracked", r, n)
		}
	}
}

// With join the buffers of a rank with data count, those of the one with the most
// passes after the step; rank 0 says once that others wait. With other
// settings rank 0's count always.
func TestJoinFollowsWhoHasData(t *testing.T) {
	bus, said := event.NewBus(0), 0
	bus.Add(event.Func(func(r event.Record) {
		if w, ok := r.Event.(*event.Warning); ok && strings.HasPrefix(w.Message, "1 of 3 ranks have had no data for 1000 steps") {
			said++
		}
	}))
	cfg := ddp.Default()
	cfg.Uneven = ddp.UnevenJoin
	j := join{cfg: cfg, world: 3, events: bus}
	in := passes.Uneven([]float64{2, 1, 0}, 2)
	for range longSkew + 5 {
		if j.begin(in, nil); j.authority != 1 {
			t.Fatalf("rank %d counts in a step", j.authority)
		}
		if j.end(in); j.authority != 0 {
			t.Fatalf("rank %d counts after a step", j.authority)
		}
	}
	if said != 1 {
		t.Errorf("said %d times that ranks wait", said)
	}
	if j.begin(passes.Uneven([]float64{1, 1, 1}, 1), nil); j.skewed != 0 {
		t.Errorf("%d steps without some rank, and all had data", j.skewed)
	}
	off := join{cfg: ddp.Default(), world: 3, events: bus}
	off.begin(in, nil)
	if off.end(in); off.on() || off.authority != 0 {
		t.Errorf("without join rank %d counts", off.authority)
	}
}

func TestUnevenErrorNamesRanks(t *testing.T) {
	got := fmt.Sprint(unevenError(2, []float64{0, 1}, []float64{7, 5}))
	if want := "epoch 2: the ranks have different numbers of batches: rank 1 ran out after 5 batches, rank 0 has had 7; fix: set ddp.uneven"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s", got)
	}
}

// By default uneven inputs are an error on every rank, which says how many batches each had. An
// early end that is the same on all ranks is the end of the epoch.
func TestUnevenInputsAreAnError(t *testing.T) {
	for _, sync := range []bool{false, true} {
		for _, accumulate := range []int{1, 2} {
			_, _, errs := outcomes(t, []int{5, 3, 5}, func(s *outline.Settings) { s.DDP.SyncBatchNorm, s.Train.AccumulateSteps = sync, accumulate })
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), "rank 1 ran out after 3 batches, rank 0 has had 4, rank 2 has had 4; fix: set ddp.uneven") {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		}
		_, steps, errs := outcomes(t, []int{3, 3}, func(s *outline.Settings) { s.DDP.SyncBatchNorm, s.Train.Epochs = sync, 2 })
		if err := errors.Join(errs...); err != nil || steps[0] != 6 {
			t.Errorf("an even early end: %d steps, %v", steps[0], err)
		}
	}
}

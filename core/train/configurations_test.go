package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
)

// configuration is a case of testdata/configurations.json: settings beside the
// defaults, its data, and what PyTorch makes of them.
type configuration struct {
	Name      string
	World     int
	Data      hashed
	Model     nn.Config
	Train     outline.TrainConfig
	Sampler   data.Config
	DDP       ddp.Config
	Optimizer optim.Config
	Schedule  optim.ScheduleConfig
	Want      outcomeOf
}

// outcomeOf is what a run of a configuration leaves.
type outcomeOf struct {
	Losses, Norms, Rates []float64
	Evals                [][]float64          // step, loss and, of classes, accuracy
	State                map[string][]float64 // sum, sum of magnitudes and last element of each tensor
}

// hashed is the data set of configurations.py.
type hashed struct {
	Shape                              tensor.Shape
	Classes, Outputs, Train, Test, Gap int
}

func (h hashed) Info() sdk.Info { return sdk.Info{Name: "hashed"} }
func (h hashed) Close() error   { return nil }

func (h hashed) Open(context.Context, sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	s := sdk.DatasetSpec{
		Source: "test", Input: tensor.Spec{DType: tensor.F32, Shape: h.Shape}, Target: tensor.Spec{DType: tensor.I32},
		Classes: h.Classes, TrainSamples: h.Train, TestSamples: h.Test,
	}
	if h.Outputs > 0 {
		s.Target = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{h.Outputs}}
	}
	return s, nil
}

func (h hashed) Fill(_ context.Context, b *sdk.Batch) error {
	x, n := tensor.View[float32](b.Input), h.Shape.Elems()
	for s, i := range b.Indices {
		fillHashed(x[s*n:][:n], i)
		switch {
		case h.Outputs > 0:
			fillHashed(tensor.View[float32](b.Target)[s*h.Outputs:][:h.Outputs], i+1000)
		case h.Gap > 0 && i%int64(h.Gap) == 0:
			tensor.View[int32](b.Target)[s] = -100
		default:
			tensor.View[int32](b.Target)[s] = int32((7*i + 3) % int64(h.Classes))
		}
	}
	return nil
}

func fillHashed(x []float32, i int64) {
	for k := range x {
		x[k] = float32(uint32((i*65537+int64(k)+1)*2654435761)>>8)/(1<<23) - 1
	}
}

// A run's losses, gradient norms, learning rates, evaluations and model are
// those of PyTorch, up to the order of sums.
func TestConfigurationsArePyTorchs(t *testing.T) {
	b, err := os.ReadFile("testdata/configurations.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	for _, raw := range cases {
		c := decodeConfiguration(t, raw)
		t.Run(c.Name, func(t *testing.T) {
			checkConfiguration(t, c, true)
			checkConfiguration(t, c, false)
		})
	}
}

// decodeConfiguration puts a case over the defaults of its tables.
func decodeConfiguration(t *testing.T, raw json.RawMessage) configuration {
	t.Helper()
	c := configuration{Train: outline.DefaultTrain(), Sampler: data.Default(), DDP: ddp.Default(), Optimizer: optim.DefaultFor("sgd"), Schedule: optim.DefaultSchedule()}
	var name struct{ Optimizer struct{ Name string } }
	if err := json.Unmarshal(raw, &name); err != nil {
		t.Fatal(err)
	}
	c.Optimizer = optim.DefaultFor(name.Optimizer.Name)
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	var model struct {
		Model struct{ Layers []map[string]json.RawMessage }
	}
	if err := json.Unmarshal(raw, &model); err != nil {
		t.Fatal(err)
	}
	giveArgs(t, c.Model.Layers, model.Model.Layers)
	return c
}

// giveArgs fills in the arguments of layers, whose keys the file writes in one
// word, and some shorter.
func giveArgs(t *testing.T, layers []nn.LayerConfig, raw []map[string]json.RawMessage) {
	t.Helper()
	short := map[string]string{"normshape": "normalized_shape", "elementwise": "elementwise_affine", "countpad": "count_include_pad"}
	for i, table := range raw {
		layers[i].Args = op.Args{}
		for _, name := range op.KeyNames() {
			for word, value := range table {
				word = strings.ToLower(word)
				if word != strings.ReplaceAll(name, "_", "") && short[word] != name {
					continue
				}
				k, _ := op.KeyNamed(name)
				v := reflect.New(reflect.TypeOf(k.Kind.Zero()))
				if err := json.Unmarshal(value, v.Interface()); err != nil {
					t.Fatal(err)
				}
				layers[i].Args[name] = v.Elem().Interface()
			}
		}
		for key, inner := range map[string][]nn.LayerConfig{"Layers": layers[i].Layers, "Shortcut": layers[i].Shortcut} {
			var tables []map[string]json.RawMessage
			if table[key] != nil {
				if err := json.Unmarshal(table[key], &tables); err != nil {
					t.Fatal(err)
				}
			}
			giveArgs(t, inner, tables)
		}
	}
}

func checkConfiguration(t *testing.T, c configuration, fuse bool) {
	t.Helper()
	got := outcomeOn(t, c.World, func(_ int, d *Deps) {
		s := &d.Settings
		s.Train, s.Sampler, s.DDP, s.Model, s.Optimizer, s.Schedule = c.Train, c.Sampler, c.DDP, c.Model, c.Optimizer, c.Schedule
		s.Run.DType, s.Run.Fuse = "f64", fuse
		s.Dataset, s.DatasetOptions = "hashed", nil
		d.Dataset = host.InProcessDataset(c.Data)
	})
	if c.Train.MaxNorm == 0 {
		got.Norms = nil
	}
	got.equals(t, &c.Want, 1e-9)
}

// outcomeOn trains the ranks of a world to the end.
func outcomeOn(t *testing.T, world int, change func(rank int, d *Deps)) (got outcomeOf) {
	t.Helper()
	errs := onRanks(t, world, func(rank int, d *Deps) {
		change(rank, d)
		if rank == 0 {
			d.Events.Add(event.Func(got.note))
		}
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		if d.Settings.Model.FreezeBatchNorm {
			startStatistics(tr)
		}
		if err := tr.Run(ctx); err != nil || d.World.Rank > 0 {
			return err
		}
		got.State = map[string][]float64{}
		for i, e := range tr.model.Graph.StateDict() {
			got.State[e.Name] = summaryOf(tr.model.Values[i])
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return got
}

// equals compares two outcomes, each number within a part of its value.
func (o *outcomeOf) equals(t *testing.T, want *outcomeOf, within float64) {
	t.Helper()
	series(t, "losses", o.Losses, want.Losses, within)
	series(t, "gradient norms", o.Norms, want.Norms, within)
	series(t, "learning rates", o.Rates, want.Rates, within)
	if len(o.Evals) != len(want.Evals) || len(o.State) != len(want.State) {
		t.Fatalf("%d evaluations and %d tensors, want %d and %d", len(o.Evals), len(o.State), len(want.Evals), len(want.State))
	}
	for i, e := range want.Evals {
		series(t, "evaluation", o.Evals[i], e, within)
	}
	for name, w := range want.State {
		series(t, name, o.State[name], w, within)
	}
}

// startStatistics gives batch norms other running statistics than zeros and ones, as a
// pretrained network has, so that a run shows which it uses.
func startStatistics(tr *Trainer) {
	for i, e := range tr.model.Graph.StateDict() {
		v := tr.model.Values[i]
		for j := range v.Shape.Elems() {
			switch {
			case strings.HasSuffix(e.Name, "running_mean"):
				v.Set(j, 0.1*float64(j)-0.2)
			case strings.HasSuffix(e.Name, "running_var"):
				v.Set(j, 0.5+0.25*float64(j))
			}
		}
	}
}

func (o *outcomeOf) note(r event.Record) {
	switch e := r.Event.(type) {
	case *event.StepDone:
		o.Losses, o.Norms, o.Rates = append(o.Losses, e.LossMean), append(o.Norms, e.GradNorm), append(o.Rates, e.LR)
	case *event.EvalDone:
		v := []float64{float64(e.Step), e.Loss}
		if e.Accuracy >= 0 {
			v = append(v, e.Accuracy)
		}
		o.Evals = append(o.Evals, v)
	}
}

// summaryOf is the sum, the sum of magnitudes and the last element.
func summaryOf(x tensor.Tensor) []float64 {
	var v []float64
	if x.DType.Float() {
		v = wide(x)
	} else {
		v = []float64{float64(tensor.View[int64](x.Data)[0])}
	}
	s := []float64{0, 0, v[len(v)-1]}
	for _, e := range v {
		s[0], s[1] = s[0]+e, s[1]+math.Abs(e)
	}
	return s
}

func series(t *testing.T, what string, got, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d numbers, want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= within*(1+math.Abs(w))) {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

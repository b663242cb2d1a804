package checkpoint

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/runs/mnist/1/checkpoints"

// snapshot gives a small one whose every value depends on the step.
func snapshot(step int) *Snapshot {
	named := func(name string, d tensor.DType, shape ...int) tensor.Named {
		t := tensor.New(d, shape...)
		for i := range t.Data {
			t.Data[i] = byte(step*31+i*7+len(name)) &^ 0x40 // finite in every type
		}
		return tensor.Named{Name: name, Tensor: t}
	}
	return &Snapshot{
		Step: step, Epoch: step / 3, Applied: step - 1,
		Model: []tensor.Named{
			named("layer1.0.weight", tensor.F32, 2, 3), named("layer1.1.num_batches_tracked", tensor.I64),
			named("fc.half", tensor.BF16, 3), named("fc.empty", tensor.F64, 0, 2),
		},
		Optimizer: []tensor.Named{named("step", tensor.I64), named("momentum_buffer.layer1.0.weight", tensor.F32, 2, 3)},
		Scaler:    map[string]float64{"scale": 65536, "_growth_tracker": float64(step)},
		Sampler:   Sampler{Seed: 1<<63 + 5, Epoch: step / 3, Offset: 64 * step, WorldSize: 2, Batch: 64, OrderHash: "ab", Shuffle: true},
		Seed:      1<<64 - 1,
		Dataset:   Dataset{Plugin: "mnist", Source: "generated", Fingerprint: "f"},
		Metrics:   map[string]float64{"eval.accuracy": 0.1 * float64(step%4), "train.loss": 1 / float64(step)},
		Config:    "[run]\nname = \"x\"\n", WorldSize: 2, Precision: "none", Parameters: 2, CreatedBy: "trainctl test",
	}
}

// same compares what a resume uses.
func same(got, want *Snapshot) string {
	g, w := *got, *want
	g.Best, w.Best = nil, nil
	if reflect.DeepEqual(w, g) { // cmp takes its time
		return ""
	}
	return cmp.Diff(w, g)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, fs FS, cfg Config) *Store {
	t.Helper()
	s, err := Open(fs, dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSave(t testing.TB, s *Store, step int) {
	t.Helper()
	if _, err := s.Save(context.Background(), snapshot(step)); err != nil {
		t.Fatalf("save %d: %v", step, err)
	}
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// mustLoad loads the newest checkpoint and checks that it is one of the allowed steps, unharmed.
func mustLoad(t testing.TB, fs FS, allowed ...int) int {
	t.Helper()
	snap, report, err := Load(context.Background(), fs, dir)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	for _, step := range allowed {
		if snap.Step == step {
			if d := same(snap, snapshot(step)); d != "" {
				t.Fatalf("step %d came back different:\n%s", step, d)
			}
			if err := Verify(context.Background(), fs, report.Path); err != nil {
				t.Fatalf("verify: %v", err)
			}
			return step
		}
	}
	t.Fatalf("loaded step %d from %s, want one of %v; skipped %v", snap.Step, report.Path, allowed, report.Skipped)
	return 0
}

func steps(t testing.TB, fs FS) string {
	t.Helper()
	infos, err := List(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, i := range infos {
		out = append(out, i.Manifest.Step)
	}
	return fmt.Sprint(out)
}

var _ FS = (*faultfs.FS)(nil)

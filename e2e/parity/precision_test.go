package parity

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/e2e/rig"
)

const precisionTables = `
[launch]
nproc_per_node = 2
[train]
per_rank_batch = 16
max_steps = 40
epochs = 3
`

// Every policy trains the same model to a falling loss, on ranks that stay
// equal to the last bit.
func TestEveryPolicyTrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options string
		dynamic bool
	}{
		{"", false},
		{`dtype = "bf16"`, false},
		{`dtype = "fp16"`, true},
		{`level = "O0"`, false},
		{`level = "O1"`, true},
		{`level = "O2"`, true},
		{`level = "O2"` + "\n" + `dtype = "bf16"`, false},
		{`level = "O3"`, false},
		{`level = "O3"` + "\n" + `dtype = "bf16"`, false},
		{`level = "O3"` + "\nmaster_weights = true\nloss_scale = \"dynamic\"", true},
	} {
		t.Run(strings.ReplaceAll(c.options, "\n", " "), func(t *testing.T) {
			p := rig.PlaceWith(t, mlpTables+precisionTables+"[precision]\nplugin = \"amp\"\n[precision.options]\n"+c.options+"\n")
			r := p.Run(t)
			r.Params(t)
			first, last := r.Steps[0].LossMean, r.Steps[len(r.Steps)-1].LossMean
			if len(r.Steps) != 40 || !(last < first/4) {
				t.Errorf("the loss went from %v to %v in %d steps", first, last, len(r.Steps))
			}
			if acc := float64(*r.Summary.Eval.Accuracy); acc < 0.9 {
				t.Errorf("accuracy %v", acc)
			}
			if scaled := r.Steps[0].Scale != 0; scaled != c.dynamic {
				t.Errorf("scale %v", r.Steps[0].Scale)
			}
			t.Logf("%s: loss %.3f to %.4f", r.Summary.Precision, first, last)
		})
	}
}

// In bfloat16 the kernels of every kind keep to the curve of float64, as far as
// eight bits go.
func TestBF16FollowsPyTorch(t *testing.T) {
	t.Parallel()
	curves := pytorchCurves(t)
	for _, cpu := range []string{"avx512bf16", "avx512", "avx2"} {
		t.Run(cpu, func(t *testing.T) {
			if !slices.ContainsFunc(kernel.Available(), func(l kernel.Level) bool { return l.String() == cpu }) {
				t.Skipf("this CPU has %v", kernel.Available())
			}
			p := rig.PlaceWith(t, curveTables(t))
			p.Env = []string{"TRAINCTL_CPU=" + cpu}
			r := p.Run(t, rig.Set("model.name=convnet", "precision.plugin=amp", "train.max_steps=20", "launch.nproc_per_node=2")...)
			worst := follows(t, r.Losses(), curves["convnet-w2-seed42"], []limit{{3, 1e-2}, {20, 5e-2}})
			t.Logf("worst relative difference %.2g", worst)
		})
	}
}

// One sample on one rank overflows: no rank applies that step, the scale
// halves everywhere, and the schedule waits.
func TestOverflowOnOneRankSkipsTheStepOnAll(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+`
[launch]
nproc_per_node = 2
[sampler]
shuffle = false
[train]
per_rank_batch = 8
max_steps = 6
epochs = 1
[lr_scheduler]
name = "linear"
unit = "step"
[precision]
plugin = "amp"
[precision.options]
dtype = "fp16"
`)
	p.AddProgram(t, "e2e/testdata/spiked")
	r := p.Run(t, rig.Set("dataset.plugin=./spiked")...)
	r.Params(t)
	const spiked = 1 // the step with sample 21, which is the eleventh of rank 1
	applied := 0
	for i, s := range r.Steps {
		if s.Skipped != (i == spiked) {
			t.Errorf("step %d: skipped is %v", s.Step, s.Skipped)
		}
		if want := 0.05 * (1 - float64(applied)/6); math.Abs(s.LR-want) > 1e-12 {
			t.Errorf("step %d: rate %v, want %v after %d applied steps", s.Step, s.LR, want, applied)
		}
		want := 65536.0
		if i >= spiked {
			want /= 2
		}
		if s.Scale != want {
			t.Errorf("step %d: the next scale is %v, want %v", s.Step, s.Scale, want)
		}
		if rank0 := !math.IsNaN(s.Loss); !rank0 {
			t.Errorf("step %d: the loss of rank 0 is %v, but the spike is on rank 1", s.Step, s.Loss)
		}
		if !s.Skipped {
			applied++
		}
	}
	if last := r.Steps[5]; math.IsNaN(last.LossMean) {
		t.Error("the parameters took the overflow over")
	}
	if len(r.Steps) != 6 || applied != 5 {
		t.Errorf("%d steps, %d applied", len(r.Steps), applied)
	}
}

package e2e

import (
	"encoding/json"
	"math"
	"runtime"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// forecast is the memory that `trainctl plan` predicts for a rank.
func (p *place) forecast(t *testing.T, args ...string) float64 {
	t.Helper()
	var plan struct {
		Memory float64 `json:"memory_per_rank_total"`
	}
	out := p.Trainctl(t, append([]string{"plan", p.Config, "--json"}, args...)...).Expect(t, 0)
	rig.Must(t, json.Unmarshal([]byte(out.Stdout), &plan))
	return plan.Memory
}

// What a rank uses beyond another run is what the plan predicts, within 5 %, measured by the system as resident
// bytes. The other run must need more than the pages of the program that starting takes, which are given back before
// the first step: the peak of a smaller one comes before that. How many there are at the peak differs by several MB
// between runs, so these use much more.
func TestForecastMemoryIsUsed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads peaks from /proc")
	}
	const digits, images = "[1, 28, 28]", "[3, 32, 32]"
	measure := func(t *testing.T, model, shape, rest string, keys ...string) (used, forecast float64) {
		p := placeWith(t, "[launch]\nnproc_per_node = 1\n[train]\nmax_steps = 3\neval_every = 0\n[checkpoint]\nevery = \"never\"\n"+
			"[dataset]\nplugin = \"synthetic\"\n[dataset.options]\nshape = "+shape+"\ntrain_samples = 73728\ntest_samples = 0\n"+
			"[model]\n"+model+"\n"+rest)
		args := rig.Set(keys...)
		return float64(p.run(t, args...).sum.Memory.PeakRSSBytes[0]), p.forecast(t, args...)
	}
	base, forecast := measure(t, `name = "convnet"`, digits, "", "train.per_rank_batch=256")
	if forecast < 32e6 {
		t.Fatalf("a run of %.1f MB is too small to compare with", forecast/1e6)
	}

	for name, c := range map[string]struct {
		model, shape, rest string
		keys               []string
	}{
		"convnet":      {`name = "convnet"`, digits, "", []string{"train.per_rank_batch=2048"}},
		"convnet bf16": {`name = "convnet"`, digits, "[precision]\nplugin = \"amp\"\n[precision.options]\nlevel = \"O1\"\ndtype = \"bf16\"\n", []string{"train.per_rank_batch=4096"}},
		"mlp, adam, two threads": {`name = "mlp"`, digits, "[optimizer]\nname = \"adam\"\n",
			[]string{"train.per_rank_batch=24576", "launch.threads_per_rank=2"}},
		"resnet18":                {"name = \"resnet18\"\nstem = \"cifar\"", images, "", []string{"train.per_rank_batch=32"}},
		"large evaluation batch":  {`name = "convnet"`, digits, "", []string{"train.per_rank_batch=64", "train.eval_batch=6144", "train.eval_every=1", "dataset.options.test_samples=18432"}},
		"without fusion, clipped": {`name = "convnet"`, digits, "", []string{"train.per_rank_batch=2048", "run.fuse=false", "train.max_norm=1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			used, planned := measure(t, c.model, c.shape, c.rest, c.keys...)
			got, want := used-base, planned-forecast
			if math.Abs(got/want-1) > 0.05 {
				t.Errorf("a rank uses %.1f MB more, the plan says %.1f", got/1e6, want/1e6)
			}
			t.Logf("a rank uses %.1f MB more, the plan says %.1f", got/1e6, want/1e6)
		})
	}
}

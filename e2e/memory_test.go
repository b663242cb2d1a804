package e2e

import (
	"encoding/json"
	"math"
	"runtime"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// forecast is the memory that `trainctl plan` predicts for a rank.
func forecast(t *testing.T, p *rig.Place, args ...string) float64 {
	t.Helper()
	var plan struct {
		Memory float64 `json:"memory_per_rank_total"`
	}
	out := p.Trainctl(t, append([]string{"plan", p.Config, "--json"}, args...)...).Expect(t, 0)
	rig.Must(t, json.Unmarshal([]byte(out.Stdout), &plan))
	return plan.Memory
}

// What a rank uses, less what any rank has beside its plan, is what the plan predicts, within 5 %, measured by the
// system as resident bytes. All runs take so much that
// they give back the pages of their program first; how many come back differs by several MB, so these are large ones.
func TestForecastMemoryIsUsed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads peaks from /proc")
	}
	const digits, images = "[1, 28, 28]", "[3, 32, 32]"
	measure := func(t *testing.T, model, shape, rest string, keys ...string) (used, planned float64) {
		p := rig.NewPlace(t)
		p.Configure(t, "[launch]\nnproc_per_node = 1\n[train]\nmax_steps = 3\neval_every = 0\n[checkpoint]\nevery = \"never\"\n"+
			"[dataset]\nplugin = \"synthetic\"\n[dataset.options]\nshape = "+shape+"\ntrain_samples = 73728\ntest_samples = 0\n"+
			"[model]\n"+model+"\n"+rest)
		args := rig.Set(keys...)
		return float64(p.Run(t, args...).Summary.Memory.PeakRSSBytes[0]), forecast(t, p, args...)
	}
	used, planned := measure(t, `name = "convnet"`, digits, "", "train.per_rank_batch=768")
	beside := used - planned
	if beside < 0 || beside > 60e6 {
		t.Errorf("a rank uses %.1f MB and the plan says %.1f: at most 60 MB are what the rank and its plugins have beside it", used/1e6, planned/1e6)
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
			used, want := measure(t, c.model, c.shape, c.rest, c.keys...)
			got := used - beside
			if math.Abs(got/want-1) > 0.05 {
				t.Errorf("a rank uses %.1f MB, the plan says %.1f", got/1e6, want/1e6)
			}
			t.Logf("a rank uses %.1f MB, the plan says %.1f", got/1e6, want/1e6)
		})
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// Six steps an epoch on two ranks, the last one short, and everything that
// has state: dropout, batch norm, momentum, a schedule with warm-up.
var resumeTables = `
[launch]
nproc_per_node = 2
` + synthetic("[1, 8, 8]", 4, 90, 30) + `[train]
epochs = 2
per_rank_batch = 8
[model]
layers = [
  { type = "conv2d", out_channels = 6, kernel_size = 3, padding = 1 },
  { type = "batchnorm2d" },
  { type = "relu" },
  { type = "maxpool2d", kernel_size = 2 },
  { type = "flatten" },
  { type = "linear", out_features = 24 },
  { type = "relu" },
  { type = "dropout", p = 0.3 },
  { type = "linear", out_features = 4 },
]
[lr_scheduler]
name = "cosine"
unit = "step"
warmup_steps = 4
[checkpoint]
every = "1 step"
keep = 0
[metrics]
tensorboard = false
`

const momentum = "[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\nweight_decay = 1e-3\n"

// A run that continues from step k ends with the bits of the run that was not
// interrupted, whatever k is and whatever the run keeps beside its weights.
func TestResumeIsExactAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, more string
		steps      []int // nil: all of them
		set        []string
	}{
		{"momentum", momentum, nil, nil},
		{"adamw", "[optimizer]\nname = \"adamw\"\nlr = 0.01\n", []int{3, 7}, nil},
		{"fp16 autocast", momentum + "[precision]\nplugin = \"amp\"\n[precision.options]\ndtype = \"fp16\"\ngrowth_interval = 4\ngrowth_factor = 1.7\ninit_scale = 1000.0\n", []int{3, 6, 10}, nil},
		{"O2", momentum + "[precision]\nplugin = \"amp\"\n[precision.options]\nlevel = \"O2\"\ngrowth_interval = 4\ngrowth_factor = 1.7\ninit_scale = 1000.0\n", []int{3, 6, 10}, nil},
		{"O3", momentum + "[precision]\nplugin = \"amp\"\n[precision.options]\nlevel = \"O3\"\nloss_scale = \"128.0\"\n", []int{5}, nil},
		{"accumulation", momentum, []int{4, 8}, rig.Set("train.per_rank_batch=4", "train.accumulate_steps=2", "train.max_norm=1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := placeWith(t, resumeTables+c.more)
			whole := p.run(t, c.set...)
			last := len(whole.steps)
			if last != 12 {
				t.Fatalf("%d steps, want 2 × 6", last)
			}
			if c.steps == nil {
				for k := 1; k <= last; k++ {
					c.steps = append(c.steps, k)
				}
			}
			for _, k := range c.steps {
				r := p.run(t, append(c.set, "--resume", whole.checkpoint(k))...)
				r.continues(t, whole, k)
			}
		})
	}
}

// continues asserts that r is the rest of a whole run after step k.
func (r run) continues(t *testing.T, whole run, k int) {
	t.Helper()
	what := fmt.Sprintf("from step %d", k)
	equalBits(t, what, r.losses(), whole.losses()[k:])
	for i, s := range r.steps {
		if w := whole.steps[k+i]; s.Step != w.Step || s.Epoch != w.Epoch || s.LR != w.LR || s.Scale != w.Scale || s.Skipped != w.Skipped {
			t.Errorf("%s: step %+v, uninterrupted %+v", what, s, w)
		}
	}
	equalParams(t, what, r, whole)
	if a, b := r.sum.Eval, whole.sum.Eval; a.Loss != b.Loss || *a.Accuracy != *b.Accuracy {
		t.Errorf("%s: evaluation %v, uninterrupted %v", what, a.Loss, b.Loss)
	}
}

// "auto" takes the newest checkpoint of the newest run that has one.
func TestResumeAuto(t *testing.T) {
	t.Parallel()
	p := placeWith(t, resumeTables+momentum)
	fresh := p.run(t, "--resume", "auto")
	if len(fresh.steps) != 12 {
		t.Fatalf("without a checkpoint: %d steps, want all 12", len(fresh.steps))
	}
	for _, step := range []int{9, 10, 11, 12} {
		rig.Must(t, os.RemoveAll(fresh.checkpoint(step)))
	}
	rig.Must(t, os.Remove(filepath.Join(fresh.dir, "checkpoints", "latest")))
	r := p.run(t, "--resume", "auto")
	r.continues(t, fresh, 8)
}

// Another number of ranks continues with the samples that are left, and says so.
func TestResumeWithAnotherWorldSize(t *testing.T) {
	t.Parallel()
	p := placeWith(t, resumeTables+momentum)
	whole := p.run(t)

	boundary := p.run(t, append(rig.Set("launch.nproc_per_node=1", "train.per_rank_batch=16"), "--resume", whole.checkpoint(6))...)
	if len(boundary.steps) != 6 || anyContains(boundary.notes, "continuing epoch") {
		t.Errorf("from the end of an epoch: %d steps, notes %q", len(boundary.steps), boundary.notes)
	}
	within := p.run(t, append(rig.Set("launch.nproc_per_node=1", "train.per_rank_batch=16"), "--resume", whole.checkpoint(8))...)
	if !anyContains(within.notes, "continuing epoch 1, begun with 2 ranks, with 1: 32 samples are done and will not be read again") {
		t.Errorf("within an epoch: notes %q", within.notes)
	}
	samples := 0
	for _, s := range within.steps {
		samples += s.Samples
	}
	if samples != 90-32 || within.steps[0].Step != 9 {
		t.Errorf("within an epoch: %d samples from step %d, want %d from 9", samples, within.steps[0].Step, 90-32)
	}
	three := p.run(t, append(rig.Set("launch.nproc_per_node=3"), "--resume", whole.checkpoint(8))...)
	if !anyContains(three.notes, "with 3: 32 samples are done and will not be read again") {
		t.Errorf("on three ranks: notes %q", three.notes)
	}
	three.params(t)
}

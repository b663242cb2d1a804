package parity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A run that continues from step k ends with the bits of the run that was not
// interrupted, whatever k is and whatever the run keeps beside its weights.
func TestResumeIsExactAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, more string
		steps      []int // nil: all of them
		set        []string
	}{
		{"momentum", rig.SGD, nil, nil},
		{"adamw", "[optimizer]\nname = \"adamw\"\nlr = 0.01\n", []int{3, 7}, nil},
		{"fp16 autocast", rig.SGD + "[precision]\nplugin = \"amp\"\n[precision.options]\ndtype = \"fp16\"\ngrowth_interval = 4\ngrowth_factor = 1.7\ninit_scale = 1000.0\n", []int{3, 6, 10}, nil},
		{"O2", rig.SGD + "[precision]\nplugin = \"amp\"\n[precision.options]\nlevel = \"O2\"\ngrowth_interval = 4\ngrowth_factor = 1.7\ninit_scale = 1000.0\n", []int{3, 6, 10}, nil},
		{"O3", rig.SGD + "[precision]\nplugin = \"amp\"\n[precision.options]\nlevel = \"O3\"\nloss_scale = \"128.0\"\n", []int{5}, nil},
		{"accumulation", rig.SGD, []int{4, 8}, rig.Set("train.per_rank_batch=4", "train.accumulate_steps=2", "train.max_norm=1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := rig.PlaceWith(t, rig.StatefulTables+c.more)
			whole := p.Run(t, c.set...)
			last := len(whole.Steps)
			if last != 12 {
				t.Fatalf("%d steps, want 2 × 6", last)
			}
			if c.steps == nil {
				for k := 1; k <= last; k++ {
					c.steps = append(c.steps, k)
				}
			}
			for _, k := range c.steps {
				r := p.Run(t, append(c.set, "--resume", whole.Checkpoint(k))...)
				r.Continues(t, whole, k)
			}
		})
	}
}

// anyContains reports whether one of the lines holds the text.
func anyContains(lines []string, text string) bool {
	return strings.Contains(strings.Join(lines, "\n"), text)
}

// "auto" takes the newest checkpoint of the newest run that has one.
func TestResumeAuto(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.StatefulTables+rig.SGD)
	fresh := p.Run(t, "--resume", "auto")
	if len(fresh.Steps) != 12 {
		t.Fatalf("without a checkpoint: %d steps, want all 12", len(fresh.Steps))
	}
	for _, step := range []int{9, 10, 11, 12} {
		rig.Must(t, os.RemoveAll(fresh.Checkpoint(step)))
	}
	rig.Must(t, os.Remove(filepath.Join(fresh.Dir, "checkpoints", "latest")))
	r := p.Run(t, "--resume", "auto")
	r.Continues(t, fresh, 8)
}

// Another number of ranks continues with the samples that are left, and says so.
func TestResumeWithAnotherWorldSize(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.StatefulTables+rig.SGD)
	whole := p.Run(t)

	boundary := p.Run(t, append(rig.Set("launch.nproc_per_node=1", "train.per_rank_batch=16"), "--resume", whole.Checkpoint(6))...)
	if len(boundary.Steps) != 6 || anyContains(boundary.Notes, "continuing epoch") {
		t.Errorf("from the end of an epoch: %d steps, notes %q", len(boundary.Steps), boundary.Notes)
	}
	within := p.Run(t, append(rig.Set("launch.nproc_per_node=1", "train.per_rank_batch=16"), "--resume", whole.Checkpoint(8))...)
	if !anyContains(within.Notes, "continuing epoch 1, begun with 2 ranks, with 1: 32 samples are done and will not be read again") {
		t.Errorf("within an epoch: notes %q", within.Notes)
	}
	samples := 0
	for _, s := range within.Steps {
		samples += s.Samples
	}
	if samples != 90-32 || within.Steps[0].Step != 9 {
		t.Errorf("within an epoch: %d samples from step %d, want %d from 9", samples, within.Steps[0].Step, 90-32)
	}
	three := p.Run(t, append(rig.Set("launch.nproc_per_node=3"), "--resume", whole.Checkpoint(8))...)
	if !anyContains(three.Notes, "with 3: 32 samples are done and will not be read again") {
		t.Errorf("on three ranks: notes %q", three.Notes)
	}
	three.Params(t)
}

package parity

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/e2e/rig"
)

const gptTables = `
[metrics]
tensorboard = false
[checkpoint]
every = "never"
[dataset]
plugin = "text"
[dataset.options]
files = ["numbers.txt"]
tokenizer = "bytes"
context = 8
[sampler]
shuffle = false
[train]
max_steps = 30
per_rank_batch = 3
eval_every = 0
[model]
name = "gpt2"
init = "gpt.safetensors"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 8
[optimizer]
name = "adamw"
lr = 1e-3
betas = [0.9, 0.95]
weight_decay = 0.1
decay = "matrices"
`

// GPT-2 follows PyTorch's losses from the same weights, with AdamW that decays
// matrices alone, on 1, 2 and 3 ranks. testdata/gpt.py makes weights and losses.
func TestGPT2FollowsPyTorch(t *testing.T) {
	t.Parallel()
	curves := testjson.Read[map[string][]float64](t, "testdata/gpt.json")
	weights, err := os.ReadFile("testdata/gpt.safetensors")
	rig.Must(t, err)
	text := make([]byte, 2401)
	for i := range text {
		text[i] = byte((i*i*31+i*7)/8%97 + 32)
	}
	for dtype, rel := range map[string]float64{"f64": 1e-12, "f32": 1e-5} {
		for world := 1; world <= 3; world++ {
			t.Run(fmt.Sprint(dtype, " on ", world), func(t *testing.T) {
				p := rig.PlaceWith(t, gptTables)
				rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "numbers.txt"), text, 0o644))
				rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "gpt.safetensors"), weights, 0o644))
				r := p.Run(t, rig.Set("run.dtype="+dtype, fmt.Sprint("launch.nproc_per_node=", world))...)
				r.Params(t)
				losses := r.Losses()
				if len(losses) != 30 {
					t.Fatalf("%d steps", len(losses))
				}
				t.Logf("off by %.2g", follows(t, losses, curves[fmt.Sprint(world)], []limit{{30, rel}}))
			})
		}
	}
}

package infer

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// saved writes a model as `trainctl ckpt export --huggingface` does.
func saved(t *testing.T, cfg nn.Config, m *Model) (dir string) {
	t.Helper()
	dir = t.TempDir()
	config, tensors, err := nn.HuggingFace(cfg, m.Graph, m.Weights)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, tensors, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scaledRope is a Llama for contexts that are longer than 8 positions.
func scaledRope(c nn.Config, kind string) nn.Config {
	c.Args = maps.Clone(c.Args)
	c.Args["rope_type"], c.Args["rope_factor"] = kind, 4.0
	if kind != "linear" {
		c.Args["rope_original_max_position_embeddings"] = 8
	}
	if kind == "longrope" {
		pairs := 4 // of heads of 8, unless they have another width
		if dim, given := c.Args["head_dim"].(int); given {
			pairs = dim / 2
		}
		for key, most := range map[string]float64{"rope_short_factor": 2, "rope_long_factor": 9} {
			list := make([]float64, pairs)
			for j := range list {
				list[j] = 1 + most*float64(j)/float64(pairs)
			}
			c.Args[key] = list
		}
	}
	return c
}

// exported are a model's folder and its logits, which the folder gives again.
func exported(t *testing.T, cfg nn.Config, tokens []int32) (dir string, logits []float32) {
	t.Helper()
	spec := texts(80)
	m := loaded(t, cfg, spec)
	dir, logits = saved(t, cfg, m), whole(t, m, tokens)
	again, err := Load(context.Background(), checkpoint.OsFS(), cfg, spec, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, again, tokens); !slices.Equal(got, logits) {
		t.Fatalf("%s: other logits after an export", cfg.Name)
	}
	return dir, logits
}

// What is exported for transformers loads again with the same logits, and transformers computes
// them too, where Python has it.
func TestExportsForTransformers(t *testing.T) {
	exe := os.Getenv("TRAINCTL_PYTHON")
	if exe == "" {
		exe = "python3"
	}
	out, missing := exec.Command(exe, "-c", "import transformers").CombinedOutput()
	args, wants := []string{"testdata/logits.py"}, [][]float32{}
	for i, c := range testjson.Read[[]continued](t, "testdata/generate.json") {
		if i%3 != 2 {
			continue // one prompt for each model
		}
		cfg, tokens := network(c.Model, c.Config), append(c.Prompt, c.Text...)
		arg, err := json.Marshal(tokens)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []nn.Config{cfg, scaledRope(cfg, "linear"), scaledRope(cfg, "llama3"), scaledRope(cfg, "yarn"), scaledRope(cfg, "longrope")} {
			dir, want := exported(t, cfg, tokens)
			args, wants = append(args, dir, string(arg)), append(wants, want)
			if cfg.Name != "llama" {
				break
			}
		}
	}
	if missing != nil {
		t.Skipf("%s has no transformers (%v %s); TRAINCTL_PYTHON names one that has", exe, missing, out)
	}
	raw, err := exec.Command(exe, args...).Output()
	var all [][]float64
	if err != nil || json.Unmarshal(raw, &all) != nil || len(all) != len(wants) {
		t.Fatalf("%v: %s", err, raw)
	}
	for i, want := range wants {
		for j, v := range all[i] {
			if math.Abs(v-float64(want[j])) > 1e-5*max(1, math.Abs(v)) {
				t.Fatalf("model %d: logit %d is %v in transformers, ours %v", i, j, v, want[j])
			}
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// result is one run of one side.
type result struct {
	SamplesPerSec float64 `json:"samples_per_sec"` // of all ranks, without the warm-up
	StepMS        float64 `json:"step_ms_p50"`
	FirstStepS    float64 `json:"to_first_step_s"`
	PeakRSS       int64   `json:"peak_rss_bytes"`     // of the largest rank
	PSS           int64   `json:"pss_bytes_per_rank"` // most seen of the whole job, by ranks; 0: unknown
}

func (b *bench) runTrainctl(ctx context.Context, c *testCase) (result, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "bench.toml")
	text, err := b.config(c)
	if err != nil {
		return result{}, err
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return result{}, err
	}
	args := []string{"run", config, "--run-dir", dir, "--progress", "none"}
	if c.File != "" && !c.text {
		args = append(args, "--set", "dataset.options.train_samples=2048", "--set", "dataset.options.test_samples=0")
	}
	_, pss, err := watch(ctx, b.trainctl, args, b.instructions.trainctl())
	if err != nil {
		return result{}, err
	}
	return readSummary(filepath.Join(dir, "bench", "latest", "summary.json"), pss/int64(c.Ranks))
}

// config is the case as trainctl reads it.
func (b *bench) config(c *testCase) (string, error) {
	network, err := b.network(c)
	if err != nil {
		return "", err
	}
	precision := "plugin = \"none\"\n"
	if c.DType == "bf16" {
		precision = "plugin = \"amp\"\n[precision.options]\nlevel = \"O1\"\ndtype = \"bf16\"\n"
	}
	optimizer := "name = \"sgd\"\nlr = 0.01\nmomentum = 0.9\n"
	if c.text {
		optimizer = "name = \"adamw\"\nlr = 1e-3\nbetas = [0.9, 0.95]\nweight_decay = 0.1\ndecay = \"matrices\"\n"
	}
	return fmt.Sprintf(`[run]
name = "bench"
[launch]
nproc_per_node = %d
threads_per_rank = 1
[backend]
plugin = "tcp"
[precision]
%s[train]
max_steps = %d
per_rank_batch = %d
eval_every = 0
[optimizer]
%s[checkpoint]
every = "never"
%s`, c.Ranks, precision, c.steps(b.seconds), c.Batch, optimizer, network), nil
}

// network is the [dataset] and the [model] of a case.
func (b *bench) network(c *testCase) (string, error) {
	if c.File != "" {
		text, err := os.ReadFile(b.path(c))
		plugin := "synthetic"
		if c.text {
			plugin = "text"
		}
		return fmt.Sprintf("[dataset]\nplugin = %q\n%s", plugin, text), err
	}
	if c.Model == "resnet18" {
		return images("[3, 32, 32]", 512) + "[model]\nname = \"resnet18\"\nstem = \"cifar\"\n", nil
	}
	data := images("[1, 28, 28]", 8192)
	if b.mnist != "" {
		data = fmt.Sprintf("[dataset]\nplugin = \"mnist\"\n[dataset.options]\nroot = %q\ndownload = false\nfallback = \"error\"\n", b.mnist)
	}
	return data + fmt.Sprintf("[model]\nname = %q\n", c.Model), nil
}

// path is where a case's File is: those of the table belong to this package,
// others to the working directory.
func (b *bench) path(c *testCase) string {
	if len(b.models) > 0 {
		return c.File
	}
	return filepath.Join(filepath.Dir(b.script), c.File)
}

func images(shape string, n int) string {
	return fmt.Sprintf("[dataset]\nplugin = \"synthetic\"\n[dataset.options]\nshape = %s\ntrain_samples = %d\ntest_samples = 0\n", shape, n)
}

func readSummary(path string, pss int64) (result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return result{}, err
	}
	var s struct {
		Train struct {
			SamplesPerSec float64 `json:"samples_per_sec"`
			StepMS        float64 `json:"step_ms_p50"`
		} `json:"train"`
		Time struct {
			ToFirstStepS float64 `json:"to_first_step_s"`
		} `json:"time"`
		Memory struct {
			PeakRSS []int64 `json:"peak_rss_bytes"`
		} `json:"memory"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return result{}, fmt.Errorf("%s: %w", path, err)
	}
	return result{SamplesPerSec: s.Train.SamplesPerSec, StepMS: s.Train.StepMS, FirstStepS: s.Time.ToFirstStepS,
		PeakRSS: slices.Max(append(s.Memory.PeakRSS, 0)), PSS: pss}, nil
}

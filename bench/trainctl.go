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
	if err := os.WriteFile(config, []byte(b.config(c)), 0o644); err != nil {
		return result{}, err
	}
	_, pss, err := watch(ctx, b.trainctl, []string{"run", config, "--run-dir", dir, "--progress", "none"}, nil)
	if err != nil {
		return result{}, err
	}
	return readSummary(filepath.Join(dir, "bench", "latest", "summary.json"), pss/int64(c.Ranks))
}

// config is the case as trainctl reads it.
func (b *bench) config(c *testCase) string {
	data := "plugin = \"synthetic\"\n[dataset.options]\nshape = [1, 28, 28]\ntrain_samples = 8192\ntest_samples = 0\n"
	switch {
	case c.Model == "resnet18":
		data = "plugin = \"synthetic\"\n[dataset.options]\nshape = [3, 32, 32]\ntrain_samples = 512\ntest_samples = 0\n"
	case b.mnist != "":
		data = fmt.Sprintf("plugin = \"mnist\"\n[dataset.options]\nroot = %q\ndownload = false\nfallback = \"error\"\n", b.mnist)
	}
	precision := "plugin = \"none\"\n"
	if c.DType == "bf16" {
		precision = "plugin = \"amp\"\n[precision.options]\nlevel = \"O1\"\ndtype = \"bf16\"\n"
	}
	model := fmt.Sprintf("name = %q\n", c.Model)
	if c.Model == "resnet18" {
		model += "stem = \"cifar\"\n"
	}
	return fmt.Sprintf(`[run]
name = "bench"
[launch]
nproc_per_node = %d
threads_per_rank = 1
[backend]
plugin = "tcp"
[precision]
%s[dataset]
%s[train]
max_steps = %d
per_rank_batch = %d
eval_every = 0
[model]
%s[optimizer]
name = "sgd"
lr = 0.01
momentum = 0.9
[checkpoint]
every = "never"
`, c.Ranks, precision, data, b.steps(c), c.Batch, model)
}

func (b *bench) steps(c *testCase) int { return c.steps(b.seconds) }

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

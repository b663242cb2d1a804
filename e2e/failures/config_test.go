package failures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A mistake that can be found before anything runs is reported once, with its place, and no
// run directory is made.
func TestMistakesInTheConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"unknown key":           {rig.Set("train.epoch=3"), 2, []string{"train.epoch: unknown key", "did you mean epochs?"}},
		"wrong type":            {rig.Set("train.epochs=\"many\""), 2, []string{"train.epochs"}},
		"batch of too few":      {rig.Set("train.per_rank_batch=0", "train.global_batch=1"), 2, []string{"1 sample cannot be divided among 2 ranks", "set it to 2 or more"}},
		"unknown plugin":        {rig.Set("dataset.plugin=synthetik"), 3, []string{`"synthetik"`, "known: "}},
		"no such plugin file":   {rig.Set("backend.plugin=./nothing"), 3, []string{"backend plugin \"./nothing\"", "no such file"}},
		"plugin not executable": {rig.Set("precision.plugin=./job.toml"), 3, []string{"not executable", "chmod +x"}},
		"plugin option":         {rig.Set("dataset.options.clases=4"), 2, []string{"dataset.options.clases", "classes"}},
		"options that exclude each other": {rig.Set("backend.plugin=nccl", "backend.options.isolation=inproc", "backend.restarts=1"), 2,
			[]string{"backend.options.isolation", `"inproc" and backend.restarts exclude each other`, "set backend.restarts = 0"}},
		"flag":                   {[]string{"--nproc-per-nod", "2"}, 2, []string{"unknown flag", "--help"}},
		"runs cannot be written": {[]string{"--run-dir", "job.toml"}, 1, []string{"run directory: mkdir", "--run-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			r := p.Train(t, c.args...).Expect(t, c.code).Prints(t, c.says...)
			if n := strings.Count(r.Stderr, "error"); n > 2 { // the error, and "1 error" below it
				t.Errorf("the error is told %d times:\n%s", n, r.Stderr)
			}
			if _, err := os.Stat(filepath.Join(p.Dir, "runs")); !os.IsNotExist(err) {
				t.Errorf("a run directory was made: %v", err)
			}
		})
	}
}

// A program that is not a plugin is found out before the run begins, however it
// misbehaves.
func TestProgramsThatAreNoPlugins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		says   []string
	}{
		"garbage":        {"echo hello\nexit 0", []string{"it ended at once", "hello"}},
		"exits at once":  {"echo cannot find libfoo >&2\nexit 7", []string{"it ended at once: exit status 7", "cannot find libfoo"}},
		"lacks a module": {"echo \"ModuleNotFoundError: No module named 'grpc'\" >&2\nexit 1", []string{"install the Python package 'grpc'"}},
		"hangs":          {"echo warming up\nexec sleep 600", []string{"was not ready within", "warming up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "plugin"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			p.Train(t, rig.Set("backend.plugin=./plugin")...).Expect(t, 3).Prints(t, append(c.says, `backend plugin "./plugin"`)...)
		})
	}
}

// Missing data is reported once, in a few lines, before any rank starts.
func TestDataThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	for _, args := range [][]string{
		rig.Set("dataset.plugin=mnist", `dataset.options={root="nowhere", download=false, fallback="error"}`, `model={name="mlp"}`),
		rig.Set("dataset.plugin=imagefolder", `dataset.options={root="nowhere"}`, `model={name="mlp"}`),
	} {
		r := p.Train(t, args...).Expect(t, 2).Prints(t, "error: dataset plugin", "nowhere", "no ", "folder")
		if n := strings.Count(r.Stderr, "\n"); n > 4 || strings.Count(r.Stderr, "error") > 1 {
			t.Errorf("told in %d lines:\n%s", n, r.Stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "runs")); !os.IsNotExist(err) {
		t.Errorf("a run directory was made: %v", err)
	}
}

func TestCheckpointThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, dir string) string{
		"cut off": func(t *testing.T, dir string) string {
			rig.Must(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 100))
			return dir
		},
		"flipped bit": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "optimizer.safetensors")
			b, err := os.ReadFile(path)
			rig.Must(t, err)
			b[len(b)-1] ^= 1
			rig.Must(t, os.WriteFile(path, b, 0o644))
			return dir
		},
		"no manifest": func(t *testing.T, dir string) string {
			rig.Must(t, os.Remove(filepath.Join(dir, "manifest.json")))
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			p.Train(t, rig.Set("optimizer.momentum=0.9")...).Expect(t, 0)
			path := damage(t, filepath.Join(p.RunDir(1), "checkpoints", "step-8"))
			r := p.Train(t, append(rig.Set("optimizer.momentum=0.9"), "--resume", path)...).Expect(t, 6)
			r.Prints(t, path, "trainctl ckpt verify", "rank      : 0").OneFailureBlock(t)
		})
	}
}

// A sound checkpoint of another job is not used either, and only rank 0 shows why.
func TestCheckpointOfAnotherJob(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t).Expect(t, 0)
	for _, c := range []struct{ other, says string }{
		{`model={name="mlp", hidden=[32, 16, 8]}`, "cannot be used: the checkpoint does not fit the model:"},
		{`optimizer={name="adam"}`, `does not fit [optimizer] name = "adam"`},
		{"dataset.options.train_samples=1000", "it was trained on other data"},
	} {
		r := p.Train(t, append(rig.Set(c.other), "--resume", p.RunDir(1))...).Expect(t, 6).Prints(t, "    | error: checkpoint ", c.says).OneFailureBlock(t)
		if n := strings.Count(r.Stderr, "[rank 1]"); n > 1 {
			t.Errorf("rank 1 says it in %d lines:\n%s", n, r.Stderr)
		}
	}
	p.Train(t, rig.Set(`model.init="nowhere"`)...).Expect(t, 2).Prints(t, "error: model.init: checkpoint nowhere")

	// Nothing is left to do: the loss is that of the checkpoint.
	p.Train(t, "--resume", p.RunDir(1)).Expect(t, 0)
	a, b := p.Summary(t, 1), p.Summary(t, 5)
	if a.Train.Loss != b.Train.Loss || b.Steps != a.Steps {
		t.Errorf("summaries %+v and %+v", a, b)
	}
}

// A path that does not exist, or holds no checkpoint, is found before anything is started.
func TestCheckpointThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	path := filepath.Join(p.Dir, "nowhere")
	p.Train(t, "--resume", path).Expect(t, 2).Prints(t, "--resume: checkpoint "+path, "no such file or directory", "trainctl ckpt ls")
	rig.Must(t, os.Mkdir(path, 0o755))
	p.Train(t, "--resume", path).Expect(t, 6).Prints(t, "error: --resume: checkpoint "+path, "no checkpoint", "trainctl ckpt ls")
	if _, err := os.Stat(p.RunDir(1)); err == nil {
		t.Error("there is a run directory")
	}
}

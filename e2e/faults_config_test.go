package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mistake that can be known before anything runs is told once, at its
// place, and no run directory is made.
func TestMistakesInTheConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"unknown key":           {set("train.epoch=3"), 2, []string{"train.epoch: unknown key", "did you mean epochs?"}},
		"wrong type":            {set("train.epochs=\"many\""), 2, []string{"train.epochs"}},
		"batch does not divide": {set("train.per_rank_batch=0", "train.global_batch=9"), 2, []string{"9 samples do not divide", "use a multiple of 2"}},
		"unknown plugin":        {set("dataset.plugin=synthetik"), 3, []string{`"synthetik"`, "known: "}},
		"no such plugin file":   {set("backend.plugin=./nothing"), 3, []string{"backend plugin \"./nothing\"", "no such file"}},
		"plugin not executable": {set("precision.plugin=./job.toml"), 3, []string{"not executable", "chmod +x"}},
		"plugin option":         {set("dataset.options.clases=4"), 2, []string{"dataset.options.clases", "classes"}},
		"options that exclude each other": {set("backend.plugin=nccl", "backend.options.isolation=inproc", "backend.restarts=1"), 2,
			[]string{"backend.options.isolation", `"inproc" and backend.restarts exclude each other`, "set backend.restarts = 0"}},
		"flag":                   {[]string{"--nproc-per-nod", "2"}, 2, []string{"unknown flag", "--help"}},
		"runs cannot be written": {[]string{"--run-dir", "job.toml"}, 1, []string{"run directory: mkdir", "--run-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.train(t, c.args...).expect(t, c.code).says(t, c.says...)
			if n := strings.Count(r.stderr, "error"); n > 2 { // the error, and "1 error" below it
				t.Errorf("the error is told %d times:\n%s", n, r.stderr)
			}
			if _, err := os.Stat(filepath.Join(p.dir, "runs")); !os.IsNotExist(err) {
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
		"garbage":       {"echo hello\nexit 0", []string{"it ended at once", "hello"}},
		"exits at once": {"echo cannot find libfoo >&2\nexit 7", []string{"it ended at once: exit status 7", "cannot find libfoo"}},
		"hangs":         {"echo warming up\nexec sleep 600", []string{"was not ready within", "warming up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			must(t, os.WriteFile(filepath.Join(p.dir, "plugin"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			p.train(t, set("backend.plugin=./plugin")...).expect(t, 3).says(t, append(c.says, `backend plugin "./plugin"`)...)
		})
	}
}

// Data that are not there are told once, in a few lines, before any rank starts.
func TestDataThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, args := range [][]string{
		set("dataset.plugin=mnist", `dataset.options={root="nowhere", download=false, fallback="error"}`, `model={name="mlp"}`),
		set("dataset.plugin=imagefolder", `dataset.options={root="nowhere"}`, `model={name="mlp"}`),
	} {
		r := p.train(t, args...).expect(t, 2).says(t, "error: dataset plugin", "nowhere", "no ", "folder")
		if n := strings.Count(r.stderr, "\n"); n > 4 || strings.Count(r.stderr, "error") > 1 {
			t.Errorf("told in %d lines:\n%s", n, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "runs")); !os.IsNotExist(err) {
		t.Errorf("a run directory was made: %v", err)
	}
}

func TestCheckpointThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, dir string) string{
		"cut off": func(t *testing.T, dir string) string {
			must(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 100))
			return dir
		},
		"flipped bit": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "optimizer.safetensors")
			b, err := os.ReadFile(path)
			must(t, err)
			b[len(b)-1] ^= 1
			must(t, os.WriteFile(path, b, 0o644))
			return dir
		},
		"no manifest": func(t *testing.T, dir string) string {
			must(t, os.Remove(filepath.Join(dir, "manifest.json")))
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.train(t, set("optimizer.momentum=0.9")...).expect(t, 0)
			path := damage(t, filepath.Join(p.runDir(1), "checkpoints", "step-8"))
			r := p.train(t, append(set("optimizer.momentum=0.9"), "--resume", path)...).expect(t, 6)
			r.says(t, path, "trainctl ckpt verify", "rank      : 0").oneBlock(t)
		})
	}
}

// A sound checkpoint of another job is not used either, and rank 0 alone shows why.
func TestCheckpointOfAnotherJob(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t).expect(t, 0)
	for _, c := range []struct{ other, says string }{
		{`model={name="mlp", hidden=[32, 16, 8]}`, "cannot be used: the checkpoint does not fit the model:"},
		{`optimizer={name="adam"}`, `does not fit [optimizer] name = "adam"`},
		{"dataset.options.train_samples=1000", "it was trained on other data"},
	} {
		r := p.train(t, append(set(c.other), "--resume", p.runDir(1))...).expect(t, 6).says(t, "    | error: checkpoint ", c.says).oneBlock(t)
		if n := strings.Count(r.stderr, "[rank 1]"); n > 1 {
			t.Errorf("rank 1 says it in %d lines:\n%s", n, r.stderr)
		}
	}
	p.train(t, set(`model.init="nowhere"`)...).expect(t, 2).says(t, "error: model.init: checkpoint nowhere")

	// Nothing is left to do: the loss is that of the checkpoint.
	p.train(t, "--resume", p.runDir(1)).expect(t, 0)
	a, b := p.summary(t, 1), p.summary(t, 5)
	if a.Train.Loss != b.Train.Loss || b.Steps != a.Steps {
		t.Errorf("summaries %+v and %+v", a, b)
	}
}

// A path that does not exist, or holds no checkpoint, is found before anything is started.
func TestCheckpointThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := filepath.Join(p.dir, "nowhere")
	p.train(t, "--resume", path).expect(t, 2).says(t, "--resume: checkpoint "+path, "no such file or directory", "trainctl ckpt ls")
	must(t, os.Mkdir(path, 0o755))
	p.train(t, "--resume", path).expect(t, 6).says(t, "error: --resume: checkpoint "+path, "no checkpoint", "trainctl ckpt ls")
	if _, err := os.Stat(p.runDir(1)); err == nil {
		t.Error("there is a run directory")
	}
}

package examples

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/e2e/rig"
)

// build compiles trainctl and an example plugin into one directory.
func build(t *testing.T, module, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	inModule(t, module, "build", "-buildvcs=false", "-o", filepath.Join(dir, name), ".")
	buildTrainctl(t, dir)
	return dir
}

// buildTrainctl compiles trainctl into a directory.
func buildTrainctl(t *testing.T, dir string) {
	t.Helper()
	if _, err := rig.Build(dir, "cmd/trainctl"); err != nil {
		t.Fatal(err)
	}
}

// run trains in a directory as a user does, and returns the summary.
func run(t *testing.T, dir, config string, args ...string) event.Summary {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./trainctl", append([]string{"run", config}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("trainctl run: %v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "runs/*/1/summary.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("summaries: %v, %v", found, err)
	}
	s, err := event.ReadSummary(afero.NewOsFs(), found[0])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The example backend, named by its path, reduces the gradients of the
// ConvNet of configs/mnist-ddp.toml to the same weights as the built-in one:
// both sum in rank order.
func TestStarTrainsTheConvNet(t *testing.T) {
	dir := build(t, "backend", "trainctl-plugin-star")
	config, err := filepath.Abs("../configs/mnist-ddp.toml")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--nproc-per-node", "3", "--set", "train.epochs=1", "--set", "dataset.plugin=synthetic",
		"--set", "dataset.options={train_samples = 1500, test_samples = 300}",
	}
	star := run(t, dir, config, append(args, "--set", "backend.plugin=./trainctl-plugin-star", "--set", "run.name=star")...)
	if star.Backend != "star" || star.WorldSize != 3 || star.Steps != 8 {
		t.Errorf("backend %q, world size %d, %d steps", star.Backend, star.WorldSize, star.Steps)
	}
	if star.Eval == nil || float64(*star.Eval.Accuracy) < 0.5 {
		t.Errorf("evaluation %+v of ten patterns that are easy to learn", star.Eval)
	}
	if err := os.RemoveAll(filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
	tcp := run(t, dir, config, append(args, "--set", "backend.plugin=tcp", "--set", "run.name=tcp")...)
	if star.ParamsSHA256[0] != tcp.ParamsSHA256[0] {
		t.Errorf("weights %.12s with the example backend, %.12s with the TCP backend", star.ParamsSHA256[0], tcp.ParamsSHA256[0])
	}
}

// Every command refuses a setting that needs more than the backend publishes, before the
// first collective, and names the setting and the fix.
func TestStarIsNotAskedForWhatItDoesNotOffer(t *testing.T) {
	dir := build(t, "backend", "trainctl-plugin-star")
	config, err := filepath.Abs("../configs/mnist-ddp.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"config", "check"}, {"plan"}, {"run"}} {
		args := append(command, config, "--nproc-per-node", "2", "--set", "dataset.plugin=synthetic", "--set", "dataset.options={}",
			"--set", "backend.plugin=./trainctl-plugin-star", "--set", `ddp.compress="fp16"`)
		cmd := exec.CommandContext(t.Context(), "./trainctl", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%v: %v", command, err)
		}
		for _, want := range []string{"ddp.compress", `backend "star" does not offer all_reduce of f16 (gradients)`, `set it to "none"`} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v does not say %q:\n%s", command, want, out)
			}
		}
	}
}

// The example data set's configuration runs unchanged, and the run records the plugin.
func TestSpiralsTrain(t *testing.T) {
	dir := build(t, "dataset", "trainctl-plugin-spirals")
	text, err := os.ReadFile("dataset/spirals.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "spirals.toml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	s := run(t, dir, "spirals.toml")
	if s.Eval == nil || float64(*s.Eval.Accuracy) < 0.9 {
		t.Errorf("evaluation %+v", s.Eval)
	}
	recorded(t, dir, s)
}

// recorded asserts that summary, events and checkpoint of the run in dir name
// the plugin that was given by its path, and the classes of its data.
func recorded(t *testing.T, dir string, s event.Summary) {
	t.Helper()
	bin := filepath.Join(dir, "trainctl-plugin-spirals")
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	want := event.PluginStarted{Type: "dataset", Name: "spirals", Version: "1.0.0", Path: bin, SHA256: hex.EncodeToString(sum[:])}
	classes := []string{"first arm", "second arm"}
	if !slices.Contains(s.Plugins, want) || !slices.Equal(s.Dataset.Classes, classes) {
		t.Errorf("summary: plugins %+v, classes %q; want %+v, %q", s.Plugins, s.Dataset.Classes, want, classes)
	}
	made, err := filepath.Glob(filepath.Join(dir, "runs/*/1"))
	if err != nil || len(made) != 1 {
		t.Fatalf("runs: %v, %v", made, err)
	}
	c, err := checkpoint.Newest(t.Context(), checkpoint.OsFS(), filepath.Join(made[0], "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Manifest; !slices.Contains(m.Plugins, checkpoint.Plugin(want)) || !slices.Equal(m.Dataset.Classes, classes) {
		t.Errorf("manifest: plugins %+v, classes %q", m.Plugins, m.Dataset.Classes)
	}
	events, err := os.ReadFile(filepath.Join(made[0], "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for line := range bytes.Lines(events) {
		r, err := event.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		switch e := r.Event.(type) {
		case *event.PluginStarted:
			if *e == want {
				told++
			}
		case *event.DatasetOpened:
			if slices.Equal(e.Classes, classes) {
				told++
			}
		}
	}
	if told != 2 {
		t.Errorf("%d events of events.jsonl name the plugin and its classes", told)
	}
}

package e2e

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// mainJob runs configs/mnist-ddp.toml as it is, on the data beside the
// repository.
func mainJob(t *testing.T, p *place, root string, args ...string) run {
	t.Helper()
	config, err := filepath.Abs("../configs/mnist-ddp.toml")
	rig.Must(t, err)
	cmd := p.Command(append([]string{"run", config, "--progress", "none"}, append(rig.Set("dataset.options.root="+root), args...)...)...)
	if err := cmd.Cmd.Run(); err != nil { // as long as it takes: the test's own deadline ends it
		t.Fatalf("%v\n%s", err, cmd.Stderr.String())
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(p.Dir, "runs", "mnist-ddp", "latest"))
	rig.Must(t, err)
	return readRun(t, dir)
}

// The main job: two ranks, two epochs of MNIST, and again with the same bits.
func TestMainJob(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("trains on all of MNIST twice")
	}
	root := mnist(t)
	p := newPlace(t)
	r := mainJob(t, p, root)
	if acc := float64(*r.sum.Eval.Accuracy); acc < 0.985 {
		t.Errorf("test accuracy %.4f, want 0.985", acc)
	}
	if r.sum.WorldSize != 2 || r.sum.Epochs != 2 || len(r.steps) != 938 || r.sum.Status != "ok" {
		t.Errorf("%d steps, summary %+v", len(r.steps), r.sum)
	}
	again := mainJob(t, p, root)
	if got, want := again.params(t), r.params(t); got != want {
		t.Errorf("parameters of a second run: %.12s, first %.12s", got, want)
	}
	equalBits(t, "second run", again.losses(), r.losses())
	e := p.evalMain(t, root, r)
	if e.Accuracy != float64(*r.sum.Eval.Accuracy) || math.Abs(e.Loss-float64(r.sum.Eval.Loss)) > 1e-6 {
		t.Errorf("eval: %+v, the run had %v and %v", e, r.sum.Eval.Loss, *r.sum.Eval.Accuracy)
	}
}

func (p *place) evalMain(t *testing.T, root string, r run) (e evaluation) {
	t.Helper()
	config, err := filepath.Abs("../configs/mnist-ddp.toml")
	rig.Must(t, err)
	checkpoint := filepath.Join(r.dir, "checkpoints")
	res := p.Trainctl(t, append([]string{"eval", config, "--checkpoint", checkpoint, "--json"}, rig.Set("dataset.options.root="+root)...)...).Expect(t, 0)
	rig.Must(t, json.Unmarshal([]byte(res.Stdout), &e))
	return e
}

// PyTorch loads a run's weights strictly and finds the run's own accuracy, and
// TensorBoard reads its curves.
func TestPyTorchReadsTheRun(t *testing.T) {
	t.Parallel()
	python := os.Getenv("TRAINCTL_TEST_PYTHON")
	if python == "" {
		t.Skip("TRAINCTL_TEST_PYTHON names no python with torch, safetensors and tensorboard")
	}
	root := mnist(t)
	p := newPlace(t)
	r := mainJob(t, p, root, rig.Set("train.max_steps=60")...)
	cmd := exec.Command(python, filepath.Join("testdata", "load_run.py"), r.dir, root)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	rig.Must(t, err)
	var got struct {
		Accuracy float64
		Loss     float64
		Scalars  map[string][][2]float64
	}
	rig.Must(t, json.Unmarshal(out, &got))
	want := r.evals[len(r.evals)-1]
	t.Logf("PyTorch: accuracy %v, loss %v; the run: %v, %v", got.Accuracy, got.Loss, want.Accuracy, want.Loss)
	if got.Accuracy != want.Accuracy || math.Abs(got.Loss-want.Loss) > 1e-5 {
		t.Errorf("PyTorch has accuracy %v and loss %v, the run %v and %v", got.Accuracy, got.Loss, want.Accuracy, want.Loss)
	}
	curve := got.Scalars["train/loss"]
	if len(curve) != len(r.steps) || len(curve) != 60 {
		t.Fatalf("TensorBoard shows %d losses of %d steps", len(curve), len(r.steps))
	}
	for i, point := range curve {
		if s := r.steps[i]; int(point[0]) != s.Step || math.Abs(point[1]-s.LossMean) > 1e-6*s.LossMean {
			t.Errorf("TensorBoard shows %v, step %d had %v", point, s.Step, s.LossMean)
		}
	}
}

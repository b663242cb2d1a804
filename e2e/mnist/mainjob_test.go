package mnist

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
func mainJob(t *testing.T, p *rig.Place, root string, args ...string) rig.Run {
	t.Helper()
	config, err := filepath.Abs("../../configs/mnist-ddp.toml")
	rig.Must(t, err)
	cmd := p.Command(append([]string{"run", config, "--progress", "none"}, append(rig.Set("dataset.options.root="+root), args...)...)...)
	if err := cmd.Cmd.Run(); err != nil { // as long as it takes: the test's own deadline ends it
		t.Fatalf("%v\n%s", err, cmd.Stderr.String())
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(p.Dir, "runs", "mnist-ddp", "latest"))
	rig.Must(t, err)
	return rig.ReadRun(t, dir)
}

// The main job: two ranks, two epochs of MNIST, and again with the same bits.
func TestMainJob(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("trains on all of MNIST twice")
	}
	root := rig.MNIST(t)
	p := rig.NewPlace(t)
	r := mainJob(t, p, root)
	if acc := float64(*r.Summary.Eval.Accuracy); acc < 0.985 {
		t.Errorf("test accuracy %.4f, want 0.985", acc)
	}
	if r.Summary.WorldSize != 2 || r.Summary.Epochs != 2 || len(r.Steps) != 938 || r.Summary.Status != "ok" {
		t.Errorf("%d steps, summary %+v", len(r.Steps), r.Summary)
	}
	again := mainJob(t, p, root)
	if got, want := again.Params(t), r.Params(t); got != want {
		t.Errorf("parameters of a second run: %.12s, first %.12s", got, want)
	}
	rig.EqualBits(t, "second run", again.Losses(), r.Losses())
	e := evalMain(t, p, root, r)
	if e.Accuracy != float64(*r.Summary.Eval.Accuracy) || math.Abs(e.Loss-float64(r.Summary.Eval.Loss)) > 1e-6 {
		t.Errorf("eval: %+v, the run had %v and %v", e, r.Summary.Eval.Loss, *r.Summary.Eval.Accuracy)
	}
}

func evalMain(t *testing.T, p *rig.Place, root string, r rig.Run) (e rig.Evaluation) {
	t.Helper()
	config, err := filepath.Abs("../../configs/mnist-ddp.toml")
	rig.Must(t, err)
	checkpoint := filepath.Join(r.Dir, "checkpoints")
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
	root := rig.MNIST(t)
	p := rig.NewPlace(t)
	r := mainJob(t, p, root, rig.Set("train.max_steps=60")...)
	cmd := exec.Command(python, filepath.Join("testdata", "load_run.py"), r.Dir, root)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	rig.Must(t, err)
	var got struct {
		Accuracy float64
		Loss     float64
		Scalars  map[string][][2]float64
	}
	rig.Must(t, json.Unmarshal(out, &got))
	want := r.Evals[len(r.Evals)-1]
	t.Logf("PyTorch: accuracy %v, loss %v; the run: %v, %v", got.Accuracy, got.Loss, want.Accuracy, want.Loss)
	if got.Accuracy != want.Accuracy || math.Abs(got.Loss-want.Loss) > 1e-5 {
		t.Errorf("PyTorch has accuracy %v and loss %v, the run %v and %v", got.Accuracy, got.Loss, want.Accuracy, want.Loss)
	}
	curve := got.Scalars["train/loss"]
	if len(curve) != len(r.Steps) || len(curve) != 60 {
		t.Fatalf("TensorBoard shows %d losses of %d steps", len(curve), len(r.Steps))
	}
	for i, point := range curve {
		if s := r.Steps[i]; int(point[0]) != s.Step || math.Abs(point[1]-s.LossMean) > 1e-6*s.LossMean {
			t.Errorf("TensorBoard shows %v, step %d had %v", point, s.Step, s.LossMean)
		}
	}
}

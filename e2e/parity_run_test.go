package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/e2e/rig"
)

// run is what a run that went well has left behind.
type run struct {
	dir   string
	sum   event.Summary
	steps []event.StepDone
	evals []event.EvalDone
	notes []string // of loading checkpoints
}

// run trains to the end and reads what the run wrote.
func (p *place) run(t *testing.T, args ...string) run {
	t.Helper()
	p.Train(t, append([]string{"--progress", "none"}, args...)...).Expect(t, 0)
	dir, err := filepath.EvalSymlinks(filepath.Join(p.Dir, "runs", "job", "latest"))
	rig.Must(t, err)
	return readRun(t, dir)
}

func readRun(t *testing.T, dir string) run {
	t.Helper()
	r := run{dir: dir}
	var err error
	r.sum, err = event.ReadSummary(afero.NewOsFs(), filepath.Join(dir, "summary.json"))
	rig.Must(t, err)
	file, err := os.Open(filepath.Join(dir, "events.jsonl"))
	rig.Must(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		rec, err := event.Decode(lines.Bytes())
		rig.Must(t, err)
		switch e := rec.Event.(type) {
		case *event.StepDone:
			r.steps = append(r.steps, *e)
		case *event.EvalDone:
			r.evals = append(r.evals, *e)
		case *event.CheckpointLoaded:
			r.notes = append(r.notes, e.Notes...)
		}
	}
	return r
}

// losses is the mean loss over ranks of each step.
func (r run) losses() []float64 {
	l := make([]float64, len(r.steps))
	for i, s := range r.steps {
		l[i] = s.LossMean
	}
	return l
}

// params is the hash of the model, which all ranks must share.
func (r run) params(t *testing.T) string {
	t.Helper()
	all := r.sum.ParamsSHA256
	if len(all) != r.sum.WorldSize {
		t.Fatalf("%d hashes of %d ranks", len(all), r.sum.WorldSize)
	}
	for _, h := range all {
		if h != all[0] || len(h) != 64 {
			t.Fatalf("ranks ended with different parameters: %v", all)
		}
	}
	return all[0]
}

// equalParams asserts that two runs end with the same bits in every parameter.
func equalParams(t *testing.T, what string, got, want run) {
	t.Helper()
	if a, b := got.params(t), want.params(t); a != b {
		t.Errorf("%s: parameters %.12s, want %.12s", what, a, b)
	}
}

// checkpoint is the path of a step's checkpoint.
func (r run) checkpoint(step int) string {
	return filepath.Join(r.dir, "checkpoints", fmt.Sprintf("step-%d", step))
}

// weights are the saved model of a step, as float64.
func (r run) weights(t *testing.T, step int) map[string][]float64 {
	t.Helper()
	return saved(t, r.checkpoint(step))
}

// average is weights of the moving averages.
func (r run) average(t *testing.T, step int) map[string][]float64 {
	t.Helper()
	return saved(t, filepath.Join(r.checkpoint(step), checkpoint.AverageFile))
}

func saved(t *testing.T, path string) map[string][]float64 {
	t.Helper()
	snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), path)
	rig.Must(t, err)
	w := map[string][]float64{}
	for _, m := range snap.Model {
		switch m.DType {
		case tensor.F64:
			w[m.Name] = m.F64()
		case tensor.F32:
			for _, v := range m.F32() {
				w[m.Name] = append(w[m.Name], float64(v))
			}
		}
	}
	return w
}

// furthest is the largest difference between two sets of weights.
func furthest(t *testing.T, a, b map[string][]float64) (worst float64) {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%d and %d tensors", len(a), len(b))
	}
	for name, x := range a {
		y := b[name]
		if len(x) != len(y) {
			t.Fatalf("%s: %d and %d elements", name, len(x), len(y))
		}
		for i := range x {
			if d := math.Abs(x[i] - y[i]); !(d <= worst) {
				worst = d
			}
		}
	}
	return worst
}

// mnist is the folder with the real data set beside the repository.
func mnist(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..") // of this package: the repository
	rig.Must(t, err)
	dir = filepath.Join(dir, "..", "shared", "mnist")
	if _, err := os.Stat(filepath.Join(dir, "train-images-idx3-ubyte.gz")); err != nil {
		t.Skipf("real MNIST is not in ../shared/mnist: %v", err)
	}
	return dir
}

// golden decodes a file of testdata.
func golden(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	rig.Must(t, err)
	rig.Must(t, json.Unmarshal(b, into))
}

// equalBits asserts that two series are the same to the last bit.
func equalBits(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d steps, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("%s: step %d of %d has loss %v, want %v", what, i+1, len(got), got[i], want[i])
			return
		}
	}
}

// anyContains reports whether one of the lines holds the text.
func anyContains(lines []string, text string) bool {
	return strings.Contains(strings.Join(lines, "\n"), text)
}

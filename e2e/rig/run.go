package rig

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Run is what a run that went well has left behind.
type Run struct {
	Dir     string
	Summary event.Summary
	Steps   []event.StepDone
	Evals   []event.EvalDone
	Notes   []string // of loading checkpoints
}

// Run trains to the end, which has to go well, and reads what the run wrote; args follow the configuration.
func (p *Place) Run(t TB, args ...string) Run {
	t.Helper()
	p.Train(t, append([]string{"--progress", "none"}, args...)...).Expect(t, 0)
	dir, err := filepath.EvalSymlinks(filepath.Join(p.Dir, "runs", "job", "latest"))
	Must(t, err)
	return ReadRun(t, dir)
}

// ReadRun reads the directory of a run that has ended.
func ReadRun(t TB, dir string) Run {
	t.Helper()
	r := Run{Dir: dir}
	var err error
	r.Summary, err = event.ReadSummary(afero.NewOsFs(), filepath.Join(dir, "summary.json"))
	Must(t, err)
	file, err := os.Open(filepath.Join(dir, "events.jsonl"))
	Must(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		rec, err := event.Decode(lines.Bytes())
		Must(t, err)
		switch e := rec.Event.(type) {
		case *event.StepDone:
			r.Steps = append(r.Steps, *e)
		case *event.EvalDone:
			r.Evals = append(r.Evals, *e)
		case *event.CheckpointLoaded:
			r.Notes = append(r.Notes, e.Notes...)
		}
	}
	return r
}

// Losses is the mean loss over ranks of each step.
func (r Run) Losses() []float64 {
	l := make([]float64, len(r.Steps))
	for i, s := range r.Steps {
		l[i] = s.LossMean
	}
	return l
}

// Params is the hash of the model. The test fails if not all ranks have the same one.
func (r Run) Params(t TB) string {
	t.Helper()
	all := r.Summary.ParamsSHA256
	if len(all) != r.Summary.WorldSize {
		t.Fatalf("%d hashes of %d ranks", len(all), r.Summary.WorldSize)
	}
	for _, h := range all {
		if h != all[0] || len(h) != 64 {
			t.Fatalf("ranks ended with different parameters: %v", all)
		}
	}
	return all[0]
}

// Checkpoint is the path of a step's checkpoint.
func (r Run) Checkpoint(step int) string {
	return filepath.Join(r.Dir, "checkpoints", fmt.Sprintf("step-%d", step))
}

// Weights are the saved model of a step, by the names of its tensors, as float64.
func (r Run) Weights(t TB, step int) map[string][]float64 {
	t.Helper()
	return saved(t, r.Checkpoint(step))
}

// Average is what Weights is, of the moving averages of the weights.
func (r Run) Average(t TB, step int) map[string][]float64 {
	t.Helper()
	return saved(t, filepath.Join(r.Checkpoint(step), checkpoint.AverageFile))
}

// saved reads the floating-point tensors of a model.
func saved(t TB, path string) map[string][]float64 {
	t.Helper()
	snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), path)
	Must(t, err)
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

// Evaluation is what `trainctl eval --json` prints.
type Evaluation struct {
	Step     int     `json:"step"`
	Samples  int     `json:"samples"`
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"`
}

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/e2e/rig"
)

// Generated coloured shapes, augmented, with a part of them held out.
const validationTables = `
[launch]
nproc_per_node = 2
[dataset]
plugin = "cifar10"
validation = 0.1
[dataset.options]
download = false
fallback = "generated"
augment = "standard"
train_samples = 200
test_samples = 60
[train]
epochs = 2
global_batch = 18
[model]
name = "mlp"
hidden = [8]
[optimizer]
name = "sgd"
lr = 0.05
[checkpoint]
every = "1 step"
keep = 0
keep_best = "eval.loss"
[metrics]
tensorboard = false
`

// A part of the training samples takes the place of the test set, whatever the number of ranks,
// and resumed runs have the same part. The test set stays for an evaluation at the end.
func TestValidationTakesTheTestSetsPlace(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, validationTables)
	whole := p.Run(t)
	d := whole.Summary.Dataset
	if d.TrainSamples != 180 || d.TestSamples != 20 || d.Validation != "stratified by class" {
		t.Errorf("summary %+v", d)
	}
	p.Run(t, "--resume", whole.Checkpoint(7)).Continues(t, whole, 7)
	for _, ranks := range []string{"1", "3"} {
		other := p.Run(t, rig.Set("launch.nproc_per_node="+ranks)...)
		for i, e := range whole.Evals {
			if got := other.Evals[i]; got.Samples != 20 || math.Abs(got.Loss-e.Loss) > 1e-6 {
				t.Errorf("on %s ranks evaluation %d is %+v, want %+v", ranks, i, got, e)
			}
		}
	}
	r := p.Train(t, append(rig.Set("dataset.validation=0.2"), "--resume", whole.Checkpoint(7))...)
	r.Expect(t, 6).Prints(t, "it was trained on other data")
	tested := p.Trainctl(t, append([]string{"eval", "job.toml", "--checkpoint", whole.Checkpoint(20)}, rig.Set("dataset.validation=0.0")...)...).Expect(t, 0)
	if !strings.Contains(tested.Stdout, "60 samples") {
		t.Errorf("the evaluation on the test set prints %s", tested.Stdout)
	}
	p.Trainctl(t, append([]string{"plan", "job.toml"}, rig.Set(`dataset.plugin="text"`, `dataset.options={}`)...)...).Expect(t, 2).
		Prints(t, "divides its data itself", "dataset.options.validation")
}

const tableTables = `
[dataset]
plugin = "csv"
validation = 0.2
[dataset.options]
train = "table.csv"
targets = ["y"]
normalize = "standard"
[optimizer]
name = "sgd"
lr = 0.5
[train]
epochs = 8
global_batch = 9
[model]
layers = [{ type = "linear", out_features = 3 }]
[checkpoint]
every = "1 step"
keep = 0
[metrics]
tensorboard = false
`

// A model learns from a CSV table, with the same result on 1 to 3 ranks and after a resume. Its
// labels are the class names of the run, and a wrong table is refused with line and column.
func TestTableTrains(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, tableTables)
	text := "size,weight,y\n"
	for i := range 90 {
		text += fmt.Sprintf("%d,%d,%s\n", 9*(i%3)+i%2, (i%3)*(i%3)*9-i%5, []string{"low", "middle", "high"}[i%3])
	}
	path := filepath.Join(p.Dir, "table.csv")
	rig.Must(t, os.WriteFile(path, []byte(text), 0o644))
	whole := p.Run(t)
	if got := whole.Summary.Dataset; strings.Join(got.Classes, " ") != "high low middle" || got.TrainSamples != 72 || got.TestSamples != 18 {
		t.Errorf("summary %+v", got)
	}
	if last := whole.Evals[7]; last.Accuracy < 0.9 {
		t.Errorf("the last evaluation is %+v", last)
	}
	p.Run(t, "--resume", whole.Checkpoint(11)).Continues(t, whole, 11)
	for _, ranks := range []string{"2", "3"} {
		other := p.Run(t, rig.Set("launch.nproc_per_node="+ranks)...)
		if a, b := other.Evals[7], whole.Evals[7]; a.Accuracy != b.Accuracy || math.Abs(a.Loss-b.Loss) > 1e-6 {
			t.Errorf("on %s ranks the last evaluation is %+v, want %+v", ranks, a, b)
		}
	}
	rig.Must(t, os.WriteFile(path, []byte(strings.Replace(text, ",-3,", ",none,", 1)), 0o644))
	p.Train(t).Expect(t, 2).Matches(t, `table.csv:\d+:\d+: column "weight" is "none", which is not a finite number; fix: correct it`)
}

// Metrics of the same weights are the same on 1 to 3 ranks, in the events, in summary.json and in
// evaluation.json, whose worst samples are named as the data set knows them.
func TestMetricsOfAnEvaluation(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, validationTables+"[eval]\nmetrics = [\"accuracy\", \"top_k\", \"per_class\", \"confusion\", \"worst\"]\ntop_k = 3\nworst = 4\n")
	whole := p.Run(t)
	last := whole.Checkpoint(20)
	read := func(dir string) (e event.Evaluation) {
		d := event.RunDir{Path: dir}
		b, err := os.ReadFile(d.EvaluationFile())
		rig.Must(t, err)
		rig.Must(t, json.Unmarshal(b, &e))
		d.ReadPictures(afero.NewOsFs(), &e)
		return e
	}
	want := read(p.RunDir(1))
	sum, hits := int64(0), int64(0)
	for i, row := range want.Confusion {
		hits += row[i]
		for _, n := range row {
			sum += n
		}
	}
	e := whole.Evals[1]
	if want.Schema != 1 || want.Step != 20 || sum != 20 || float64(hits)/20 != e.Accuracy || len(want.Worst) != 4 || want.Worst[0].Split != "train" || len(want.Classes) != 10 {
		t.Errorf("evaluation.json has %+v, with an accuracy of %v", want, e.Accuracy)
	}
	if m := whole.Summary.Eval.Metrics; m == nil || !reflect.DeepEqual(*m, want.EvalMetrics) || !reflect.DeepEqual(m, e.Metrics) || m.TopK != 3 || float64(m.TopKAccuracy) < e.Accuracy {
		t.Errorf("metrics are %+v in the event, %+v in the summary and %+v in evaluation.json", e.Metrics, m, want.EvalMetrics)
	}
	for i, ranks := range []string{"1", "2", "3"} {
		p.Run(t, rig.Set("launch.nproc_per_node="+ranks, "optimizer.lr=0.0", "train.epochs=1", "train.max_steps=1", fmt.Sprintf("model.init=%q", last))...)
		got := read(p.RunDir(2 + i))
		got.Step, got.Epoch = want.Step, want.Epoch
		for _, e := range []*event.Evaluation{&got, &want} {
			e.Loss = event.Number(math.Round(1e4*float64(e.Loss)) / 1e4)
			for i := range e.Worst {
				w := &e.Worst[i]
				w.Loss, w.Probability = event.Number(math.Round(1e4*float64(w.Loss))/1e4), event.Number(math.Round(1e4*float64(w.Probability))/1e4)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("on %s ranks evaluation.json is\n%+v, want\n%+v", ranks, got, want)
		}
		want = got
	}
	for _, w := range want.Worst {
		if w.Picture == nil {
			t.Errorf("%s %d has no picture", w.Split, w.Index)
		}
	}
	into := filepath.Join(p.Dir, "evaluated")
	shown := p.Trainctl(t, "eval", "job.toml", "--checkpoint", last, "--output", into).Expect(t, 0).Stdout
	if got := read(into); got.Worst[0].Index != want.Worst[0].Index || !bytes.Equal(got.Worst[0].Picture, want.Worst[0].Picture) || !reflect.DeepEqual(got.Confusion, want.Confusion) {
		t.Errorf("eval --output writes %+v, want %+v", got, want)
	}
	if !strings.Contains(shown, "top-3 accuracy") || !strings.Contains(shown, "precision") {
		t.Errorf("eval prints %s", shown)
	}
	p.Trainctl(t, append([]string{"eval", "job.toml", "--checkpoint", last, "--output", into}, rig.Set(`eval.metrics=["accuracy"]`)...)...).Expect(t, 2).Prints(t, "[eval] metrics has nothing that is written to")
	p.Train(t, rig.Set("eval.top_k=10")...).Expect(t, 2).Prints(t, "every sample is among the top 10 of 10 classes")
	p.Train(t, rig.Set(`eval.metrics=["top_k"]`, `checkpoint.keep_best="eval.accuracy"`)...).Expect(t, 2).Prints(t, `add "accuracy" to eval.metrics`)
}

// With every augmentation, the same samples have the same pixels on 1 to 3 ranks and after a
// resume, so that the losses are the same.
func TestAugmentedRunsAreTheSame(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, validationTables)
	more := rig.Set("dataset.validation=0.0", "dataset.options.train_samples=198", "dataset.options.randaugment=2", "dataset.options.color_jitter=[0.4, 0.4, 0.4, 0.1]",
		"dataset.options.random_erasing=0.25", "dataset.options.mixup=0.2", "dataset.options.cutmix=1.0")
	whole := p.Run(t, more...)
	p.Run(t, append(more, "--resume", whole.Checkpoint(7))...).Continues(t, whole, 7)
	for _, ranks := range []string{"1", "3"} {
		other := p.Run(t, append(more, rig.Set("launch.nproc_per_node="+ranks)...)...)
		for i, loss := range whole.Losses() {
			if got := other.Losses()[i]; math.Abs(got-loss) > 1e-5*loss {
				t.Errorf("on %s ranks the loss of step %d is %v, want %v", ranks, i+1, got, loss)
			}
		}
		if a, b := other.Evals[1], whole.Evals[1]; a.Samples != 60 || a.Accuracy != b.Accuracy {
			t.Errorf("on %s ranks the evaluation is %+v, want %+v", ranks, a, b)
		}
	}
}

package e2e

import (
	"math"
	"strings"
	"testing"

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
	p := placeWith(t, validationTables)
	whole := p.run(t)
	d := whole.sum.Dataset
	if d.TrainSamples != 180 || d.TestSamples != 20 || d.Validation != "stratified by class" {
		t.Errorf("summary %+v", d)
	}
	p.run(t, "--resume", whole.checkpoint(7)).continues(t, whole, 7)
	for _, ranks := range []string{"1", "3"} {
		other := p.run(t, rig.Set("launch.nproc_per_node="+ranks)...)
		for i, e := range whole.evals {
			if got := other.evals[i]; got.Samples != 20 || math.Abs(got.Loss-e.Loss) > 1e-6 {
				t.Errorf("on %s ranks evaluation %d is %+v, want %+v", ranks, i, got, e)
			}
		}
	}
	r := p.Train(t, append(rig.Set("dataset.validation=0.2"), "--resume", whole.checkpoint(7))...)
	r.Expect(t, 6).Prints(t, "it was trained on other data")
	tested := p.Trainctl(t, append([]string{"eval", "job.toml", "--checkpoint", whole.checkpoint(20)}, rig.Set("dataset.validation=0.0")...)...).Expect(t, 0)
	if !strings.Contains(tested.Stdout, "60 samples") {
		t.Errorf("the evaluation on the test set prints %s", tested.Stdout)
	}
	p.Trainctl(t, append([]string{"plan", "job.toml"}, rig.Set(`dataset.plugin="text"`, `dataset.options={}`)...)...).Expect(t, 2).
		Prints(t, "divides its data itself", "dataset.options.validation")
}

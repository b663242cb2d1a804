package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

var mlpTables = synthetic("[1, 12, 12]", 10, 1000, 203) + `[model]
name = "mlp"
hidden = [64, 32]
` + momentumTables

// synthetic are the tables of a generated data set of images of that shape.
func synthetic(shape string, classes, train, test int) string {
	return fmt.Sprintf("[dataset]\nplugin = \"synthetic\"\n[dataset.options]\nshape = %s\nclasses = %d\ntrain_samples = %d\ntest_samples = %d\n", shape, classes, train, test)
}

// momentumTables set SGD with momentum, and write only what the tests compare.
const momentumTables = `
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[checkpoint]
every = "100 epochs"
[metrics]
tensorboard = false
`

// Rank r takes every W-th sample from the r-th on, so the global batches are the same in every
// world size, and the parameters differ by the order of sums alone.
func TestWorldSizeDoesNotMatter(t *testing.T) {
	t.Parallel()
	p := placeWith(t, mlpTables+"[train]\nglobal_batch = 48\nmax_steps = 50\nepochs = 3\n")
	var one run
	for world := 1; world <= 4; world++ {
		r := p.run(t, rig.Set(fmt.Sprint("launch.nproc_per_node=", world), "dataset.options.train_samples=960")...)
		r.params(t)
		if world == 1 {
			one = r
			continue
		}
		if d := furthest(t, r.weights(t, 50), one.weights(t, 50)); !(d <= 1e-5) {
			t.Errorf("%d ranks: parameters are off by %g after 50 steps", world, d)
		} else {
			t.Logf("%d ranks: off by %.2g", world, d)
		}
		if a, b := r.sum.Eval, one.sum.Eval; *a.Accuracy != *b.Accuracy {
			t.Errorf("%d ranks: accuracy %v, one rank has %v", world, *a.Accuracy, *b.Accuracy)
		}
	}
}

// Where built-in plugins run changes nothing in the result.
func TestIsolationChangesNothing(t *testing.T) {
	t.Parallel()
	p := placeWith(t, mlpTables+"[train]\nper_rank_batch = 24\nmax_steps = 20\nepochs = 3\n[launch]\nnproc_per_node = 2\n")
	isolated := p.run(t, rig.Set("launch.isolation=isolated")...)
	equalParams(t, "plugins in the ranks' processes", p.run(t, rig.Set("launch.isolation=inproc")...), isolated)
}

// Micro-batches add up to one big batch, with one set of all-reduces for all of them.
func TestAccumulationIsOneBigBatch(t *testing.T) {
	t.Parallel()
	p := placeWith(t, mlpTables+"[train]\nmax_steps = 30\nepochs = 3\n[launch]\nnproc_per_node = 2\n")
	big := p.run(t, rig.Set("train.per_rank_batch=32")...)
	small := p.run(t, rig.Set("train.per_rank_batch=8", "train.accumulate_steps=4")...)
	if len(small.steps) != 30 || len(big.steps) != 30 {
		t.Fatalf("%d and %d steps, want 30", len(small.steps), len(big.steps))
	}
	for i := range big.steps {
		a, b := small.steps[i], big.steps[i]
		if math.Abs(a.LossMean-b.LossMean) > 1e-4*b.LossMean || a.Samples != b.Samples || a.Accuracy != b.Accuracy {
			t.Fatalf("step %d: loss %v of %d samples, one big batch has %v of %d", i+1, a.LossMean, a.Samples, b.LossMean, b.Samples)
		}
	}
	if d := furthest(t, small.weights(t, 30), big.weights(t, 30)); !(d <= 1e-5) {
		t.Errorf("parameters are off by %g", d)
	}
	if a, b := small.sum.Comm, big.sum.Comm; a.BytesPerStep != b.BytesPerStep || a.Buckets != b.Buckets {
		t.Errorf("a step reduces %d bytes in %d buckets, with one big batch %d in %d", a.BytesPerStep, a.Buckets, b.BytesPerStep, b.Buckets)
	}
}

// The norm is that of the averaged gradients, so clipping is the same in every world.
func TestClippingComesAfterTheReduce(t *testing.T) {
	t.Parallel()
	p := placeWith(t, mlpTables+"[train]\nglobal_batch = 48\nmax_steps = 20\nepochs = 3\nmax_norm = 0.05\n")
	args := rig.Set("dataset.options.train_samples=960")
	one := p.run(t, append(args, rig.Set("launch.nproc_per_node=1")...)...)
	three := p.run(t, append(args, rig.Set("launch.nproc_per_node=3")...)...)
	free := p.run(t, append(args, rig.Set("launch.nproc_per_node=1", "train.max_norm=0")...)...)
	for i, s := range one.steps {
		if o := three.steps[i]; math.Abs(s.GradNorm-o.GradNorm) > 1e-4*s.GradNorm || s.GradNorm <= 0.05 {
			t.Errorf("step %d: norm %v on one rank, %v on three", i+1, s.GradNorm, o.GradNorm)
		}
	}
	if d := furthest(t, one.weights(t, 20), three.weights(t, 20)); !(d <= 1e-5) {
		t.Errorf("parameters are off by %g", d)
	}
	if d := furthest(t, one.weights(t, 20), free.weights(t, 20)); d < 1e-3 {
		t.Errorf("clipping changed nothing: %g", d)
	}
}

// 1000 samples on three ranks in batches of 32: 334 each, two of them read
// twice, or 333 each and one left out; the last batch is short either way.
func TestUnevenEnds(t *testing.T) {
	t.Parallel()
	p := placeWith(t, mlpTables+"[train]\nper_rank_batch = 32\nepochs = 2\n[launch]\nnproc_per_node = 3\n")
	for drop, perRank := range map[bool]int{false: 334, true: 333} {
		r := p.run(t, rig.Set(fmt.Sprint("sampler.drop_last=", drop))...)
		r.params(t)
		if len(r.steps) != 22 {
			t.Fatalf("drop_last = %v: %d steps, want 2 × 11", drop, len(r.steps))
		}
		for i, s := range r.steps {
			want := 3 * 32
			if i%11 == 10 {
				want = 3 * (perRank - 10*32)
			}
			if s.Samples != want || s.Epoch != i/11 {
				t.Errorf("drop_last = %v: step %d has %d samples in epoch %d, want %d in %d", drop, s.Step, s.Samples, s.Epoch, want, i/11)
			}
		}
	}
}

// max_steps ends a run within an epoch, and its evaluation still comes.
func TestMaxStepsThenEvaluation(t *testing.T) {
	t.Parallel()
	p := placeWith(t, mlpTables+"[train]\nper_rank_batch = 32\nepochs = 5\nmax_steps = 20\n[launch]\nnproc_per_node = 2\n")
	r := p.run(t)
	if len(r.steps) != 20 || r.sum.Steps != 20 || r.sum.Epochs != 1 {
		t.Errorf("%d steps, summary says %d in %d epochs", len(r.steps), r.sum.Steps, r.sum.Epochs)
	}
	if len(r.evals) != 2 || r.evals[0].Step != 16 || r.evals[1].Step != 20 {
		t.Fatalf("evaluations: %+v", r.evals)
	}
	if e := r.evals[1]; e.Samples != 203 || e.Accuracy != float64(*r.sum.Eval.Accuracy) {
		t.Errorf("the last evaluation is %+v, the summary says %v", e, *r.sum.Eval.Accuracy)
	}
}

// evaluation is what `trainctl eval --json` prints.
type evaluation struct {
	Step     int     `json:"step"`
	Samples  int     `json:"samples"`
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"`
}

func (p *place) eval(t *testing.T, checkpoint string, args ...string) (e evaluation) {
	t.Helper()
	res := p.Trainctl(t, append([]string{"eval", p.Config, "--checkpoint", checkpoint, "--json"}, args...)...).Expect(t, 0)
	rig.Must(t, json.Unmarshal([]byte(res.Stdout), &e))
	return e
}

// Every test sample counts once, in every world and in `trainctl eval`.
func TestEvaluationIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	root := mnist(t)
	p := newPlace(t)
	p.Configure(t, fmt.Sprintf("[dataset]\nplugin = \"mnist\"\n[dataset.options]\nroot = %q\n", root)+`
[model]
name = "convnet"
[optimizer]
name = "sgd"
lr = 0.01
momentum = 0.9
[train]
max_steps = 12
per_rank_batch = 32
eval_batch = 77
[launch]
nproc_per_node = 2
`)
	two := p.run(t)
	want := two.evals[0]
	if want.Samples != 10000 || want.Accuracy < 0.5 {
		t.Fatalf("the run's own evaluation: %+v", want)
	}
	check := func(what string, samples int, loss, accuracy float64) {
		t.Helper()
		if samples != 10000 || accuracy != want.Accuracy || math.Abs(loss-want.Loss) > 1e-6 {
			t.Errorf("%s: loss %v, accuracy %v of %d samples, the run had %v and %v", what, loss, accuracy, samples, want.Loss, want.Accuracy)
		}
	}
	e := p.eval(t, two.checkpoint(12))
	check("eval", e.Samples, e.Loss, e.Accuracy)

	three := p.run(t, append(rig.Set("launch.nproc_per_node=3"), "--resume", two.checkpoint(12))...)
	if len(three.steps) != 0 || len(three.evals) != 1 {
		t.Fatalf("%d steps, %d evaluations", len(three.steps), len(three.evals))
	}
	check("three ranks", three.evals[0].Samples, three.evals[0].Loss, three.evals[0].Accuracy)
	if three.params(t) != two.params(t) {
		t.Error("loading changed the parameters")
	}
}

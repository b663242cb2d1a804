package parity

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

var mlpTables = rig.Synthetic("[1, 12, 12]", 10, 1000, 203) + `[model]
name = "mlp"
hidden = [64, 32]
` + rig.MomentumTables

// Rank r takes every W-th sample from the r-th on, so the global batches are the same in every
// world size, and the parameters differ by the order of sums alone.
func TestWorldSizeDoesNotMatter(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nglobal_batch = 48\nmax_steps = 50\nepochs = 3\n")
	var one rig.Run
	for world := 1; world <= 4; world++ {
		r := p.Run(t, rig.Set(fmt.Sprint("launch.nproc_per_node=", world), "dataset.options.train_samples=960")...)
		r.Params(t)
		if world == 1 {
			one = r
			continue
		}
		if d := rig.Furthest(t, r.Weights(t, 50), one.Weights(t, 50)); !(d <= 1e-5) {
			t.Errorf("%d ranks: parameters are off by %g after 50 steps", world, d)
		} else {
			t.Logf("%d ranks: off by %.2g", world, d)
		}
		if a, b := r.Summary.Eval, one.Summary.Eval; *a.Accuracy != *b.Accuracy {
			t.Errorf("%d ranks: accuracy %v, one rank has %v", world, *a.Accuracy, *b.Accuracy)
		}
	}
}

// Where built-in plugins run changes nothing in the result.
func TestIsolationChangesNothing(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 24\nmax_steps = 20\nepochs = 3\n[launch]\nnproc_per_node = 2\n")
	isolated := p.Run(t, rig.Set("launch.isolation=isolated")...)
	rig.EqualParams(t, "plugins in the ranks' processes", p.Run(t, rig.Set("launch.isolation=inproc")...), isolated)
}

// Micro-batches add up to one big batch, with one set of all-reduces for all of them.
func TestAccumulationIsOneBigBatch(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nmax_steps = 30\nepochs = 3\n[launch]\nnproc_per_node = 2\n")
	big := p.Run(t, rig.Set("train.per_rank_batch=32")...)
	small := p.Run(t, rig.Set("train.per_rank_batch=8", "train.accumulate_steps=4")...)
	if len(small.Steps) != 30 || len(big.Steps) != 30 {
		t.Fatalf("%d and %d steps, want 30", len(small.Steps), len(big.Steps))
	}
	for i := range big.Steps {
		a, b := small.Steps[i], big.Steps[i]
		if math.Abs(a.LossMean-b.LossMean) > 1e-4*b.LossMean || a.Samples != b.Samples || a.Accuracy != b.Accuracy {
			t.Fatalf("step %d: loss %v of %d samples, one big batch has %v of %d", i+1, a.LossMean, a.Samples, b.LossMean, b.Samples)
		}
	}
	if d := rig.Furthest(t, small.Weights(t, 30), big.Weights(t, 30)); !(d <= 1e-5) {
		t.Errorf("parameters are off by %g", d)
	}
	if a, b := small.Summary.Comm, big.Summary.Comm; a.BytesPerStep != b.BytesPerStep || a.Buckets != b.Buckets {
		t.Errorf("a step reduces %d bytes in %d buckets, with one big batch %d in %d", a.BytesPerStep, a.Buckets, b.BytesPerStep, b.Buckets)
	}
}

// The norm is that of the averaged gradients, so clipping is the same in every world.
func TestClippingComesAfterTheReduce(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nglobal_batch = 48\nmax_steps = 20\nepochs = 3\nmax_norm = 0.05\n")
	args := rig.Set("dataset.options.train_samples=960")
	one := p.Run(t, append(args, rig.Set("launch.nproc_per_node=1")...)...)
	three := p.Run(t, append(args, rig.Set("launch.nproc_per_node=3")...)...)
	free := p.Run(t, append(args, rig.Set("launch.nproc_per_node=1", "train.max_norm=0")...)...)
	for i, s := range one.Steps {
		if o := three.Steps[i]; math.Abs(s.GradNorm-o.GradNorm) > 1e-4*s.GradNorm || s.GradNorm <= 0.05 {
			t.Errorf("step %d: norm %v on one rank, %v on three", i+1, s.GradNorm, o.GradNorm)
		}
	}
	if d := rig.Furthest(t, one.Weights(t, 20), three.Weights(t, 20)); !(d <= 1e-5) {
		t.Errorf("parameters are off by %g", d)
	}
	if d := rig.Furthest(t, one.Weights(t, 20), free.Weights(t, 20)); d < 1e-3 {
		t.Errorf("clipping changed nothing: %g", d)
	}
}

// 1000 samples on three ranks in batches of 32: 334 each, two of them read
// twice, or 333 each and one left out; the last batch is short either way.
func TestUnevenEnds(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 32\nepochs = 2\n[launch]\nnproc_per_node = 3\n")
	for drop, perRank := range map[bool]int{false: 334, true: 333} {
		r := p.Run(t, rig.Set(fmt.Sprint("sampler.drop_last=", drop))...)
		r.Params(t)
		if len(r.Steps) != 22 {
			t.Fatalf("drop_last = %v: %d steps, want 2 × 11", drop, len(r.Steps))
		}
		for i, s := range r.Steps {
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
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 32\nepochs = 5\nmax_steps = 20\n[launch]\nnproc_per_node = 2\n")
	r := p.Run(t)
	if len(r.Steps) != 20 || r.Summary.Steps != 20 || r.Summary.Epochs != 1 {
		t.Errorf("%d steps, summary says %d in %d epochs", len(r.Steps), r.Summary.Steps, r.Summary.Epochs)
	}
	if len(r.Evals) != 2 || r.Evals[0].Step != 16 || r.Evals[1].Step != 20 {
		t.Fatalf("evaluations: %+v", r.Evals)
	}
	if e := r.Evals[1]; e.Samples != 203 || e.Accuracy != float64(*r.Summary.Eval.Accuracy) {
		t.Errorf("the last evaluation is %+v, the summary says %v", e, *r.Summary.Eval.Accuracy)
	}
}

// evaluate runs `trainctl eval` on a checkpoint.
func evaluate(t *testing.T, p *rig.Place, checkpoint string, args ...string) (e rig.Evaluation) {
	t.Helper()
	res := p.Trainctl(t, append([]string{"eval", p.Config, "--checkpoint", checkpoint, "--json"}, args...)...).Expect(t, 0)
	rig.Must(t, json.Unmarshal([]byte(res.Stdout), &e))
	return e
}

// Every test sample counts once, in every world and in `trainctl eval`.
func TestEvaluationIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	root := rig.MNIST(t)
	p := rig.NewPlace(t)
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
	two := p.Run(t)
	want := two.Evals[0]
	if want.Samples != 10000 || want.Accuracy < 0.5 {
		t.Fatalf("the run's own evaluation: %+v", want)
	}
	check := func(what string, samples int, loss, accuracy float64) {
		t.Helper()
		if samples != 10000 || accuracy != want.Accuracy || math.Abs(loss-want.Loss) > 1e-6 {
			t.Errorf("%s: loss %v, accuracy %v of %d samples, the run had %v and %v", what, loss, accuracy, samples, want.Loss, want.Accuracy)
		}
	}
	e := evaluate(t, p, two.Checkpoint(12))
	check("eval", e.Samples, e.Loss, e.Accuracy)

	three := p.Run(t, append(rig.Set("launch.nproc_per_node=3"), "--resume", two.Checkpoint(12))...)
	if len(three.Steps) != 0 || len(three.Evals) != 1 {
		t.Fatalf("%d steps, %d evaluations", len(three.Steps), len(three.Evals))
	}
	check("three ranks", three.Evals[0].Samples, three.Evals[0].Loss, three.Evals[0].Accuracy)
	if three.Params(t) != two.Params(t) {
		t.Error("loading changed the parameters")
	}
}

package parity

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// unevenPlace is a place whose data set has eight batches of an epoch for every
// rank of three, and three for rank 1.
func unevenPlace(t *testing.T) *rig.Place {
	t.Helper()
	p := rig.PlaceWith(t, rig.NormTables)
	p.AddProgram(t, "e2e/testdata/ending")
	return p
}

var unevenArgs = rig.Set("dataset.plugin=./ending", "dataset.options.end_rank=1", "dataset.options.end_at=90", "sampler.shuffle=false",
	"train.global_batch=30", "train.max_steps=0", "launch.nproc_per_node=3")

// A data set that ends early on one rank: an error that tells who, the end of
// the epoch, or the others go on; with synchronised statistics or not, through
// shared memory or sockets, in one piece or resumed in the middle.
func TestUnevenInputs(t *testing.T) {
	t.Parallel()
	p := unevenPlace(t)
	p.Train(t, unevenArgs...).Expect(t, 5).Prints(t, "rank 1 ran out after 3 batches, rank 0 has had 4, rank 2 has had 4", `ddp.uneven = "join"`)

	stop := p.Run(t, append(rig.Set("ddp.uneven=stop"), unevenArgs...)...)
	if stop.Params(t); stop.Summary.Steps != 6 {
		t.Errorf("stop: %d steps in two epochs", stop.Summary.Steps)
	}
	for _, sync := range []bool{false, true} {
		args := append(rig.Set("ddp.uneven=join", fmt.Sprint("ddp.sync_batchnorm=", sync), "checkpoint.every=5 steps", "checkpoint.keep=0"), unevenArgs...)
		whole := p.Run(t, args...)
		if whole.Summary.Steps != 16 {
			t.Errorf("join: %d steps in two epochs", whole.Summary.Steps)
		}
		sockets := p.Run(t, append(rig.Set("backend.options.shm=false", "ddp.bucket_cap_mb=0"), args...)...)
		rig.EqualParams(t, fmt.Sprintf("join, synchronised %v, through sockets", sync), sockets, whole)
		resumed := p.Run(t, append([]string{"--resume", filepath.Join(whole.Dir, "checkpoints", "step-5")}, args...)...)
		rig.EqualParams(t, fmt.Sprintf("join, synchronised %v, resumed after step 5", sync), resumed, whole)
	}
}

// Layers that a rank leaves out: refused without find_unused_parameters before
// anything is trained; with it ranks stay equal, and a resumed run is the one
// that was never stopped.
func TestUnusedParameters(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := rig.Set(`model.layers=[{type="linear",out_features=8},{type="residual",layerdrop=0.5,layers=[{type="linear",out_features=8},{type="tanh"}]},{type="linear",out_features=4}]`,
		"optimizer.momentum=0.9", "checkpoint.every=3 steps", "checkpoint.keep=0")
	p.Train(t, args...).Expect(t, 2).Prints(t, "error: ddp.find_unused_parameters: ", "layerdrop leaves their layers out: 1.0.bias, 1.0.weight")
	args = append(args, rig.Set("ddp.find_unused_parameters=true")...)
	whole := p.Run(t, args...)
	resumed := p.Run(t, append([]string{"--resume", filepath.Join(whole.Dir, "checkpoints", "step-3")}, args...)...)
	sockets := p.Run(t, append(rig.Set("backend.options.shm=false", "ddp.bucket_cap_mb=0", "ddp.overlap=false"), args...)...)
	if a, b, c := whole.Params(t), resumed.Params(t), sockets.Params(t); a != b || a != c {
		t.Errorf("parameters %.12s, resumed %.12s, through sockets %.12s", a, b, c)
	}
}

// Without padding every sample is seen once. Ranks with a batch less are a
// mistake in the configuration unless it says what happens then.
func TestNoPadding(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := rig.Set("sampler.pad=none", "dataset.options.train_samples=50", "launch.nproc_per_node=3", "train.epochs=1")
	p.Train(t, args...).Expect(t, 5).Prints(t, "50 samples without padding give rank 0 3 batches of an epoch and rank 2 2")
	for uneven, want := range map[string][2]int{"join": {3, 50}, "stop": {2, 48}} {
		r := p.Run(t, append(rig.Set("ddp.uneven="+uneven), args...)...)
		r.Params(t)
		seen := 0
		for _, s := range r.Steps {
			seen += s.Samples
		}
		if len(r.Steps) != want[0] || seen != want[1] {
			t.Errorf("%s: %d samples in %d steps, want %v", uneven, seen, len(r.Steps), want)
		}
	}
}

// Ranks with unequal shares of a step train as ranks with equal shares do, within rounding.
func TestUnequalShares(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := rig.Set("train.epochs=0", "train.max_steps=20", "optimizer.momentum=0.9", "launch.nproc_per_node=2")
	even := p.Run(t, args...)
	for _, shares := range []string{"[3, 1]", "[1, 3]"} {
		got := p.Run(t, append(rig.Set("launch.shares="+shares), args...)...)
		got.Params(t)
		for i, want := range even.Losses() {
			if loss := got.Losses()[i]; math.Abs(loss-want) > 1e-5*want {
				t.Errorf("%s: loss %v of step %d, want %v", shares, loss, i+1, want)
			}
		}
		if n := got.Summary.Train.Shares; len(n) != 2 || n[0] != 3*n[1] && n[1] != 3*n[0] {
			t.Errorf("%s: samples %v of a step", shares, n)
		}
	}
}

// A run that averages weights goes on with the same bits from a checkpoint, also through sockets.
func TestAveragesOfWeights(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := rig.Set("ddp.sync_every=3", "ddp.outer=nesterov", "train.epochs=0", "train.max_steps=20", "optimizer.name=adam", "checkpoint.every=4 steps", "checkpoint.keep=0")
	whole := p.Run(t, args...)
	steps, err := filepath.Glob(filepath.Join(whole.Dir, "checkpoints", "step-*"))
	if rig.Must(t, err); len(steps) < 3 {
		t.Fatalf("checkpoints: %v", steps)
	}
	resumed := p.Run(t, append([]string{"--resume", steps[1]}, args...)...)
	rig.EqualParams(t, "resumed", resumed, whole)
	sockets := p.Run(t, append(rig.Set("backend.options.shm=false"), args...)...)
	rig.EqualParams(t, "through sockets", sockets, whole)
}

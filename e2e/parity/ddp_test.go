package parity

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// With synchronised batch norms the number of ranks changes nothing: not the
// weights, not the running statistics. Without them it does.
func TestSyncBatchNormMakesRanksOne(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.NormTables)
	one := p.Run(t, rig.Set("launch.nproc_per_node=1", "ddp.sync_batchnorm=true")...)
	for _, world := range []int{2, 3, 4} {
		r := p.Run(t, rig.Set(fmt.Sprint("launch.nproc_per_node=", world), "ddp.sync_batchnorm=true")...)
		r.Params(t)
		if d := rig.Furthest(t, r.Weights(t, 15), one.Weights(t, 15)); !(d <= 2e-5) {
			t.Errorf("%d ranks: off by %g after 15 steps", world, d)
		} else {
			t.Logf("%d ranks: off by %.2g", world, d)
		}
		for i, l := range r.Losses() {
			if want := one.Losses()[i]; math.Abs(l-want) > 1e-4*(1+want) {
				t.Errorf("%d ranks: step %d has loss %v, one rank %v", world, i+1, l, want)
			}
		}
	}
	apart := p.Run(t, rig.Set("launch.nproc_per_node=2")...)
	if d := rig.Furthest(t, apart.Weights(t, 15), one.Weights(t, 15)); d < 1e-3 {
		t.Errorf("unsynchronised statistics make a difference of only %g", d)
	}
}

// Synchronised layers go with micro-steps, short last batches, half types, many
// buckets and sockets, and give the same bits each time.
func TestSyncBatchNormIsDeterministic(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.NormTables)
	base := rig.Set("launch.nproc_per_node=3", "ddp.sync_batchnorm=true", "train.global_batch=42", "train.accumulate_steps=2", "train.max_steps=9")
	for name, more := range map[string][]string{
		"plain": nil, "half": {"precision.plugin=amp", "precision.options.level=O2", "precision.options.dtype=bf16"}, "unfused": {"run.fuse=false"},
	} {
		a := p.Run(t, append(rig.Set(more...), base...)...)
		b := p.Run(t, append(rig.Set(append(more, "ddp.bucket_cap_mb=0", "ddp.overlap=false", "backend.options.shm=false")...), base...)...)
		rig.EqualBits(t, name, a.Losses(), b.Losses())
		rig.EqualParams(t, name, b, a)
	}
}

// Gradients in half types travel as half the bytes, all ranks end with the same
// bits, and training goes nearly the same way.
func TestCompression(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 16\nmax_steps = 30\nepochs = 3\n[launch]\nnproc_per_node = 2\n")
	plain := p.Run(t)
	for compress, tol := range map[string]float64{"fp16": 2e-3, "bf16": 2e-2} {
		args := rig.Set("ddp.compress="+compress, "ddp.bucket_cap_mb=0.01")
		r := p.Run(t, args...)
		if got, want := r.Summary.Comm.BytesPerStep, plain.Summary.Comm.BytesPerStep/2; got != want {
			t.Errorf("%s: %d bytes per step, want %d", compress, got, want)
		}
		if d := rig.Furthest(t, r.Weights(t, 30), plain.Weights(t, 30)); !(d <= tol) || d == 0 {
			t.Errorf("%s: parameters are off by %g", compress, d)
		}
		again := p.Run(t, append(args, rig.Set("backend.options.shm=false", "ddp.overlap=false")...)...)
		rig.EqualParams(t, compress+" through sockets", again, r)
	}
}

// Powers of two divide without rounding, so that on four ranks it does not
// matter where the division happens.
func TestPredivideFactor(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 8\nmax_steps = 10\n[launch]\nnproc_per_node = 4\n")
	plain := p.Run(t)
	for _, factor := range []int{1, 2, 4} {
		r := p.Run(t, rig.Set(fmt.Sprintf("ddp.gradient_predivide_factor=%d.0", factor))...)
		rig.EqualParams(t, fmt.Sprint("factor ", factor), r, plain)
	}
}

// PowerSGD's error feedback of each rank, and its factors, are
// in checkpoints: a resumed run is the one that was never stopped, also with
// other buckets. Another number of ranks shares the errors out.
func TestPowerSGDResumes(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 16\nmax_steps = 30\nepochs = 3\n[launch]\nnproc_per_node = 3\n")
	args := rig.Set("ddp.compress=powersgd", "ddp.powersgd_start_step=10", "checkpoint.every=5 steps", "checkpoint.keep=0")
	whole := p.Run(t, args...)
	for step, more := range map[int][]string{10: nil, 15: nil, 25: rig.Set("ddp.bucket_cap_mb=0.01")} {
		from := filepath.Join(whole.Dir, "checkpoints", fmt.Sprint("step-", step))
		if _, err := os.Stat(filepath.Join(from, "compression.safetensors")); (err == nil) != (step > 10) {
			t.Errorf("compression.safetensors after step %d: %v", step, err)
		}
		p.Trainctl(t, "ckpt", "verify", from).Expect(t, 0)
		r := p.Run(t, append([]string{"--resume", from}, append(more, args...)...)...)
		rig.EqualParams(t, fmt.Sprint("resumed after step ", step), r, whole)
	}
	from := filepath.Join(whole.Dir, "checkpoints", "step-25")
	p.Train(t, append([]string{"--resume", from}, append(rig.Set("launch.nproc_per_node=2"), args...)...)...).Expect(t, 0).Prints(t, "errors of 3 ranks are distributed evenly among 2 ranks")
	p.Train(t, "--resume", from).Expect(t, 0).Prints(t, "are dropped: this run does not use PowerSGD")
}

// Factors of low rank: until their start nothing is different, after it ranks
// stay equal, bytes shrink, and the model still learns.
func TestPowerSGD(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, mlpTables+"[train]\nper_rank_batch = 16\nmax_steps = 90\nepochs = 3\n[launch]\nnproc_per_node = 3\n")
	plain := p.Run(t)
	args := rig.Set("ddp.compress=powersgd", "ddp.powersgd_rank=2", "ddp.powersgd_start_step=20")
	r := p.Run(t, args...)
	rig.EqualBits(t, "steps before the start", r.Losses()[:21], plain.Losses()[:21])
	if r.Losses()[25] == plain.Losses()[25] {
		t.Error("factors change nothing")
	}
	if got, all := r.Summary.Comm.BytesPerStep, plain.Summary.Comm.BytesPerStep; got*4 > all {
		t.Errorf("%d bytes per step of %d", got, all)
	}
	if a, b := *r.Summary.Eval.Accuracy, *plain.Summary.Eval.Accuracy; a < b-0.05 {
		t.Errorf("accuracy %v, without compression %v", a, b)
	}
	again := p.Run(t, append(args, rig.Set("backend.options.shm=false", "ddp.overlap=false")...)...)
	if a, b := r.Params(t), again.Params(t); a != b {
		t.Errorf("parameters %.12s, then %.12s", a, b)
	}
	p.Train(t, append(args, rig.Set("precision.plugin=amp", "precision.options.dtype=fp16")...)...).Expect(t, 2).Prints(t, "constant scale")
}

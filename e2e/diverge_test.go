package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// A run that diverges without mixed precision ends, says where, and leaves a
// finite checkpoint, from which --resume auto goes on.
func TestDivergedRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	wild := set("optimizer.lr=1e20", "optimizer.weight_decay=1", "train.epochs=50", "train.max_skips=6", "checkpoint.every=1 steps", "checkpoint.keep=1", "launch.max_restarts=2")
	r := p.train(t, wild...).expect(t, 1).says(t, "diverged at step 3: ", "in 6 steps in a row", "learning rate 1e+20", "fc.weight",
		"the checkpoint after step 2 does not count as good", "exitcode  : 1", "continues from the newest good checkpoint: step ")
	r.oneBlock(t)
	if s := p.summary(t, 1); s.Status != "diverged" || s.Restarts != 0 {
		t.Errorf("summary: %+v", s)
	}
	p.train(t, append(set("optimizer.lr=1e-30", "train.max_steps=3"), "--resume", "auto")...).expect(t, 0).says(t, "step 1")
	if s := p.summary(t, 2); s.Status != "ok" || s.Steps != 3 {
		t.Errorf("the run that goes on: %+v", s)
	}
}

// A backend that sums wrongly on one rank is found out at the next checkpoint,
// which is not written, and the rank is named.
func TestBackendThatSumsWrongly(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plugin, err := build(p.dir, "e2e/testdata/wrong")
	must(t, err)
	r := p.train(t, set("launch.nproc_per_node=3", "backend.plugin="+plugin, "backend.options.wrong_rank=1", "backend.options.wrong_step=3",
		"checkpoint.every=2 steps", "train.epochs=3", "optimizer.momentum=0.9")...)
	r.expect(t, 5).says(t, "rank 1 differs from the other 2 in parameters, buffers or optimizer state after step 4, first in fc.weight", "all were equal after step 2", "rank      : 1")
	r.oneBlock(t)
	if _, err := os.Stat(filepath.Join(p.runDir(1), "checkpoints", "step-4")); !os.IsNotExist(err) {
		t.Errorf("the checkpoint of step 4 is there: %v", err)
	}
	p.trainctl(t, "ckpt", "verify", "runs/job/1/checkpoints/step-2").expect(t, 0)
}

package failures

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A run that diverges without mixed precision ends, says where, and leaves a
// finite checkpoint, from which --resume auto continues.
func TestDivergedRun(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	wild := rig.Set("optimizer.lr=1e20", "optimizer.weight_decay=1", "train.epochs=50", "train.max_skips=6", "checkpoint.every=1 steps", "checkpoint.keep=1", "launch.max_restarts=2")
	r := p.Train(t, wild...).Expect(t, 1).Prints(t, "diverged at step 3: ", "in 6 steps in a row", "learning rate 1e+20", "fc.weight",
		"the checkpoint after step 2 does not count as good", "exitcode  : 1", "continues from the newest good checkpoint: step ")
	r.OneFailureBlock(t)
	if s := p.Summary(t, 1); s.Status != "diverged" || s.Restarts != 0 {
		t.Errorf("summary: %+v", s)
	}
	p.Train(t, append(rig.Set("optimizer.lr=1e-30", "train.max_steps=3"), "--resume", "auto")...).Expect(t, 0).Prints(t, "step 1")
	if s := p.Summary(t, 2); s.Status != "ok" || s.Steps != 3 {
		t.Errorf("the run that goes on: %+v", s)
	}
}

// A backend that sums wrongly on one rank is found out at the next checkpoint,
// which is not written, and the rank is named.
func TestBackendThatSumsWrongly(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	plugin, err := rig.Build(p.Dir, "e2e/failures/testdata/wrong")
	rig.Must(t, err)
	r := p.Train(t, rig.Set("launch.nproc_per_node=3", "backend.plugin="+plugin, "backend.options.wrong_rank=1", "backend.options.wrong_step=3",
		"checkpoint.every=2 steps", "train.epochs=3", "optimizer.momentum=0.9")...)
	r.Expect(t, 5).Prints(t, "rank 1 differs from the other 2 in parameters, buffers or optimizer state after step 4, first in fc.weight", "all were equal after step 2", "rank      : 1")
	r.OneFailureBlock(t)
	if _, err := os.Stat(filepath.Join(p.RunDir(1), "checkpoints", "step-4")); !os.IsNotExist(err) {
		t.Errorf("the checkpoint of step 4 is there: %v", err)
	}
	p.Trainctl(t, "ckpt", "verify", "runs/job/1/checkpoints/step-2").Expect(t, 0)
}

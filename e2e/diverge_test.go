package e2e

import (
	"testing"
)

// A run that diverges without mixed precision ends, says where, and leaves a
// finite checkpoint, from which --resume auto goes on.
func TestDivergedRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	wild := set("optimizer.lr=1e20", "optimizer.weight_decay=1", "train.epochs=50", "train.max_skips=6", "checkpoint.every=1 steps", "checkpoint.keep=1", "launch.max_restarts=2")
	r := p.train(t, wild...).expect(t, 1).says(t, "diverged at step 3: ", "in 6 steps in a row", "learning rate 1e+20", "fc.weight",
		"the checkpoint after step 2 does not count as good", "exitcode  : 1", "newest checkpoint whose weights are finite")
	r.oneBlock(t)
	if s := p.summary(t, 1); s.Status != "diverged" || s.Restarts != 0 {
		t.Errorf("summary: %+v", s)
	}
	p.train(t, append(set("optimizer.lr=1e-30", "train.max_steps=3"), "--resume", "auto")...).expect(t, 0).says(t, "step 1")
	if s := p.summary(t, 2); s.Status != "ok" || s.Steps != 3 {
		t.Errorf("the run that goes on: %+v", s)
	}
}

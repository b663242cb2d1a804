package train

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/outline"
)

// saving gives rank 0 a store in dir, and all ranks the checkpoints that it has.
func saving(t *testing.T, dir string, cfg checkpoint.Config, change func(s *outline.Settings)) func(rank int, d *Deps) {
	return func(rank int, d *Deps) {
		d.Settings.Checkpoint = cfg
		if change != nil {
			change(&d.Settings)
		}
		if rank != 0 {
			return
		}
		store, err := checkpoint.Open(d.FS, dir, d.Settings.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		d.Store = store
	}
}

// trainAndClose is trainToTheEnd with the end of what saving opened.
func trainAndClose(ctx context.Context, d Deps) error {
	err := trainToTheEnd(ctx, d)
	if d.Store != nil {
		err = errors.Join(err, d.Store.Close())
	}
	return err
}

// An epoch that is half done goes on in its order, with any number of ranks, or
// not at all.
func TestHalfAnEpochKeepsItsOrder(t *testing.T) {
	const ranks = 2
	dir := t.TempDir()
	errs := onRanks(t, ranks, saving(t, dir, checkpoint.Config{Every: "2 steps"}, func(s *outline.Settings) { s.Train.MaxSteps = 2 }), trainAndClose)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	seed := outline.DefaultRun().Seed
	other := seed + 1
	for name, c := range map[string]struct {
		change  func(s *outline.Settings)
		refused bool
	}{
		"as before":               {func(*outline.Settings) {}, false},
		"the sampler's own seed":  {func(s *outline.Settings) { s.Run.Seed, s.Sampler.Seed = other, &seed }, false},
		"another seed":            {func(s *outline.Settings) { s.Sampler.Seed = &other }, true},
		"another seed of the run": {func(s *outline.Settings) { s.Run.Seed = other }, true},
		"no shuffle":              {func(s *outline.Settings) { s.Sampler.Shuffle = false }, true},
	} {
		for world := 1; world <= 3; world++ {
			t.Run(name, func(t *testing.T) {
				errs := onRanks(t, world, func(_ int, d *Deps) {
					d.Settings.DatasetOptions["seed"] = int64(seed) // the data stay
					d.Resume = filepath.Join(dir, "step-2")
					c.change(&d.Settings)
				}, trainToTheEnd)
				err := errors.Join(errs...)
				if !c.refused && err != nil || c.refused && (!errors.Is(errs[0], checkpoint.ErrUnusable) || !strings.Contains(errs[0].Error(), "epoch 0 is half done in another order")) {
					t.Errorf("%d ranks: %v", world, err)
				}
			})
		}
	}
}

// A seed of the sampler is its own, or the run's.
func TestSeedOfTheOrder(t *testing.T) {
	own := uint64(7)
	if got := (data.Config{}).SeedOr(3); got != 3 {
		t.Error(got)
	}
	if got := (data.Config{Seed: &own}).SeedOr(3); got != 7 {
		t.Error(got)
	}
}

func TestSaverIsDueAsConfigured(t *testing.T) {
	for every, due := range map[string]struct{ steps, epochs []bool }{
		"3 steps":  {[]bool{false, false, true, false, false, true}, make([]bool, 6)},
		"2 epochs": {make([]bool, 6), []bool{false, true, false, true, false, true}},
		"never":    {make([]bool, 6), make([]bool, 6)},
	} {
		s := newSaver(checkpoint.Config{Every: every}, nil)
		for n := range 6 {
			if got := s.dueAt(n, n+1); got != due.steps[n] {
				t.Errorf("%s: after step %d due is %v", every, n+1, got)
			}
			if got := s.dueAfter(n + 1); got != due.epochs[n] {
				t.Errorf("%s: after epoch %d due is %v", every, n+1, got)
			}
		}
		if s.requested() {
			t.Errorf("%s: nobody asks, and a checkpoint is requested", every)
		}
	}
}

// Requests until serve are served by one checkpoint.
func TestRequestsToSaveAreCounted(t *testing.T) {
	asked := int64(0)
	s := newSaver(checkpoint.Config{Every: "never"}, func() int64 { return asked })
	for range 2 {
		if s.requested() {
			t.Error("requested before anybody asked")
		}
		asked += 2
		for range 2 {
			if !s.requested() {
				t.Error("a request was lost")
			}
		}
		s.serve()
	}
}

// A checkpoint that cannot be used is why a rank ends, also if it is asked to end while it
// tells the others.
func TestFailureIsToldAlthoughTheRankIsStopped(t *testing.T) {
	errs := onRanks(t, 1, func(_ int, d *Deps) { d.Resume = filepath.Join(t.TempDir(), "step-2") }, func(ctx context.Context, d Deps) error {
		ctx, stop := context.WithCancel(ctx)
		gather := d.Gather
		d.Gather = func(ctx context.Context, name string, mine []byte) ([][]byte, error) {
			if name == "resume" {
				stop()
				return nil, ctx.Err()
			}
			return gather(ctx, name, mine)
		}
		return trainToTheEnd(ctx, d)
	})
	if !errors.Is(errs[0], checkpoint.ErrUnusable) || errors.Is(errs[0], context.Canceled) {
		t.Error(errs[0])
	}
}

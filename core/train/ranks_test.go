package train

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

// The ranks of these tests are goroutines of one process: the same Trainer,
// with plugins inside the process and an exchange in memory.

// testSettings train a small MLP on computed data for a few steps.
func testSettings() outline.Settings {
	s := outline.Settings{
		Run: outline.DefaultRun(), Train: outline.DefaultTrain(), Sampler: data.Default(), DDP: ddp.Default(),
		Model:     nn.Config{Name: "mlp", Hidden: []int{8}},
		Optimizer: optim.DefaultFor("sgd"), Schedule: optim.DefaultSchedule(),
		Checkpoint: checkpoint.Config{Every: "never"}, Dataset: "synthetic", BackendTimeout: 10 * time.Second, BackendInit: time.Minute,
	}
	s.Optimizer.LR, s.Optimizer.Momentum = 0.05, 0.9
	s.Train.PerRankBatch = 4
	opts, problems := sdk.CheckOptions("", synthetic.New().Info().Options, map[string]any{
		"shape": []any{int64(1), int64(4), int64(4)}, "classes": int64(3), "train_samples": int64(30), "test_samples": int64(7),
	})
	if problems != nil {
		panic(problems.Err())
	}
	s.DatasetOptions = opts
	return s
}

// exchange is a Gather between goroutines.
type exchange struct {
	mu     sync.Mutex
	world  int
	rounds map[string]*round
}

type round struct {
	all  [][]byte
	left int
	done chan struct{}
}

func (x *exchange) gather(rank int) Gather {
	return func(ctx context.Context, name string, mine []byte) ([][]byte, error) {
		x.mu.Lock()
		r := x.rounds[name]
		if r == nil {
			r = &round{all: make([][]byte, x.world), left: x.world, done: make(chan struct{})}
			x.rounds[name] = r
		}
		r.all[rank] = mine
		if r.left--; r.left == 0 {
			close(r.done)
		}
		x.mu.Unlock()
		select {
		case <-r.done:
			return r.all, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// device is what a rank computes on: the processor, but for tests that set it.
var device = func(testing.TB, int) plan.Device { return cpu.New() }

// tapped is a backend whose calls a test sees first, and may refuse.
type tapped struct {
	host.Collectives
	before func(*sdk.Collective) error
}

func (b tapped) Submit(c *sdk.Collective) (uint64, error) {
	if err := b.before(c); err != nil {
		return 0, err
	}
	return b.Collectives.Submit(c)
}

// onRanks runs f on every rank of a world at the same time and returns the
// ranks' errors. change may give a rank settings or parts of its own.
func onRanks(t testing.TB, world int, change func(rank int, d *Deps), f func(ctx context.Context, d Deps) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	net := membackend.NewWorld()
	x := &exchange{world: world, rounds: map[string]*round{}}
	errs := make([]error, world)
	var ranks sync.WaitGroup
	for r := range world {
		w := rank.Single()
		w.Rank, w.Size, w.LocalRank, w.LocalSize = r, world, r, world
		d := Deps{
			Settings: testSettings(), World: w, Secret: []byte("secret"), Gather: x.gather(r), Device: device(t, r),
			Backend: host.InProcessBackend(net.New()), Dataset: host.InProcessDataset(synthetic.New()), Precision: host.InProcessPrecision(amp.NewNone()),
			Events: event.NewBus(r), FS: checkpoint.OsFS(), Request: Request{Started: time.Now()},
		}
		if change != nil {
			change(r, &d)
		}
		ranks.Go(func() {
			errs[r] = f(ctx, d)
			closeCtx := context.WithoutCancel(ctx)
			errs[r] = errors.Join(errs[r], d.Backend.Close(closeCtx), d.Dataset.Close(closeCtx), d.Precision.Close(closeCtx))
		})
	}
	ranks.Wait()
	return errs
}

func trainToTheEnd(ctx context.Context, d Deps) error {
	tr, err := Setup(ctx, d)
	if err != nil {
		return err
	}
	defer tr.Close()
	return tr.Run(ctx)
}

// A batch that cannot be trained is the configuration's mistake, which no restart fixes.
func TestBatchTooSmallForTheModelIsAMistake(t *testing.T) {
	errs := onRanks(t, 1, func(_ int, d *Deps) {
		three := 3
		d.Settings.Train.PerRankBatch = 29 // of 30 samples
		d.Settings.Model = nn.Config{Layers: []nn.LayerConfig{
			{Type: "conv2d", Args: op.Args{"out_channels": three, "kernel_size": op.Pair{4, 4}}}, {Type: "batchnorm2d"}, {Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": three}},
		}}
	}, trainToTheEnd)
	if l := usererr.Problems(errs[0]); l == nil || !strings.Contains(errs[0].Error(), "planning batches of 1: plan: 1 (batchnorm2d): a batch of one sample with one element per channel has no variance") {
		t.Errorf("%v", errs[0])
	}
}

// Ranks with different configurations find out before the first collective, all
// of them with the same message, which names the first difference.
func TestDifferentReplicasAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(d *Deps)
		want   string
	}{
		{"a wider layer", func(d *Deps) { d.Settings.Model.Hidden = []int{9} },
			"ranks have different models: rank 0 has 4 parameters and buffers, rank 2 has 4; the first difference is fc1.weight f32[8, 16] on rank 0 and fc1.weight f32[9, 16] on rank 2"},
		{"one layer more", func(d *Deps) { d.Settings.Model.Hidden = []int{8, 8} }, "rank 0 has 4 parameters and buffers, rank 2 has 6"},
		{"other data", func(d *Deps) { d.Settings.DatasetOptions["seed"] = int64(5) }, "ranks read different data"},
		{"another configuration", func(d *Deps) { d.Settings.Common = []string{"run.seed = 1", "train.epochs = 3"} },
			"ranks run different configurations: rank 0 has no more settings, rank 2 has run.seed = 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := onRanks(t, 3, func(rank int, d *Deps) {
				if rank == 2 {
					c.change(d)
				}
			}, trainToTheEnd)
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("rank %d: want %q, got %v", r, c.want, err)
				}
			}
		})
	}
}

// All ranks start with rank 0's weights, whatever their own are.
func TestWeightsStartAsRankZeros(t *testing.T) {
	hashes := make([]string, 3)
	errs := onRanks(t, 3, func(rank int, d *Deps) { d.Settings.Run.Seed += uint64(rank) }, func(ctx context.Context, d Deps) error {
		d.Settings.DatasetOptions["seed"] = int64(1) // the data are equal all the same
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		hashes[d.World.Rank] = ddp.Hash(tr.model.Values)
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if hashes[0] == "" || hashes[1] != hashes[0] || hashes[2] != hashes[0] {
		t.Errorf("ranks start with %v", hashes)
	}
}

// When one rank gets a signal to stop, all stop after the same step.
func TestRanksStopTogether(t *testing.T) {
	steps := make([]int, 3)
	errs := onRanks(t, 3, func(_ int, d *Deps) { d.Settings.Train.Epochs = 1000 }, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		d.Events.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.StepDone); ok && e.Step == 5 && d.World.Rank == 1 {
				stop()
			}
		}))
		err = tr.Run(ctx)
		var p *Preempted
		if !errors.As(err, &p) {
			return errors.Join(errors.New("not preempted"), err)
		}
		steps[d.World.Rank] = p.Step
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if steps[0] != 6 || steps[1] != 6 || steps[2] != 6 {
		t.Errorf("ranks stopped after steps %v, asked after 5", steps)
	}
}

// A save that was begun is completed, also when the run is asked to stop
// meanwhile.
func TestSaveOutlivesTheOrderToStop(t *testing.T) {
	var warnings []string
	errs := onRanks(t, 1, func(_ int, d *Deps) {
		d.FS = faultfs.New()
		d.Settings.Checkpoint = checkpoint.Config{Every: "2 steps", Keep: 5}
		store, err := checkpoint.Open(d.FS, "/checkpoints", d.Settings.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		d.Store = store
	}, func(ctx context.Context, d Deps) error {
		defer d.Store.Close()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		d.Events.Add(event.Func(func(r event.Record) {
			switch e := r.Event.(type) {
			case *event.PhaseChanged:
				if e.Phase == "checkpoint" {
					stop()
				}
			case *event.Warning:
				warnings = append(warnings, e.Message)
			}
		}))
		return trainToTheEnd(ctx, d)
	})
	var p *Preempted
	if !errors.As(errors.Join(errs...), &p) || !p.Saved || len(warnings) > 0 {
		t.Errorf("%v, warnings %q", errs, warnings)
	}
}

// No rank says that the run can be continued when its last checkpoint is not on
// disk, whichever way it is written.
func TestPreemptedMeansSaved(t *testing.T) {
	for _, async := range []bool{false, true} {
		disk := faultfs.New()
		errs := onRanks(t, 2, func(rank int, d *Deps) {
			d.Settings.Checkpoint = checkpoint.Config{Every: "2 steps", Keep: 5, Async: async}
			if rank > 0 {
				return
			}
			d.FS = disk
			store, err := checkpoint.Open(d.FS, "/checkpoints", d.Settings.Checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			d.Store = store
		}, func(ctx context.Context, d Deps) error {
			if d.Store != nil {
				defer d.Store.Close()
			}
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			d.Events.Add(event.Func(func(r event.Record) {
				if e, ok := r.Event.(*event.StepDone); ok && e.Step == 2 && d.World.Rank == 0 {
					if err := d.Store.Wait(ctx); err != nil {
						t.Error(err)
					}
					disk.SetSpace(0)
					stop()
				}
			}))
			return trainToTheEnd(ctx, d)
		})
		if errors.As(errs[0], new(*Preempted)) || errs[0] == nil || !strings.Contains(errs[0].Error(), "it was not saved") || !strings.Contains(errs[0].Error(), "no space left") {
			t.Errorf("async %v: rank 0: %v", async, errs[0])
		}
		if errors.As(errs[1], new(*Preempted)) || errs[1] == nil || !strings.Contains(errs[1].Error(), "rank 0 stopped after step") {
			t.Errorf("async %v: rank 1: %v", async, errs[1])
		}
	}
}

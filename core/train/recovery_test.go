package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/plugins/amp"
)

// death is when the plugin of a rank dies: at the at-th collective that the
// rank calls, before the other ranks get its part or after they have the result.
type death struct {
	rank, at int
	after    bool
}

// mortal is a backend that dies. As a reduction in place would, a collective
// that fails leaves nonsense in the memory it works on.
type mortal struct {
	sdk.Backend
	rank   int
	deaths []death
	calls  *int // of this rank's plugins together
}

func (m *mortal) Do(ctx context.Context, c *sdk.Collective) error {
	*m.calls++
	dies := func(after bool) bool { return slices.Contains(m.deaths, death{m.rank, *m.calls, after}) }
	err := errors.New("the plugin died")
	if !dies(false) {
		err = m.Backend.Do(ctx, c)
	}
	if dies(false) || dies(true) {
		_ = m.Backend.Close() // what the others see
		err = fmt.Errorf("%w: by plan", host.ErrDied)
	}
	if err != nil && !(c.Op == sdk.OpBroadcast && c.Root == m.rank) {
		for i := range c.Buf {
			if part := len(c.Buf) / worldOfDeaths; c.Op != sdk.OpAllGather || i/part != m.rank { // which a rank only provides
				c.Buf[i] = 0x7f
			}
		}
	}
	return err
}

// replaceableBackend begins anew as a host's does.
type replaceableBackend struct {
	host.Collectives
	fresh func() host.Collectives
	lives int
}

func (b *replaceableBackend) Restart(ctx context.Context) error {
	err := b.Collectives.Close(ctx)
	b.Collectives = b.fresh()
	b.lives++
	return err
}

// Placement is where the backends of tests are.
func (*replaceableBackend) Placement() sdk.Placement { return sdk.Placement{InProcess: true} }

// mortals is what dies: the backend itself, but for tests that set it.
var mortals = func(b sdk.Backend, _ int) sdk.Backend { return b }

// worldOfDeaths is the number of ranks of these tests.
const worldOfDeaths = 2

// trainThrough trains on two ranks whose plugins die as planned, and returns what
// each ended with and how many collectives it called.
func trainThrough(t *testing.T, restarts int, change func(*Deps), deaths ...death) (hash [2]string, calls [2]int, errs []error) {
	t.Helper()
	net := membackend.NewWorld()
	var backends [2]*replaceableBackend
	disk := faultfs.New()
	errs = onRanks(t, worldOfDeaths, func(rank int, d *Deps) {
		fresh := func() host.Collectives {
			return host.InProcessBackend(&mortal{Backend: mortals(net.New(), rank), rank: rank, deaths: deaths, calls: &calls[rank]})
		}
		backends[rank] = &replaceableBackend{Collectives: fresh(), fresh: fresh}
		d.Backend = backends[rank]
		d.FS = disk
		s := &d.Settings
		s.Train.Epochs, s.BackendRestarts = 2, restarts
		s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0
		s.Checkpoint = checkpoint.Config{Every: "3 steps", Keep: 1}
		one, two := 3, 6
		s.Model = nn.Config{Layers: []nn.LayerConfig{
			{Type: "conv2d", Args: op.Args{"out_channels": one, "kernel_size": op.Pair{2, 2}}}, {Type: "batchnorm2d"}, {Type: "relu"}, {Type: "flatten"},
			{Type: "linear", Args: op.Args{"out_features": two}}, {Type: "dropout"}, {Type: "linear", Args: op.Args{"out_features": one}},
		}}
		if change != nil {
			change(d)
		}
		if rank == 0 && s.Checkpoint.Every != "never" {
			store, err := checkpoint.Open(d.FS, "/checkpoints", s.Checkpoint)
			if err != nil {
				t.Error(err)
			}
			d.Store = store
		}
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		if d.Store != nil {
			defer d.Store.Close()
		}
		err = errors.Join(tr.Run(ctx), tr.device.Download())
		hash[d.World.Rank] = ddp.Hash(tr.model.Values)
		if lives := backends[d.World.Rank].lives; err == nil && (tr.recovery.Group.Replaced() != len(deaths) || lives != len(deaths)) {
			t.Errorf("%v: %d groups were replaced, %d plugins of rank %d", deaths, tr.recovery.Group.Replaced(), lives, d.World.Rank)
		}
		return err
	})
	return hash, calls, errs
}

// A plugin dies at every collective of a run, on either rank, before and after
// the other rank has the result: the run always ends with the same bits.
func TestEveryDeathIsRecoveredFrom(t *testing.T) {
	for name, change := range map[string]func(*Deps){
		"plain": nil,
		"sharded optimizer": func(d *Deps) {
			d.Settings.DDP.Shard, d.Settings.Optimizer = ddp.ShardOptimizer, optim.DefaultFor("adam")
			d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), sdk.Options{"level": "O2"}
		},
		"sharded optimizer, whole gradients": func(d *Deps) {
			d.Settings.DDP.Shard, d.Settings.Optimizer, d.Settings.Train.MaxNorm = ddp.ShardOptimizer, optim.DefaultFor("lars"), 0.1
		},
		"synchronised, dynamic scale": func(d *Deps) {
			d.Precision = host.InProcessPrecision(amp.New())
			d.Settings.PrecisionOpts = sdk.Options{"dtype": "fp16"}
			d.Settings.DDP.SyncBatchNorm = true
		},
		"accumulated, factors of low rank": func(d *Deps) {
			d.Settings.Train.AccumulateSteps, d.Settings.DDP.BroadcastBuffers = 2, false
			d.Settings.DDP.Compress, d.Settings.DDP.PowerSGDStart = "powersgd", 1
			d.Settings.Optimizer = optim.DefaultFor("adam")
		},
		"events for rank 0": restartsPlugins,
		"without overlap, uneven": func(d *Deps) {
			d.Settings.DDP.Overlap, d.Settings.DDP.Uneven, d.Settings.DDP.FindUnusedParameters = false, ddp.UnevenJoin, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, calls, errs := trainThrough(t, 0, change)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if want[0] != want[1] || calls[0] != calls[1] || calls[0] < 20 {
				t.Fatalf("an undisturbed run ends with %v after %v collectives", want, calls)
			}
			for at := 1; at <= calls[0]; at++ {
				for i, d := range []death{{0, at, false}, {1, at, false}, {0, at, true}, {1, at, true}} {
					if testing.Short() && (at%3 != 0 || i != at/3%4) { // one in twelve, each in its turn
						continue
					}
					got, _, errs := trainThrough(t, 1, change, d)
					if err := errors.Join(errs...); err != nil {
						t.Fatalf("%+v: %v", d, err)
					}
					if got != want {
						t.Fatalf("%+v: ended with %v, undisturbed with %v", d, got, want)
					}
				}
			}
		})
	}
}

// restartsPlugins makes every rank report in every step that it has replaced a plugin.
func restartsPlugins(d *Deps) {
	d.BeforeStep = func(step int) error {
		d.Events.Emit(&event.PluginRestarted{Restart: step})
		return nil
	}
}

// Rank 0's files have what the other rank reports about its plugins, once and in order, also if a backend dies.
func TestRestartsOfOtherRanksAreInTheFiles(t *testing.T) {
	for _, deaths := range [][]death{nil, {{0, 20, false}}, {{1, 20, true}}} {
		var got [worldOfDeaths][]int
		_, _, errs := trainThrough(t, len(deaths), func(d *Deps) {
			restartsPlugins(d)
			if d.World.Rank > 0 {
				return
			}
			d.Events.AddFile(event.Func(func(r event.Record) {
				if e, ok := r.Event.(*event.PluginRestarted); ok {
					got[r.Rank] = append(got[r.Rank], e.Restart)
				}
			}))
		}, deaths...)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if len(got[0]) < 4 || !slices.Equal(got[0], got[1]) {
			t.Errorf("%v: rank 0's files have steps %v of rank 0 and %v of rank 1", deaths, got[0], got[1])
		}
	}
}

// Deaths follow each other, also while the ranks still recover from the one before.
func TestSeveralDeaths(t *testing.T) {
	want, _, errs := trainThrough(t, 0, nil)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, deaths := range [][]death{
		{{0, 9, false}, {1, 30, true}},
		{{0, 9, true}, {0, 10, false}, {0, 11, true}},
		{{1, 2, true}, {1, 3, false}},
	} {
		got, _, errs := trainThrough(t, len(deaths), nil, deaths...)
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%+v: %v", deaths, err)
		}
		if got != want {
			t.Errorf("%+v: ended with %v, undisturbed with %v", deaths, got, want)
		}
	}
}

// Without restarts left, the rank whose plugin died says so, and the other that
// it lost a peer.
func TestRestartsAreUsedUp(t *testing.T) {
	for restarts, deaths := range [][]death{{{1, 20, false}}, {{1, 20, false}, {1, 25, true}}} {
		_, _, errs := trainThrough(t, restarts, nil, deaths...)
		if !errors.Is(errs[1], host.ErrDied) || !errors.As(errs[0], new(*sdk.PeerError)) {
			t.Errorf("%d restarts: %v", restarts, errs)
		}
	}
}

// All ranks tell of the new group, and name the rank whose plugin died.
func TestRecoveryIsReported(t *testing.T) {
	var mu sync.Mutex
	var told []event.BackendRestarted
	_, _, errs := trainThrough(t, 2, func(d *Deps) {
		d.Events.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.BackendRestarted); ok {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, *e)
			}
		}))
	}, death{1, 20, true})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 {
		t.Fatalf("ranks told of %+v", told)
	}
	for _, e := range told {
		if e.Generation != 2 || e.Step < 1 || e.Cause != `rank 1, backend plugin "mem" (pid 0): the process ended: by plan` {
			t.Errorf("told %+v", e)
		}
	}
}

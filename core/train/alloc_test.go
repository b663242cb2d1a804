package train

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/race"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

// builtins are served by this test binary, started again.
var builtins = []host.Builtin{
	{Kind: sdk.KindBackend, Name: "tcp", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return tcp.New() }}},
	{Kind: sdk.KindPrecision, Name: "amp", Plugin: sdk.Plugin{Precision: func() sdk.Precision { return amp.New() }}},
	{Kind: sdk.KindDataset, Name: "synthetic", Plugin: sdk.Plugin{Dataset: func() sdk.Dataset { return synthetic.New() }}},
}

func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	os.Exit(m.Run())
}

// plugged gives a rank plugins in processes of their own.
func plugged(t *testing.T, d *Deps, precision sdk.Options) {
	t.Helper()
	h := host.New(host.Options{Builtins: builtins, FlightDir: t.TempDir})
	var errs [3]error
	d.Backend, errs[0] = h.StartBackend(t.Context(), "tcp")
	d.Dataset, errs[1] = h.StartDataset(t.Context(), "synthetic")
	d.Precision, errs[2] = h.StartPrecision(t.Context(), "amp")
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	d.Settings.PrecisionOpts = precision
	d.Settings.BackendOptions, _ = sdk.CheckOptions("", d.Backend.Info().Options, nil)
}

// A steady step allocates nothing: not the loader, the plan, the hooks, the
// reducer, the ring to the plugins, the scaler, the optimizer or the events.
// Two ranks of this process share one heap, so the count is that of both.
func TestSteadyStepAllocatesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		precision sdk.Options
		change    func(*outline.Settings)
	}{
		"float32":                      {sdk.Options{"level": "O0"}, func(*outline.Settings) {}},
		"fp16, dynamic scale":          {sdk.Options{"dtype": "fp16"}, func(*outline.Settings) {}},
		"clipped, accumulated":         {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.Train.MaxNorm, s.Train.AccumulateSteps = 1, 2 }},
		"a bucket per parameter":       {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0 }},
		"without overlap, adam":        {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.DDP.Overlap, s.Optimizer = false, optim.DefaultFor("adam") }},
		"bf16 gradients on the way":    {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.DDP.Compress = "bf16" }},
		"told of uneven inputs":        {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.DDP.Uneven = "join" }},
		"unused parameters looked for": {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.DDP.FindUnusedParameters = true }},
		"factors of low rank":          {sdk.Options{"level": "O0"}, func(s *outline.Settings) { s.DDP.Compress, s.DDP.PowerSGDStart = "powersgd", 0 }},
		"could be recovered":           {sdk.Options{"dtype": "fp16"}, func(s *outline.Settings) { s.BackendRestarts = 1 }},
		"synchronised, recorded": {sdk.Options{"level": "O0"}, func(s *outline.Settings) {
			s.DDP.Compress, s.DDP.PredivideFactor, s.DDP.SyncBatchNorm, s.Timeline = "fp16", 2, true, true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			allocatesNothing(t, func(_ int, d *Deps) {
				plugged(t, d, c.precision)
				c.change(&d.Settings)
			})
		})
	}
}

// Nor do ranks on GPUs, over a driver that does nothing of what is enqueued.
func TestSteadyStepOnAGPUAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector every call into a library allocates")
	}
	cudatest.Libraries(t, 2)
	t.Setenv("CUDA_FAKE_NULL", "1")
	for name, change := range map[string]func(*outline.Settings){
		"float32":           func(*outline.Settings) {},
		"adam, clipped":     func(s *outline.Settings) { s.Optimizer = optim.DefaultFor("adam"); s.Train.MaxNorm = 1 },
		"a bucket for each": func(s *outline.Settings) { s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			allocatesNothing(t, func(rank int, d *Deps) {
				plugged(t, d, sdk.Options{"level": "O0"})
				d.Device = fakeGPU(t, rank)
				change(&d.Settings)
			})
		})
	}
}

// allocatesNothing trains two ranks of this process, and counts.
func allocatesNothing(t *testing.T, change func(rank int, d *Deps)) {
	t.Helper()
	const from, window, windows = 20, 60, 3
	const to = from + windows*window
	var now runtime.MemStats
	var mallocs [windows + 1]uint64
	watch := event.Func(func(r event.Record) {
		e, ok := r.Event.(*event.StepDone)
		if ok && r.Rank == 0 && e.Step >= from && (e.Step-from)%window == 0 {
			runtime.ReadMemStats(&now)
			mallocs[(e.Step-from)/window] = now.Mallocs
		}
	})
	errs := onRanks(t, 2, func(rank int, d *Deps) {
		s := &d.Settings
		s.Model = nn.Config{Name: "convnet"}
		s.DatasetOptions["shape"] = []int64{1, 12, 12}
		s.DatasetOptions["train_samples"] = int64(2 * 4 * 2 * to)
		s.Train.EvalEvery, s.Train.MaxSteps = 0, to
		s.BackendTimeout = 30 * time.Second
		change(rank, d)
		d.Events.Add(watch)
	}, trainToTheEnd)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	// One allocation in a rank's step would count 60 in every window. Those of
	// the runtime and of connections at rest, such as for a thread that is
	// started, come now and then: the quietest window tells.
	least := mallocs[1] - mallocs[0]
	for i := range windows {
		least = min(least, mallocs[i+1]-mallocs[i])
	}
	if mallocs[windows] == 0 || least >= window/10 {
		t.Errorf("at least %d allocations in each %d steps of two ranks, total %v", least, window, mallocs)
	}
}

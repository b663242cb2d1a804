package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/fault"
	"github.com/trainctl/trainctl/core/train/outline"
)

// Worker runs one rank until it ends. When ctx is cancelled the rank finishes its step
// together with the others, saves, and returns *train.Preempted, or Interrupted before
// its first step. Extra options replace parts of the wiring.
func Worker(ctx context.Context, o Options, extra ...fx.Option) error {
	rank.Moves() // before plugins are started
	run := func(o Options) error {
		return withRunner(o, extra, func(r *runner) error { return interrupted(ctx, r.tellPlugin(r.run(ctx))) })
	}
	if o.place.thread == nil {
		o.place = placeFromEnv()
	}
	o.Config = patient(o.Config, o.Builtins)
	if o.place.launched {
		return run(o)
	}
	e, err := newExternalRank(o)
	if err != nil {
		return err
	}
	o = e.o
	o.external = e
	return e.ended(run(o))
}

// tellPlugin emits which plugin the rank ends because of, and returns the error.
func (r *runner) tellPlugin(err error) error {
	if e := pluginFailed(err); e != nil {
		r.p.Bus.Emit(e)
	}
	return err
}

// pluginFailed returns what an error reports about a plugin whose process hangs or has
// died; nil for other errors.
func pluginFailed(err error) *event.PluginFailed {
	var failed *host.PluginError
	hung := errors.Is(err, host.ErrHung)
	if !errors.As(err, &failed) || !hung && !errors.Is(err, host.ErrDied) {
		return nil
	}
	return &event.PluginFailed{Type: string(failed.Kind), Name: failed.Name, PID: failed.PID, Operation: failed.Phase, Hung: hung, Cause: failed.Cause.Error()}
}

// Interrupted reports that a worker was stopped before its first step.
type Interrupted struct{}

func (Interrupted) Error() string { return "stopped before the first step, as requested" }

// ExitCode is the exit code of the program.
func (Interrupted) ExitCode() int { return launch.ExitTerminated }

// interrupted reports whether an error was caused by the end of ctx.
func interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, context.Canceled)) {
		return Interrupted{}
	}
	return err
}

// continues is the directory of the run whose checkpoint this one continues from, "" if
// there is none. After a restart Resume is no longer that run's.
func (o *Options) continues(fsys checkpoint.FS) string {
	if o.place.launched {
		return o.place.continues
	}
	return runOf(fsys, o.Resume)
}

// runOf is the directory of the run that a checkpoint belongs to, absolute.
func runOf(fsys checkpoint.FS, path string) string {
	if path == "" {
		return ""
	}
	d, ok := event.RunOf(fsys, path)
	if !ok {
		return ""
	}
	if abs, err := filepath.Abs(d.Path); err == nil {
		return abs
	}
	return d.Path
}

// withRunner builds a worker, uses it, and ends whatever it started.
func withRunner(o Options, extra []fx.Option, use func(*runner) error) (err error) {
	var r *runner
	ends := &teardown{}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, ends.run(ctx))
	}()
	w := newWiring()
	app := fx.New(fx.Invoke(w.check), modules(o), fx.Options(extra...), fx.Populate(&r), fx.WithLogger(func() fxevent.Logger { return w }),
		fx.Decorate(func(fx.Lifecycle) fx.Lifecycle { return ends }))
	if err := app.Err(); err != nil {
		return rootCause(err)
	}
	return guarded(r.p.Device, func() error { return use(r) })
}

// teardown replaces fx's lifecycle, which stops only what was started after everything
// was built: our constructors start processes, so their hooks must run even if a later
// constructor fails.
type teardown struct{ hooks []fx.Hook }

// Append implements fx.Lifecycle.
func (t *teardown) Append(h fx.Hook) {
	if h.OnStart != nil {
		panic("app: constructors start what they build by themselves")
	}
	t.hooks = append(t.hooks, h)
}

// run calls the hooks that stop what was started, the last first.
func (t *teardown) run(ctx context.Context) error {
	var errs []error
	for _, h := range slices.Backward(t.hooks) {
		if h.OnStop != nil {
			errs = append(errs, h.OnStop(ctx))
		}
	}
	return errors.Join(errs...)
}

// runner is a worker with all its parts.
type runner struct {
	p        runnerParts
	programs [3]int64 // for peakRSS
}

type runnerParts struct {
	fx.In

	Options   Options
	Config    *config.Config
	FS        checkpoint.FS
	Disk      *fault.Disk
	World     rank.World
	Secret    secret.Secret
	Store     joined
	Bus       *event.Bus
	Dir       RunDir
	Host      *host.Host
	Backend   *Starting[host.Collectives]
	Precision *Starting[host.Scaler]
	Dataset   *Starting[host.Batches]
	Layers    *Starting[*layerPlugins]
	Machine   Machine
	Device    *Starting[plan.Device]
	Saves     *checkpoint.Store
}

func newRunner(p runnerParts) *runner { return &runner{p: p} }

// deps waits for the plugins and the other ranks.
func (r *runner) deps(ctx context.Context) (d train.Deps, err error) {
	d = train.Deps{
		World: r.p.World, Events: r.p.Bus,
		Request: r.p.Options.Request, FS: r.p.FS, Store: r.p.Saves, PeakRSS: r.peakRSS,
	}
	d.Started = r.started()
	d.Secret = r.p.Secret.Key("data plane")
	if d.Backend, err = r.p.Backend.Get(ctx); err != nil {
		return d, err
	}
	if d.Dataset, err = r.p.Dataset.Get(ctx); err != nil {
		return d, err
	}
	if d.Precision, err = r.p.Precision.Get(ctx); err != nil {
		return d, err
	}
	if d.Device, err = r.p.Device.Get(ctx); err != nil {
		return d, err
	}
	layers, err := r.p.Layers.Get(ctx)
	if err != nil {
		return d, err
	}
	if r.p.Machine.Device == "cuda" {
		g := r.p.Machine.gpu(r.p.World)
		d.GPU = ddp.GPU{UUID: g.UUID, Name: g.Name}
	}
	dir := r.p.Dir
	if d.EvalOnly {
		dir.RunDir = event.RunDir{Path: r.p.Options.EvaluationDir}
	}
	if dir.Path != "" && r.p.World.Rank == 0 {
		d.WriteEvaluation = evaluationWriter(r.p.FS, dir.RunDir, d.EvalOnly)
	}
	store, err := r.p.Store.Get(ctx)
	if err != nil {
		return d, err
	}
	d.Gather = func(ctx context.Context, name string, mine []byte) ([][]byte, error) {
		return store.Gather(ctx, name, r.p.World.Rank, r.p.World.Size, mine)
	}
	if err := r.joinMembers(ctx, store, &d); err != nil {
		return d, err
	}
	d.Settings, err = settings(r.p.Config, d)
	if d.Members != nil {
		d.Settings.MaxWorld = r.p.World.Size
	}
	d.Settings.Model = layers.model(d.Settings.Model)
	return d, err
}

// joinMembers makes d that of a rank of an elastic job, if this is one.
func (r *runner) joinMembers(ctx context.Context, store *rank.Client, d *train.Deps) (err error) {
	if !r.p.Config.Launch.IsElastic() || r.p.World.Source != "trainctl" || r.p.World.Size <= 1 {
		return nil
	}
	if device := d.Device.Name(); device != "cpu" {
		return usererr.Errorf("launch.elastic", "remove it, or set run.device to \"cpu\"", "ranks on %s cannot leave one by one", device)
	}
	m := rank.NewMembers(store, r.p.World.Rank)
	if moves := rank.Moves(); moves != nil {
		m.Follow(moves)
	}
	_, err = m.Regroup(ctx, rank.Starting, nil)
	if d.Joins = errors.Is(err, rank.ErrLate); err != nil && !d.Joins {
		return err
	}
	d.Members, d.Gather = m, m.Gather
	if !d.Joins {
		d.World.Rank, d.World.Size = m.Rank(), m.Size()
	}
	d.Lead = func() (*checkpoint.Store, func() []event.PluginStarted, error) { return r.lead(*d) }
	if !d.Joins && m.Rank() == 0 && r.p.World.Rank != 0 { // the first node has died before the first step
		if d.Store, _, err = d.Lead(); err != nil {
			return err
		}
	}
	return nil
}

// withPorts gives a backend that listens between hosts (its option port_range)
// the ports of launch.port_range, unless it has some of its own.
func withPorts(info sdk.Info, c *config.Config, w rank.World) map[string]any {
	ports := c.Launch.Ports()
	_, given := c.Backend.Options["port_range"]
	takes := slices.ContainsFunc(info.Options, func(o sdk.Option) bool { return o.Name == "port_range" })
	if given || !takes || ports.Any() || w.LocalSize == w.Size {
		return c.Backend.Options
	}
	all := maps.Clone(c.Backend.Options)
	if all == nil {
		all = map[string]any{}
	}
	all["port_range"] = []any{int64(ports.First), int64(ports.Last)}
	return all
}

// lead makes this rank, of an elastic job that has lost all ranks before it, write what rank 0
// writes.
func (r *runner) lead(d train.Deps) (*checkpoint.Store, func() []event.PluginStarted, error) {
	if err := openRunFiles(r.p.Bus, &r.p.Dir, r.p.Options.place, r.p.Config, r.p.FS); err != nil {
		return nil, nil, err
	}
	saves, err := openSaves(checkpoint.TakeOver, r.p.Config, r.p.FS, r.p.Dir, r.p.Bus)
	if err != nil {
		return nil, nil, err
	}
	r.p.Saves = saves
	return saves, r.pluginRecord(d).wait, nil
}

// settings returns the tables of the configuration that the loop reads.
func settings(c *config.Config, d train.Deps) (outline.Settings, error) {
	s := outline.Settings{
		Run: c.Run, Train: c.Train, Sampler: c.Sampler, Model: c.Model, Optimizer: c.Optimizer, Schedule: c.Scheduler,
		DDP: c.DDP, Checkpoint: c.Checkpoint, Eval: c.Eval, Job: outline.Job{Timeline: c.Metrics.Timeline},
		Dataset: c.Dataset.Plugin, Backend: d.Backend.Info().Name, BackendTimeout: c.Backend.Timeout, BackendInit: c.Backend.InitTimeout,
		BackendRestarts: c.Backend.Restarts, Plans: plansFor(d.Device.Name()),
		Resolved: outline.Resolved{Text: string(c.Resolved()), Common: c.Common()},
	}
	var all usererr.List
	check := func(table string, info sdk.Info, given map[string]any) sdk.Options {
		opts, problems := sdk.CheckOptions(table, info.Options, given)
		all = append(all, problems...)
		return opts
	}
	if !d.EvalOnly { // an evaluation has no backend to check them against
		s.BackendOptions = check("backend.options", d.Backend.Info(), withPorts(d.Backend.Info(), c, d.World))
	}
	if !d.EvalOnly {
		s.Shares = sharesOf(c)
	}
	s.PrecisionOpts = check("precision.options", d.Precision.Info(), c.Precision.Options)
	s.DatasetOptions = check("dataset.options", d.Dataset.Info(), c.Dataset.Options)
	return s, all.Err()
}

// sharesOf are the shares of the ranks in the samples of a step.
func sharesOf(c *config.Config) outline.Shares {
	return outline.Shares{Auto: c.Launch.Shares.IsAuto(), Weights: c.Launch.Shares.Weights()}
}

// plansFor returns the plan options that suit a device. On CPUs, recomputing cheap activations
// takes as long as reading them from memory.
func plansFor(device string) outline.Plans {
	p := outline.Plans{Recompute: recomputeOff(device) == ""}
	if device != "cuda" {
		p.BF16From, p.Converts, p.NormFunctions = cpu.BF16From(), cpu.Converts, true
	}
	return p
}

// recomputeOff says, for people, why plans for a device recompute no activations.
func recomputeOff(device string) string {
	if device == "cuda" {
		return `it has not been measured on GPUs; train.recompute = "blocks" saves memory`
	}
	return ""
}

// rootCause removes fx's description of constructors from an error.
func rootCause(err error) error { return dig.RootCause(err) }

func (r *runner) started() time.Time {
	if at := r.p.Options.place.started; !at.IsZero() {
		return at
	}
	return r.p.Options.Started
}

func (r *runner) run(ctx context.Context) error {
	setup, cancel := context.WithTimeoutCause(ctx, r.p.Config.Backend.InitTimeout,
		fmt.Errorf("the job was not ready within backend.init_timeout = %v", r.p.Config.Backend.InitTimeout))
	defer cancel()
	d, err := r.deps(setup)
	if err != nil {
		return r.refuse(train.Late(setup, err))
	}
	r.seePrograms()
	beforeStep(&d, 1, r.seePrograms)
	if err := r.injectFaults(&d); err != nil {
		return r.refuse(err)
	}
	layers, _ := r.p.Layers.Get(ctx) // deps has waited for them
	defer r.watchPlugins(r.p.Bus, d.Dataset, d.Precision, layers)()
	if d.World.Rank == 0 && !d.Joins {
		plugins := r.pluginRecord(d)
		d.Plugins = plugins.wait
		beforeStep(&d, 2, plugins.inBackground)
		defer plugins.wait()
	}
	if r.p.Options.place.thread == nil { // the process is the rank's own
		beforeStep(&d, 1, pages.Ready)
		beforeStep(&d, 2, pages.Settle)
	}
	processors := r.useIdleCores()
	t, err := train.Setup(ctx, d)
	processors()
	switch {
	case errors.Is(err, rank.ErrOver):
		r.p.Bus.Emit(&event.RankDone{})
		return nil
	case err != nil:
		return r.refuse(err)
	}
	if err := t.Run(ctx); err != nil {
		return err
	}
	if err := r.summarize(context.WithoutCancel(ctx), t); err != nil {
		return err
	}
	if err := t.Vacate(); err != nil { // the run has succeeded regardless
		r.p.Bus.Emit(&event.Warning{Source: "device", Message: "closing the device: " + err.Error()})
	}
	return nil
}

// beforeStep adds a call of f to what d does before a rank's n-th step.
func beforeStep(d *train.Deps, n int, f func()) {
	before, steps := d.BeforeStep, 0
	d.BeforeStep = func(step int) error {
		if steps++; steps == n {
			f()
		}
		if before == nil {
			return nil
		}
		return before(step)
	}
}

// writeWeights writes the trained weights where the caller of the run reads them.
func (r *runner) writeWeights(weights []tensor.Named) error {
	if r.p.Options.Weights == "" {
		return nil
	}
	return durable.Write(r.p.FS, r.p.Options.Weights, func(w io.Writer) error { return safetensors.Write(w, weights, nil) })
}

// RunRank runs the rank that this process is: Worker with the signals of a batch system and the end
// of the launcher. The rank stops at the end of a step when it is signalled to end, so that all ranks
// save together; before the first step there is nothing to save.
func RunRank(ctx context.Context, o Options) error {
	launch.WatchLifeline(nil)
	stops := launch.StopSignals()
	if o.SaveAsked = countSignals(launch.SaveSignal); o.Config.Launch.Requeue {
		stops = append(stops, launch.SaveSignal)
	}
	ctx, stop := signal.NotifyContext(ctx, stops...)
	defer stop()
	o.ResumeAuto = o.Resume == "auto"
	return Worker(ctx, o)
}

// countSignals catches a signal from now on and counts how often it came.
func countSignals(s os.Signal) func() int64 {
	var n atomic.Int64
	c := make(chan os.Signal, 1)
	signal.Notify(c, s)
	go func() {
		for range c {
			n.Add(1)
		}
	}()
	return n.Load
}

// summarize writes summary.json on rank 0, and reports that the rank is done.
func (r *runner) summarize(ctx context.Context, t *train.Trainer) error {
	if r.p.Saves != nil {
		if err := r.p.Saves.Close(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.p.Config.Backend.InitTimeout)
	defer cancel()
	s, err := t.Summary(ctx)
	if err != nil {
		return err
	}
	if t.TimelineOn() {
		r.timeline(ctx, t.World, t.Timeline())
	}
	if t.World.Rank == 0 {
		if err := r.writeWeights(t.Weights()); err != nil {
			return err
		}
		if store, err := r.p.Store.Get(ctx); err == nil {
			s.Comm.StoreMessages = store.Messages()
		}
		s.Continues = r.p.Options.continues(r.p.FS)
		if err := event.WriteSummary(r.p.FS, r.p.Dir.Summary(), s); err != nil {
			return err
		}
	}
	r.p.Bus.Emit(&event.RankDone{Step: s.Steps})
	if t.World.Rank == 0 {
		done := event.RunDone{Status: s.Status, Step: s.Steps, Loss: float64(s.Train.Loss), Accuracy: -1, TotalS: float64(s.Time.TotalS), Message: r.p.Dir.Path}
		if s.Eval != nil && s.Eval.Accuracy != nil {
			done.Accuracy = float64(*s.Eval.Accuracy)
		}
		r.p.Bus.Emit(&done)
	}
	return nil
}

// evaluationWriter writes evaluations in detail into a run's directory, or alone into any folder.
func evaluationWriter(fsys afero.Fs, dir event.RunDir, alone bool) func(*event.Evaluation) error {
	if alone {
		return func(e *event.Evaluation) error { return dir.ExportEvaluation(fsys, e) }
	}
	return func(e *event.Evaluation) error { return dir.WriteEvaluation(fsys, e) }
}

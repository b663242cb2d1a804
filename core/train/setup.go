package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/metric"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/recovery"
	"github.com/trainctl/trainctl/core/train/replica"
	"github.com/trainctl/trainctl/core/train/report"
	"github.com/trainctl/trainctl/core/train/update"
)

// LoaderSlots is how many batches a rank has room for: those that are read
// ahead, and the one that a step is reading.
func LoaderSlots(c data.Config) int { return max(1, c.Prefetch) + 1 }

// Setup makes a rank ready for its first step: it opens the plugins, makes the plan, shares its
// memory, joins the other ranks, and gives all of them the same weights. Opening the data has its
// own time limit; everything after it, on all ranks, has Settings.BackendInit.
func Setup(ctx context.Context, d Deps) (*Trainer, error) {
	t := &Trainer{Deps: d}
	t.recovery = recovery.New(runState{t}, t.newProcessGroup(), d.Settings.BackendTimeout)
	t.enter("plugins")
	if err := t.openPlugins(ctx); err != nil {
		return nil, err
	}
	parent := ctx
	ctx, cancel := t.limited(ctx)
	defer cancel()
	prepare := t.prepare
	if t.Joins {
		prepare = t.prepareToJoin
	}
	if err := prepare(ctx); err != nil {
		return nil, Late(ctx, err)
	}
	if t.Joins {
		return t, t.enterRun(parent)
	}
	return t, nil
}

// prepare does what comes after the plugins were opened.
func (t *Trainer) prepare(ctx context.Context) error {
	t.enter("plan")
	if err := t.makePlan(); err != nil {
		return err
	}
	t.enter("rendezvous")
	if err := t.rendezvous(ctx); err != nil {
		return err
	}
	t.enter("buckets")
	if err := t.tune(ctx); err != nil {
		return err
	}
	if err := t.publishPlan(ctx); err != nil {
		return err
	}
	t.enter("weights")
	return t.loadWeights(ctx)
}

// enter reports the phase that the run is in from now on.
func (t *Trainer) enter(phase string) { t.Events.Emit(&event.PhaseChanged{Phase: phase}) }

// limited bounds the time of everything that does not wait for data.
func (t *Trainer) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := t.Settings.BackendInit
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the job was not ready within backend.init_timeout = %v", limit))
}

// Late adds to an error which time limit the set-up reached, if it reached one.
func Late(setup context.Context, err error) error {
	if cause := context.Cause(setup); errors.Is(setup.Err(), context.DeadlineExceeded) && !errors.Is(err, cause) {
		return fmt.Errorf("%w; %w", err, cause)
	}
	return err
}

// openPlugins configures the three plugins at the same time: the data set may
// have files to read. It returns when all ranks have, so that a rank that only
// waits for another one's data does not run out of its own time.
func (t *Trainer) openPlugins(ctx context.Context) error {
	if err := t.openOwn(ctx); err != nil {
		return err
	}
	if !t.Joins {
		if _, err := t.Gather(ctx, "opened", []byte{1}); err != nil {
			return fmt.Errorf("waiting for the data sets of all ranks: %w", err)
		}
	}
	return t.checkPlugins()
}

func (t *Trainer) openOwn(ctx context.Context) error {
	quick, cancel := t.limited(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, cancel)()
	g.Go(func() (err error) {
		t.spec, err = t.Dataset.Open(ctx, sdk.DatasetRequest{
			Options: t.Settings.DatasetOptions, Rank: t.World.Rank, LocalRank: t.World.LocalRank, WorldSize: t.World.Size, Seed: t.Settings.Run.Seed,
		})
		return err
	})
	g.Go(func() error { // opening the data may take long, waiting for a rank may not
		if t.Joins {
			return nil
		}
		_, err := t.Gather(quick, "started", []byte{1})
		return Late(quick, err)
	})
	g.Go(func() (err error) {
		t.policy, err = t.Precision.Policy(quick, t.Settings.PrecisionOpts)
		return Late(quick, err)
	})
	g.Go(func() error {
		if t.Joins { // its group is not known yet
			return nil
		}
		return Late(quick, t.recovery.Group.OpenBackend(quick))
	})
	if err := g.Wait(); err != nil {
		return err
	}
	t.Events.Emit(&event.DatasetOpened{
		Plugin: t.Settings.Dataset, Source: t.spec.Source, Notice: t.spec.Notice,
		TrainSamples: t.spec.TrainSamples, TestSamples: t.spec.TestSamples, Fingerprint: t.spec.Fingerprint, Validation: t.spec.Validation,
		Classes: fewNames(t.spec.ClassNames),
	})
	return nil
}

// fewNames returns the names of classes for an event: all, or none if they are too long.
func fewNames(names []string) []string {
	size := 0
	for _, n := range names {
		size += len(n) + len(`"",`)
	}
	if size > event.MaxClassBytes {
		return nil
	}
	return names
}

// newProcessGroup is the group that the backends of all ranks will form.
func (t *Trainer) newProcessGroup() *recovery.ProcessGroup {
	s := &t.Settings
	return &recovery.ProcessGroup{
		Backend: t.Backend, Gather: t.Gather, Events: t.Events, Options: s.BackendOptions, InitTimeout: s.BackendInit, Restarts: s.BackendRestarts, Members: t.Members, Node: t.World.NodeRank,
		Open: sdk.Group{
			JobID: t.World.RunID, Secret: t.Secret, Generation: t.World.RestartCount,
			Rank: t.World.Rank, WorldSize: t.World.Size, LocalRank: t.World.LocalRank, LocalSize: t.World.LocalSize,
			Timeout: s.BackendTimeout, MasterAddr: t.World.MasterAddr, Device: t.GPU.UUID, Channels: ddp.Channels(s.DDP),
		},
	}
}

func (t *Trainer) checkPlugins() error {
	b := t.Backend.Info()
	if t.Settings.Run.Deterministic && t.World.Size > 1 && b.Determinism != "bitwise" {
		return usererr.Errorf("run.deterministic", "set it to false to use this backend", "backend %q does not guarantee bitwise reproducible runs", b.Name)
	}
	if t.policy.Dynamic && t.Settings.DDP.Compress == "powersgd" {
		return usererr.Errorf("ddp.compress", "use a precision with a constant scale, such as bf16",
			"\"powersgd\" adds the compression error of a step to the next one, and precision %q changes the loss scale in between", t.policy.Name)
	}
	if t.Settings.DDP.Local() && (t.policy.Dynamic || t.policy.Params.Half()) {
		return usererr.Errorf("ddp.sync_every", "set it to 1, or use a precision with float32 weights and a constant scale, such as amp with dtype = \"bf16\"",
			"averages need weights in float32 and the same loss scale on all ranks, and precision %q has half weights or changes the scale", t.policy.Name)
	}
	if t.Settings.Run.DType == "f64" && (t.policy.Params != tensor.F32 || t.policy.Lower != tensor.Invalid) {
		return usererr.Errorf("run.dtype", "use \"f32\", or no precision plugin", "\"f64\" is for reference curves and cannot be combined with precision %q", t.policy.Name)
	}
	return nil
}

// makePlan plans the run and lays out the memory that the rank shares.
func (t *Trainer) makePlan() (err error) {
	begin := time.Now()
	if t.outline, err = outline.New(t.Settings, t.spec, &t.policy, t.World.Size, t.World.Rank); err != nil {
		return err
	}
	o := t.outline
	if err := outline.CheckBackend(t.Backend.Info(), t.World.Size, t.Device.Name(), o.Calls(t.Settings.DDP)); err != nil {
		return err
	}
	if err := op.CheckDevice(o.Graph, t.Device.Name()); err != nil {
		return err
	}
	if err := outline.CheckShard(&t.Settings, &t.policy, t.Device.Name(), t.World.Size); err != nil {
		return err
	}
	if err := t.allocate(); err != nil {
		return err
	}
	if err := t.equip(); err != nil {
		return err
	}
	replica.WarnMissing(t.Device, t.Events)
	t.report.Planning = time.Since(begin)
	slots := LoaderSlots(t.Settings.Sampler)
	t.feed()
	rows := o.Rows()
	if t.EvalOnly {
		rows = max(rows, t.evalBatch())
	}
	if err := t.Dataset.Prepare(slots, rows); err != nil {
		return err
	}
	if slots, ok := t.Dataset.(interface{ Memory() []byte }); ok {
		t.device.Pin(slots.Memory())
	}
	return nil
}

// feed makes the feeder of the outline's batches.
func (t *Trainer) feed() {
	o := t.outline
	loader := data.NewLoader(t.Dataset, LoaderSlots(t.Settings.Sampler), o.Division.Rows(t.World.Rank), t.Settings.Run.Seed)
	t.feeder = data.NewFeeder(loader, o.Sampler, o.Division, t.device.Dev)
	t.feeder.Trace(t.trace)
	t.passes.Feeder = t.feeder
}

// allocate makes the memory of the rank, with the model in it, and what shares it.
func (t *Trainer) allocate() (err error) {
	if t.memory, err = replica.NewMemory(t.outline.Layout); err != nil {
		return err
	}
	if !t.EvalOnly {
		pages.Populate(t.memory.Arena.Bytes())
	}
	t.model.Network, t.model.Graph = t.Settings.Model.Name, t.outline.Graph
	t.model.Values = t.memory.State(t.model.Graph.StateDict(), t.outline.Plan.StateSpecs())
	t.group = ddp.NewGroup(t.World.Rank, t.World.Size, t.Backend, t.memory.Arena, t.memory.Scratch)
	t.recovery.Group.Arena, t.recovery.Group.Device, t.recovery.Sequence = t.memory.Arena, &t.device, t.group
	t.assemble()
	if dev, ok := t.Device.(plan.Resident); ok {
		share := t.World.Size > 1 && !t.EvalOnly && t.Backend.Info().DeviceArena
		if err := t.device.Open(dev, share, t.Settings.DDP.Compress != "none"); err != nil {
			return err
		}
		t.passes.Overlap()
	}
	if t.memory.Norms.Size > 0 {
		t.passes.Exchange = t.device.Exchange(ddp.NewExchange(t.group, t.memory.Norms))
	}
	return nil
}

// assemble makes the parts of the loop, as far as they do not depend on buckets.
func (t *Trainer) assemble() {
	s, rank, world := &t.Settings, t.World.Rank, t.World.Size
	t.device = replica.Device{Memory: &t.memory, Backend: t.Backend, Events: t.Events}
	t.passes = passes.Passes{
		Cfg: s.Train, Accumulate: t.outline.Division.Accumulate, Seed: s.Run.Seed, Rank: rank, Model: &t.model, Device: &t.device,
		Programs: passes.Programs{Settings: s, Outline: t.outline, Policy: &t.policy, Device: t.Device, Model: &t.model, World: world},
	}
	t.join = join{cfg: s.DDP, rank: rank, world: world, events: t.Events}
	t.agreement = agreement.New(t.group, t.recovery)
	threads, _ := t.Device.(plan.Sharer)
	t.updater = update.Updater{
		Threads: threads,
		MaxNorm: s.Train.MaxNorm, Diverged: update.Divergence{Limit: s.Train.MaxSkips},
		Scaler: update.Scaler{Plugin: t.Precision, Dynamic: t.policy.Dynamic, Scale: t.policy.Scale},
	}
	t.replication = replica.Replication{
		Rank: rank, World: world, Group: t.group, Memory: &t.memory, Model: &t.model, Device: &t.device,
		Feedback: replica.Feedback{Rank: rank, World: world, Group: t.group, Memory: &t.memory, Device: &t.device},
		Shards:   replica.Shards{Rank: rank, Group: t.group, Memory: &t.memory, Model: &t.model},
	}
	t.replication.Averaging = replica.NewAveraging(s.DDP, t.group, &t.memory, &t.model, &t.device)
	t.passes.Local = s.DDP.Local()
	t.shares = newShares(s.Shares.Auto && world > 1)
	t.saver = newSaver(s.Checkpoint, t.SaveAsked)
	t.saver.early.cfg = s.Train.EarlyStop
	t.report = report.Report{
		Events: t.Events, Started: t.Started, Classes: t.spec.Classes > 0, Scaled: t.policy.Dynamic || t.policy.Scale != 1,
		MaxSkips: s.Train.MaxSkips, Metrics: report.Metrics{}, Tokens: t.spec.Tokens(), TestBytes: t.spec.TestBytes, Chosen: s.Eval,
	}
	t.passes.Counter = metric.New(s.Eval, &t.spec, world, rank)
}

// equip makes everything that depends on where gradients lie.
func (t *Trainer) equip() error {
	o := t.outline
	t.reducer = ddp.NewReducer(t.group, t.Settings.DDP, o.Gradients, o.Buckets, t.memory.Buckets, t.memory.Wire)
	if !t.passes.Local && !t.policy.Params.Half() && t.policy.Lower != tensor.F16 {
		t.reducer.DivideLoss()
	}
	t.passes.Connect(t.reducer)
	t.replication.Feedback.Reducer = t.reducer
	if t.memory.Usage.Size > 0 {
		t.reducer.FindUnused(t.memory.Usage)
		t.updater.Optional = o.Plan.Optional()
	}
	t.model.Grads = t.reducer.Gradients(o.Gradients)
	if err := t.bind(); err != nil {
		return err
	}
	if t.Settings.DDP.Sharded(t.World.Size) && !t.EvalOnly {
		t.replication.Shards.Divide(o)
		if info := t.Backend.Info(); !t.Settings.WholeGradients() && t.Settings.DDP.CanScatter(&info, o.Buckets) {
			t.reducer.Scatter()
		}
	}
	if err := t.updater.Build(&t.Settings, o, &t.model, &t.policy, &t.replication.Shards); err != nil {
		return err
	}
	return t.device.Connect(t.reducer, t.updater.Optimizer)
}

// bind makes the programs of the run.
func (t *Trainer) bind() error {
	evaluation := 0
	if t.Settings.Train.EvalEvery > 0 || t.EvalOnly {
		evaluation = len(t.evalIndices())
	}
	return t.passes.Programs.Bind(t.shapes(), evaluation, t.evalBatch())
}

// shapes are the sizes of this rank's batches in the rest of the epoch, and in a whole
// one, whose first is the first of the result.
func (t *Trainer) shapes() []int {
	o, world, rank := t.outline, t.World.Size, t.World.Rank
	whole := o.Division.Shapes(o.Sampler.End(0, o.Division.Step), world, rank)
	return append(whole, o.Division.Shapes(o.Sampler.End(t.pos.Offset, o.Division.Step)-t.pos.Offset, world, rank)...)
}

// planMade reports the plan, and allocates the statistics of its steps.
func (t *Trainer) planMade() {
	p, n := t.outline.Plan, t.outline.Steps
	t.report.Stats = report.NewStats(n)
	params := 0
	for _, q := range t.model.Graph.Params() {
		params += q.Shape.Elems()
	}
	mem := p.Memory(t.Device)
	copies := t.outline.CopyBytes()
	t.Events.Emit(&event.PlanMade{
		Parameters: int64(params), Buckets: t.reducer.Buckets(), BytesPerStep: int64(t.outline.BytesPerStep(t.Settings.DDP)),
		MemoryBytes: int64(mem.Params + mem.Grads + copies + mem.Buffers + mem.Activations + mem.Workspace), PlanSteps: len(p.Steps()),
		Epochs: t.Settings.Train.Epochs, StepsPerEpoch: t.outline.StepsPerEpoch, Steps: n, LogFreq: t.Settings.Train.LogFreq, TookMS: event.Millis(t.report.Planning),
	})
}

// rendezvous connects the backends and makes sure that all ranks agree. Models, data and
// configurations are compared before any collective, because a collective over different models
// could only hang or corrupt.
func (t *Trainer) rendezvous(ctx context.Context) error {
	err := ddp.Agree(t.replica(), t.Settings.Run.AllowSharedDevice, func(name string, mine []byte) ([][]byte, error) {
		return t.Gather(ctx, name, mine)
	})
	if err != nil {
		return err
	}
	return t.recovery.Group.Form(ctx, t.pos.Step+1)
}

func (t *Trainer) replica() ddp.Replica {
	r := ddp.Replica{
		Build: t.Build, Config: t.Settings.Common, Device: t.Device.Name(), GPU: t.GPU, Policy: fmt.Sprintf("%+v", t.policy),
		Dataset: fmt.Sprintf("%s (%d + %d samples, %s)", t.Settings.Dataset, t.spec.TrainSamples, t.spec.TestSamples, t.spec.Fingerprint),
	}
	specs := t.outline.Plan.StateSpecs()
	for i, e := range t.model.Graph.StateDict() {
		r.State = append(r.State, ddp.Item(e.Name, specs[i]))
	}
	return r
}

// Vacate releases the device: programs, copies, and pinned memory, which must not be
// unmapped before. A backend that shares the copy is closed. Nothing can be run after.
func (t *Trainer) Vacate() error {
	err := t.passes.Programs.Close()
	return errors.Join(err, t.device.Close())
}

// Close frees the rank's shared memory. The backend must be closed before.
func (t *Trainer) Close() error {
	if t.memory.Arena == nil {
		return nil
	}
	return errors.Join(t.feeder.Stop(), t.Vacate(), t.memory.Arena.Close())
}

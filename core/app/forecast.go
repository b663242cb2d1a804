package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/forecast"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
)

// ForecastOptions configure a forecast.
type ForecastOptions struct {
	Config   *config.Config // checked
	Builtins []host.Builtin
	Host     *host.Host // starts plugins given by a path
	// OpenData allows opening a data set that is given by a path: only then does it
	// report its shape, but it may read or download a lot.
	OpenData bool
}

// Forecast returns what a run of the configuration would do. It opens data only with
// OpenData: built-in plugins answer within this process, and a precision plugin that
// is given by a path is started to get its policy.
func Forecast(ctx context.Context, o ForecastOptions) (*forecast.Report, error) {
	f := newForecaster(ctx, o)
	defer f.close()
	if err := f.plan(ctx); err != nil {
		return nil, err
	}
	return f.report()
}

// plan asks the data set for its shape and the precision plugin for its policy.
func (f *forecaster) plan(ctx context.Context) (err error) {
	if f.spec, err = f.dataset(ctx); err != nil {
		return err
	}
	if f.policy, err = f.precision(ctx); err != nil {
		return err
	}
	if err := f.outlineOf(ctx); err != nil {
		return err
	}
	if err := f.checkInit(ctx); err != nil {
		return err
	}
	return f.backend(ctx)
}

func (f *forecaster) outlineOf(ctx context.Context) (err error) {
	c := f.cfg
	if f.layerPlugins, err = openLayerPlugins(ctx, f.host, c, nil); err != nil {
		return err
	}
	f.layerPlugins.each(func(c *host.LayerPluginConfig, l *host.Layers) { f.uses(sdk.KindLayer, c.Plugin, l.Info()) })
	f.settings = outline.Settings{Optimizer: c.Optimizer, Run: c.Run, Train: c.Train, Sampler: c.Sampler, Model: f.layerPlugins.model(c.Model), DDP: c.DDP, Eval: c.Eval, Plans: plansFor(f.machine.Device), Job: outline.Job{Shares: sharesOf(c)}}
	f.outline, err = outline.New(f.settings, f.spec, &f.policy, f.world, 0)
	return err
}

// backend compares what the plan needs from the backend with what the backend offers.
func (f *forecaster) backend(ctx context.Context) error {
	name := Backend(f.cfg)
	info, err := f.host.Describe(ctx, sdk.KindBackend, name)
	if err != nil {
		return err
	}
	f.uses(sdk.KindBackend, name, info)
	if err := op.CheckDevice(f.outline.Graph, f.machine.Device); err != nil {
		return err
	}
	if err := outline.CheckShard(&f.settings, &f.policy, f.machine.Device, f.world); err != nil {
		return err
	}
	return outline.CheckBackend(info, f.world, f.machine.Device, f.outline.Calls(f.cfg.DDP))
}

// newForecaster counts the ranks that a configuration starts here and
// elsewhere. A missing device on this machine does not prevent planning.
func newForecaster(ctx context.Context, o ForecastOptions) *forecaster {
	c := o.Config
	f := &forecaster{cfg: c, builtins: o.Builtins, host: o.Host.WithTerms(c.Terms()), openData: o.OpenData}
	var err error
	if f.machine, err = Survey(ctx, c.Run.Device); err != nil {
		f.machine.Device = c.Run.Device
		f.warnings = append(f.warnings, err.Error())
	}
	f.nproc = c.Launch.Nproc(len(f.machine.GPUs), cgroup.Cores())
	f.world = f.nproc * max(1, c.Launch.Nnodes.Int())
	return f
}

type forecaster struct {
	cfg      *config.Config
	builtins []host.Builtin
	host     *host.Host
	openData bool
	machine  Machine
	warnings []string
	nproc    int
	world    int
	spec     sdk.DatasetSpec
	policy   sdk.Policy
	settings outline.Settings
	outline  *outline.Outline
	plugins  []forecast.Plugin
	init     []string // what comes from model.init

	layerPlugins *layerPlugins // nil before outlineOf, and without any
}

// close ends the layer plugins, which compute as long as the outline is used.
func (f *forecaster) close() { _ = f.layerPlugins.Close(context.Background()) }

// builtin finds a built-in plugin, and adds it to the report.
func (f *forecaster) builtin(kind sdk.Kind, name string) (*sdk.Plugin, sdk.Info, error) {
	for _, b := range f.builtins {
		if b.Kind == kind && b.Name == name {
			info, err := b.Plugin.Info(kind)
			f.uses(kind, name, info)
			return &b.Plugin, info, err
		}
	}
	return nil, sdk.Info{}, fmt.Errorf("%s plugin %q is not built in", kind, name)
}

func (f *forecaster) uses(kind sdk.Kind, name string, info sdk.Info) {
	f.plugins = append(f.plugins, forecast.Plugin{Kind: string(kind), Name: name, Version: info.Version, Path: f.host.PathOf(kind, name)})
}

func (f *forecaster) dataset(ctx context.Context) (sdk.DatasetSpec, error) {
	if !f.host.BuiltIn(sdk.KindDataset, f.cfg.Dataset.Plugin) {
		return f.opened(ctx)
	}
	p, info, err := f.builtin(sdk.KindDataset, f.cfg.Dataset.Plugin)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	opts, problems := sdk.CheckOptions("dataset.options", info.Options, f.cfg.Dataset.Options)
	if err := problems.Err(); err != nil {
		return sdk.DatasetSpec{}, err
	}
	d, ok := p.Dataset().(sdk.DatasetDescriber)
	if !ok {
		return sdk.DatasetSpec{}, fmt.Errorf("dataset plugin %q does not report the shape of its data before it is opened", info.Name)
	}
	if err := host.CheckValidation(info, f.cfg.Dataset.Validation); err != nil {
		return sdk.DatasetSpec{}, err
	}
	spec, err := d.Describe(opts)
	if err = usererr.Under("dataset.options", err); err == nil && f.cfg.Dataset.Validation > 0 {
		err = host.HoldOut(&spec, f.cfg.Dataset.Validation)
	}
	return spec, err
}

// opened starts a data set's plugin and opens it as rank 0 would.
func (f *forecaster) opened(ctx context.Context) (spec sdk.DatasetSpec, err error) {
	c := f.cfg
	if !f.openData {
		return spec, usererr.List{{Key: "dataset.plugin",
			Detail: fmt.Sprintf("%q reports the shape of its data only when it opens the data, and plan does not open it", c.Dataset.Plugin),
			Help:   `trainctl plan --open-data opens it; or plan with dataset.plugin = "synthetic" of the same shape`}}.Err()
	}
	d, err := f.host.StartDataset(ctx, c.Dataset.Plugin)
	if err != nil {
		return spec, err
	}
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	f.uses(sdk.KindDataset, c.Dataset.Plugin, d.Info())
	d.Timeout, d.Validation = c.Dataset.Timeout, c.Dataset.Validation
	opts, problems := sdk.CheckOptions("dataset.options", d.Info().Options, c.Dataset.Options)
	if err := problems.Err(); err != nil {
		return spec, err
	}
	return d.Open(ctx, sdk.DatasetRequest{Options: opts, WorldSize: f.world, Seed: c.Run.Seed})
}

func (f *forecaster) precision(ctx context.Context) (sdk.Policy, error) {
	name := f.cfg.Precision.Plugin
	if !f.host.BuiltIn(sdk.KindPrecision, name) {
		return f.started(ctx, name)
	}
	p, info, err := f.builtin(sdk.KindPrecision, name)
	if err != nil {
		return sdk.Policy{}, err
	}
	return f.policyOf(ctx, host.InProcessPrecision(p.Precision()), info)
}

// started starts a precision plugin and gets its policy.
func (f *forecaster) started(ctx context.Context, path string) (policy sdk.Policy, err error) {
	p, err := f.host.StartPrecision(ctx, path)
	if err != nil {
		return policy, err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	f.uses(sdk.KindPrecision, path, p.Info())
	return f.policyOf(ctx, p, p.Info())
}

type policer interface {
	Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error)
}

func (f *forecaster) policyOf(ctx context.Context, p policer, info sdk.Info) (sdk.Policy, error) {
	opts, problems := sdk.CheckOptions("precision.options", info.Options, f.cfg.Precision.Options)
	if err := problems.Err(); err != nil {
		return sdk.Policy{}, err
	}
	return p.Policy(ctx, opts)
}

func (f *forecaster) report() (*forecast.Report, error) {
	c, o := f.cfg, f.outline
	hostname, _ := os.Hostname()
	r := &forecast.Report{
		Name: c.Run.Name, Config: c.Path,
		World: forecast.World{
			Ranks: f.world, PerNode: f.nproc, Nodes: max(1, c.Launch.Nnodes.Int()), Device: f.machine.Device, DeviceReason: f.machine.Why,
			Threads: c.Launch.Threads(f.nproc, cgroup.Cores()), Host: fmt.Sprintf("%s, %d cores", hostname, cgroup.Cores()),
		},
		Batch: forecast.Batch{PerRank: o.Batch, Accumulate: o.Division.Accumulate, Global: o.Division.Step},
		Steps: forecast.Steps{PerEpoch: o.StepsPerEpoch, Epochs: c.Train.Epochs, Total: o.Steps},
		Dataset: forecast.Dataset{
			Plugin: c.Dataset.Plugin, TrainSamples: f.spec.TrainSamples, TestSamples: f.spec.TestSamples,
			Input: f.spec.Input.String(), Target: f.spec.Target.String(),
		},
		Init: f.init, Optimizer: c.Optimizer.String(), Schedule: c.Scheduler.String(),
		Precision: f.policy.Properties, Plugins: f.plugins, Warnings: f.warnings,
	}
	if o.Plan.KeptFloat32 {
		r.Precision = append(r.Precision, [2]string{"computed in", "float32: this processor has no bfloat16 products, so storing bfloat16 would take time and save little memory"})
	}
	if o.Division.Shares != nil {
		r.Batch.Shares = o.Division.Shares.Whole()
	}
	if o.LastBatch != o.Batch {
		r.Steps.LastBatch = o.LastBatch
	}
	f.layers(r)
	f.buckets(r)
	f.gradients(r)
	f.memory(r)
	return r, nil
}

// layers lists the model's layers with their FLOPs for one sample.
func (f *forecaster) layers(r *forecast.Report) {
	g, p := f.outline.Graph, f.outline.Plan
	flops := map[string]int64{}
	for _, s := range p.Steps() {
		r.Totals.FLOPs += s.FLOPs
		if !s.Again {
			flops[s.Layer+" "+string(op.Plain(s.Op))] += s.FLOPs
		}
	}
	before := g.Input()
	for _, n := range g.Forward() {
		if op.Of(n.Op).Loss {
			continue
		}
		l := forecast.Layer{
			Name: n.Layer, Type: string(n.Op), Output: outputOf(g, &n), Inputs: inputsOf(g, &n, before),
			FLOPs: flops[n.Layer+" "+string(n.Op)] / int64(p.Batch),
		}
		before = n.Out[0]
		for _, in := range n.In {
			if in != graph.None && g.Values[in].Kind == graph.Parameter {
				l.Parameters += g.Shape(in).Elems()
			}
		}
		r.Layers = append(r.Layers, l)
		r.Totals.Parameters += l.Parameters
	}
	for _, b := range g.Buffers() {
		r.Totals.Buffers += b.Spec.Shape.Elems()
	}
}

// outputOf is the shape of a node's output, or all shapes if it has several outputs.
func outputOf(g *graph.Graph, n *graph.Node) string {
	s := g.Shape(n.Out[0]).String()
	if op.Of(n.Op).Parts {
		for _, id := range n.Out[1:] {
			s += " " + g.Shape(id).String()
		}
	}
	return s
}

// inputsOf names the layers that a node reads, nil where that is only the layer before.
func inputsOf(g *graph.Graph, n *graph.Node, before graph.ValueID) (names []string) {
	for _, id := range n.In {
		if id != graph.None && (g.Values[id].Kind == graph.Activation || g.Values[id].Kind == graph.Input) {
			names = append(names, g.Values[id].Name)
		}
	}
	if len(names) == 1 && n.In[0] == before {
		return nil
	}
	return names
}

func (f *forecaster) buckets(r *forecast.Report) {
	o := f.outline
	for i, b := range o.Buckets {
		r.Buckets = append(r.Buckets, forecast.Bucket{
			Index: i, Parameters: len(b.Params), Bytes: int64(b.Bytes),
			First: o.Gradients[b.Params[0]].Name, Last: o.Gradients[b.Params[len(b.Params)-1]].Name,
		})
		r.Traffic.GradientBytes += int64(b.Bytes)
	}
	r.Caps = forecast.Caps{First: o.CapsMB[0], Rest: o.CapsMB[1], Auto: f.cfg.DDP.BucketCapMB.IsAuto()}
	r.Traffic.WireBytes = int64(o.BytesPerStep(f.cfg.DDP))
	if f.cfg.DDP.Local() {
		r.Traffic.SyncEvery, r.Traffic.AverageBytes = f.cfg.DDP.SyncEvery, int64(o.AverageBytes())
	}
	r.Traffic.LayerBytes = f.layerPlugins.stepBytes(o.Batch, o.Plan.DType) * int64(o.Division.Accumulate)
	r.Traffic.NormBytes = int64(o.NormBytes() * o.Division.Accumulate)
	r.Traffic.RingBytes = forecast.RingBytes(r.Traffic.WireBytes, f.world)
	if f.world > 1 {
		r.Traffic.SharedBytes = r.Traffic.WireBytes * int64(f.world)
	}
}

// gradients finds the buckets of each layer's gradients.
func (f *forecaster) gradients(r *forecast.Report) {
	o := f.outline
	bucket, size := map[string]int{}, map[string]int64{}
	for i, b := range o.Buckets {
		for _, p := range b.Params {
			g := o.Gradients[p]
			bucket[g.Name], size[g.Name] = i, int64(g.Bytes())
		}
	}
	r.Gradients = map[string]forecast.Gradients{}
	for _, n := range o.Graph.Forward() {
		own := r.Gradients[n.Layer]
		for _, in := range n.In {
			if in == graph.None || o.Graph.Values[in].Kind != graph.Parameter {
				continue
			}
			name := o.Graph.Values[in].Name
			if i, ok := bucket[name]; ok {
				own.Bytes += size[name]
				own.Buckets = append(own.Buckets, i)
			}
		}
		slices.Sort(own.Buckets)
		own.Buckets = slices.Compact(own.Buckets)
		r.Gradients[n.Layer] = own
	}
}

func (f *forecaster) memory(r *forecast.Report) {
	m := f.outline.Memory(cpu.NewParallel(f.cfg.Launch.Threads(f.nproc, cgroup.Cores())))
	copies := f.outline.CopyBytes()
	r.Memory = forecast.Memory{
		Parameters: int64(m.Params), Gradients: int64(m.Grads + copies), Buffers: int64(m.Buffers),
		Activations: int64(m.Activations), Workspace: int64(m.Workspace), Kept: int64(m.Kept), Recomputed: int64(m.Again),
		Optimizer:    f.optimizerBytes(),
		RecomputeOff: recomputeOff(f.machine.Device),
		Batches:      int64(max(1, f.cfg.Sampler.Prefetch)+1) * int64(f.outline.Rows()) * int64(f.spec.Input.Bytes()+f.spec.Target.Bytes()),
	}
}

// optimizerBytes is the size of the optimizer's state and master weights, of the rank that has most of them.
func (f *forecaster) optimizerBytes() int64 {
	elem := 4
	if f.outline.Plan.DType.Size() == 8 {
		elem = 8
	}
	each := elem * optim.StateTensors(f.cfg.Optimizer.Under(f.cfg.Scheduler))
	if f.policy.MasterWeights {
		each += 4
	}
	if f.cfg.DDP.Outer == ddp.OuterNesterov {
		each += 2 * elem // the weights at the beginning of a round, and momentum
	}
	most := 0
	for rank := range f.world {
		most = max(most, f.outline.Owned(rank))
	}
	return int64(most * each)
}

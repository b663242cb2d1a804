package app

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/cpu"
	"github.com/trainctl/trainctl/core/forecast"
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/optim"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
)

// Forecast says what a run of the configuration would do. It starts nothing
// and opens no data: built-in plugins answer within this process, and a plugin
// that is given by a path cannot be asked.
func Forecast(ctx context.Context, c *config.Config, builtins []host.Builtin) (*forecast.Report, error) {
	f := newForecaster(ctx, c, builtins)
	if err := f.plan(ctx); err != nil {
		return nil, err
	}
	return f.report()
}

// plan asks the data set for its shape and the precision plugin for its policy.
func (f *forecaster) plan(ctx context.Context) (err error) {
	if f.spec, err = f.dataset(); err != nil {
		return err
	}
	if f.policy, err = f.precision(ctx); err != nil {
		return err
	}
	c := f.cfg
	s := train.Settings{Run: c.Run, Train: c.Train, Sampler: c.Sampler, Model: c.Model, DDP: c.DDP}
	f.outline, err = train.NewOutline(s, f.spec, &f.policy, f.world, 0)
	return err
}

// newForecaster counts the ranks that a configuration starts here and
// elsewhere. A device that this machine lacks keeps nobody from a plan.
func newForecaster(ctx context.Context, c *config.Config, builtins []host.Builtin) *forecaster {
	f := &forecaster{cfg: c, builtins: builtins}
	var err error
	if f.machine, err = Survey(ctx, c.Run.Device); err != nil {
		f.machine.Device = c.Run.Device
		f.warnings = append(f.warnings, err.Error())
	}
	f.nproc = c.Launch.Nproc(len(f.machine.GPUs), runtime.NumCPU())
	f.world = f.nproc * max(1, c.Launch.Nnodes.Int())
	return f
}

type forecaster struct {
	cfg      *config.Config
	builtins []host.Builtin
	machine  Machine
	warnings []string
	nproc    int
	world    int
	spec     sdk.DatasetSpec
	policy   sdk.Policy
	outline  *train.Outline
	plugins  []forecast.Plugin
}

// builtin finds a plugin of the executable, and notes it for the report.
func (f *forecaster) builtin(kind sdk.Kind, name string) (*sdk.Plugin, sdk.Info, error) {
	for _, b := range f.builtins {
		if b.Kind == kind && b.Name == name {
			info, err := b.Plugin.Info(kind)
			f.plugins = append(f.plugins, forecast.Plugin{Kind: string(kind), Name: name, Version: info.Version})
			return &b.Plugin, info, err
		}
	}
	f.plugins = append(f.plugins, forecast.Plugin{Kind: string(kind), Name: name, Path: name})
	return nil, sdk.Info{}, fmt.Errorf("%s plugin %q is not built in, and plan starts nothing: it cannot be asked; try the plan with a built-in plugin of the same shape, such as dataset.plugin = \"synthetic\"", kind, name)
}

func (f *forecaster) dataset() (sdk.DatasetSpec, error) {
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
		return sdk.DatasetSpec{}, fmt.Errorf("dataset plugin %q does not say its shape before it is opened", info.Name)
	}
	return d.Describe(opts)
}

func (f *forecaster) precision(ctx context.Context) (sdk.Policy, error) {
	p, info, err := f.builtin(sdk.KindPrecision, f.cfg.Precision.Plugin)
	if err != nil {
		return sdk.Policy{}, err
	}
	opts, problems := sdk.CheckOptions("precision.options", info.Options, f.cfg.Precision.Options)
	if err := problems.Err(); err != nil {
		return sdk.Policy{}, err
	}
	return p.Precision().Policy(ctx, opts)
}

func (f *forecaster) report() (*forecast.Report, error) {
	c, o := f.cfg, f.outline
	if _, _, err := f.builtin(sdk.KindBackend, Backend(c)); err != nil && !host.IsPath(Backend(c)) {
		return nil, err
	}
	hostname, _ := os.Hostname()
	r := &forecast.Report{
		Name: c.Run.Name, Config: c.Path,
		World: forecast.World{
			Ranks: f.world, PerNode: f.nproc, Nodes: max(1, c.Launch.Nnodes.Int()), Device: f.machine.Device, DeviceReason: f.machine.Why,
			Threads: c.Launch.Threads(f.nproc, runtime.NumCPU()), Host: fmt.Sprintf("%s, %d cores", hostname, runtime.NumCPU()),
		},
		Batch: forecast.Batch{PerRank: o.Batch, Accumulate: c.Train.AccumulateSteps, Global: o.Batch * f.world * c.Train.AccumulateSteps},
		Steps: forecast.Steps{PerEpoch: o.StepsPerEpoch, Epochs: c.Train.Epochs, Total: o.Steps},
		Dataset: forecast.Dataset{
			Plugin: c.Dataset.Plugin, TrainSamples: f.spec.TrainSamples, TestSamples: f.spec.TestSamples,
			Input: f.spec.Input.String(), Target: f.spec.Target.String(),
		},
		Optimizer: c.Optimizer.String(), Schedule: c.Scheduler.String(),
		Precision: f.policy.Properties, Plugins: f.plugins, Warnings: f.warnings,
	}
	if o.LastBatch != o.Batch {
		r.Steps.LastBatch = o.LastBatch
	}
	f.layers(r)
	f.buckets(r)
	f.memory(r)
	return r, nil
}

// layers lists the model's layers with what they compute for one sample.
func (f *forecaster) layers(r *forecast.Report) {
	g, p := f.outline.Graph, f.outline.Plan
	flops := map[string]int64{}
	for _, s := range p.Steps() {
		r.Totals.FLOPs += s.FLOPs
		op := s.Op
		if op == plan.SyncBatchNormOp {
			op = graph.BatchNormOp
		}
		flops[s.Layer+" "+string(op)] += s.FLOPs
	}
	for _, n := range g.Forward() {
		if n.Op.Loss() {
			continue
		}
		l := forecast.Layer{
			Name: n.Layer, Type: string(n.Op), Output: g.Shape(n.Out[0]).String(),
			FLOPs: flops[n.Layer+" "+string(n.Op)] / int64(p.Batch),
		}
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
	wire, _ := o.WireBytes()
	r.Traffic.WireBytes = int64(wire)
	r.Traffic.NormBytes = int64(o.NormBytes() * f.cfg.Train.AccumulateSteps)
	r.Traffic.RingBytes = forecast.RingBytes(r.Traffic.WireBytes, f.world)
	if f.world > 1 {
		r.Traffic.SharedBytes = r.Traffic.WireBytes * int64(f.world)
	}
}

func (f *forecaster) memory(r *forecast.Report) {
	m := f.outline.Plan.Memory(cpu.NewParallel(f.cfg.Launch.Threads(f.nproc, runtime.NumCPU())))
	_, copies := f.outline.WireBytes()
	r.Memory = forecast.Memory{
		Parameters: int64(m.Params), Gradients: int64(m.Grads + copies), Buffers: int64(m.Buffers),
		Activations: int64(m.Activations), Workspace: int64(m.Workspace),
		Optimizer: f.optimizerBytes(),
		Batches:   int64(max(1, f.cfg.Sampler.Prefetch)+1) * int64(f.outline.Batch) * int64(f.spec.Input.Bytes()+f.spec.Target.Bytes()),
	}
}

// optimizerBytes counts state and master copies.
func (f *forecaster) optimizerBytes() (n int64) {
	elem := 4
	if f.outline.Plan.DType.Size() == 8 {
		elem = 8
	}
	for _, q := range f.outline.Graph.Params() {
		if !q.RequiresGrad {
			continue
		}
		n += int64(q.Shape.Elems() * elem * optim.StateTensors(f.cfg.Optimizer))
		if f.policy.MasterWeights {
			n += int64(q.Shape.Elems() * 4)
		}
	}
	return n
}

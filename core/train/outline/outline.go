package outline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Outline is everything about a rank's training that follows from the
// configuration and the shape of the data: what `trainctl plan` prints, and
// what Setup builds on.
type Outline struct {
	Batch         int // maximum number of samples per rank and micro-step
	Division      data.Division
	Weigh         bool // samples have equal weight, whatever the ranks' shares are
	LastBatch     int  // rows of rank 0's last micro-step of an epoch
	StepsPerEpoch int
	Steps         int // of the whole run

	Graph     *graph.Graph
	Plan      *plan.Plan // of a full training batch
	Eval      *plan.Plan // of a full evaluation batch; nil where nothing is evaluated
	Gradients []ddp.Gradient
	shards    int // ranks that divide the optimizer's work; 1: each does all
	Buckets   []ddp.Bucket
	CapsMB    [2]float64 // of the first bucket and of the others
	Layout    Layout
	Sampler   *data.Sampler
}

// New plans a rank of a world for data of the given shape. It starts
// nothing and allocates no training memory.
func New(s Settings, spec sdk.DatasetSpec, policy *sdk.Policy, world, rank int) (*Outline, error) {
	o := &Outline{}
	var err error
	if o.Division, err = s.divide(world); err != nil {
		return nil, err
	}
	if o.Sampler, err = data.NewSampler(s.Sampler, s.Run.Seed, spec.TrainSamples, world, rank); err != nil {
		return nil, err
	}
	if err = o.count(s, world); err != nil {
		return nil, err
	}
	if o.Graph, err = nn.Build(s.Model, spec.Input, spec.Target, spec.Classes); err != nil {
		return nil, usererr.Under("model", err)
	}
	if err = freeze(o.Graph, s.Optimizer); err != nil {
		return nil, err
	}
	if err = s.Eval.Check(&spec); err != nil {
		return nil, err
	}
	if err = checkVocabulary(o.Graph, spec.Vocabulary); err != nil {
		return nil, err
	}
	if o.Plan, err = s.Compile(o.Graph, policy, o.Batch, true, world); err != nil {
		return nil, err
	}
	if n := len(data.EvalShard(spec.TestSamples, world, rank)); n > 0 && s.Train.EvalEvery > 0 {
		if o.Eval, err = s.Compile(o.Graph, policy, min(n, s.Train.EvalRows(o.Batch)), false, world); err != nil {
			return nil, err
		}
	}
	o.Gradients = gradients(o.Graph, o.Plan)
	if o.shards = 1; s.DDP.Sharded(world) {
		o.shards = world
	}
	room := 0
	if s.DDP.BucketCapMB.IsAuto() {
		room = o.bucketRoom(s.DDP)
	}
	o.Fill(&s.DDP, func() ddp.Pace { return forecastPace(o.Plan, len(o.Gradients)) })
	o.Layout = newLayout(s.DDP, o, room)
	o.Layout.add(max(world, s.MaxWorld), o.Plan.Exchanges())
	return o, o.addUsage(s.DDP, world)
}

// Regroup changes the outline to that of a rank in another world, with the memory that there
// is: micro-batches do not grow.
func (o *Outline) Regroup(s Settings, spec sdk.DatasetSpec, world, rank int) (err error) {
	s.Train = s.Train.within(o.Plan.Batch)
	if o.Division, err = s.divide(world); err != nil {
		return err
	}
	if o.Sampler, err = data.NewSampler(s.Sampler, s.Run.Seed, spec.TrainSamples, world, rank); err != nil {
		return err
	}
	return o.count(s, world)
}

// freeze takes the parameters of frozen groups out of training. A group without parameters
// is an error: a pattern may be misspelt.
func freeze(g *graph.Graph, c optim.Config) error {
	counts, trained := make([]int, len(c.Groups)), 0
	for i := range g.Params() {
		group := c.Group(g.NamesOf(i)...)
		if group >= 0 {
			if counts[group]++; c.Groups[group].Freeze {
				g.Freeze(i)
			}
		}
		if g.Params()[i].RequiresGrad {
			trained++
		}
	}
	if i := slices.Index(counts, 0); i >= 0 {
		return usererr.Errorf(fmt.Sprintf("optimizer.groups[%d].match", i), "`trainctl plan` lists the layers; a parameter belongs to the first group that matches it",
			"no parameter, or layer with parameters, that is in no group before it is named %q", c.Groups[i].Match)
	}
	if trained == 0 && len(counts) > 0 {
		return usererr.Errorf("optimizer.groups", "remove freeze from one", "every parameter is frozen; nothing is left to train")
	}
	return nil
}

// checkVocabulary returns an error if an embedding of the model's input has fewer rows than the
// data set has tokens: some batch would fail, perhaps after hours.
func checkVocabulary(g *graph.Graph, vocabulary int) error {
	for _, n := range g.Forward() {
		if n.Op != op.Embedding || n.In[0] != g.Input() {
			continue
		}
		if rows := g.Shape(n.In[1])[0]; rows < vocabulary {
			return usererr.Errorf("model", fmt.Sprintf("set its num_embeddings, or the vocabulary of the model, to %d or more", vocabulary),
				"the embedding %q has %d rows, but the data set has tokens from 0 to %d", n.Layer, rows, vocabulary-1)
		}
	}
	return nil
}

// addUsage reserves memory for the flags of the parameters that a step has used. It
// returns an error if the model needs them and ddp.find_unused_parameters is off: the
// other ranks would wait for a rank that leaves out a branch. A single rank needs no setting.
func (o *Outline) addUsage(cfg ddp.Config, world int) error {
	optional := o.Plan.Optional()
	if cfg.FindUnusedParameters || world == 1 && len(optional) > 0 {
		o.Layout.Usage = ddp.Region{Offset: o.Layout.Size, Size: ddp.UsageBytes(len(o.Gradients))}
		o.Layout.Size += o.Layout.Usage.Size
		return nil
	}
	if len(optional) == 0 {
		return nil
	}
	names := make([]string, len(optional))
	for i, p := range optional {
		names[i] = o.Gradients[p].Name
	}
	return usererr.Errorf("ddp.find_unused_parameters", "set it to true, or layerdrop to 0",
		"these parameters may get no gradient in a step, because layerdrop leaves their layers out: %s", strings.Join(names, ", "))
}

// Memory is what the programs of the run need. They never run at the same time, so they
// share it.
func (o *Outline) Memory(dev plan.Device) plan.Memory {
	m := o.Plan.Memory(dev)
	if o.Eval != nil {
		e := o.Eval.Memory(dev)
		m.Activations, m.Workspace = max(m.Activations, e.Activations), max(m.Workspace, e.Workspace)
	}
	return m
}

// Rows is the maximum number of samples in a batch of the run.
func (o *Outline) Rows() int {
	if o.Eval != nil {
		return max(o.Batch, o.Eval.Batch)
	}
	return o.Batch
}

// CopyBytes is the additional memory of buckets that are sent in another form than their
// gradients have.
func (o *Outline) CopyBytes() (n int) {
	for i, w := range o.Layout.Wire {
		if w != o.Layout.Buckets[i] {
			n += w.Size
		}
	}
	return n
}

// AverageBytes is what a rank contributes to an average of the weights of all ranks (ddp.sync_every).
func (o *Outline) AverageBytes() (n int) {
	for _, b := range o.Buckets {
		n += b.Bytes
	}
	specs := o.Plan.StateSpecs()
	for i, e := range o.Graph.StateDict() {
		if e.Buffer && specs[i].DType.Float() {
			n += specs[i].Bytes()
		}
	}
	return n
}

// BytesPerStep is what a rank contributes to the reductions of a step: of its gradients, or with
// ddp.sync_every on average of its weights.
func (o *Outline) BytesPerStep(cfg ddp.Config) int {
	if cfg.Local() {
		return o.AverageBytes() / cfg.SyncEvery
	}
	return cfg.BytesPerStep(o.Gradients, o.Buckets)
}

// NormBytes is what synchronised batch norms exchange in a micro-step.
func (o *Outline) NormBytes() (n int) {
	for _, k := range o.Plan.Exchanges() {
		n += 8 * k
	}
	return n
}

// count determines batches and steps, equal on all ranks. The last step of an
// epoch may have fewer micro-steps than the others.
func (o *Outline) count(s Settings, world int) error {
	c, n, least := s.Train, o.Sampler.LenOf(0), o.Sampler.LenOf(world-1)
	d := &o.Division
	if d.Shares == nil {
		d.Micro = min(d.Micro, n)
	}
	o.Batch, o.Weigh = d.Micro, (c.GlobalBatch > 0 || s.Shares.On()) && s.DDP.Uneven == ddp.UnevenError
	batches, fewest := (n+o.Batch-1)/o.Batch, (least+o.Batch-1)/o.Batch
	if batches != fewest && s.DDP.Uneven == ddp.UnevenError && !o.Weigh {
		return fmt.Errorf("%d samples without padding give rank 0 %d batches of an epoch and rank %d %d; set ddp.uneven = %q or %q, sampler.pad = %q, or train.global_batch instead of per_rank_batch",
			o.Sampler.Total(), batches, world-1, fewest, ddp.UnevenJoin, ddp.UnevenStop, data.PadRepeat)
	}
	if !o.Weigh && d.Step%world != 0 {
		return usererr.Errorf("train.global_batch", fmt.Sprintf("use a multiple of %d, or ddp.uneven = %q", world, ddp.UnevenError),
			"%d samples do not divide evenly among %d ranks, as ddp.uneven = %q needs", d.Step, world, s.DDP.Uneven)
	}
	total := o.Sampler.End(0, d.Step)
	if s.DDP.Uneven == ddp.UnevenStop {
		total = min(total, fewest*o.Batch*world)
	}
	o.StepsPerEpoch = (total + d.Step - 1) / d.Step
	last, rows := d.Share(total-(o.StepsPerEpoch-1)*d.Step, world, 0), d.Rows(0)
	o.LastBatch = (last-1)%rows + 1
	o.Steps = o.StepsPerEpoch * c.Epochs
	if o.Steps == 0 || c.MaxSteps > 0 && c.MaxSteps < o.Steps {
		o.Steps = c.MaxSteps
	}
	return nil
}

// gradients describes the trained parameters for bucketing.
func gradients(g *graph.Graph, p *plan.Plan) []ddp.Gradient {
	specs := p.GradSpecs()
	gs := make([]ddp.Gradient, len(specs))
	for i, s := range specs {
		gs[i] = ddp.Gradient{Name: g.Params()[i].Name, DType: s.DType, Shape: s.Shape}
	}
	return gs
}

package plan

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Options fix what a graph leaves open.
type Options struct {
	Batch  int              // samples per step, at least 1
	Train  bool             // backward pass, batch statistics, dropout
	DType  tensor.DType     // F32 or F64; Invalid means F32
	Policy *contract.Policy // nil: everything in DType

	// SyncBatchNorm makes every batch norm that trains normalise over all ranks'
	// batches (torch.nn.SyncBatchNorm): its steps call Args.Exchange.
	SyncBatchNorm bool

	Fuse bool // merge operations and reuse buffers in place; off is for finding mistakes

	// NormFunctions lets batch norms compute the function of one element behind them ([op.NormOp]), on
	// devices that implement this. It changes no result.
	NormFunctions bool

	// Recompute recomputes values in backward instead of keeping them from forward,
	// where the memory that this saves is worth the time. It changes no result.
	Recompute bool

	// RecomputeBlocks keeps only what one block of layers passes to the next, and runs
	// the blocks again in backward, where that saves memory. It changes no result.
	RecomputeBlocks bool

	// Output makes a plan without the loss: what the model computes from the samples is a
	// tensor of the State behind those of the state dict, and there are no targets.
	Output bool

	// Logits makes a plan for evaluation that also gives the model's output: a tensor of the
	// State behind those of the state dict, as with Output.
	Logits bool

	// Positions makes a plan with Output that computes so many positions of one sample in a
	// run, those from Args.Position on. Behind the output the State has what the layers keep
	// of earlier positions.
	Positions int

	// BF16From keeps in float32 what Policy would lower to bfloat16 if all activations are then
	// fewer bytes than this: for a device that computes in float32 anyway, where storing halves costs time.
	BF16From int

	// Converts reports the operations that a device computes in float32 from and to tensors of a half type
	// just as well: casts next to them, whose result nothing else reads, are left out. Nil is none.
	// It changes no result.
	Converts func(graph.Op) bool
}

// Plan is a compiled graph. It is read-only; programs are bound from it.
type Plan struct {
	Batch int
	Train bool
	DType tensor.DType // of the kernels that compute wide: F32 or F64

	KeptFloat32 bool // because of [Options.BF16From]

	graph      *graph.Graph // nil for a plan of Parts
	branches   []graph.Branch
	steps      []Step
	state      []tensor.Spec
	grads      []tensor.Spec
	names      names
	gradOrder  []int
	backward   int   // index of the first step of backward
	arena      arena // activations
	use        arenaUse
	stats      Operand
	input, tgt tensor.Spec
	elements   bool // the loss counts elements of targets
	most       int  // positions of a sample, in a plan of some; 0 in others
}

// Compile lowers g. The graph is differentiated if it is not yet and Train asks
// for it. Errors name the layer or parameter: an operation the policy bans, a
// trained parameter that gets no gradient, a type the plan cannot compute in.
func Compile(g *graph.Graph, opt Options) (*Plan, error) {
	if opt.DType == tensor.Invalid {
		opt.DType = tensor.F32
	}
	if err := opt.check(); err != nil {
		return nil, err
	}
	if err := order(g, opt.Train); err != nil {
		return nil, err
	}
	if p, err := keepFloat32(g, opt); p != nil || err != nil {
		return p, err
	}
	return lowered(g, opt)
}

// keepFloat32 is the plan without bfloat16, nil where [Options.BF16From] does not keep it.
func keepFloat32(g *graph.Graph, opt Options) (*Plan, error) {
	if opt.BF16From == 0 || opt.Policy == nil || opt.Policy.Lower != tensor.BF16 || opt.Policy.Params.Half() {
		return nil, nil
	}
	policy := *opt.Policy
	policy.Lower, opt.Policy = tensor.Invalid, &policy
	p, err := lowered(g, opt)
	if err != nil || p.ArenaBytes() >= opt.BF16From {
		return nil, err
	}
	p.KeptFloat32 = true
	return p, nil
}

// lowered is the plan as the policy says.
func lowered(g *graph.Graph, opt Options) (*Plan, error) {
	switch {
	case !opt.Train:
	case opt.RecomputeBlocks:
		return leanestBlocks(g, opt)
	case opt.Recompute:
		return leanest(g, opt)
	}
	return compile(g, opt, effort{})
}

func compile(g *graph.Graph, opt Options, again effort) (*Plan, error) {
	l := newLowering(g, opt)
	if err := l.divide(); err != nil {
		return nil, err
	}
	if err := l.lower(); err != nil {
		return nil, err
	}
	if err := l.checkBranches(); err != nil {
		return nil, err
	}
	if opt.Fuse {
		l.fuse()
		l.splitHead()
	}
	l.recompute(again)
	if opt.Fuse {
		l.keepSlopes()
	}
	l.completions()
	arena, use := l.place()
	p := &Plan{
		Batch: opt.Batch, Train: opt.Train, DType: opt.DType, graph: g, branches: g.Branches(), steps: l.finish(),
		state: append(l.stateSpecs(), l.extra...), names: namesOf(g), arena: arena, use: use, stats: l.operand(l.home[g.Stats()], false),
		input: l.at(g.Input()), tgt: l.at(g.Target()),
	}
	if opt.Output {
		p.tgt = tensor.Spec{}
	}
	if opt.Output || opt.Logits {
		p.names.state = append(p.names.state, l.extraNames...)
	}
	if opt.Positions > 0 {
		p.most = g.Shape(g.Input())[0]
	}
	p.grads = l.gradSpecs()
	p.gradOrder = gradOrder(p.steps)
	p.backward, p.elements = firstBackward(p.steps), countsElements(p.steps)
	return p, nil
}

// countsElements reports whether the steps' loss counts elements of the targets, not rows.
func countsElements(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { d := op.Of(s.Op); return d != nil && d.Elements })
}

func (o Options) check() error {
	if o.Batch < 1 {
		return fmt.Errorf("plan: a batch of %d samples", o.Batch)
	}
	if o.DType != tensor.F32 && o.DType != tensor.F64 {
		return fmt.Errorf("plan: cannot compute in %v, only in f32 or f64 (half types come from the precision policy)", o.DType)
	}
	if o.Train && (o.Output || o.Logits) || o.Output && o.Logits || o.Positions > 0 && (!o.Output || o.Batch != 1) {
		return fmt.Errorf("plan: options contradict each other: %+v", o)
	}
	if p := o.Policy; p != nil && o.DType == tensor.F64 && (p.Params.Half() || p.Lower.Valid()) {
		return fmt.Errorf("plan: precision %q lowers types, but the run computes in f64: use precision none", p.Name)
	}
	return nil
}

// Graph is what the plan was compiled from; nil for one of Parts.
func (p *Plan) Graph() *graph.Graph { return p.graph }

// Steps are the plan's operations in the order they run. Read only.
func (p *Plan) Steps() []Step { return p.steps }

// GradOrder lists parameter indices in the order in which their gradients
// become complete, the order in which OnGrad is called. Nil without Train.
func (p *Plan) GradOrder() []int { return p.gradOrder }

// StateSpecs are the types and shapes that State.Tensors must have, in
// state-dict order: the model's own copy, half where the policy says so.
func (p *Plan) StateSpecs() []tensor.Spec { return p.state }

// GradSpecs are the types and shapes that State.Grads must have, by parameter.
func (p *Plan) GradSpecs() []tensor.Spec { return p.grads }

// ArenaBytes is the memory for activations and their gradients, without workspace.
func (p *Plan) ArenaBytes() int { return p.arena.size }

// Stats is where the loss reports: three float64 in the arena.
func (p *Plan) Stats() Operand { return p.stats }

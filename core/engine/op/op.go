package op

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Definition is what there is to know about one operation.
type Definition struct {
	Name graph.Op // of the forward step, and the type of the layer if Build is there
	Doc  string   // one line for users and developers

	// Keys are the arguments of a layer besides type and name, in the order of
	// documentation. Check finds what is wrong with several of them at once.
	Keys  []Key
	Check func(a Args, l *usererr.List)

	// Build adds a layer to a graph: it declares parameters and applies the
	// operation to x. Nil where users do not write the operation.
	Build func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error)

	// Join takes the place of Build for a layer that may read several others,
	// between Inputs[0] and Inputs[1] of them. Parts says that the layer's outputs
	// are used one by one, as NAME.0, NAME.1 and so on.
	Join   func(s *Site, a Args, in []graph.ValueID) (graph.ValueID, error)
	Inputs [2]int
	Parts  bool

	// Outputs is the shape rule: the outputs' specifications, of one sample where
	// batched. An absent input is a zero Value. Nil for what only plans have.
	Outputs func(in []graph.Value, attr any) ([]graph.Value, error)

	// Gradient appends the nodes that differentiate one; what they read of its
	// inputs and outputs is what is kept for them. Nil: there is nothing to differentiate.
	Gradient graph.Rule

	// Positions is how positions are computed a few at a time. Nil: all are needed at once.
	Positions Positions

	// Steps are what a device has to implement, the forward one first; none where
	// nothing is computed.
	Steps []Step

	Loss      bool                    // ends a forward pass; its output is what it reports
	Criterion func(o LossOptions) any // the attribute of a loss that has settings; nil: it has none
	Elements  bool                    // a loss that counts elements of the output, not rows
	Random    bool                    // draws numbers
	CPUOnly   bool                    // no other device implements it: a program's own, or a plugin's
	Renames   Renames                 // when the output is the input under another name
	Autocast  Class                   // in torch.autocast's lists
	Apex      Class                   // in those of apex's O1
	Norm      Norm                    // what is particular to normalisations over the batch
	Pointwise Pointwise               // what is particular to functions of one element
}

// Step is one operation of a plan.
type Step struct {
	Op graph.Op

	// Cost counts floating point operations, a multiplication and an addition as
	// two. An absent operand is a zero Spec. Bytes follow from the operands.
	Cost func(in, out []tensor.Spec) int64

	// Stated is the cost where the operands do not tell it but the attribute does; nil: Cost holds.
	Stated func(attr any, batch int) int64

	// InPlace lists the inputs whose memory the first output may take if nothing
	// reads them later; in evaluation only, if EvalInPlace.
	InPlace     []int
	EvalInPlace bool

	// Over lists further outputs that may take the memory of an input if nothing reads it later:
	// pairs of an output and an input.
	Over [][2]int

	// Mixed: parameters, their gradients and statistics may be float32 beside half activations.
	Mixed bool

	// AnyLayout: images may have their channels last. All images of the step lie alike.
	AnyLayout bool

	// Exchange is what the step exchanges with other ranks; nil: nothing.
	Exchange *Exchange

	// Again is how backward recomputes the first output, where it is not kept
	// since forward; zero: it is always kept.
	Again Again
}

// Again is a step that recomputes the first output of another one, with the same
// bits, in about the time of a pass over memory. It has the attributes of the other step, and
// all of its outputs if it is the same operation, otherwise one.
type Again struct {
	Op graph.Op
	In []int // what it reads of the other step: input i, or as ^i output i

	// Gradient: Op takes the place of the step's gradient. It reads what that reads, and
	// recomputes the output as its own second one.
	Gradient bool

	// Short reports of a step's inputs whether Op takes about the time of a pass over memory, where
	// that depends on them; nil: it always does.
	Short func(in []tensor.Spec) bool
}

// Exchange is a vector of float64 that a step works out together with the same
// step on the other ranks.
type Exchange struct {
	Gather bool // all ranks' vectors are wanted, not their sum
	Len    func(in, out []tensor.Spec) int
}

// Renames specifies when an operation only renames its input.
type Renames uint8

// The cases of Renames.
const (
	Never        Renames = iota
	InEvaluation         // training computes
	Always
)

// Class is an operation's entry in the lists of a precision policy.
type Class uint8

// The classes of operations.
const (
	Any     Class = iota // in the type that its inputs have
	Lower                // in the half type
	Full                 // in float32
	Promote              // in the widest type of its inputs
)

// Norm has the additional properties of a normalisation over the batch.
type Norm struct {
	Float32     bool                       // keep_batchnorm_fp32 is about its tensors
	EvalOutputs int                        // outputs in evaluation, the first ones; 0: all
	CheckTrain  func(x tensor.Shape) error // whether a batch x can be trained with
	Synced      map[graph.Op]graph.Op      // its steps over the batches of all ranks
	Frozen      func(attr any) graph.Op    // the step that trains with the running statistics; "": the batch's are used
}

// The registry. Programs add operations of their own while others train, hence the lock.
var (
	lock        sync.RWMutex
	definitions = map[graph.Op]*Definition{} // by name
	steps       = map[graph.Op]*Step{}
	owners      = map[graph.Op]*Definition{} // by name and step
	keys        = map[string]Key{}           // one of each name, of layers
)

// define enters a definition; each file calls it from init. Two operations of
// one name, or two keys of one name and different kinds, panic.
func define(d Definition) {
	if err := Register(d); err != nil {
		panic("op: " + err.Error())
	}
}

// Register enters a definition. Two operations of one name, or two keys of layers with one name and
// different kinds, are an error; nothing is entered then.
func Register(d Definition) error {
	lock.Lock()
	defer lock.Unlock()
	for _, name := range append([]graph.Op{d.Name}, d.stepNames()...) {
		if owners[name] != nil {
			return fmt.Errorf("there is an operation %s already", name)
		}
	}
	for _, k := range d.Keys {
		if first, ok := keys[k.Name]; ok && first.Kind != k.Kind {
			return fmt.Errorf("the key %s of %s is %v, but that of another operation is %v", k.Name, d.Name, k.Kind, first.Kind)
		}
	}
	definitions[d.Name], owners[d.Name] = &d, &d
	for i := range d.Steps {
		steps[d.Steps[i].Op], owners[d.Steps[i].Op] = &d.Steps[i], &d
	}
	d.enterKeys()
	return nil
}

// enterKeys enters the keys of a layer.
func (d *Definition) enterKeys() {
	for _, k := range d.Keys {
		if d.isLayer() {
			keys[k.Name] = k
		}
	}
}

// Remove takes out a definition of a program's own that nothing uses any more.
func Remove(name graph.Op) {
	lock.Lock()
	defer lock.Unlock()
	d := definitions[name]
	if d == nil {
		return
	}
	delete(definitions, name)
	for _, step := range append(d.stepNames(), name) {
		delete(steps, step)
		delete(owners, step)
	}
	for _, k := range d.Keys {
		delete(keys, k.Name)
	}
	for _, other := range definitions {
		other.enterKeys()
	}
}

// stepNames are the steps that are not called like the operation.
func (d *Definition) stepNames() (names []graph.Op) {
	for _, s := range d.Steps {
		if s.Op != d.Name {
			names = append(names, s.Op)
		}
	}
	return names
}

// All lists the definitions, sorted by name.
func All() (list []*Definition) {
	lock.RLock()
	defer lock.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		list = append(list, definitions[name])
	}
	return list
}

// Names lists the operations of models, of which precision policies speak, sorted.
func Names() (names []graph.Op) {
	for _, d := range All() {
		if d.Gradient != nil {
			names = append(names, d.Name)
		}
	}
	return names
}

// Of is the definition that a forward operation, a gradient or a step belongs to; nil for an unknown one.
func Of(op graph.Op) *Definition {
	lock.RLock()
	defer lock.RUnlock()
	return owners[op]
}

// named is the definition of that name; nil if there is none.
func named(name graph.Op) *Definition {
	lock.RLock()
	defer lock.RUnlock()
	return definitions[name]
}

// StepOf is what is known about a step; an empty one for an unknown step.
func StepOf(op graph.Op) Step {
	lock.RLock()
	defer lock.RUnlock()
	if s := steps[op]; s != nil {
		return *s
	}
	return Step{}
}

// Layer is the definition of a type of [[model.layers]]; nil if no operation is one.
func Layer(typ string) *Definition {
	if d := named(graph.Op(typ)); d != nil && d.isLayer() {
		return d
	}
	return nil
}

func (d *Definition) isLayer() bool { return d.Build != nil || d.Join != nil }

// Arity is how many others a layer reads, at least and at most.
func (d *Definition) Arity() (least, most int) {
	if d.Join == nil {
		return 1, 1
	}
	return d.Inputs[0], d.Inputs[1]
}

// Make adds the layer to a graph. in are as many as Arity says.
func (d *Definition) Make(s *Site, a Args, in []graph.ValueID) (y graph.ValueID, err error) {
	if s.tie = get(a, tieKey.Name, ""); s.tie != "" && s.shared() < 0 {
		return graph.None, s.cannotTie(fmt.Sprintf("no earlier layer has a parameter %q", s.tie), "name it as `trainctl plan` lists it, such as \"wte.weight\"")
	}
	if d.Join != nil {
		y, err = d.Join(s, a, in)
	} else {
		y, err = d.Build(s, a, in[0])
	}
	if s.untied != "" {
		return graph.None, s.cannotTie(s.untied, "remove tie, or choose another parameter")
	}
	return y, err
}

// Layers lists the types of [[model.layers]] that are operations, sorted by name.
func Layers() []*Definition {
	return slices.DeleteFunc(All(), func(d *Definition) bool { return !d.isLayer() })
}

// Plain is the step that a synchronised or frozen one takes the place of; others are their own.
func Plain(step graph.Op) graph.Op {
	if step == FrozenBatchNorm {
		return BatchNorm
	}
	for _, d := range All() {
		for plain, synced := range d.Norm.Synced {
			if synced == step {
				return plain
			}
		}
	}
	return step
}

// GradOp names the step that computes an operation's input gradient, or all of
// its gradients where they come from one pass.
func GradOp(op graph.Op) graph.Op { return op + "_grad" }

// PerElement is the cost of n operations for each element of the first input.
func PerElement(n int64) func(in, out []tensor.Spec) int64 {
	return func(in, _ []tensor.Spec) int64 { return n * elems(in, 0) }
}

// elems is the number of elements of an operand, 0 if it is absent.
func elems(list []tensor.Spec, i int) int64 {
	if i >= len(list) || !list[i].DType.Valid() {
		return 0
	}
	return int64(list[i].Shape.Elems())
}

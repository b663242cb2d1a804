package custom

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/trainctl/trainctl/core/engine/cpu/ops"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Loss is a value of model.loss: the mean, over the rows of a batch, of a function of a row of the model's output and its
// target. It is always computed in float32 or float64.
type Loss struct {
	Name string // what model.loss is set to
	Doc  string // one line

	Keys  []Key              // of the table [model]
	Check func(a Args) error // of several keys at once; nil: each is checked by itself

	Targets Targets

	// Float32 and Float64 return the loss of a row. Unless r.Grad is nil, they write its gradient there.
	Float32 func(r Row[float32]) float64
	Float64 func(r Row[float64]) float64

	FLOPs int // for each element of a row, roughly, for forecasts; default 10
}

// Targets says what a loss compares outputs with.
type Targets uint8

// The kinds of targets. With Classes, each class index has a row of logits: one for a sample, or for texts one for each position.
// Rows whose class is -100 are left out, as PyTorch's ignore_index. With Numbers, a sample is a row.
const (
	Classes Targets = iota
	Numbers
)

// Row is a row of a batch. Slices are valid during the call.
type Row[T Number] struct {
	Args   Args
	Output []T // of the model
	Class  int // with Classes: 0 to len(Output)-1
	Target []T // with Numbers: as many as Output
	Grad   []T // nil, or where the gradient of the row's loss with respect to Output goes
}

func (l Loss) register() error {
	return enter("loss", l.Name, l.Keys, map[string]bool{"Float32": l.Float32 != nil, "Float64": l.Float64 != nil}, l.add)
}

func (l Loss) add(keys []op.Key) error {
	if err := taken(l.Keys, reflect.TypeFor[nn.Config]()); err != nil {
		return err
	}
	if err := takenByModels(l.Keys); err != nil {
		return err
	}
	if err := otherKinds(keys); err != nil {
		return err
	}
	own := op.OwnLoss{Name: graph.Op(l.Name), Doc: l.Doc, Keys: keys, Classes: l.Targets == Classes, FLOPs: int64(flops(l.FLOPs))}
	d := own.Definition()
	d.Check = checker(l.Keys, "loss", l.Check)
	if err := op.Register(d); err != nil {
		return err
	}
	ops.ImplementRowLoss(own.Name, rowLoss(l.Float32, l.Keys), rowLoss(l.Float64, l.Keys))
	return nil
}

// otherKinds reports keys that other losses have with another kind: the table [model] has one value for both.
func otherKinds(keys []op.Key) error {
	for _, d := range op.All() {
		for _, other := range d.Keys {
			if i := slices.IndexFunc(keys, func(k op.Key) bool { return k.Name == other.Name }); d.Loss && i >= 0 && keys[i].Kind != other.Kind {
				return fmt.Errorf("the key %s is %v, but that of the loss %s is %v; fix: choose another name", other.Name, keys[i].Kind, d.Name, other.Kind)
			}
		}
	}
	return nil
}

// rowLoss adapts a function to the engine.
func rowLoss[T Number](f func(Row[T]) float64, keys []Key) ops.RowLoss[T] {
	return func(given op.Args, output []T, class int, numbers, grad []T) float64 {
		return f(Row[T]{Args: Args{given, keys}, Output: output, Class: class, Target: numbers, Grad: grad})
	}
}

package custom

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/cpu/ops"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Layer is a type of [[model.layers]] that reads one tensor and gives one. Shapes are of one sample, without the batch.
type Layer struct {
	Name string // what type is set to
	Doc  string // one line

	Keys  []Key
	Check func(a Args) error // of several keys at once; nil: each is checked by itself

	// Params returns the parameters for inputs of a shape. Nil: the layer has none.
	Params func(a Args, in []int) ([]Param, error)

	// Shape returns the output's shape. An error says what the input should be. Nil: that of the input.
	Shape func(a Args, in []int) ([]int, error)

	Float32 Kernels[float32]
	Float64 Kernels[float64]

	SaveOutput bool // Backward reads Y instead of X: then the memory of X is free earlier
	PerSample  bool // samples do not depend on each other: threads of a rank call the functions with parts of a batch
	InPlace    bool // Forward may be called with Y in the memory of X, and Backward with DX in that of DY
	FLOPs      int  // of Forward for each element of X, roughly, for forecasts; default 10

	// PerPosition says that positions, the first of two or more dimensions of In and Out, do not depend on each other. The
	// command generate then calls Forward with a few of them, which In and Out say.
	PerPosition bool
}

// Param is a parameter of a layer. The state dict has it as LAYER.NAME.
type Param struct {
	Name  string
	Shape []int
	Init  Init // default: zeros
}

// Init writes the initial values of a parameter. Ranks agree because they draw from the run's seed.
type Init func(v []float32, r Random)

// Random draws numbers.
type Random interface {
	UniformF32(v []float32, lo, hi float32)
	NormalF32(v []float32, std float32)
}

// Constant makes all values equal.
func Constant(x float32) Init {
	return func(v []float32, _ Random) {
		for i := range v {
			v[i] = x
		}
	}
}

// Uniform draws values from lo to hi.
func Uniform(lo, hi float32) Init {
	return func(v []float32, r Random) { r.UniformF32(v, lo, hi) }
}

// Normal draws values of mean 0.
func Normal(std float32) Init { return func(v []float32, r Random) { r.NormalF32(v, std) } }

// Kernels are the functions of a layer for one type. Each is called with a whole batch, or parts of one with
// Layer.PerSample, and by several ranks of one process at the same time. They must keep no slice of a call, and give the same bits for the same call.
type Kernels[T Number] struct {
	Forward  func(c *Call[T]) // reads X and Params, writes all of Y
	Backward func(c *Call[T]) // reads X, or Y with SaveOutput, and Params and DY; writes all of DX, and adds to DParams
}

// Call is a call of a layer with a batch. Tensors are contiguous, the last dimension first.
type Call[T Number] struct {
	Args    Args
	Batch   int   // samples
	In, Out []int // shapes of one sample

	X      []T   // [Batch, In]
	Y      []T   // [Batch, Out]
	Params [][]T // in the order of Layer.Params

	// The gradients of the loss. DParams start at zero. They are never nil: what training does not need is left unused.
	DY      []T
	DX      []T
	DParams [][]T
}

const defaultFLOPs = 10

func (l Layer) register() error {
	return enter("layer", l.Name, l.Keys, map[string]bool{
		"Float32.Forward": l.Float32.Forward != nil, "Float32.Backward": l.Float32.Backward != nil,
		"Float64.Forward": l.Float64.Forward != nil, "Float64.Backward": l.Float64.Backward != nil,
	}, l.add)
}

func (l Layer) add(keys []op.Key) error {
	if err := taken(l.Keys, reflect.TypeFor[nn.LayerConfig]()); err != nil {
		return err
	}
	if err := nn.CheckType(l.Name); err != nil {
		return err
	}
	own := op.Own{Name: graph.Op(l.Name), Doc: l.Doc, Keys: keys, SaveOutput: l.SaveOutput, Alone: l.PerPosition, InPlace: l.InPlace, FLOPs: int64(flops(l.FLOPs))}
	if l.Params != nil {
		own.Params = l.params
	}
	if l.Shape != nil {
		own.Shape = func(a op.Args, in tensor.Shape) (tensor.Shape, error) {
			out, err := l.Shape(Args{a, l.Keys}, in)
			if err == nil {
				err = positive(out)
			}
			return out, err
		}
	}
	d := own.Definition()
	d.Check = checker(l.Keys, "", l.Check)
	if err := op.Register(d); err != nil {
		return err
	}
	ops.ImplementOwn(own.Name, ops.Owning{PerSample: l.PerSample}, kernels(l.Float32, l.Keys), kernels(l.Float64, l.Keys))
	return nil
}

func flops(n int) int {
	if n == 0 {
		return defaultFLOPs
	}
	return n
}

func (l Layer) params(a op.Args, in tensor.Shape) ([]op.OwnParam, error) {
	list, err := l.Parameters(in, a)
	out := make([]op.OwnParam, len(list))
	for i, p := range list {
		start := p.Init
		if start == nil {
			start = Constant(0)
		}
		out[i] = op.OwnParam{Name: p.Name, Shape: slices.Clone(p.Shape), Init: func(m *rng.MT, v []float32) { start(v, m) }}
	}
	return out, err
}

// Parameters returns the parameters of a layer whose keys have the given values. The error is that of Params, or says that two have
// one name, or which shape has a size below 1.
func (l Layer) Parameters(in []int, args map[string]any) ([]Param, error) {
	if l.Params == nil {
		return nil, nil
	}
	list, err := l.Params(Args{args, l.Keys}, in)
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		if !names.Get().MatchString(p.Name) || slices.ContainsFunc(list[:i], func(q Param) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("its parameter %d is named %q; fix: use another name, of lower-case letters, digits and _", i, p.Name)
		}
		if err := positive(p.Shape); err != nil {
			return nil, fmt.Errorf("its parameter %s: %w", p.Name, err)
		}
	}
	return list, nil
}

// positive refuses shapes with a size below 1.
func positive(shape []int) error {
	for _, n := range shape {
		if n < 1 {
			return fmt.Errorf("the shape %v has a size below 1", shape)
		}
	}
	return nil
}

// kernels adapts functions to the engine.
func kernels[T Number](k Kernels[T], keys []Key) ops.OwnKernels[T] {
	adapt := func(f func(*Call[T])) ops.OwnFunc[T] {
		return func(c *ops.OwnCall[T]) {
			f(&Call[T]{
				Args: Args{c.Attr.Args, keys}, Batch: c.Batch, In: c.Attr.In, Out: c.Attr.Out,
				X: c.X, Y: c.Y, Params: c.Params, DY: c.DY, DX: c.DX, DParams: c.DParams,
			})
		}
	}
	return ops.OwnKernels[T]{Forward: adapt(k.Forward), Backward: adapt(k.Backward)}
}

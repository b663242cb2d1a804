package sdk

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// Layer computes layers of the model outside of the rank's process, for experiments: tensors are copied
// to shared memory and back for each call. A rank has one instance, which serves all of its
// layers of this plugin. An instance keeps no state between calls: equal calls give equal bits, so that a
// process that dies can be replaced.
type Layer interface {
	Info() Info

	// Describe returns what a layer is for inputs of a shape. It is called once for each layer
	// when the model is built, and again if the process replaces another one; it must depend on its arguments
	// alone. Illegal options and shapes are errors here.
	Describe(ctx context.Context, req LayerRequest) (LayerSpec, error)

	// Forward reads X and Params and writes all of Y. Backward reads X, or Y with SaveOutput, and
	// DY and Params; it writes all of DX, and adds to DParams, which start at zero.
	Forward(ctx context.Context, c *LayerCall) error
	Backward(ctx context.Context, c *LayerCall) error

	Close() error
}

// LayerRequest is a layer of the model. Shapes are of one sample, without the batch.
type LayerRequest struct {
	Options Options // of this layer: the table options of its entry in [[model.layers]]
	Name    string  // path in the state dict, for messages
	Shape   []int   // of the input
}

// LayerSpec is what a layer is.
type LayerSpec struct {
	Shape      []int        // of the output; nil: that of the input
	Params     []LayerParam // in the order of LayerTensors.Params
	SaveOutput bool         // Backward reads Y instead of X
	FLOPs      int64        // floating-point operations of Forward for one sample, which trainctl plan shows; 0: unknown
}

// LayerParam is a parameter of a layer. The state dict has it as LAYER.NAME.
type LayerParam struct {
	Name  string // lower-case letters, digits and _
	Shape []int
	Init  LayerInit // the zero value: zeros
}

// LayerInit is how a parameter starts. trainctl draws the values from the run's seed, equal on all ranks.
type LayerInit struct {
	Rule string  // "constant", "uniform" or "normal"; "": "constant"
	A    float64 // the constant, the lower bound, or the standard deviation
	B    float64 // the upper bound of "uniform"
}

// InitConstant makes all values x.
func InitConstant(x float64) LayerInit { return LayerInit{"constant", x, 0} }

// InitUniform draws values from lo to hi.
func InitUniform(lo, hi float64) LayerInit { return LayerInit{"uniform", lo, hi} }

// InitNormal draws values of mean 0 and standard deviation std.
func InitNormal(std float64) LayerInit { return LayerInit{"normal", std, 0} }

// LayerCall is a call of a layer with a batch.
type LayerCall struct {
	LayerRequest
	Output []int // shape of one sample
	Batch  int   // samples

	// The tensors, in the type of the run: the other field is nil. Half types are widened to float32 before a
	// call, and rounded after it. Slices are valid during the call.
	Float32 *LayerTensors[float32]
	Float64 *LayerTensors[float64]
}

// Compute calls f32 or f64 with the tensors: usually both are one generic function.
func (c *LayerCall) Compute(f32 func(*LayerTensors[float32]), f64 func(*LayerTensors[float64])) {
	if c.Float64 != nil {
		f64(c.Float64)
	} else {
		f32(c.Float32)
	}
}

// LayerTensors are the tensors of a call, contiguous, the last dimension fastest.
type LayerTensors[T float32 | float64] struct {
	X      []T   // [Batch, Shape]; nil in Backward with SaveOutput
	Y      []T   // [Batch, Output]; nil in Backward without SaveOutput
	Params [][]T // in the order of LayerSpec.Params

	// In Backward, the gradients of the loss.
	DY      []T
	DX      []T
	DParams [][]T
}

// servedLayer is a layer that was described.
type servedLayer struct {
	LayerRequest
	output     []int
	in, out    int   // elements of a sample
	params     []int // elements of each
	saveOutput bool
}

// DescribeLayer implements pb.PluginServer.
func (s *server) DescribeLayer(ctx context.Context, r *pb.DescribeLayerRequest) (*pb.DescribeLayerReply, error) {
	return answerOpen(s, s.layer != nil, "DescribeLayer", r.OptionsJson, func(options Options) (*pb.DescribeLayerReply, *opened, error) {
		l := &servedLayer{LayerRequest: LayerRequest{Options: options, Name: r.Name, Shape: pb.Integers[int](r.Shape)}}
		var err error
		if l.in, err = layerElems("the input", l.Shape); err != nil {
			return nil, nil, protocolError("%v", err)
		}
		open := &opened{timeout: time.Duration(r.TimeoutNs)}
		ctx, cancel := open.deadline(ctx)
		defer cancel()
		req := l.LayerRequest
		req.Shape = slices.Clone(l.Shape) // the plugin may build the output's shape in it
		spec, err := s.layer.Describe(ctx, req)
		if err == nil {
			err = spec.complete(l)
		}
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.layers == nil {
			s.layers = map[int64]*servedLayer{}
		}
		s.layers[r.Layer] = l
		return spec.toProto(), open, nil
	})
}

// Check finds what is wrong with a description for inputs of a shape, and completes it: the output's
// shape if it is that of the input, and the names of rules. trainctl does so with what plugins return.
func (spec *LayerSpec) Check(in []int) error {
	return spec.complete(&servedLayer{LayerRequest: LayerRequest{Shape: in}})
}

var paramNames = pattern.Lazy{Expr: `^[a-z][a-z0-9_]*$`}

// complete checks a description, sets the output's shape if it is that of the input, and fills in the layer.
func (spec *LayerSpec) complete(l *servedLayer) (err error) {
	if spec.Shape == nil {
		spec.Shape = l.Shape
	}
	l.output, l.saveOutput = spec.Shape, spec.SaveOutput
	if l.out, err = layerElems("the output", spec.Shape); err != nil {
		return err
	}
	if spec.FLOPs < 0 {
		return fmt.Errorf("the layer has %d FLOPs; fix: count those of Forward for one sample, or leave them out", spec.FLOPs)
	}
	seen := map[string]bool{}
	for i := range spec.Params {
		p := &spec.Params[i]
		if !paramNames.Get().MatchString(p.Name) || seen[p.Name] {
			return fmt.Errorf("parameter %d is named %q; fix: use another name, of lower-case letters, digits and _", i, p.Name)
		}
		seen[p.Name] = true
		n, err := layerElems("the parameter "+p.Name, p.Shape)
		if err != nil {
			return err
		}
		l.params = append(l.params, n)
		if err := p.Init.complete(); err != nil {
			return fmt.Errorf("the parameter %s: %w", p.Name, err)
		}
	}
	return nil
}

// complete checks a rule and names the default one.
func (i *LayerInit) complete() error {
	if i.Rule == "" {
		i.Rule = "constant"
	}
	bounded := math.Abs(i.A) <= math.MaxFloat32 && math.Abs(i.B) <= math.MaxFloat32
	switch {
	case i.Rule != "constant" && i.Rule != "uniform" && i.Rule != "normal":
		return fmt.Errorf("unknown rule %q of initialisation; fix: use sdk.InitConstant, sdk.InitUniform or sdk.InitNormal", i.Rule)
	case !bounded:
		return fmt.Errorf("cannot start as %s(%v, %v); fix: give numbers that float32 holds", i.Rule, i.A, i.B)
	case i.Rule == "uniform" && i.A > i.B:
		return fmt.Errorf("cannot start as uniform(%v, %v); fix: give the lower bound first", i.A, i.B)
	case i.Rule == "normal" && i.A < 0:
		return fmt.Errorf("cannot start with the standard deviation %v; fix: give one of at least 0", i.A)
	}
	return nil
}

// maxLayerElems bounds a sample and a parameter, so that sizes cannot overflow.
const maxLayerElems = 1 << 32

// layerElems is the number of elements of a shape.
func layerElems(what string, shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 1 || d > maxLayerElems/n {
			return 0, fmt.Errorf("%s has the shape %v; sizes are at least 1, and it may have up to %d elements", what, shape, maxLayerElems)
		}
		n *= d
	}
	return n, nil
}

func (spec *LayerSpec) toProto() *pb.DescribeLayerReply {
	out := &pb.DescribeLayerReply{Shape: pb.Integers[int64](spec.Shape), SaveOutput: spec.SaveOutput, Flops: spec.FLOPs}
	for _, p := range spec.Params {
		out.Params = append(out.Params, &pb.LayerParam{Name: p.Name, Shape: pb.Integers[int64](p.Shape), Init: p.Init.Rule, A: p.Init.A, B: p.Init.B})
	}
	return out
}

// computeShared is a call whose tensors are in an arena.
func (s *server) computeShared(open *opened, sub *shm.Submission) error {
	l, dtype, err := s.layerOf(int64(sub.Seq), uint32(sub.DType), sub.Count)
	if err != nil {
		return err
	}
	_, mem, err := s.memory(sub.Arena, sub.Offset, sub.Size)
	if err != nil {
		return err
	}
	if sub.Offset%pb.LayerAlign != 0 {
		return protocolError("a call of layer %s lies at offset %d", l.Name, sub.Offset)
	}
	return s.compute(s.ctx, open, l, sub.Op == pb.OpBackward, dtype, int(sub.Count), mem)
}

// Compute implements pb.PluginServer: a call with its tensors.
func (s *server) Compute(ctx context.Context, r *pb.ComputeRequest) (*pb.ComputeReply, error) {
	return inline(ctx, s, s.layer != nil, "Compute", func(ctx context.Context, open *opened) (*pb.ComputeReply, error) {
		l, dtype, err := s.layerOf(r.Layer, r.Dtype, uint64(r.Batch))
		if err != nil {
			return nil, err
		}
		_, inputs, total := l.lay(r.Backward, int(r.Batch), dtype)
		if len(r.Data) != inputs {
			return nil, protocolError("a call of layer %s has %d bytes, not %d", l.Name, inputs, len(r.Data))
		}
		mem := tensor.Aligned(total)
		copy(mem, r.Data)
		if err := s.compute(ctx, open, l, r.Backward, dtype, int(r.Batch), mem); err != nil {
			return nil, err
		}
		return &pb.ComputeReply{Data: mem[inputs:]}, nil
	})
}

// layerOf checks the layer, type and batch of a call.
func (s *server) layerOf(number int64, dtype uint32, batch uint64) (*servedLayer, tensor.DType, error) {
	s.mu.Lock()
	l := s.layers[number]
	s.mu.Unlock()
	d := tensor.DType(dtype)
	switch {
	case l == nil:
		return nil, d, protocolError("layer %d was not described", number)
	case dtype > math.MaxUint8 || d != tensor.F32 && d != tensor.F64:
		return nil, d, protocolError("a call of layer %s with the type %d", l.Name, dtype)
	case batch < 1 || batch > 1<<24:
		return nil, d, protocolError("a call of layer %s with %d samples", l.Name, batch)
	}
	return l, d, nil
}

func (l *servedLayer) lay(backward bool, batch int, d tensor.DType) (tensors []pb.LayerTensor, inputs, total int) {
	return pb.LayLayer(backward, l.saveOutput, batch, l.in, l.out, l.params, d.Size())
}

// compute makes a call with the tensors in mem.
func (s *server) compute(ctx context.Context, open *opened, l *servedLayer, backward bool, d tensor.DType, batch int, mem []byte) error {
	tensors, _, total := l.lay(backward, batch, d)
	if total != len(mem) {
		return protocolError("a call of layer %s has %d bytes, not %d", l.Name, total, len(mem))
	}
	c := &LayerCall{LayerRequest: l.LayerRequest, Output: l.output, Batch: batch}
	if d == tensor.F32 {
		c.Float32 = layerTensors[float32](l, backward, tensors, mem)
	} else {
		c.Float64 = layerTensors[float64](l, backward, tensors, mem)
	}
	f := s.layer.Forward
	if backward {
		f = s.layer.Backward
	}
	return s.within(ctx, open, func(ctx context.Context) error { return f(ctx, c) })
}

// layerTensors views the tensors of a call, and clears the gradients of parameters.
func layerTensors[T float32 | float64](l *servedLayer, backward bool, tensors []pb.LayerTensor, mem []byte) *LayerTensors[T] {
	next := func() []T {
		at := tensors[0]
		tensors = tensors[1:]
		return tensor.View[T](mem[at.Offset : at.Offset+at.Size : at.Offset+at.Size])
	}
	each := func() (all [][]T) {
		for range l.params {
			all = append(all, next())
		}
		return all
	}
	t := &LayerTensors[T]{}
	if backward && l.saveOutput {
		t.Y = next()
	} else {
		t.X = next()
	}
	if !backward {
		t.Params, t.Y = each(), next()
		return t
	}
	t.DY, t.Params = next(), each()
	t.DX, t.DParams = next(), each()
	for _, v := range t.DParams {
		clear(v)
	}
	return t
}

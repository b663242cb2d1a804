package sdktest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// LayerOptions say what the layer suite runs on.
type LayerOptions struct {
	Timeout     time.Duration // of each check; default 3 minutes
	CallTimeout time.Duration // of each call; default 30 s

	Options map[string]any            // the layer's table options as a user would write it
	Refused map[string]map[string]any // tables that must be refused, as in [DatasetOptions]

	// Shapes are inputs that the layer takes, without the batch. Default: those of [6], [4, 6] and
	// [3, 8, 8] that Describe accepts, at least one.
	Shapes [][]int

	// New returns a new instance, in this process or, with [LayerPlugin], in another.
	New func(t testing.TB) sdk.Layer
}

var layerChecks = []suiteCheck[*layerSuite]{
	{"Info is complete", func(_ context.Context, s *layerSuite) error { return constantInfo(s.instance(), sdk.KindLayer) }},
	{"names the key of a wrong option", checkLayerRefused},
	{"describes a layer in the same way again", checkDescribe},
	{"gradients are slopes", onTrials(checkSlopes)},
	{"float32 agrees with float64", onTrials(checkTypes)},
	{"equal calls give equal bits", onTrials(checkRepeated)},
	{"leaves what it reads alone", onTrials(checkInputs)},
	{"closes in every state", checkLayerClose},
}

// Layer runs the conformance suite for layers, see [sdk.Layer]. It compares gradients with slopes in
// float64, float32 with float64, and equal calls with each other.
func Layer(t *testing.T, o LayerOptions) {
	t.Helper()
	runChecks(t, o.Timeout, layerChecks, func(t testing.TB) *layerSuite { return &layerSuite{LayerOptions: o, t: t} })
}

type layerSuite struct {
	LayerOptions
	processes
	t testing.TB
}

// request checks the options for inputs of a shape.
func (s *layerSuite) request(l sdk.Layer, table map[string]any, shape []int) (sdk.LayerRequest, error) {
	options, problems := sdk.CheckOptions("", l.Info().Options, merged(s.Options, table))
	return sdk.LayerRequest{Options: options, Name: "conformance", Shape: shape}, problems.Err()
}

// instance returns a new instance with bounded calls.
func (s *layerSuite) instance() sdk.Layer {
	instance, limit := s.New(s.t), orDefault(s.CallTimeout, stepTimeout)
	if r, ok := instance.(*remoteLayer); ok {
		limit = s.remote(r.log, &r.Timeout, limit)
	}
	return &timedLayer{Layer: instance, timed: timed{limit: limit}}
}

// shapes are the inputs to test.
func (s *layerSuite) shapes(ctx context.Context, l sdk.Layer) ([][]int, error) {
	if s.Shapes != nil {
		return s.Shapes, nil
	}
	var usual [][]int
	var all []error
	for _, shape := range [][]int{{6}, {4, 6}, {3, 8, 8}} {
		req, err := s.request(l, nil, shape)
		if err == nil {
			_, err = l.Describe(ctx, req)
		}
		if err == nil {
			usual = append(usual, shape)
		}
		all = append(all, err)
	}
	if usual == nil {
		return nil, fmt.Errorf("the layer takes no input of [6], [4 6] or [3 8 8]; fix: set LayerOptions.Shapes to what it takes: %w", errors.Join(all...))
	}
	return usual, nil
}

func checkLayerRefused(ctx context.Context, s *layerSuite) error {
	return refused(s.Refused, func(table map[string]any) error {
		l := s.instance()
		s.t.Cleanup(func() { _ = l.Close() })
		shape := []int{6}
		if s.Shapes != nil {
			shape = s.Shapes[0]
		}
		req, err := s.request(l, table, shape)
		if err == nil {
			_, err = l.Describe(ctx, req)
		}
		return err
	})
}

func checkDescribe(ctx context.Context, s *layerSuite) error {
	first, second := s.instance(), s.instance()
	defer first.Close()
	defer second.Close()
	shapes, err := s.shapes(ctx, first)
	if err != nil {
		return err
	}
	for _, shape := range shapes {
		var specs [3]sdk.LayerSpec
		for i, l := range []sdk.Layer{first, first, second} {
			req, err := s.request(l, nil, slices.Clone(shape))
			if err == nil {
				specs[i], err = l.Describe(ctx, req)
			}
			if err == nil {
				err = specs[i].Check(shape)
			}
			if err != nil {
				return fmt.Errorf("Describe of an input %v: %w", shape, err)
			}
		}
		if !reflect.DeepEqual(specs[0], specs[1]) || !reflect.DeepEqual(specs[0], specs[2]) {
			return fmt.Errorf("Describe of an input %v returned %+v, then %+v, and in another instance %+v", shape, specs[0], specs[1], specs[2])
		}
	}
	return nil
}

// trialBatch is the samples of a call.
const trialBatch = 3

// layerTrial is a layer with numbers to call it with.
type layerTrial struct {
	sdk.LayerSpec
	layer  sdk.Layer
	req    sdk.LayerRequest
	x, dy  []float64
	params [][]float64
}

// onTrials runs a check for each shape.
func onTrials(check func(ctx context.Context, s *layerSuite, tr *layerTrial) error) func(context.Context, *layerSuite) error {
	return func(ctx context.Context, s *layerSuite) error {
		l := s.instance()
		defer l.Close()
		shapes, err := s.shapes(ctx, l)
		for i := 0; err == nil && i < len(shapes); i++ {
			var tr *layerTrial
			if tr, err = s.trial(ctx, l, shapes[i]); err == nil {
				err = check(ctx, s, tr)
			}
			if err != nil {
				err = fmt.Errorf("with an input %v: %w", shapes[i], err)
			}
		}
		return err
	}
}

// trial describes a layer and draws its inputs and parameters.
func (s *layerSuite) trial(ctx context.Context, l sdk.Layer, shape []int) (*layerTrial, error) {
	req, err := s.request(l, nil, slices.Clone(shape))
	if err != nil {
		return nil, err
	}
	tr := &layerTrial{layer: l, req: req}
	if tr.LayerSpec, err = l.Describe(ctx, req); err == nil {
		err = tr.Check(shape)
	}
	if err != nil {
		return nil, err
	}
	m := rng.NewMT(7)
	uniform := func(shape []int, times int) []float64 {
		v := make([]float32, times*tensor.Shape(shape).Elems())
		m.UniformF32(v, -1, 1)
		out := make([]float64, len(v))
		for i := range v {
			out[i] = float64(v[i])
		}
		return out
	}
	tr.x, tr.dy = uniform(shape, trialBatch), uniform(tr.Shape, trialBatch)
	for _, p := range tr.Params {
		v := uniform(p.Shape, 1)
		for i := range v { // near the start, but not at a symmetric one
			v[i] = 0.3*v[i] + start(p.Init)
		}
		tr.params = append(tr.params, v)
	}
	return tr, nil
}

// start is the mean value at the start.
func start(i sdk.LayerInit) float64 {
	switch i.Rule {
	case "uniform":
		return (i.A + i.B) / 2
	case "normal":
		return 0
	}
	return i.A
}

// layerResult is what a forward and a backward call write: y, dx and the gradients of parameters.
type layerResult [][]float64

// names of what layerResult holds.
func (tr *layerTrial) names() []string {
	names := []string{"Y", "DX"}
	for _, p := range tr.Params {
		names = append(names, "the gradient of "+p.Name)
	}
	return names
}

// tensors are those of a forward call.
func tensorsOf[T float32 | float64](tr *layerTrial) *sdk.LayerTensors[T] {
	t := &sdk.LayerTensors[T]{X: converted[T](tr.x), Y: unwritten[T](len(tr.dy))}
	for _, p := range tr.params {
		t.Params = append(t.Params, converted[T](p))
	}
	return t
}

func converted[T, F float32 | float64](v []F) []T {
	out := make([]T, len(v))
	for i := range v {
		out[i] = T(v[i])
	}
	return out
}

// unwritten is memory of a result: it shows what a call does not write.
func unwritten[T float32 | float64](n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(math.NaN())
	}
	return out
}

// call makes one call.
func call[T float32 | float64](ctx context.Context, tr *layerTrial, t *sdk.LayerTensors[T]) error {
	c := &sdk.LayerCall{LayerRequest: tr.req, Output: tr.Shape, Batch: trialBatch}
	switch t := any(t).(type) {
	case *sdk.LayerTensors[float32]:
		c.Float32 = t
	case *sdk.LayerTensors[float64]:
		c.Float64 = t
	}
	if t.DY == nil {
		return tr.layer.Forward(ctx, c)
	}
	return tr.layer.Backward(ctx, c)
}

// backward are the tensors of the backward call after a forward one.
func backward[T float32 | float64](tr *layerTrial, forward *sdk.LayerTensors[T]) *sdk.LayerTensors[T] {
	t := &sdk.LayerTensors[T]{X: forward.X, Params: forward.Params, DY: converted[T](tr.dy), DX: unwritten[T](len(tr.x))}
	if tr.SaveOutput {
		t.X, t.Y = nil, forward.Y
	}
	for _, p := range tr.params {
		t.DParams = append(t.DParams, make([]T, len(p)))
	}
	return t
}

// both makes a forward and a backward call.
func both[T float32 | float64](ctx context.Context, tr *layerTrial) (layerResult, error) {
	f := tensorsOf[T](tr)
	if err := call(ctx, tr, f); err != nil {
		return nil, fmt.Errorf("Forward: %w", err)
	}
	b := backward(tr, f)
	if err := call(ctx, tr, b); err != nil {
		return nil, fmt.Errorf("Backward: %w", err)
	}
	out := layerResult{converted[float64](f.Y), converted[float64](b.DX)}
	for _, v := range b.DParams {
		out = append(out, converted[float64](v))
	}
	for i, name := range tr.names() {
		for k, v := range out[i] {
			if math.IsNaN(v) {
				return nil, fmt.Errorf("element %d of %s was not written, or is not a number", k, name)
			}
		}
	}
	return out, nil
}

// loss is the sum of y·dy.
func (tr *layerTrial) loss(ctx context.Context) (sum float64, err error) {
	t := tensorsOf[float64](tr)
	if err := call(ctx, tr, t); err != nil {
		return 0, fmt.Errorf("Forward: %w", err)
	}
	for i, y := range t.Y {
		sum += y * tr.dy[i]
	}
	return sum, nil
}

// slopeElems is how many elements of a tensor are compared at most.
const slopeElems = 48

// checkSlopes compares gradients with central differences of the loss.
func checkSlopes(ctx context.Context, _ *layerSuite, tr *layerTrial) error {
	got, err := both[float64](ctx, tr)
	if err != nil {
		return err
	}
	names := tr.names()[1:]
	for i, v := range append([][]float64{tr.x}, tr.params...) {
		for k := 0; k < len(v); k += 1 + len(v)/slopeElems {
			const h = 1e-5
			at := v[k]
			v[k] = at + h
			up, err := tr.loss(ctx)
			v[k] = at - h
			down, err2 := tr.loss(ctx)
			v[k] = at
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			if slope, g := (up-down)/(2*h), got[1+i][k]; !(math.Abs(slope-g) <= 1e-6*(1+math.Abs(slope))) {
				return fmt.Errorf("element %d of %s is %.9g, and the slope of the loss there is %.9g", k, names[i], g, slope)
			}
		}
	}
	return nil
}

func checkTypes(ctx context.Context, _ *layerSuite, tr *layerTrial) error {
	wide, err := both[float64](ctx, tr)
	if err != nil {
		return err
	}
	single, err := both[float32](ctx, tr)
	if err != nil {
		return fmt.Errorf("float32: %w", err)
	}
	for i, name := range tr.names() {
		largest := 0.0
		for _, v := range wide[i] {
			largest = max(largest, math.Abs(v))
		}
		for k, v := range wide[i] {
			if !(math.Abs(v-single[i][k]) <= 1e-3*(1+largest)) {
				return fmt.Errorf("element %d of %s is %g in float32 and %g in float64", k, name, single[i][k], v)
			}
		}
	}
	return nil
}

// checkRepeated repeats a call after others, and in another instance.
func checkRepeated(ctx context.Context, s *layerSuite, tr *layerTrial) error {
	first, err := both[float32](ctx, tr)
	if err != nil {
		return err
	}
	if _, err := both[float64](ctx, tr); err != nil {
		return err
	}
	again, err := both[float32](ctx, tr)
	if err != nil {
		return err
	}
	l := s.instance()
	defer l.Close()
	other, err := s.trial(ctx, l, tr.req.Shape)
	if err != nil {
		return err
	}
	elsewhere, err := both[float32](ctx, other)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(first, again) || !reflect.DeepEqual(first, elsewhere) {
		return errors.New("equal calls gave different results; a layer keeps no state between calls and draws no numbers")
	}
	return nil
}

func checkInputs(ctx context.Context, _ *layerSuite, tr *layerTrial) error {
	f := tensorsOf[float64](tr)
	err := call(ctx, tr, f)
	if err != nil {
		return err
	}
	y := slices.Clone(f.Y)
	b := backward(tr, f)
	if err := call(ctx, tr, b); err != nil {
		return err
	}
	switch {
	case !slices.Equal(f.X, tr.x):
		return errors.New("a call changed X")
	case !slices.Equal(f.Y, y):
		return errors.New("Backward changed Y")
	case !slices.Equal(b.DY, tr.dy):
		return errors.New("Backward changed DY")
	case !reflect.DeepEqual(f.Params, append([][]float64(nil), tr.params...)):
		return errors.New("a call changed parameters")
	}
	return nil
}

func checkLayerClose(ctx context.Context, s *layerSuite) error {
	if err := s.instance().Close(); err != nil {
		return fmt.Errorf("Close before Describe: %w", err)
	}
	l := s.instance()
	shapes, err := s.shapes(ctx, l)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	tr, err := s.trial(ctx, l, shapes[0])
	if err == nil {
		_, err = both[float32](ctx, tr)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return closesTwice(l)
}

// LayerPlugin gives [LayerOptions] instances that are plugin processes, one each, started
// by the host from a path or a name. The output of a failed check includes the last lines that the
// processes printed.
func LayerPlugin(h *host.Host, plugin string) func(testing.TB) sdk.Layer {
	return inProcesses(h, plugin, (*host.Host).StartLayers, func(l *host.Layers, log *logTail) sdk.Layer { return &remoteLayer{Layers: l, log: log} })
}

// remoteLayer is a plugin process as an instance.
type remoteLayer struct {
	*host.Layers
	log *logTail
}

func (r *remoteLayer) Describe(ctx context.Context, req sdk.LayerRequest) (sdk.LayerSpec, error) {
	l, err := r.Add(ctx, req, "")
	if err != nil {
		return sdk.LayerSpec{}, err
	}
	return l.LayerSpec, nil
}

func (r *remoteLayer) Forward(ctx context.Context, c *sdk.LayerCall) error {
	if c.Float64 != nil {
		return compute(ctx, r, c, tensor.F64, c.Float64)
	}
	return compute(ctx, r, c, tensor.F32, c.Float32)
}

// Backward implements [sdk.Layer]: what is to be computed follows from the tensors.
func (r *remoteLayer) Backward(ctx context.Context, c *sdk.LayerCall) error { return r.Forward(ctx, c) }

func compute[T float32 | float64](ctx context.Context, r *remoteLayer, c *sdk.LayerCall, d tensor.DType, t *sdk.LayerTensors[T]) error {
	l, err := r.Add(ctx, c.LayerRequest, "")
	if err != nil {
		return err
	}
	var in, out [][]byte
	add := func(to *[][]byte, list ...[]T) {
		for _, v := range list {
			*to = append(*to, tensor.Bytes(v))
		}
	}
	switch {
	case t.DY == nil:
		add(&in, t.X)
		add(&out, t.Y)
	case l.SaveOutput:
		add(&in, t.Y, t.DY)
	default:
		add(&in, t.X, t.DY)
	}
	add(&in, t.Params...)
	if t.DY != nil {
		add(&out, t.DX)
		add(&out, t.DParams...)
	}
	return l.Compute(t.DY != nil, d, c.Batch, in, out)
}

// Close may be called more than once.
func (r *remoteLayer) Close() error { return closeProcess(r.Layers) }

// timedLayer is a layer whose calls take no longer than limit.
type timedLayer struct {
	sdk.Layer
	timed
}

func (l *timedLayer) Close() error {
	return l.bound(context.Background(), "Close", func(context.Context) error { return l.Layer.Close() })
}

func (l *timedLayer) Describe(ctx context.Context, req sdk.LayerRequest) (sdk.LayerSpec, error) {
	return bounded(ctx, &l.timed, "Describe", func(ctx context.Context) (sdk.LayerSpec, error) { return l.Layer.Describe(ctx, req) })
}

func (l *timedLayer) Forward(ctx context.Context, c *sdk.LayerCall) error {
	return l.bound(ctx, "Forward", func(ctx context.Context) error { return l.Layer.Forward(ctx, c) })
}

func (l *timedLayer) Backward(ctx context.Context, c *sdk.LayerCall) error {
	return l.bound(ctx, "Backward", func(ctx context.Context) error { return l.Layer.Backward(ctx, c) })
}

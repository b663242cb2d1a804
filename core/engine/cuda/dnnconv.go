package cuda

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// convolution is what a plan of cuDNN is made for.
type convolution struct {
	op   graph.Op
	g    convGeometry
	d    tensor.DType
	last bool // channels lie side by side, in images and filters
}

// convPlan runs a convolution on any three tensors.
type convPlan struct {
	desc      driver.BackendDescriptor
	workspace int
}

// convWorkspace is what a convolution may use beside its tensors, on a device that has sixteen times as much.
const convWorkspace = 1 << 30

// The names of a convolution's tensors in its plan.
const (
	idX int64 = iota + 1
	idW
	idY
)

var dnnTypes = map[tensor.DType]driver.DNNType{tensor.F32: driver.DNNFloat, tensor.F16: driver.DNNHalf, tensor.BF16: driver.DNNBFloat16}

// plan finds the best plan for a convolution; nil where cuDNN has none. An
// error is for the first who asks: then there is none either.
func (n *dnn) plan(c convolution) (*convPlan, error) {
	if p, ok := n.plans[c]; ok {
		return p, nil
	}
	if _, ok := dnnTypes[c.d]; !ok {
		return nil, nil
	}
	p, err := n.search(c)
	n.plans[c] = p
	if err != nil && !errors.Is(err, driver.DNNNotSupported) {
		return nil, fmt.Errorf("cuDNN: %s of %+v in %v: %w%s", c.op, c.g, c.d, err, n.lastWords())
	}
	return p, nil
}

// search finds the plan to use among those that can be made, if any.
func (n *dnn) search(c convolution) (*convPlan, error) {
	o := &descriptorList{api: n.api} // kept: a plan may refer to all of it
	ops, err := n.operation(o, c)
	if err != nil {
		return nil, errors.Join(err, o.free())
	}
	wanted := 1
	if n.fastest != nil {
		wanted = tries
	}
	switch plans := n.candidates(o, ops, c.d == tensor.F32 && !n.tf32, wanted); len(plans) {
	case 0:
		return nil, o.free()
	case 1:
		return plans[0], nil
	default:
		return n.fastest(c, plans), nil
	}
}

// candidates goes through the engines that the heuristics name, best first, until it has made that many plans.
func (n *dnn) candidates(o *descriptorList, ops driver.BackendDescriptor, full bool, wanted int) (plans []*convPlan) {
	for _, mode := range []int32{driver.DNNHeuristicsA, driver.DNNHeuristicsFallback} {
		configs, err := n.engines(o, ops, mode)
		if err != nil {
			continue // an older version may lack a mode
		}
		for _, config := range configs {
			if ok, err := n.fits(o, config, full); !ok || err != nil {
				continue
			}
			if desc, bytes, err := n.finish(o, config); err == nil && bytes <= n.limit {
				if plans = append(plans, &convPlan{desc, bytes}); len(plans) == wanted {
					return plans
				}
			}
		}
		if len(plans) > 0 {
			break // the other mode's are for when nothing else works
		}
	}
	return plans
}

// operation is the graph of one convolution.
func (n *dnn) operation(o *descriptorList, c convolution) (driver.BackendDescriptor, error) {
	g, wide := c.g, func(v ...int32) (r []int64) {
		for _, x := range v {
			r = append(r, int64(x))
		}
		return r
	}
	x, errX := n.tensor(o, c, idX, wide(g.n, g.c, g.h, g.w))
	w, errW := n.tensor(o, c, idW, wide(g.k, g.c/g.groups, g.r, g.s))
	y, errY := n.tensor(o, c, idY, wide(g.n, g.k, g.oh, g.ow))
	conv, err := o.add(driver.DNNConvolutionDescriptor,
		many(driver.DNNConvComputeType, driver.DNNTypeDataType, driver.DNNFloat), many(driver.DNNConvMode, driver.DNNTypeConvolutionMode, driver.DNNCrossCorrelation),
		int64s(driver.DNNConvDimensions, 2), int64s(driver.DNNConvDilations, wide(g.dilH, g.dilW)...), int64s(driver.DNNConvStrides, wide(g.strideH, g.strideW)...),
		int64s(driver.DNNConvPrePadding, wide(g.padH, g.padW)...), int64s(driver.DNNConvPostPadding, wide(g.padH, g.padW)...))
	if err = errors.Join(errX, errW, errY, err); err != nil {
		return 0, err
	}
	kind, first := driver.DNNOpConvForwardDescriptor, driver.DNNForwardAlpha
	switch c.op {
	case op.Conv2DGradInput:
		kind, first = driver.DNNOpConvBackwardDataDescriptor, driver.DNNBackwardDataAlpha
	case op.Conv2DGradWeight:
		kind, first = driver.DNNOpConvBackwardFilterDescriptor, driver.DNNBackwardFilterAlpha
	}
	op, err := o.add(kind, many(first, driver.DNNTypeFloat, float32(1)), many(first+1, driver.DNNTypeFloat, float32(0)), // the three have alpha, beta, convolution, w, x and y in this order
		descriptors(first+2, conv), descriptors(first+3, w), descriptors(first+4, x), descriptors(first+5, y))
	if err != nil {
		return 0, err
	}
	return o.add(driver.DNNOperationGraphDescriptor, append(n.on(driver.DNNGraphHandle, 0), descriptors(driver.DNNGraphOps, op))...)
}

// tensor is a tensor of dims n, c, h and w.
func (n *dnn) tensor(o *descriptorList, c convolution, id int64, dims []int64) (driver.BackendDescriptor, error) {
	strides := []int64{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}
	if c.last {
		strides = []int64{dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]}
	}
	return o.add(driver.DNNTensorDescriptor, many(driver.DNNTensorType, driver.DNNTypeDataType, dnnTypes[c.d]),
		int64s(driver.DNNTensorDimensions, dims...), int64s(driver.DNNTensorStrides, strides...), int64s(driver.DNNTensorID, id), int64s(driver.DNNTensorAlignment, int64(alignment)))
}

// pack binds a plan to memory.
func (n *dnn) pack(o *descriptorList, x, w, y, work driver.DevicePtr) (driver.BackendDescriptor, error) {
	return o.add(driver.DNNVariantPackDescriptor, int64s(driver.DNNPackIDs, idX, idW, idY),
		many(driver.DNNPackPointers, driver.DNNTypePointer, x, w, y), many(driver.DNNPackWorkspace, driver.DNNTypePointer, work))
}

// convolve adds a convolution of cuDNN's to the step, if there is a plan for it.
func (b *binder) convolve(c convolution, x, w, y driver.DevicePtr) bool {
	n := b.m.dev.lib.dnn
	if n == nil || b.err != nil {
		return false
	}
	p, err := n.plan(c)
	if err != nil || p == nil {
		b.err = err
		return err != nil
	}
	work := b.scratch(p.workspace)
	if b.measure {
		return true
	}
	for _, at := range []driver.DevicePtr{x, w, y} {
		if !aligned(at) {
			b.err = fmt.Errorf("a tensor of a convolution at %#x: cuDNN wants multiples of %d bytes", at, alignment)
			return true
		}
	}
	o := &descriptorList{api: n.api}
	b.m.owned = append(b.m.owned, o.free)
	pack, err := n.pack(o, x, w, y, work)
	if err != nil {
		b.err = err
		return true
	}
	b.call("cudnnBackendExecute", func() error { return n.api.BackendExecute(n.handle, p.desc, pack) })
	return true
}

// planned reports whether cuDNN has a plan for a convolution. If it has none
// for another reason than that nobody has written such a kernel, that is noted.
func (l *libraries) planned(c convolution) bool {
	if l.dnn == nil {
		return false
	}
	p, err := l.dnn.plan(c)
	if err != nil {
		l.missing = append(l.missing, err)
	}
	return p != nil
}

package library

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Convolution is what a plan of cuDNN is made for.
type Convolution struct {
	Op   graph.Op
	G    Geometry
	D    tensor.DType
	Last bool // channels lie side by side, in images and filters
}

// Geometry is struct Conv of kernels/conv.cu.
type Geometry struct {
	N, C, H, W, K, R, S, OH, OW, StrideH, StrideW, PadH, PadW, DilH, DilW, Groups int32
}

// Taps is the places of a filter: with one of them its channels lie together in either layout.
func (c Convolution) Taps() int { return int(c.G.R * c.G.S) }

// ConvPlan runs a convolution on any three tensors.
type ConvPlan struct {
	desc      driver.BackendDescriptor
	Workspace int // bytes
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

// Plan finds the best plan for a convolution; nil where cuDNN has none. An
// error is for the first who asks: then there is none either.
func (n *DNN) Plan(c Convolution) (*ConvPlan, error) {
	if p, ok := n.plans[c]; ok {
		return p, nil
	}
	if _, ok := dnnTypes[c.D]; !ok {
		return nil, nil
	}
	p, err := n.search(c)
	n.plans[c] = p
	if err != nil && !errors.Is(err, driver.DNNNotSupported) {
		return nil, fmt.Errorf("cuDNN: %s of %+v in %v: %w%s", c.Op, c.G, c.D, err, n.lastWords())
	}
	return p, nil
}

// search finds the plan to use among those that can be made, if any.
func (n *DNN) search(c Convolution) (*ConvPlan, error) {
	o := &descriptorList{api: n.api} // kept: a plan may refer to all of it
	ops, err := n.operation(o, c)
	if err != nil {
		return nil, errors.Join(err, o.free())
	}
	wanted := 1
	if n.fastest != nil {
		wanted = tries
	}
	switch plans := n.candidates(o, ops, c.D == tensor.F32 && !n.tf32, wanted); len(plans) {
	case 0:
		return nil, o.free()
	case 1:
		return plans[0], nil
	default:
		return n.fastest(c, plans), nil
	}
}

// candidates goes through the engines that the heuristics name, best first, until it has made that many plans.
func (n *DNN) candidates(o *descriptorList, ops driver.BackendDescriptor, full bool, wanted int) (plans []*ConvPlan) {
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
				if plans = append(plans, &ConvPlan{desc, bytes}); len(plans) == wanted {
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
func (n *DNN) operation(o *descriptorList, c Convolution) (driver.BackendDescriptor, error) {
	g, wide := c.G, func(v ...int32) (r []int64) {
		for _, x := range v {
			r = append(r, int64(x))
		}
		return r
	}
	x, errX := n.tensor(o, c, idX, wide(g.N, g.C, g.H, g.W))
	w, errW := n.tensor(o, c, idW, wide(g.K, g.C/g.Groups, g.R, g.S))
	y, errY := n.tensor(o, c, idY, wide(g.N, g.K, g.OH, g.OW))
	conv, err := o.add(driver.DNNConvolutionDescriptor,
		many(driver.DNNConvComputeType, driver.DNNTypeDataType, driver.DNNFloat), many(driver.DNNConvMode, driver.DNNTypeConvolutionMode, driver.DNNCrossCorrelation),
		int64s(driver.DNNConvDimensions, 2), int64s(driver.DNNConvDilations, wide(g.DilH, g.DilW)...), int64s(driver.DNNConvStrides, wide(g.StrideH, g.StrideW)...),
		int64s(driver.DNNConvPrePadding, wide(g.PadH, g.PadW)...), int64s(driver.DNNConvPostPadding, wide(g.PadH, g.PadW)...))
	if err = errors.Join(errX, errW, errY, err); err != nil {
		return 0, err
	}
	kind, first := driver.DNNOpConvForwardDescriptor, driver.DNNForwardAlpha
	switch c.Op {
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
func (n *DNN) tensor(o *descriptorList, c Convolution, id int64, dims []int64) (driver.BackendDescriptor, error) {
	strides := []int64{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}
	if c.Last {
		strides = []int64{dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]}
	}
	return o.add(driver.DNNTensorDescriptor, many(driver.DNNTensorType, driver.DNNTypeDataType, dnnTypes[c.D]),
		int64s(driver.DNNTensorDimensions, dims...), int64s(driver.DNNTensorStrides, strides...), int64s(driver.DNNTensorID, id), int64s(driver.DNNTensorAlignment, int64(Alignment)))
}

// pack binds a plan to memory.
func (n *DNN) pack(o *descriptorList, x, w, y, work driver.DevicePtr) (driver.BackendDescriptor, error) {
	return o.add(driver.DNNVariantPackDescriptor, int64s(driver.DNNPackIDs, idX, idW, idY),
		many(driver.DNNPackPointers, driver.DNNTypePointer, x, w, y), many(driver.DNNPackWorkspace, driver.DNNTypePointer, work))
}

// Launch prepares a plan on three tensors, whose addresses are multiples of
// [Alignment], with its workspace. run enqueues it; free is called when it will not run again.
func (n *DNN) Launch(p *ConvPlan, x, w, y, work driver.DevicePtr) (run, free func() error, err error) {
	o := &descriptorList{api: n.api}
	for _, at := range []driver.DevicePtr{x, w, y} {
		if !aligned(at) {
			return nil, o.free, fmt.Errorf("a tensor of a convolution at %#x: cuDNN needs multiples of %d bytes", at, Alignment)
		}
	}
	pack, err := n.pack(o, x, w, y, work)
	return func() error { return n.api.BackendExecute(n.handle, p.desc, pack) }, o.free, err
}

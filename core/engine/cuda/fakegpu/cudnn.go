package fakegpu

import (
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// DNN is the part of cuDNN's graph interface that convolutions need. It
// keeps attributes as they are set, offers engines of which only the last keeps
// the device's promises, and computes in float64 on the machine's memory.
type DNN struct {
	Refuse func(x, w, y Tensor) bool // what no engine can do; nil: nothing
	Notes  [][]int32                 // of the engines, best first
	Takes  []float32                 // milliseconds of the engines; nil: only the last may run
	Broken bool                      // it understands no graph

	p      *Process
	m      *Machine
	all    map[driver.BackendDescriptor]*dnnDescriptor
	stream driver.Stream
}

type dnnDescriptor struct {
	kind   int32
	set    map[int32]dnnAttribute
	final  bool
	engine int32                    // of engines: which; of configurations: theirs
	ops    driver.BackendDescriptor // of configurations
}

type dnnAttribute struct {
	kind  int32
	count int64
	bytes []byte
}

// Tensor is a tensor of a convolution with its strides.
type Tensor struct {
	DType         tensor.DType
	Dims, Strides []int64
}

const dnnHandle, dnnWorkspace = 13, 700

// DNN is the library of this process.
func (m *Machine) DNN() *DNN {
	return &DNN{Notes: promises, p: m.here, m: m, all: map[driver.BackendDescriptor]*dnnDescriptor{}}
}

// Engine is the number of the engine that a plan runs.
func (n *DNN) Engine(plan driver.BackendDescriptor) int32 {
	return n.all[one[driver.BackendDescriptor](n.all[plan].set[driver.DNNPlanConfig])].engine
}

// Descriptors is how many there are.
func (n *DNN) Descriptors() int { return len(n.all) }

// API is the table of functions.
func (n *DNN) API() *driver.DNN {
	return &driver.DNN{
		Create:    func(h *driver.DNNHandle) error { *h = dnnHandle; return nil },
		SetStream: func(h driver.DNNHandle, s driver.Stream) error { n.stream = s; return nil },
		BackendCreate: func(kind int32, d *driver.BackendDescriptor) error {
			*d = driver.BackendDescriptor(len(n.all) + 1000)
			for n.all[*d] != nil {
				*d++
			}
			n.all[*d] = &dnnDescriptor{kind: kind, set: map[int32]dnnAttribute{}}
			return nil
		},
		BackendDestroy:      func(d driver.BackendDescriptor) error { return dropHandle(n.m, n.all, d) },
		BackendSetAttribute: n.setAttribute,
		BackendGetAttribute: n.getAttribute,
		BackendFinalize:     n.finalize,
		BackendExecute:      n.execute,
	}
}

// attributeSizes are the bytes of an element.
var attributeSizes = map[int32]int64{
	driver.DNNTypeHandle: 8, driver.DNNTypeDataType: 4, driver.DNNTypeInt64: 8, driver.DNNTypeFloat: 4, driver.DNNTypePointer: 8,
	driver.DNNTypeConvolutionMode: 4, driver.DNNTypeHeuristicMode: 4, driver.DNNTypeDescriptor: 8,
}

func (n *DNN) setAttribute(d driver.BackendDescriptor, name, kind int32, count int64, v unsafe.Pointer) error {
	x := n.all[d]
	if x == nil || x.final || attributeSizes[kind] == 0 || name/100 != x.family() {
		n.m.mistake("attribute %d of type %d for descriptor %+v", name, kind, x)
	}
	x.set[name] = dnnAttribute{kind, count, slices.Clone(unsafe.Slice((*byte)(v), count*attributeSizes[kind]))}
	return nil
}

// family is the hundreds of a descriptor's attributes.
func (x *dnnDescriptor) family() int32 {
	return map[int32]int32{
		driver.DNNConvolutionDescriptor: 1, driver.DNNEngineHeuristicsDescriptor: 2, driver.DNNEngineConfigDescriptor: 3, driver.DNNExecutionPlanDescriptor: 4,
		driver.DNNOpConvForwardDescriptor: 7, driver.DNNOpConvBackwardDataDescriptor: 7, driver.DNNOpConvBackwardFilterDescriptor: 7,
		driver.DNNOperationGraphDescriptor: 8, driver.DNNTensorDescriptor: 9, driver.DNNVariantPackDescriptor: 10,
	}[x.kind]
}

// required are the attributes that a descriptor cannot do without.
func (x *dnnDescriptor) required() []int32 {
	switch x.kind {
	case driver.DNNConvolutionDescriptor:
		return []int32{100, 101, 102, 103, 104, 105, 106}
	case driver.DNNEngineHeuristicsDescriptor:
		return []int32{200, 201}
	case driver.DNNExecutionPlanDescriptor:
		return []int32{400, 401}
	case driver.DNNOpConvForwardDescriptor:
		return []int32{700, 701, 702, 703, 704, 705}
	case driver.DNNOpConvBackwardDataDescriptor:
		return []int32{706, 707, 708, 709, 710, 711}
	case driver.DNNOpConvBackwardFilterDescriptor:
		return []int32{712, 713, 714, 715, 716, 717}
	case driver.DNNOperationGraphDescriptor:
		return []int32{800, 801}
	case driver.DNNTensorDescriptor:
		return []int32{900, 901, 902, 903, 906}
	}
	return []int32{1000, 1001, 1003}
}

func (n *DNN) finalize(d driver.BackendDescriptor) error {
	x := n.all[d]
	if n.Broken && x.kind == driver.DNNOperationGraphDescriptor {
		return driver.DNNBadParam
	}
	for _, name := range x.required() {
		if _, ok := x.set[name]; !ok {
			n.m.mistake("a descriptor of kind %d without attribute %d", x.kind, name)
		}
	}
	for _, a := range x.set {
		if a.kind != driver.DNNTypeDescriptor {
			continue
		}
		for _, child := range list[driver.BackendDescriptor](a) {
			if y := n.all[child]; y == nil || !y.final {
				n.m.mistake("a descriptor of kind %d over one that is not ready", x.kind)
			}
		}
	}
	if x.kind == driver.DNNExecutionPlanDescriptor && n.all[one[driver.BackendDescriptor](x.set[401])].engine == 2 {
		return driver.DNNNotSupported // the heuristics do not know everything
	}
	x.final = true
	return nil
}

func list[T any](a dnnAttribute) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.bytes))), a.count)
}

func one[T any](a dnnAttribute) T { return list[T](a)[0] }

// promises are the numerical notes of engines: one that gives other bits each
// time, one that rounds float32, one that no plan can be made of, and one that
// is as it should be.
var promises = [][]int32{{driver.DNNNoteTensorCore, driver.DNNNoteNondeterministic}, {driver.DNNNoteDownConvert, driver.DNNNoteReducedReduction}, {}, {}}

func (n *DNN) getAttribute(d driver.BackendDescriptor, name, kind int32, requested int64, count *int64, out unsafe.Pointer) error {
	x := n.all[d]
	switch name {
	case driver.DNNHeuristicsResult:
		ops := one[driver.BackendDescriptor](x.set[driver.DNNHeuristicsGraph])
		if n.Refuse != nil && n.Refuse(n.operands(ops)) {
			return nil
		}
		for i, c := range unsafe.Slice((*driver.BackendDescriptor)(out), len(n.Notes)) {
			n.all[c].engine, n.all[c].ops, n.all[c].final = int32(i), ops, true
		}
		*count = int64(len(n.Notes))
	case driver.DNNConfigEngine:
		*count, n.all[*(*driver.BackendDescriptor)(out)].engine = 1, x.engine
	case driver.DNNEngineNumericalNotes:
		*count = int64(copy(unsafe.Slice((*int32)(out), requested), n.Notes[x.engine]))
	case driver.DNNPlanWorkspace:
		*count, *(*int64)(out) = 1, dnnWorkspace
	default:
		n.m.mistake("attribute %d is asked for", name)
	}
	return nil
}

// operation is the only operation of a graph, and what its attributes begin with.
func (n *DNN) operation(graph driver.BackendDescriptor) (op *dnnDescriptor, first int32) {
	op = n.all[one[driver.BackendDescriptor](n.all[graph].set[driver.DNNGraphOps])]
	return op, op.required()[0]
}

func (n *DNN) operands(graph driver.BackendDescriptor) (x, w, y Tensor) {
	op, first := n.operation(graph)
	types := map[driver.DNNType]tensor.DType{driver.DNNFloat: tensor.F32, driver.DNNHalf: tensor.F16, driver.DNNBFloat16: tensor.BF16}
	get := func(name int32) Tensor {
		t := n.all[one[driver.BackendDescriptor](op.set[name])].set
		return Tensor{types[one[driver.DNNType](t[driver.DNNTensorType])], list[int64](t[driver.DNNTensorDimensions]), list[int64](t[driver.DNNTensorStrides])}
	}
	return get(first + 4), get(first + 3), get(first + 5)
}

func (t Tensor) elems() int { return int(t.Dims[0] * t.Dims[1] * t.Dims[2] * t.Dims[3]) }

func (t Tensor) place(a, b, c, d int64) int {
	return int(a*t.Strides[0] + b*t.Strides[1] + c*t.Strides[2] + d*t.Strides[3])
}

func (n *DNN) execute(h driver.DNNHandle, plan, pack driver.BackendDescriptor) error {
	config := n.all[one[driver.BackendDescriptor](n.all[plan].set[driver.DNNPlanConfig])]
	p := n.all[pack].set
	if ids := list[int64](p[driver.DNNPackIDs]); h != dnnHandle || n.Takes == nil && config.engine != 3 || !n.all[plan].final || !n.all[pack].final || !slices.Equal(ids, []int64{1, 2, 3}) {
		n.m.mistake("handle %d runs engine %d over tensors %v", h, config.engine, ids)
	}
	at := list[driver.DevicePtr](p[driver.DNNPackPointers])
	work := one[driver.DevicePtr](p[driver.DNNPackWorkspace])
	if misaligned(at...) { // against what its tensors' descriptors promise
		return driver.DNNBadParam
	}
	return n.m.fails("cudnnBackendExecute", func() driver.CUResult {
		return n.p.compute("cudnnBackendExecute", n.stream, func() {
			if n.Takes != nil {
				n.m.clock += n.Takes[config.engine]
			}
			scribble(n.p.within("the workspace of a convolution", work, dnnWorkspace))
			n.convolve(config.ops, at)
		}, nil)
	})
}

func (n *DNN) convolve(graph driver.BackendDescriptor, at []driver.DevicePtr) {
	op, first := n.operation(graph)
	if one[float32](op.set[first]) != 1 || one[float32](op.set[first+1]) != 0 {
		n.m.mistake("alpha and beta are not 1 and 0")
	}
	conv := n.all[one[driver.BackendDescriptor](op.set[first+2])].set
	stride, pad, dilation := list[int64](conv[driver.DNNConvStrides]), list[int64](conv[driver.DNNConvPrePadding]), list[int64](conv[driver.DNNConvDilations])
	tx, tw, ty := n.operands(graph)
	x, w, y := n.p.vector("x", at[0], tx.DType, tx.elems()), n.p.vector("w", at[1], tw.DType, tw.elems()), n.p.vector("y", at[2], ty.DType, ty.elems())
	out := map[int32]Vector{driver.DNNForwardAlpha: y, driver.DNNBackwardDataAlpha: x, driver.DNNBackwardFilterAlpha: w}[first]
	sums := make([]float64, len(out.Bytes)/out.DType.Size())
	cg, kg := tw.Dims[1], tw.Dims[0]*tw.Dims[1]/tx.Dims[1]
	for i := range int64(ty.elems()) {
		ow, oh, k, img := i%ty.Dims[3], i/ty.Dims[3]%ty.Dims[2], i/(ty.Dims[3]*ty.Dims[2])%ty.Dims[1], i/(ty.Dims[3]*ty.Dims[2]*ty.Dims[1])
		o := ty.place(img, k, oh, ow)
		for tap := range cg * tw.Dims[2] * tw.Dims[3] {
			c, r, s := tap/(tw.Dims[2]*tw.Dims[3]), tap/tw.Dims[3]%tw.Dims[2], tap%tw.Dims[3]
			h, v := oh*stride[0]-pad[0]+r*dilation[0], ow*stride[1]-pad[1]+s*dilation[1]
			if h < 0 || h >= tx.Dims[2] || v < 0 || v >= tx.Dims[3] {
				continue
			}
			px, pw := tx.place(img, k/kg*cg+c, h, v), tw.place(k, c, r, s)
			switch first {
			case driver.DNNForwardAlpha:
				sums[o] += x.At(px) * w.At(pw)
			case driver.DNNBackwardDataAlpha:
				sums[px] += y.At(o) * w.At(pw)
			default:
				sums[pw] += x.At(px) * y.At(o)
			}
		}
	}
	for i, v := range sums {
		out.Set(i, v)
	}
}

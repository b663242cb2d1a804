package cuda

import (
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// fakeDNN is the part of cuDNN's graph interface that convolutions need. It
// keeps attributes as they are set, offers engines of which only the last keeps
// the device's promises, and computes in float64 on the fake's memory.
type fakeDNN struct {
	f      *fake
	all    map[driver.BackendDescriptor]*fakeDescriptor
	stream driver.Stream
	refuse func(x, w, y fakeTensor) bool // what no engine can do
	notes  [][]int32                     // of the engines, best first
	takes  []float32                     // milliseconds of the engines; nil: only the last may run
	broken bool                          // it understands no graph
}

type fakeDescriptor struct {
	kind   int32
	set    map[int32]fakeAttribute
	final  bool
	engine int32                    // of engines: which; of configurations: theirs
	ops    driver.BackendDescriptor // of configurations
}

type fakeAttribute struct {
	kind  int32
	count int64
	bytes []byte
}

// fakeTensor is a tensor with its strides.
type fakeTensor struct {
	d             tensor.DType
	dims, strides []int64
}

const fakeDNNHandle, fakeDNNWorkspace = 13, 700

func newFakeDNN(f *fake) *fakeDNN {
	return &fakeDNN{f: f, all: map[driver.BackendDescriptor]*fakeDescriptor{}, refuse: func(_, _, _ fakeTensor) bool { return false }, notes: promises}
}

// api is the table of functions.
func (n *fakeDNN) api() *driver.DNN {
	return &driver.DNN{
		Create:    func(h *driver.DNNHandle) error { *h = fakeDNNHandle; return nil },
		SetStream: func(h driver.DNNHandle, s driver.Stream) error { n.stream = s; return nil },
		BackendCreate: func(kind int32, d *driver.BackendDescriptor) error {
			*d = driver.BackendDescriptor(len(n.all) + 1000)
			for n.all[*d] != nil {
				*d++
			}
			n.all[*d] = &fakeDescriptor{kind: kind, set: map[int32]fakeAttribute{}}
			return nil
		},
		BackendDestroy:      func(d driver.BackendDescriptor) error { return drop(n.f, n.all, d) },
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

func (n *fakeDNN) setAttribute(d driver.BackendDescriptor, name, kind int32, count int64, v unsafe.Pointer) error {
	x := n.all[d]
	if x == nil || x.final || attributeSizes[kind] == 0 || name/100 != x.family() {
		n.f.t.Fatalf("attribute %d of type %d for descriptor %+v", name, kind, x)
	}
	x.set[name] = fakeAttribute{kind, count, slices.Clone(unsafe.Slice((*byte)(v), count*attributeSizes[kind]))}
	return nil
}

// family is the hundreds of a descriptor's attributes.
func (x *fakeDescriptor) family() int32 {
	return map[int32]int32{
		driver.DNNConvolutionDescriptor: 1, driver.DNNEngineHeuristicsDescriptor: 2, driver.DNNEngineConfigDescriptor: 3, driver.DNNExecutionPlanDescriptor: 4,
		driver.DNNOpConvForwardDescriptor: 7, driver.DNNOpConvBackwardDataDescriptor: 7, driver.DNNOpConvBackwardFilterDescriptor: 7,
		driver.DNNOperationGraphDescriptor: 8, driver.DNNTensorDescriptor: 9, driver.DNNVariantPackDescriptor: 10,
	}[x.kind]
}

// required are the attributes that a descriptor cannot do without.
func (x *fakeDescriptor) required() []int32 {
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

func (n *fakeDNN) finalize(d driver.BackendDescriptor) error {
	x := n.all[d]
	if n.broken && x.kind == driver.DNNOperationGraphDescriptor {
		return driver.DNNBadParam
	}
	for _, name := range x.required() {
		if _, ok := x.set[name]; !ok {
			n.f.t.Fatalf("a descriptor of kind %d without attribute %d", x.kind, name)
		}
	}
	for _, a := range x.set {
		if a.kind != driver.DNNTypeDescriptor {
			continue
		}
		for _, child := range list[driver.BackendDescriptor](a) {
			if y := n.all[child]; y == nil || !y.final {
				n.f.t.Fatalf("a descriptor of kind %d over one that is not ready", x.kind)
			}
		}
	}
	if x.kind == driver.DNNExecutionPlanDescriptor && n.all[one[driver.BackendDescriptor](x.set[401])].engine == 2 {
		return driver.DNNNotSupported // the heuristics do not know everything
	}
	x.final = true
	return nil
}

func list[T any](a fakeAttribute) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.bytes))), a.count)
}

func one[T any](a fakeAttribute) T { return list[T](a)[0] }

// promises are the numerical notes of engines: one that gives other bits each
// time, one that rounds float32, one that no plan can be made of, and one that
// is as it should be.
var promises = [][]int32{{driver.DNNNoteTensorCore, driver.DNNNoteNondeterministic}, {driver.DNNNoteDownConvert, driver.DNNNoteReducedReduction}, {}, {}}

func (n *fakeDNN) getAttribute(d driver.BackendDescriptor, name, kind int32, requested int64, count *int64, out unsafe.Pointer) error {
	x := n.all[d]
	switch name {
	case driver.DNNHeuristicsResult:
		ops := one[driver.BackendDescriptor](x.set[driver.DNNHeuristicsGraph])
		if n.refuse(n.operands(ops)) {
			return nil
		}
		for i, c := range unsafe.Slice((*driver.BackendDescriptor)(out), len(n.notes)) {
			n.all[c].engine, n.all[c].ops, n.all[c].final = int32(i), ops, true
		}
		*count = int64(len(n.notes))
	case driver.DNNConfigEngine:
		*count, n.all[*(*driver.BackendDescriptor)(out)].engine = 1, x.engine
	case driver.DNNEngineNumericalNotes:
		*count = int64(copy(unsafe.Slice((*int32)(out), requested), n.notes[x.engine]))
	case driver.DNNPlanWorkspace:
		*count, *(*int64)(out) = 1, fakeDNNWorkspace
	default:
		n.f.t.Fatalf("attribute %d is asked for", name)
	}
	return nil
}

// operation is the only operation of a graph, and what its attributes begin with.
func (n *fakeDNN) operation(graph driver.BackendDescriptor) (op *fakeDescriptor, first int32) {
	op = n.all[one[driver.BackendDescriptor](n.all[graph].set[driver.DNNGraphOps])]
	return op, op.required()[0]
}

func (n *fakeDNN) operands(graph driver.BackendDescriptor) (x, w, y fakeTensor) {
	op, first := n.operation(graph)
	types := map[driver.DNNType]tensor.DType{driver.DNNFloat: tensor.F32, driver.DNNHalf: tensor.F16, driver.DNNBFloat16: tensor.BF16}
	get := func(name int32) fakeTensor {
		t := n.all[one[driver.BackendDescriptor](op.set[name])].set
		return fakeTensor{types[one[driver.DNNType](t[driver.DNNTensorType])], list[int64](t[driver.DNNTensorDimensions]), list[int64](t[driver.DNNTensorStrides])}
	}
	return get(first + 4), get(first + 3), get(first + 5)
}

func (t fakeTensor) elems() int { return int(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]) }

func (t fakeTensor) place(a, b, c, d int64) int {
	return int(a*t.strides[0] + b*t.strides[1] + c*t.strides[2] + d*t.strides[3])
}

func (n *fakeDNN) execute(h driver.DNNHandle, plan, pack driver.BackendDescriptor) error {
	f := n.f
	f.called("cudnnBackendExecute", n.stream)
	config := n.all[one[driver.BackendDescriptor](n.all[plan].set[driver.DNNPlanConfig])]
	p := n.all[pack].set
	if ids := list[int64](p[driver.DNNPackIDs]); h != fakeDNNHandle || n.takes == nil && config.engine != 3 || !n.all[plan].final || !n.all[pack].final || !slices.Equal(ids, []int64{idX, idW, idY}) {
		f.t.Fatalf("handle %d runs engine %d over tensors %v", h, config.engine, ids)
	}
	at := list[driver.DevicePtr](p[driver.DNNPackPointers])
	work := one[driver.DevicePtr](p[driver.DNNPackWorkspace])
	if f.misaligned(at...) { // against what its tensors' descriptors promise
		return driver.DNNBadParam
	}
	if n.takes != nil {
		f.clock += n.takes[config.engine]
	}
	f.enqueue("cudnnBackendExecute", func() {
		scribble(f.within("the workspace of a convolution", work, fakeDNNWorkspace))
		n.convolve(config.ops, at)
	})
	return nil
}

func (n *fakeDNN) convolve(graph driver.BackendDescriptor, at []driver.DevicePtr) {
	op, first := n.operation(graph)
	if one[float32](op.set[first]) != 1 || one[float32](op.set[first+1]) != 0 {
		n.f.t.Fatal("alpha and beta are not 1 and 0")
	}
	conv := n.all[one[driver.BackendDescriptor](op.set[first+2])].set
	stride, pad, dilation := list[int64](conv[driver.DNNConvStrides]), list[int64](conv[driver.DNNConvPrePadding]), list[int64](conv[driver.DNNConvDilations])
	tx, tw, ty := n.operands(graph)
	x, w, y := n.f.vector("x", at[0], tx.d, tx.elems()), n.f.vector("w", at[1], tw.d, tw.elems()), n.f.vector("y", at[2], ty.d, ty.elems())
	out := map[int32]vector{driver.DNNForwardAlpha: y, driver.DNNBackwardDataAlpha: x, driver.DNNBackwardFilterAlpha: w}[first]
	sums := make([]float64, len(out.b)/out.d.Size())
	cg, kg := tw.dims[1], tw.dims[0]*tw.dims[1]/tx.dims[1]
	for i := range int64(ty.elems()) {
		ow, oh, k, img := i%ty.dims[3], i/ty.dims[3]%ty.dims[2], i/(ty.dims[3]*ty.dims[2])%ty.dims[1], i/(ty.dims[3]*ty.dims[2]*ty.dims[1])
		o := ty.place(img, k, oh, ow)
		for tap := range cg * tw.dims[2] * tw.dims[3] {
			c, r, s := tap/(tw.dims[2]*tw.dims[3]), tap/tw.dims[3]%tw.dims[2], tap%tw.dims[3]
			h, v := oh*stride[0]-pad[0]+r*dilation[0], ow*stride[1]-pad[1]+s*dilation[1]
			if h < 0 || h >= tx.dims[2] || v < 0 || v >= tx.dims[3] {
				continue
			}
			px, pw := tx.place(img, k/kg*cg+c, h, v), tw.place(k, c, r, s)
			switch first {
			case driver.DNNForwardAlpha:
				sums[o] += x.at(px) * w.at(pw)
			case driver.DNNBackwardDataAlpha:
				sums[px] += y.at(o) * w.at(pw)
			default:
				sums[pw] += x.at(px) * y.at(o)
			}
		}
	}
	for i, v := range sums {
		out.set(i, v)
	}
}

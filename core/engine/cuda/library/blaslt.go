package library

import (
	"errors"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// BLAS makes matrix products by cuBLASLt. What its heuristics choose for a
// product is remembered, so that all programs of a device ask once.
type BLAS struct {
	api    *driver.BlasLt
	handle driver.LtHandle
	stream driver.Stream
	tf32   bool // products of float32 may be made of their upper 11 bits
	chosen map[Product]*driver.LtHeuristicResult
}

// Product is D = op(A)·op(B) with something done to it on its way to memory.
// Matrices are column-major, as cuBLASLt has them: a row-major one is its
// transpose. D is m×n, and the sum is over k.
type Product struct {
	M, N, K        int
	TransA, TransB bool
	D              tensor.DType
	Epilogue       uint32
}

// workspaceLimit is the workspace that a product may use besides its matrices;
// NVIDIA's advice for Hopper is 32 MiB.
const workspaceLimit = 32 << 20

// MaskStride is the length in bits of a column of the mask that a ReLU leaves.
func MaskStride(m int) int { return (m + 127) &^ 127 }

// openBLAS makes a handle whose work goes to a stream.
func openBLAS(api *driver.BlasLt, stream driver.Stream) (*BLAS, error) {
	b := &BLAS{api: api, stream: stream, chosen: map[Product]*driver.LtHeuristicResult{}}
	return b, api.Create(&b.handle)
}

// matmul is a product's descriptors.
type matmul struct {
	api     *driver.BlasLt
	desc    driver.LtMatmulDesc
	a, b, d driver.LtLayout
}

func dataType(d tensor.DType) driver.DataType {
	switch d {
	case tensor.F16:
		return driver.R16F
	case tensor.BF16:
		return driver.R16BF
	}
	return driver.R32F
}

func (l *BLAS) compute(d tensor.DType) driver.ComputeType {
	if d == tensor.F32 && l.tf32 {
		return driver.Compute32FFastTF32
	}
	return driver.Compute32F
}

// describe makes the descriptors. bias and aux are addresses that the epilogue uses, 0 where it does not.
func (l *BLAS) describe(p Product, bias, aux driver.DevicePtr) (x *matmul, err error) {
	x = &matmul{api: l.api}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.free())
			x = nil
		}
	}()
	if err = l.api.MatmulDescCreate(&x.desc, l.compute(p.D), driver.R32F); err != nil {
		return x, err
	}
	set := func(attribute int32, value unsafe.Pointer, bytes uintptr) {
		if err == nil {
			err = l.api.MatmulDescSetAttribute(x.desc, attribute, value, bytes)
		}
	}
	transA, transB := operation(p.TransA), operation(p.TransB)
	set(driver.LtDescTransA, unsafe.Pointer(&transA), 4)
	set(driver.LtDescTransB, unsafe.Pointer(&transB), 4)
	set(driver.LtDescEpilogue, unsafe.Pointer(&p.Epilogue), 4)
	if p.Epilogue&(driver.EpilogueBias|driver.EpilogueBGradB) != 0 {
		set(driver.LtDescBiasPointer, unsafe.Pointer(&bias), 8)
	}
	if p.Epilogue&epilogueAux != 0 {
		stride := int64(MaskStride(p.M))
		set(driver.LtDescEpilogueAuxPointer, unsafe.Pointer(&aux), 8)
		set(driver.LtDescEpilogueAuxLD, unsafe.Pointer(&stride), 8)
	}
	t := dataType(p.D)
	layout := func(at *driver.LtLayout, rows, cols int, trans bool) {
		if trans {
			rows, cols = cols, rows
		}
		if err == nil {
			err = l.api.MatrixLayoutCreate(at, t, uint64(rows), uint64(cols), int64(rows))
		}
	}
	layout(&x.a, p.M, p.K, p.TransA)
	layout(&x.b, p.K, p.N, p.TransB)
	layout(&x.d, p.M, p.N, false)
	return x, err
}

// epilogueAux is the bit of epilogues that write or read a mask.
const epilogueAux uint32 = 128

func operation(trans bool) int32 {
	if trans {
		return driver.OpT
	}
	return driver.OpN
}

func (x *matmul) free() (err error) {
	for _, l := range []driver.LtLayout{x.a, x.b, x.d} {
		if l != 0 {
			err = errors.Join(err, x.api.MatrixLayoutDestroy(l))
		}
	}
	if x.desc != 0 {
		err = errors.Join(err, x.api.MatmulDescDestroy(x.desc))
	}
	return err
}

// Choose returns an algorithm from the heuristics; nil if cuBLASLt has none.
func (l *BLAS) Choose(p Product) (*driver.LtHeuristicResult, error) {
	if r, ok := l.chosen[p]; ok {
		return r, nil
	}
	const somewhere = 1 << 20 // heuristics look at an epilogue's address for its alignment alone
	x, err := l.describe(p, somewhere, somewhere)
	if err != nil {
		return nil, err
	}
	r, err := l.ask(x)
	if refusal(err) {
		r, err = nil, nil
	}
	if err == nil {
		l.chosen[p] = r
	}
	return r, errors.Join(err, x.free())
}

// refusal reports whether heuristics said that nothing does what was asked for.
// Versions differ in the status that they say it with: epilogues that one does not know
// are invalid values, and types that a GPU lacks are a mismatch.
func refusal(err error) bool {
	var s driver.BlasStatus
	return errors.As(err, &s) && (s == driver.BlasNotSupported || s == driver.BlasInvalidValue || s == driver.BlasArchMismatch)
}

// Alignment is what operands' addresses have at least: activations begin on
// cache lines, gradients in buckets on multiples of ddp.GradientAlign.
const Alignment uint32 = 16

func (l *BLAS) ask(x *matmul) (r *driver.LtHeuristicResult, err error) {
	var pref driver.LtPreference
	if err := l.api.MatmulPreferenceCreate(&pref); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.api.MatmulPreferenceDestroy(pref)) }()
	limit, align := uint64(workspaceLimit), Alignment
	if err := l.api.MatmulPreferenceSetAttribute(pref, driver.LtPrefMaxWorkspace, unsafe.Pointer(&limit), 8); err != nil {
		return nil, err
	}
	for _, a := range []int32{driver.LtPrefMinAlignA, driver.LtPrefMinAlignB, driver.LtPrefMinAlignC, driver.LtPrefMinAlignD} {
		if err := l.api.MatmulPreferenceSetAttribute(pref, a, unsafe.Pointer(&align), 4); err != nil {
			return nil, err
		}
	}
	var results [1]driver.LtHeuristicResult
	var n int32
	err = l.api.AlgoGetHeuristic(l.handle, x.desc, x.a, x.b, x.d, x.d, pref, 1, &results[0], &n)
	if err != nil || n == 0 || results[0].State != 0 {
		return nil, err
	}
	return &results[0], nil
}

// Operands are where a product's matrices lie. Add is read at each launch: D is
// added to what is there unless it is 0.
type Operands struct {
	A, B, D, Bias, Aux driver.DevicePtr
	Add                *int32
}

// aligned reports whether an address is as libraries need it.
func aligned(p driver.DevicePtr) bool { return p%driver.DevicePtr(Alignment) == 0 }

// aligned reports whether all matrices are.
func (o *Operands) Aligned() bool {
	return aligned(o.A) && aligned(o.B) && aligned(o.D) && aligned(o.Bias) && aligned(o.Aux)
}

// Launch prepares a product by an algorithm that Choose has found, with its
// workspace. run enqueues it; free is called when it will not run again.
func (l *BLAS) Launch(p Product, best *driver.LtHeuristicResult, o Operands, work driver.DevicePtr) (run, free func() error, err error) {
	x, err := l.describe(p, o.Bias, o.Aux)
	if err != nil {
		return nil, nil, err
	}
	algo, one, beta := best.Algo, float32(1), new(float32)
	return func() error {
		if *beta = 0; o.Add != nil && *o.Add != 0 {
			*beta = 1
		}
		return l.api.Matmul(l.handle, x.desc, unsafe.Pointer(&one), o.A, x.a, o.B, x.b, unsafe.Pointer(beta), o.D, x.d, o.D, x.d,
			&algo, work, best.WorkspaceSize, l.stream)
	}, x.free, nil
}

package cuda

import (
	bin "encoding/binary"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// vector reads and writes numbers of any type.
type vector struct {
	d tensor.DType
	b []byte
}

func (v vector) at(i int) float64 {
	switch v.d {
	case tensor.F64:
		return tensor.View[float64](v.b)[i]
	case tensor.F16:
		return float64(tensor.F32FromF16(tensor.View[uint16](v.b)[i]))
	case tensor.BF16:
		return float64(tensor.F32FromBF16(tensor.View[uint16](v.b)[i]))
	}
	return float64(tensor.View[float32](v.b)[i])
}

func (v vector) set(i int, x float64) {
	switch v.d {
	case tensor.F64:
		tensor.View[float64](v.b)[i] = x
	case tensor.F16:
		tensor.View[uint16](v.b)[i] = tensor.F16FromF32(float32(x))
	case tensor.BF16:
		tensor.View[uint16](v.b)[i] = tensor.BF16FromF32(float32(x))
	default:
		tensor.View[float32](v.b)[i] = float32(x)
	}
}

// vector is device memory as numbers.
func (f *fake) vector(what string, p driver.DevicePtr, d tensor.DType, n int) vector {
	return vector{d, f.within(what, p, uintptr(n*d.Size()))}
}

// fakeBlas is a cuBLASLt that computes on the fake's memory, in float64. It
// knows the attributes that the device sets and refuses every other.
type fakeBlas struct {
	f       *fake
	descs   map[driver.LtMatmulDesc]map[int32][]byte
	layouts map[driver.LtLayout]*fakeLayout
	prefs   map[driver.LtPreference]map[int32]uint64
	next    uintptr
	compute driver.ComputeType         // of the last product
	refuse  func(epilogue uint32) bool // what has no algorithm
	refusal driver.BlasStatus          // with which that is said
}

type fakeLayout struct {
	d          tensor.DType
	rows, cols uint64
	ld         int64
}

const fakeBlasHandle, fakeBlasWorkspace = 11, 300

func newFakeBlas(f *fake) *fakeBlas {
	return &fakeBlas{f: f, descs: map[driver.LtMatmulDesc]map[int32][]byte{}, layouts: map[driver.LtLayout]*fakeLayout{}, prefs: map[driver.LtPreference]map[int32]uint64{}, refuse: func(uint32) bool { return false }, refusal: driver.BlasNotSupported}
}

func (b *fakeBlas) id() uintptr { b.next++; return b.next }

// api is the table of functions.
func (b *fakeBlas) api() *driver.BlasLt {
	return &driver.BlasLt{
		Create: func(h *driver.LtHandle) error { *h = fakeBlasHandle; return nil },
		MatmulDescCreate: func(d *driver.LtMatmulDesc, c driver.ComputeType, scale driver.DataType) error {
			if c != driver.Compute32F && c != driver.Compute32FFastTF32 || scale != driver.R32F {
				return driver.BlasStatus(7)
			}
			b.compute = c
			*d = driver.LtMatmulDesc(b.id())
			b.descs[*d] = map[int32][]byte{}
			return nil
		},
		MatmulDescDestroy: func(d driver.LtMatmulDesc) error { return drop(b.f, b.descs, d) },
		MatmulDescSetAttribute: func(d driver.LtMatmulDesc, a int32, v unsafe.Pointer, n uintptr) error {
			sizes := map[int32]uintptr{driver.LtDescTransA: 4, driver.LtDescTransB: 4, driver.LtDescEpilogue: 4, driver.LtDescBiasPointer: 8, driver.LtDescEpilogueAuxPointer: 8, driver.LtDescEpilogueAuxLD: 8}
			if sizes[a] != n {
				b.f.t.Fatalf("attribute %d of a product has %d bytes", a, n)
			}
			b.descs[d][a] = append([]byte{}, unsafe.Slice((*byte)(v), n)...)
			return nil
		},
		MatrixLayoutCreate: func(l *driver.LtLayout, t driver.DataType, rows, cols uint64, ld int64) error {
			types := map[driver.DataType]tensor.DType{driver.R32F: tensor.F32, driver.R16F: tensor.F16, driver.R16BF: tensor.BF16}
			if rows == 0 || cols == 0 || ld < int64(rows) {
				return driver.BlasStatus(7)
			}
			*l = driver.LtLayout(b.id())
			b.layouts[*l] = &fakeLayout{types[t], rows, cols, ld}
			return nil
		},
		MatrixLayoutDestroy: func(l driver.LtLayout) error { return drop(b.f, b.layouts, l) },
		MatmulPreferenceCreate: func(p *driver.LtPreference) error {
			*p = driver.LtPreference(b.id())
			b.prefs[*p] = map[int32]uint64{}
			return nil
		},
		MatmulPreferenceDestroy: func(p driver.LtPreference) error { return drop(b.f, b.prefs, p) },
		MatmulPreferenceSetAttribute: func(p driver.LtPreference, a int32, v unsafe.Pointer, n uintptr) error {
			if (a == driver.LtPrefMaxWorkspace) != (n == 8) {
				b.f.t.Fatalf("attribute %d of a preference has %d bytes", a, n)
			}
			b.prefs[p][a] = uint64(unsafe.Slice((*byte)(v), n)[0])
			return nil
		},
		AlgoGetHeuristic: b.heuristic,
		Matmul:           b.matmul,
	}
}

// drop forgets a handle that has to be there.
func drop[K ~uintptr, V any](f *fake, m map[K]V, k K) error {
	if _, ok := m[k]; !ok {
		f.t.Fatalf("%T %d is destroyed, and is not there", k, k)
	}
	delete(m, k)
	return nil
}

func (b *fakeBlas) word(d driver.LtMatmulDesc, a int32) uint64 {
	v := append([]byte{}, b.descs[d][a]...)
	return bin.LittleEndian.Uint64(append(v, make([]byte, 8)...))
}

// token is an algorithm that fits one kind of product alone.
func (b *fakeBlas) token(desc driver.LtMatmulDesc, x, w, y driver.LtLayout) (t driver.LtAlgo) {
	t.Data[0] = b.word(desc, driver.LtDescEpilogue)<<32 | b.word(desc, driver.LtDescTransA)<<1 | b.word(desc, driver.LtDescTransB)
	for i, l := range []driver.LtLayout{x, w, y} {
		t.Data[i+1] = b.layouts[l].rows<<32 | b.layouts[l].cols
	}
	return t
}

func (b *fakeBlas) heuristic(h driver.LtHandle, desc driver.LtMatmulDesc, x, w, c, d driver.LtLayout, pref driver.LtPreference, n int32, out *driver.LtHeuristicResult, returned *int32) error {
	e := uint32(b.word(desc, driver.LtDescEpilogue))
	if h != fakeBlasHandle || c != d || n != 1 || len(b.prefs[pref]) != 5 {
		b.f.t.Fatalf("heuristics on handle %d for %d results with %d preferences", h, n, len(b.prefs[pref]))
	}
	if b.refuse(e) {
		return b.refusal
	}
	*out = driver.LtHeuristicResult{Algo: b.token(desc, x, w, d), WorkspaceSize: fakeBlasWorkspace}
	*returned = 1
	return nil
}

// matrix is a matrix in column-major order, or its transpose.
type matrix struct {
	vector
	rows, cols, ld int
	trans          bool
}

func (b *fakeBlas) matrix(p driver.DevicePtr, l driver.LtLayout, trans uint64) matrix {
	y := b.layouts[l]
	m := matrix{b.f.vector("a matrix", p, y.d, int(y.ld)*int(y.cols-1)+int(y.rows)), int(y.rows), int(y.cols), int(y.ld), trans == uint64(driver.OpT)}
	if m.trans {
		m.rows, m.cols = m.cols, m.rows
	}
	return m
}

func (m matrix) get(i, j int) float64 {
	if m.trans {
		i, j = j, i
	}
	return m.at(i + j*m.ld)
}

func (b *fakeBlas) matmul(h driver.LtHandle, desc driver.LtMatmulDesc, alpha unsafe.Pointer, x driver.DevicePtr, xl driver.LtLayout, w driver.DevicePtr, wl driver.LtLayout,
	beta unsafe.Pointer, c driver.DevicePtr, cl driver.LtLayout, d driver.DevicePtr, dl driver.LtLayout, algo *driver.LtAlgo, work driver.DevicePtr, bytes uintptr, s driver.Stream) error {
	f := b.f
	f.called("cublasLtMatmul", s)
	if h != fakeBlasHandle || *(*float32)(alpha) != 1 || c != d || cl != dl || *algo != b.token(desc, xl, wl, dl) || bytes != fakeBlasWorkspace {
		f.t.Fatalf("a product of handle %d with algorithm %v and %d bytes of workspace", h, algo.Data, bytes)
	}
	bias, aux := driver.DevicePtr(b.word(desc, driver.LtDescBiasPointer)), driver.DevicePtr(b.word(desc, driver.LtDescEpilogueAuxPointer))
	if f.misaligned(x, w, d, bias, aux) { // heuristics were told otherwise
		return driver.BlasNotSupported
	}
	keep := *(*float32)(beta)
	f.enqueue("cublasLtMatmul", func() {
		scribble(f.within("the workspace of a product", work, bytes))
		A, B, D := b.matrix(x, xl, b.word(desc, driver.LtDescTransA)), b.matrix(w, wl, b.word(desc, driver.LtDescTransB)), b.matrix(d, dl, 0)
		b.multiply(desc, A, B, D, float64(keep))
	})
	return nil
}

func scribble(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

func (b *fakeBlas) multiply(desc driver.LtMatmulDesc, x, w, d matrix, keep float64) {
	if x.rows != d.rows || w.cols != d.cols || x.cols != w.rows {
		b.f.t.Fatalf("%d×%d · %d×%d is not %d×%d", x.rows, x.cols, w.rows, w.cols, d.rows, d.cols)
	}
	e := uint32(b.word(desc, driver.LtDescEpilogue))
	bias, aux, stride := driver.DevicePtr(b.word(desc, driver.LtDescBiasPointer)), driver.DevicePtr(b.word(desc, driver.LtDescEpilogueAuxPointer)), int(b.word(desc, driver.LtDescEpilogueAuxLD))
	var add, sums vector
	var mask []byte
	switch e {
	case driver.EpilogueDefault, driver.EpilogueReLU:
	case driver.EpilogueBias, driver.EpilogueReLU | driver.EpilogueBias, driver.EpilogueReLUAux | driver.EpilogueBias:
		add = b.f.vector("a bias", bias, d.d, d.rows)
	case driver.EpilogueBGradB:
		sums = b.f.vector("a bias gradient", bias, d.d, d.cols)
	case driver.EpilogueReLUAux, driver.EpilogueDReLU:
	default:
		b.f.t.Fatalf("epilogue %d", e)
	}
	if e&epilogueAux != 0 {
		if stride%128 != 0 || stride < d.rows {
			b.f.t.Fatalf("a mask with columns of %d bits", stride)
		}
		mask = b.f.within("a mask", aux, uintptr(stride/8*d.cols))
	}
	for j := range d.cols {
		total := 0.0
		for k := range w.rows {
			total += w.get(k, j)
		}
		if sums.b != nil {
			sums.set(j, total)
		}
		for i := range d.rows {
			v := 0.0
			for k := range x.cols {
				v += x.get(i, k) * w.get(k, j)
			}
			if keep != 0 {
				v += keep * d.get(i, j)
			}
			if add.b != nil {
				v += add.at(i)
			}
			bit := j*stride + i
			switch {
			case e == driver.EpilogueDReLU && mask[bit/8]>>(bit%8)&1 == 0:
				v = 0
			case e != driver.EpilogueDReLU && mask != nil:
				mask[bit/8] &^= 1 << (bit % 8)
				if v > 0 {
					mask[bit/8] |= 1 << (bit % 8)
				}
				fallthrough
			case e == driver.EpilogueReLU || e == driver.EpilogueReLU|driver.EpilogueBias:
				v = max(v, 0)
			}
			d.set(i+j*d.ld, v)
		}
	}
}

package fakegpu

import (
	bin "encoding/binary"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// BLAS is a cuBLASLt that computes on the machine's memory, in float64. It
// knows the attributes that the device sets and refuses every other.
type BLAS struct {
	Refuse  func(epilogue uint32) bool // what has no algorithm; nil: nothing
	Refusal driver.BlasStatus          // with which that is said
	Compute driver.ComputeType         // of the last product

	p       *Process
	m       *Machine
	descs   map[driver.LtMatmulDesc]map[int32][]byte
	layouts map[driver.LtLayout]*blasLayout
	prefs   map[driver.LtPreference]map[int32]uint64
	next    uintptr
}

type blasLayout struct {
	d          tensor.DType
	rows, cols uint64
	ld         int64
}

const blasHandle, blasWorkspace = 11, 300

// BLAS is the library of this process.
func (m *Machine) BLAS() *BLAS {
	return &BLAS{Refusal: driver.BlasNotSupported, p: m.here, m: m, descs: map[driver.LtMatmulDesc]map[int32][]byte{}, layouts: map[driver.LtLayout]*blasLayout{}, prefs: map[driver.LtPreference]map[int32]uint64{}}
}

func (b *BLAS) id() uintptr { b.next++; return b.next }

// API is the table of functions.
func (b *BLAS) API() *driver.BlasLt {
	return &driver.BlasLt{
		Create: func(h *driver.LtHandle) error { *h = blasHandle; return nil },
		MatmulDescCreate: func(d *driver.LtMatmulDesc, c driver.ComputeType, scale driver.DataType) error {
			if c != driver.Compute32F && c != driver.Compute32FFastTF32 || scale != driver.R32F {
				return driver.BlasStatus(7)
			}
			b.Compute = c
			*d = driver.LtMatmulDesc(b.id())
			b.descs[*d] = map[int32][]byte{}
			return nil
		},
		MatmulDescDestroy: func(d driver.LtMatmulDesc) error { return dropHandle(b.m, b.descs, d) },
		MatmulDescSetAttribute: func(d driver.LtMatmulDesc, a int32, v unsafe.Pointer, n uintptr) error {
			sizes := map[int32]uintptr{driver.LtDescTransA: 4, driver.LtDescTransB: 4, driver.LtDescEpilogue: 4, driver.LtDescBiasPointer: 8, driver.LtDescEpilogueAuxPointer: 8, driver.LtDescEpilogueAuxLD: 8}
			if sizes[a] != n {
				b.m.mistake("attribute %d of a product has %d bytes", a, n)
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
			b.layouts[*l] = &blasLayout{types[t], rows, cols, ld}
			return nil
		},
		MatrixLayoutDestroy: func(l driver.LtLayout) error { return dropHandle(b.m, b.layouts, l) },
		MatmulPreferenceCreate: func(p *driver.LtPreference) error {
			*p = driver.LtPreference(b.id())
			b.prefs[*p] = map[int32]uint64{}
			return nil
		},
		MatmulPreferenceDestroy: func(p driver.LtPreference) error { return dropHandle(b.m, b.prefs, p) },
		MatmulPreferenceSetAttribute: func(p driver.LtPreference, a int32, v unsafe.Pointer, n uintptr) error {
			if (a == driver.LtPrefMaxWorkspace) != (n == 8) {
				b.m.mistake("attribute %d of a preference has %d bytes", a, n)
			}
			b.prefs[p][a] = uint64(unsafe.Slice((*byte)(v), n)[0])
			return nil
		},
		AlgoGetHeuristic: b.heuristic,
		Matmul:           b.matmul,
	}
}

func (b *BLAS) word(d driver.LtMatmulDesc, a int32) uint64 {
	v := append([]byte{}, b.descs[d][a]...)
	return bin.LittleEndian.Uint64(append(v, make([]byte, 8)...))
}

// token is an algorithm that fits one kind of product alone.
func (b *BLAS) token(desc driver.LtMatmulDesc, x, w, y driver.LtLayout) (t driver.LtAlgo) {
	t.Data[0] = b.word(desc, driver.LtDescEpilogue)<<32 | b.word(desc, driver.LtDescTransA)<<1 | b.word(desc, driver.LtDescTransB)
	for i, l := range []driver.LtLayout{x, w, y} {
		t.Data[i+1] = b.layouts[l].rows<<32 | b.layouts[l].cols
	}
	return t
}

func (b *BLAS) heuristic(h driver.LtHandle, desc driver.LtMatmulDesc, x, w, c, d driver.LtLayout, pref driver.LtPreference, n int32, out *driver.LtHeuristicResult, returned *int32) error {
	e := uint32(b.word(desc, driver.LtDescEpilogue))
	if h != blasHandle || c != d || n != 1 || len(b.prefs[pref]) != 5 {
		b.m.mistake("heuristics on handle %d for %d results with %d preferences", h, n, len(b.prefs[pref]))
	}
	if b.Refuse != nil && b.Refuse(e) {
		return b.Refusal
	}
	*out = driver.LtHeuristicResult{Algo: b.token(desc, x, w, d), WorkspaceSize: blasWorkspace}
	*returned = 1
	return nil
}

// matrix is a matrix in column-major order, or its transpose.
type matrix struct {
	Vector
	rows, cols, ld int
	trans          bool
}

func (b *BLAS) matrix(p driver.DevicePtr, l driver.LtLayout, trans uint64) matrix {
	y := b.layouts[l]
	m := matrix{b.p.vector("a matrix", p, y.d, int(y.ld)*int(y.cols-1)+int(y.rows)), int(y.rows), int(y.cols), int(y.ld), trans == uint64(driver.OpT)}
	if m.trans {
		m.rows, m.cols = m.cols, m.rows
	}
	return m
}

func (m matrix) get(i, j int) float64 {
	if m.trans {
		i, j = j, i
	}
	return m.At(i + j*m.ld)
}

func (b *BLAS) matmul(h driver.LtHandle, desc driver.LtMatmulDesc, alpha unsafe.Pointer, x driver.DevicePtr, xl driver.LtLayout, w driver.DevicePtr, wl driver.LtLayout,
	beta unsafe.Pointer, c driver.DevicePtr, cl driver.LtLayout, d driver.DevicePtr, dl driver.LtLayout, algo *driver.LtAlgo, work driver.DevicePtr, bytes uintptr, s driver.Stream) error {
	if h != blasHandle || *(*float32)(alpha) != 1 || c != d || cl != dl || *algo != b.token(desc, xl, wl, dl) || bytes != blasWorkspace {
		b.m.mistake("a product of handle %d with algorithm %v and %d bytes of workspace", h, algo.Data, bytes)
	}
	bias, aux := driver.DevicePtr(b.word(desc, driver.LtDescBiasPointer)), driver.DevicePtr(b.word(desc, driver.LtDescEpilogueAuxPointer))
	if misaligned(x, w, d, bias, aux) { // heuristics were told otherwise
		return driver.BlasNotSupported
	}
	keep := *(*float32)(beta)
	return b.m.fails("cublasLtMatmul", func() driver.CUResult {
		return b.p.compute("cublasLtMatmul", s, func() {
			scribble(b.p.within("the workspace of a product", work, bytes))
			A, B, D := b.matrix(x, xl, b.word(desc, driver.LtDescTransA)), b.matrix(w, wl, b.word(desc, driver.LtDescTransB)), b.matrix(d, dl, 0)
			b.multiply(desc, A, B, D, float64(keep))
		}, nil)
	})
}

func (b *BLAS) multiply(desc driver.LtMatmulDesc, x, w, d matrix, keep float64) {
	if x.rows != d.rows || w.cols != d.cols || x.cols != w.rows {
		b.m.mistake("%d×%d · %d×%d is not %d×%d", x.rows, x.cols, w.rows, w.cols, d.rows, d.cols)
	}
	e := uint32(b.word(desc, driver.LtDescEpilogue))
	bias, aux, stride := driver.DevicePtr(b.word(desc, driver.LtDescBiasPointer)), driver.DevicePtr(b.word(desc, driver.LtDescEpilogueAuxPointer)), int(b.word(desc, driver.LtDescEpilogueAuxLD))
	var add, sums Vector
	var mask []byte
	switch e {
	case driver.EpilogueDefault, driver.EpilogueReLU:
	case driver.EpilogueBias, driver.EpilogueReLU | driver.EpilogueBias, driver.EpilogueReLUAux | driver.EpilogueBias:
		add = b.p.vector("a bias", bias, d.DType, d.rows)
	case driver.EpilogueBGradB:
		sums = b.p.vector("a bias gradient", bias, d.DType, d.cols)
	case driver.EpilogueReLUAux, driver.EpilogueDReLU:
	default:
		b.m.mistake("epilogue %d", e)
	}
	if e&driver.EpilogueReLUAux&^driver.EpilogueReLU != 0 {
		if stride%128 != 0 || stride < d.rows {
			b.m.mistake("a mask with columns of %d bits", stride)
		}
		mask = b.p.within("a mask", aux, uintptr(stride/8*d.cols))
	}
	for j := range d.cols {
		total := 0.0
		for k := range w.rows {
			total += w.get(k, j)
		}
		if sums.Bytes != nil {
			sums.Set(j, total)
		}
		for i := range d.rows {
			v := 0.0
			for k := range x.cols {
				v += x.get(i, k) * w.get(k, j)
			}
			if keep != 0 {
				v += keep * d.get(i, j)
			}
			if add.Bytes != nil {
				v += add.At(i)
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
			d.Set(i+j*d.ld, v)
		}
	}
}

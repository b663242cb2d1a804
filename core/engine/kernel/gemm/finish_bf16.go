package gemm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// FinishBF16 is what becomes of a product in float32 on its way to bfloat16.
// Fields that are not set leave it alone.
type FinishBF16 struct {
	Bias []float32 // added to every row
	ReLU bool      // after the bias
	Gate []uint16  // with rows as far apart as the result's: the result is 0 where it is ≤ 0. It stands alone.
}

// GemmBF16Rounded computes C = op(A)·op(B) as GemmBF16 does, finished and rounded
// once to bfloat16, subnormal numbers to zero. The scratch holds
// GemmBF16RoundedScratch(m, n, k) elements.
func GemmBF16Rounded(transA, transB bool, m, n, k int, a []uint16, lda int, b []uint16, ldb int, c []uint16, ldc int, f FinishBF16, scratch []float32) {
	step := finishRows(m, n)
	sums, rest := scratch[:step*n+kernel.Block], scratch[step*n+kernel.Block:]
	for i := 0; i < m; i += step {
		rows, from := min(step, m-i), i*lda
		if transA {
			from = i
		}
		if part := a[min(from, len(a)):]; kernel.HasBF16() && fewColumns(rows, n) {
			transposed, rest := rest[:rows*n], rest[rows*n:]
			GemmBF16(!transB, !transA, n, rows, k, b, ldb, part, lda, transposed, rows, rest, false)
			vecPackAcross(n, &transposed[0], 4*rows, rows, kernel.FirstLanes((rows-1)%kernel.Block+1), &sums[0], 4*n)
		} else {
			GemmBF16(transA, transB, rows, n, k, part, lda, b, ldb, sums, n, rest, false)
		}
		g := f
		if f.Gate != nil {
			g.Gate = f.Gate[i*ldc:]
		}
		g.rows(rows, n, sums, c[i*ldc:], ldc)
	}
}

// fewColumns reports whether C has so few columns that it is better computed transposed,
// as few whole rows: a tile is two vectors wide, and lower than one. The bits are
// the same.
func fewColumns(m, n int) bool { return 0 < n && n <= maxTileRows && m > maxTileCols }

// finishRoom is how many sums wait in the second-level cache to be finished.
const finishRoom = 128 << 10

// finishRows is how many rows that is, in whole tiles.
func finishRows(m, n int) int {
	return max(1, min(m, max(1, finishRoom/max(1, n)/maxTileRows)*maxTileRows))
}

// GemmBF16RoundedScratch is the number of scratch elements that GemmBF16Rounded
// needs for these dimensions, and for smaller ones.
func GemmBF16RoundedScratch(m, n, k int) int {
	sums, few := min(m*n, max(finishRoom, maxTileRows*n)), min(n, maxTileRows)
	return sums + kernel.Block + min(m*few, finishRoom) + max(GemmBF16Scratch(m, n, k), GemmBF16Scratch(few, m, k))
}

// zeroBias is added again and again where there is none.
var zeroBias [kernel.Block]float32

// rows finishes x [m, n] into y, whose rows lie ldy apart.
func (f *FinishBF16) rows(m, n int, x []float32, y []uint16, ldy int) {
	if n == 0 {
		return
	}
	if f.Bias == nil && ldy == n { // rows that are one as they lie, which may be short
		m, n, ldy = 1, m*n, m*n
	}
	for i := range m {
		from, to := x[i*n:][:n], y[i*ldy:][:n]
		var gate []uint16
		if f.Gate != nil {
			gate = f.Gate[i*ldy:][:n]
		}
		switch {
		case kernel.HasBF16():
			f.vectorRow(from, gate, to)
		case gate == nil && kernel.HasBF16Products():
			f.narrowRow(from, to)
		default:
			f.row(from, gate, to)
		}
	}
}

// row finishes x into y, as the definition says.
func (f *FinishBF16) row(x []float32, gate, y []uint16) {
	for j, v := range x {
		switch {
		case gate != nil && tensor.F32FromBF16(gate[j]) <= 0:
			v = 0
		case gate != nil:
		default:
			if f.Bias != nil {
				v += f.Bias[j]
			}
			if f.ReLU && v < 0 {
				v = 0
			}
		}
		y[j] = kernel.RoundBF16(v)
	}
}

// narrowRow is row without a gate with the kernels for float32.
func (f *FinishBF16) narrowRow(x []float32, y []uint16) {
	var room [256]float32
	bias := f.Bias
	for len(x) > 0 {
		part := room[:copy(room[:], x)]
		if bias != nil {
			elementwise.AddTo(part, bias[:len(part)])
			bias = bias[len(part):]
		}
		if f.ReLU {
			elementwise.ReLU(part, part)
		}
		for i, bits := range tensor.View[uint32](tensor.Bytes(part)) { // subnormal numbers become zeros
			normal := int32(bits&0x7f800000+0x7f800000) >> 31
			part[i] = math.Float32frombits(bits & (uint32(normal) | 1<<31))
		}
		convert.Narrow(tensor.BF16, tensor.Bytes(y[:len(part)]), part)
		x, y = x[len(part):], y[len(part):]
	}
}

// vectorRow is row with the kernels for vectors.
func (f *FinishBF16) vectorRow(x []float32, gate, y []uint16) {
	n := len(x)
	if gate != nil {
		vecGateRow(&x[0], &gate[0], &y[0], n)
		return
	}
	bias, step, floor := &zeroBias[0], 0, float32(math.Inf(-1))
	if f.Bias != nil {
		bias, step = &f.Bias[:n][0], 4*kernel.Block
	}
	if f.ReLU {
		floor = 0
	}
	vecFinishRow(&x[0], bias, step, floor, &y[0], n)
}

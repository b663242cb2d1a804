package conv

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Points for tiles that float32 images could not afford: chosen for the smallest
// error of 8×8 outputs of 3×3 filters, and of 7×7 outputs of 5×5 filters, which in
// float32 arithmetic is a tenth of what rounding the outputs to bfloat16 costs.
var (
	ten    = pointSet{finite: []float64{0, 0.5, -0.5, 0.75, -0.75, 4. / 3, -4. / 3, 2.5, -2.5}, taps: []int{3, 8}}
	eleven = pointSet{finite: []float64{0.25, -0.25, 0.5, -0.5, 1, -1, 1.25, -1.25, 2, -2}, taps: []int{5, 7}}
)

// zero is the number of points 0 in front of the pairs ±p.
func (p pointSet) zero() int { return len(p.finite) % 2 }

// bf16Winograd emits the transforms between pixels and 10×10 or 11×11 points, and
// the copies between planes of bfloat16 and vectors of 16 channels in float32.
func bf16Winograd(a *isa.Asm) {
	for _, p := range []pointSet{ten, eleven} {
		n := len(p.finite) + 1
		largeTransform(a, fmt.Sprintf("dataTo%dPoints", n), fmt.Sprintf("tiles of %d×%d pixels to as many points", n, n), n, n, p.apply(dataPairs, dataMatrix(p.finite)))
		for _, taps := range p.taps {
			largeTransform(a, fmt.Sprintf("filter%dTo%dPoints", taps, n), fmt.Sprintf("filters of %d×%d to %d×%d points", taps, taps, n, n), n, taps, p.apply(filterPairs, filterMatrix(p.finite, taps)))
			largeTransform(a, fmt.Sprintf("points%dTo%d", n, taps), fmt.Sprintf("%d×%d points to tiles of %d×%d", n, n, taps, taps), taps, n, p.apply(outPairs, outMatrix(p.finite, taps)))
		}
	}
	halfPlanesToLanes(a)
	lanesToHalfPlanes(a)
}

// table holds a transform's constants in memory: they are too many for registers.
type table struct {
	a    *isa.Asm
	data operand.Mem
	at   map[float64]int
}

// newTable starts that of a function.
func newTable(a *isa.Asm, function string) *table {
	t := &table{a: a, data: a.StaticGlobal(function + a.Name + "Factors"), at: map[float64]int{}}
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	return t
}

// get is the place of v, in the form of asm.mulFactor.
func (t *table) get(v float64) operand.Mem {
	size := 4 * t.a.FactorCopies()
	i, ok := t.at[v]
	if !ok {
		i = size * len(t.at)
		t.at[v] = i
		for copies := 0; copies < size; copies += 4 {
			t.a.AddDatum(i+copies, operand.U32(math.Float32bits(float32(v))))
		}
	}
	return t.data.Offset(i)
}

// sum is Σ row[i]·in[i] over the given indices; last starts it and has the factor 1 if any has.
func (t *table) sum(row []float64, in []reg.VecVirtual, idx []int) reg.VecVirtual {
	a, acc := t.a, t.a.Vec()
	first := idx[len(idx)-1]
	for _, i := range idx {
		if row[i] == 1 {
			first = i
		}
	}
	if row[first] == 1 {
		a.Copy(in[first], acc)
	} else {
		a.MulFactor(t.get(row[first]), in[first], acc)
	}
	for _, i := range idx {
		switch {
		case i == first:
		case row[i] == 1:
			a.Add(in[i], acc, acc)
		default:
			a.FmaFactor(t.get(row[i]), in[i], acc)
		}
	}
	return acc
}

// every lists from, from+2, … below n.
func every(from, n int) (idx []int) {
	for i := from; i < n; i += 2 {
		idx = append(idx, i)
	}
	return idx
}

type pairwise func(t *table, p pointSet, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual))

// A lineMap emits the transform of one row or column of vectors.
type lineMap func(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual))

// apply is the transform by the matrix m of a set of points.
func (p pointSet) apply(f pairwise, m [][]float64) lineMap {
	return func(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) { f(t, p, m, in, out) }
}

// dataPairs uses that rows ±p are the coefficients of (x ± p)·E(x), or of that
// times x if zero is a point, with the same even E.
func dataPairs(t *table, p pointSet, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	a, n, z := t.a, len(in), p.zero()
	if z > 0 {
		out(0, t.sum(m[0], in, every(0, n-1)))
	}
	before := append([]reg.VecVirtual{nil}, in[:n-1]...)
	for i := z; i < n-1; i += 2 {
		idx := every(1+z, n)
		plus, minus := a.Vec(), t.sum(m[i], in, idx)
		even := t.sum(m[i], before, idx) // the same factors
		if q := p.finite[i]; q == 1 {
			a.Add(even, minus, plus)
			a.Sub(even, minus, minus)
		} else {
			a.Copy(minus, plus)
			a.FmaFactor(t.get(q), even, plus)
			a.FnmaFactor(t.get(q), even, minus)
		}
		out(i, plus)
		out(i+1, minus)
	}
	out(n-1, t.sum(m[n-1], in, every(z, n)))
}

// filterPairs shares the sums over even and over odd taps between ±p, whose
// normalisers differ in sign unless zero is a point.
func filterPairs(t *table, p pointSet, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	a, n, z := t.a, len(m), p.zero()
	if z > 0 {
		out(0, t.sum(m[0], in, []int{0}))
	}
	for i := z; i < n-1; i += 2 {
		even, odd, plus, minus := t.sum(m[i], in, every(0, len(in))), t.sum(m[i], in, every(1, len(in))), a.Vec(), a.Vec()
		a.Add(even, odd, plus)
		if z > 0 {
			a.Sub(odd, even, minus)
		} else {
			a.Sub(even, odd, minus)
		}
		out(i, plus)
		out(i+1, minus)
	}
	out(n-1, in[len(in)-1])
}

// outPairs needs the sums of pairs for even rows, and their differences for odd ones.
func outPairs(t *table, p pointSet, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	a, n, z := t.a, len(in), p.zero()
	sums, diffs := append([]reg.VecVirtual{}, in...), append([]reg.VecVirtual{}, in...)
	for i := z; i < n-1; i += 2 {
		sums[i], diffs[i] = a.Vec(), a.Vec()
		a.Add(in[i+1], in[i], sums[i])
		a.Sub(in[i+1], in[i], diffs[i])
	}
	for i, row := range m {
		from, idx := sums, every(z, n-1)
		if i%2 > 0 {
			from = diffs
		}
		for _, alone := range []int{0, n - 1} {
			if row[alone] != 0 && (alone > 0 || z > 0) {
				idx = append(idx, alone)
			}
		}
		out(i, t.sum(row, from, idx))
	}
}

// largeTransform is transform with constants in memory.
func largeTransform(a *isa.Asm, name, doc string, to, from int, apply lineMap) {
	consts := newTable(a, name)
	a.Kernel(name, "func(transform *byte)", "transforms "+doc+".")
	t := a.Gp("transform")
	bothWays(a, t, to, from, func() strides { return newStrides(a, t, trInRow, from) }, func() strides { return newStrides(a, t, trOutCol, to) },
		func(in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) { apply(consts, in, out) })
}

// halfPlanesToLanes is planesToLanes from bfloat16.
func halfPlanesToLanes(a *isa.Asm) {
	a.Kernel("bf16PlanesToLanes", "func(rows int, src *uint16, plane, width int, mask uintptr, dst *float32, stride, ahead int)",
		"gathers 16 planes into vectors of 16 channels, and prefetches what lies ahead. plane, width, stride and ahead are bytes.")
	fromPlanes(a, func(p operand.Mem, k reg.Register, v reg.VecVirtual) {
		a.VPMOVZXWD_Z(p, k, v)
		a.VPSLLD(operand.U8(16), v, v)
	})
}

// lanesToHalfPlanes is lanesToPlanes to bfloat16.
func lanesToHalfPlanes(a *isa.Asm) {
	a.Kernel("lanesToBF16Planes", "func(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, mask uintptr)",
		"scatters vectors of 16 channels, plus bias, over 16 planes. stride, plane and width are bytes.")
	bias := a.Vec()
	a.Move(operand.Mem{Base: a.Gp("bias")}, bias)
	toPlanes(a, func(m operand.Mem, v reg.VecVirtual) { a.Add(m, bias, v) }, func(m operand.Mem, k reg.Register, v reg.VecVirtual) {
		a.RoundPairs(v, v)
		a.VMOVDQU16(a.Lower(v), k, m)
	})
}

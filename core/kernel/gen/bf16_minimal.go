package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairs are the finite points ±p of minimal filtering with large tiles; ∞ is the
// eleventh. They were chosen for the smallest error of 7×7 outputs of 5×5
// filters in float32, which is a tenth of what rounding to bfloat16 costs.
var largePairs = []float64{0.25, 0.5, 1, 1.25, 2}

func largeFinite() (points []float64) {
	for _, p := range largePairs {
		points = append(points, p, -p)
	}
	return points
}

// bf16Minimal emits the transforms between pixels and 11×11 points, and the
// copies between planes of bfloat16 and vectors of 16 channels in float32.
func bf16Minimal(a *asm) {
	finite := largeFinite()
	largeTransform(a, "dataTo11", "tiles of 11×11 pixels to 11×11 points", dataMatrix(finite), a.dataPairs)
	for _, n := range []int{5, 7} {
		largeTransform(a, fmt.Sprintf("filter%dTo11", n), fmt.Sprintf("filters of %d×%d to 11×11 points", n, n), filterMatrix(finite, n), a.filterPairs)
		largeTransform(a, fmt.Sprintf("from11To%d", n), fmt.Sprintf("11×11 points to tiles of %d×%d", n, n), outMatrix(finite, n), a.outPairs)
	}
	halfPlanesToLanes(a)
	lanesToHalfPlanes(a)
}

// table holds a transform's constants in memory: they are too many for registers.
type table struct {
	a    *asm
	data operand.Mem
	at   map[float64]int
}

func (t *table) get(v float64) operand.Mem {
	i, ok := t.at[v]
	if !ok {
		i = 4 * len(t.at)
		t.at[v] = i
		t.a.AddDatum(i, operand.U32(math.Float32bits(float32(v))))
	}
	return t.data.Offset(i)
}

// sum is Σ row[i]·in[i] over the given indices; last starts it and has the factor 1 if any has.
func (t *table) sum(row []float64, in []reg.VecVirtual, idx []int) reg.VecVirtual {
	a, acc := t.a, t.a.vec()
	first := idx[len(idx)-1]
	for _, i := range idx {
		if row[i] == 1 {
			first = i
		}
	}
	if row[first] == 1 {
		a.VMOVAPS(in[first], acc)
	} else {
		a.VMULPS_BCST(t.get(row[first]), in[first], acc)
	}
	for _, i := range idx {
		switch {
		case i == first:
		case row[i] == 1:
			a.VADDPS(in[i], acc, acc)
		default:
			a.VFMADD231PS_BCST(t.get(row[i]), in[i], acc)
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

type pairwise func(t *table, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual))

// dataPairs uses that rows ±p are the coefficients of (x ± p)·E(x) with the same even E.
func (a *asm) dataPairs(t *table, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	n := len(in)
	for j, p := range largePairs {
		odd := t.sum(m[2*j], in, every(1, n)) // x·E
		shifted := append(append([]reg.VecVirtual{}, in[:n-1]...), nil)
		for i := 1; i < n; i += 2 {
			shifted[i] = in[i-1]
		}
		even := t.sum(m[2*j], shifted, every(1, n)) // E, with the same factors
		plus := a.vec()
		if p == 1 {
			a.VADDPS(even, odd, plus)
			a.VSUBPS(even, odd, odd)
		} else {
			a.VMOVAPS(odd, plus)
			a.VFMADD231PS_BCST(t.get(p), even, plus)
			a.VFNMADD231PS_BCST(t.get(p), even, odd)
		}
		out(2*j, plus)
		out(2*j+1, odd)
	}
	out(n-1, t.sum(m[n-1], in, every(0, n)))
}

// filterPairs uses that the normalisers of ±p differ in sign.
func (a *asm) filterPairs(t *table, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	for j := range largePairs {
		even, odd := t.sum(m[2*j], in, every(0, len(in))), t.sum(m[2*j], in, every(1, len(in)))
		plus := a.vec()
		a.VADDPS(even, odd, plus)
		a.VSUBPS(even, odd, odd)
		out(2*j, plus)
		out(2*j+1, odd)
	}
	out(len(m)-1, in[len(in)-1])
}

// outPairs needs the sums of pairs for even rows, and their differences for odd ones.
func (a *asm) outPairs(t *table, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	sums, diffs := append([]reg.VecVirtual{}, in...), append([]reg.VecVirtual{}, in...)
	for j := range largePairs {
		sums[2*j], diffs[2*j] = a.vec(), a.vec()
		a.VADDPS(in[2*j+1], in[2*j], sums[2*j])
		a.VSUBPS(in[2*j+1], in[2*j], diffs[2*j])
	}
	finite := every(0, len(in)-1)
	for i, row := range m {
		from, idx := sums, finite
		if i%2 > 0 {
			from = diffs
		}
		if row[len(in)-1] != 0 {
			idx = append(append([]int{}, finite...), len(in)-1)
		}
		out(i, t.sum(row, from, idx))
	}
}

// largeTransform is transform with constants in memory.
func largeTransform(a *asm, name, doc string, m [][]float64, apply pairwise) {
	to, from := len(m), len(m[0])
	consts := &table{a: a, data: a.StaticGlobal(name + "Factors"), at: map[float64]int{}}
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	a.function(name, "func(transform *byte)", "transforms "+doc+".")
	t := a.gp("transform")
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	p, q, left := a.GP64(), a.GP64(), a.GP64()
	v := a.vecs(from)

	a.Label("square")
	rows := a.strides(t, trInRow, from)
	a.MOVQ(field(trIn), p)
	a.MOVQ(field(trTmp), q)
	a.MOVQ(operand.U64(from), left)
	a.Label("down")
	for i := range from {
		a.VMOVUPS(rows.at(p, i), v[i])
	}
	apply(consts, m, v, func(i int, r reg.VecVirtual) { a.VMOVUPS(r, operand.Mem{Base: q, Disp: i * from * lanesBytes}) })
	a.ADDQ(field(trInCol), p)
	a.ADDQ(operand.U8(lanesBytes), q)
	a.DECQ(left)
	a.JNZ(operand.LabelRef("down"))

	cols := a.strides(t, trOutCol, to)
	a.MOVQ(field(trTmp), p)
	a.MOVQ(field(trOut), q)
	a.MOVQ(operand.U64(to), left)
	a.Label("along")
	for i := range from {
		a.VMOVUPS(operand.Mem{Base: p, Disp: i * lanesBytes}, v[i])
	}
	apply(consts, m, v, func(i int, r reg.VecVirtual) { a.VMOVUPS(r, cols.at(q, i)) })
	a.ADDQ(operand.U32(from*lanesBytes), p)
	a.ADDQ(field(trOutRow), q)
	a.DECQ(left)
	a.JNZ(operand.LabelRef("along"))

	a.MOVQ(field(trInStep), p)
	a.ADDQ(p, field(trIn))
	a.MOVQ(field(trOutStep), p)
	a.ADDQ(p, field(trOut))
	a.DECQ(field(trCount))
	a.JNZ(operand.LabelRef("square"))
	a.ret()
}

// halfPlanesToLanes is planesToLanes from bfloat16.
func halfPlanesToLanes(a *asm) {
	a.function("halfPlanesToLanes", "func(rows int, src *uint16, plane, width int, mask uintptr, dst *float32, stride int)",
		"gathers 16 planes into vectors of 16 channels. plane, width and stride are bytes.")
	rows, src, plane, width, dst, stride := a.gp("rows"), a.gp("src"), a.gp("plane"), a.gp("width"), a.gp("dst"), a.gp("stride")
	k, p := a.K(), a.GP64()
	a.KMOVW(a.gp("mask").As32(), k)
	a.Label("row")
	a.MOVQ(src, p)
	v := a.vecs(16)
	for i := range v {
		a.VPMOVZXWD_Z(operand.Mem{Base: p}, k, v[i])
		a.VPSLLD(operand.U8(16), v[i], v[i])
		a.ADDQ(plane, p)
	}
	for i, x := range a.transpose(v) {
		a.VMOVUPS(x, operand.Mem{Base: dst, Disp: i * lanesBytes})
	}
	a.ADDQ(width, src)
	a.ADDQ(stride, dst)
	a.DECQ(rows)
	a.JNZ(operand.LabelRef("row"))
	a.ret()
}

// lanesToHalfPlanes is lanesToPlanes to bfloat16.
func lanesToHalfPlanes(a *asm) {
	a.function("lanesToHalfPlanes", "func(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, mask uintptr)",
		"scatters vectors of 16 channels, plus bias, over 16 planes. stride, plane and width are bytes.")
	rows, src, stride, dst, plane, width := a.gp("rows"), a.gp("src"), a.gp("stride"), a.gp("dst"), a.gp("plane"), a.gp("width")
	k, p, bias := a.K(), a.GP64(), a.vec()
	a.VMOVUPS(operand.Mem{Base: a.gp("bias")}, bias)
	a.KMOVW(a.gp("mask").As32(), k)
	a.Label("row")
	v := a.vecs(16)
	for i := range v {
		a.VADDPS(operand.Mem{Base: src, Disp: i * lanesBytes}, bias, v[i])
	}
	a.MOVQ(dst, p)
	for _, x := range a.transpose(v) {
		a.roundPairs(x, x)
		a.VMOVDQU16(a.lower(x), k, operand.Mem{Base: p})
		a.ADDQ(plane, p)
	}
	a.ADDQ(stride, src)
	a.ADDQ(width, dst)
	a.DECQ(rows)
	a.JNZ(operand.LabelRef("row"))
	a.ret()
}

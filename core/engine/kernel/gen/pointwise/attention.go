package pointwise

import (
	"math"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// attention emits what lies between the products of an attention, over tiles of scores, whose
// rows lie bytes apart: vectors of each row, of which row i sees the first seen + i·step
// elements, at most to most. lanes holds 0 to 15.
func attention(a *isa.Asm) {
	f := NewFormula(a, "attentionConstants")
	f.scorePeaks()
	f.scoreExps()
	f.scoreSlopes()
	f.closeSums()
	f.scaleRows()
}

func (f *formula) scorePeaks() {
	f.Kernel("scorePeaks", "func(rows, vectors int, x *float32, bytes int, lanes *float32, seen, step, most, scale float32, peaks *float32)",
		"raises peaks to the largest of each row times scale, NaNs aside.")
	s, x, peaks := f.scores(), f.Gp("x"), f.Gp("peaks")
	f.EachRow(func() {
		acc, scale := f.load(minusInf), f.SplatLate("scale")
		s.row(x, "row", func(v reg.VecVirtual, _ operand.Mem) { f.Max(acc, v, acc) })
		top := f.Greatest(acc)
		f.VMULPS(scale.AsX(), top, top)
		f.merge(top, peaks, f.VMAXPS)
	}, x)
}

func (f *formula) scoreExps() {
	f.Kernel("scoreExps", "func(rows, vectors, rest int, x *float32, bytes int, lanes *float32, seen, step, most, scale float32, shifts, sums *float32)",
		"replaces x by exp(x·scale − shift), and by 0 where it is not seen and in the rest of the vectors, and adds up each row.")
	s, x, shifts, sums := f.scores(), f.Gp("x"), f.Gp("shifts"), f.Gp("sums")
	f.EachRow(func() {
		scale, sum, less := f.SplatLate("scale"), f.Vec(), f.Vec()
		shift := f.RowFactors([]reg.GPVirtual{shifts})[0]
		f.Zero(sum)
		f.Zero(less)
		f.Sub(shift, less, less)
		share := f.shares()
		end := s.row(x, "row", func(v reg.VecVirtual, at operand.Mem) {
			e := f.Vec()
			f.Copy(less, e)
			f.Fma(v, scale, e)
			e = share(e)
			f.Add(e, sum, sum)
			f.Move(e, at)
		})
		f.zeros(end)
		f.merge(f.Total(sum), sums, f.VADDPS)
	}, x)
}

// leastShare is where a share of a softmax ends: exp of it is just a normal number.
const leastShare = -87.3

// shareTerms is (exp(r) − 1 − r)/r² for |r| ≤ 0.3466, and exp(r) then within 2⁻²³: a minimax fit as those of elementwise.
var shareTerms = []float32{8.312525e-03, 4.1890124e-02, 1.6667115e-01, 4.9999232e-01}

// shares loads constants, and emits exp(x) for what is not above 0 by more than rounding, within 2.5 units in
// the last place: 0 from leastShare on, and NaN stays. It takes half the operations of power, which plain Go
// computes to the bit: products are not rounded before they are added.
func (f *formula) shares() func(x reg.VecVirtual) reg.VecVirtual {
	const bias = magic + exponent
	log2e, round, high := f.load(math.Log2E), f.load(bias), f.load(ln2High32)
	return func(x reg.VecVirtual) reg.VecVirtual {
		power, r := f.Vec(), f.Vec()
		bound := f.load(leastShare)
		f.Max(x, bound, r) // NaN stays
		f.Copy(round, power)
		f.Fma(log2e, r, power)
		n := f.minus(power, round)
		f.Fnma(high, n, r)
		f.Fnma(f.Value(ln2Low32), n, r)
		e := f.load(float64(shareTerms[0]))
		for _, term := range slices.Concat(shareTerms[1:], []float32{1, 1}) {
			f.VFMADD213PS(f.Value(float64(term)), r, e)
		}
		f.ShiftLeft(23, power, power)
		f.Mul(power, e, e)
		f.KeepAbove(x, bound, e)
		return e
	}
}

func (f *formula) scoreSlopes() {
	f.Kernel("scoreSlopes", "func(rows, vectors, rest int, p, s *float32, bytes int, scale float32, dots *float32)",
		"replaces s by p·(s − dot)·scale, and by 0 in the rest of the vectors.")
	p, s, dots, scale := f.Gp("p"), f.Gp("s"), f.Gp("dots"), f.Splat("scale")
	f.EachRow(func() {
		dot, to := f.RowFactors([]reg.GPVirtual{dots})[0], f.GP64()
		f.MOVQ(s, to)
		f.eachVector(p, "row", func(at operand.Mem) {
			v, w := f.Vec(), f.Vec()
			f.Move(operand.Mem{Base: to}, v)
			f.Move(at, w)
			f.Sub(dot, v, v)
			f.Mul(scale, w, w)
			f.Mul(w, v, v)
			f.Move(v, operand.Mem{Base: to})
			f.Advance(operand.U8(4*f.Lanes), to)
		})
		f.zeros(to)
	}, p, s)
}

func (f *formula) closeSums() {
	f.Kernel("closeSums", "func(vectors, rest int, tail uintptr, lse, sums *float32)", "adds the logarithm of each sum, a number of 1 or more, to lse, and inverts the sum.")
	one := f.load(1)
	f.Row("row", []reg.GPVirtual{f.Gp("lse"), f.Gp("sums")}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		sum, lse := f.Vec(), f.Vec()
		load(operand.Mem{Base: p[1]}, sum)
		load(operand.Mem{Base: p[0]}, lse)
		f.Add(f.log(sum, one), lse, lse)
		store(lse, operand.Mem{Base: p[0]})
		store(f.over(one, sum), operand.Mem{Base: p[1]})
	})
	f.Ret()
}

// log is log(x) of normal numbers that are not negative, within a unit in the last place of the larger of it and 1; NaN stays.
// x is m·2ⁿ with 1 ≤ m < 2, and log m is log(1+e).
func (f *formula) log(x, one reg.VecVirtual) reg.VecVirtual {
	const fraction = 1<<23 - 1
	n, m := f.Vec(), f.result(f.And, x, f.bits(fraction))
	f.VPSRLD(operand.U8(23), x, n)
	f.VPSUBD(f.bits(exponent), n, n)
	f.ToFloat(n, n)
	f.Or(one, m, m)
	e := f.minus(m, one)
	s := f.over(e, f.plus(e, f.Value(2)))
	log := f.times(s, f.horner(f.times(s, s), coefficient("logTerms")))
	f.Fma(f.Value(math.Ln2), n, log)
	f.Sub(x, x, m) // NaN, or 0
	f.Add(m, log, log)
	return log
}

// merge stores the lowest lane of v, combined with the float32 that p points to, and moves p on.
func (f *formula) merge(v reg.VecVirtual, p reg.GPVirtual, with func(...operand.Op)) {
	old := f.XMM()
	f.VMOVSS(operand.Mem{Base: p}, old)
	with(old, v, v)
	f.StoreOne(v, p)
}

// scores is what a row of a tile sees.
type scores struct {
	*formula
	seen, step reg.VecVirtual
	lanes      reg.GPVirtual
}

func (f *formula) scores() *scores {
	return &scores{f, f.Splat("seen"), f.Splat("step"), f.Gp("lanes")}
}

// row calls body for every vector of a row, −∞ where it is not seen, and returns where they end.
func (s *scores) row(x reg.GPVirtual, label string, body func(v reg.VecVirtual, at operand.Mem)) (end reg.GPVirtual) {
	n, lane, unseen, most := s.Vec(), s.Vec(), s.load(minusInf), s.SplatLate("most")
	s.Min(s.seen, most, n)
	s.Add(s.step, s.seen, s.seen)
	s.Move(operand.Mem{Base: s.lanes}, lane)
	return s.eachVector(x, label, func(at operand.Mem) {
		v := s.Vec()
		s.Move(at, v)
		v = s.Above(n, lane, v, unseen)
		s.Add(s.Value(float64(s.Lanes)), lane, lane)
		body(v, at)
	})
}

// eachVector calls body for as many vectors as the parameter says, and returns where they end.
func (f *formula) eachVector(x reg.GPVirtual, label string, body func(at operand.Mem)) (end reg.GPVirtual) {
	p, n := f.GP64(), f.Gp("vectors")
	f.MOVQ(x, p)
	f.Label(label)
	f.DECQ(n)
	f.JL(operand.LabelRef(label + "Done"))
	body(operand.Mem{Base: p})
	f.Advance(operand.U8(4*f.Lanes), p)
	f.JMP(operand.LabelRef(label))
	f.Label(label + "Done")
	return p
}

// zeros writes the rest of the vectors.
func (f *formula) zeros(p reg.GPVirtual) {
	rest, zero := f.Gp("rest"), f.Vec()
	f.Zero(zero)
	f.Label("rest")
	f.DECQ(rest)
	f.JL(operand.LabelRef("restDone"))
	f.Move(zero, operand.Mem{Base: p})
	f.Advance(operand.U8(4*f.Lanes), p)
	f.JMP(operand.LabelRef("rest"))
	f.Label("restDone")
}

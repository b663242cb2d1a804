package pointwise

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

var minusInf = math.Inf(-1)

// power is exp(x) for what is not above 0 by more than rounding; NaN stays. What float32
// cannot hold becomes 0 before a product would have to round it to 0, which takes long.
func (f *formula) power(x reg.VecVirtual) reg.VecVirtual {
	e := f.exp(f.result(f.Max, f.load(leastPower), x))
	f.KeepAbove(x, f.Value(leastPower), e)
	f.Mul(f.Value(0x1p-64), e, e)
	return e
}

// The exponential of leastPower is the first that float32 rounds to 0. Known to elementwise/exp.go.
const leastPower = -104

// softmax emits the parts of a softmax over rows of any length, all rows in one call.
// A row lies in the L1 or L2 cache between the two passes over it.
func softmax(a *isa.Asm) {
	f := NewFormula(a, "softmaxConstants")
	f.largest()
	f.expRows("expRows", "y *float32, ", "is exp(x−peak) of each row, its largest element that is not NaN, and the sum of these.")
	f.expRows("expSums", "", "is the largest element of each row that is not NaN, and Σexp(x−peak).")
	f.scaleRows()
}

// peak is the largest of a row, NaNs aside, in every lane. rest is −∞.
func (f *formula) peak(x reg.GPVirtual, rest reg.VecVirtual) reg.VecVirtual {
	acc, peak := f.Vecs(4), f.Vec()
	for _, v := range acc {
		f.Copy(rest, v)
	}
	f.OverPlane(x, nil, "peak", nil, func(v reg.VecVirtual, i int) { f.Max(acc[i], v, acc[i]) }, rest)
	for _, v := range acc[1:] {
		f.Max(v, acc[0], acc[0])
	}
	f.Spread(f.Greatest(acc[0]).AsX(), peak)
	return peak
}

func (f *formula) largest() {
	f.Kernel("largest", "func(x *float32, vectors int, tail uintptr, peak *float32)", "finds the largest of x that is not NaN, or −∞.")
	f.StoreOne(f.peak(f.Gp("x"), f.load(minusInf)), f.Gp("peak"))
	f.Ret()
}

// expRows adds element j to float64 sum j mod 8 of a row.
func (f *formula) expRows(name, y, doc string) {
	f.Kernel(name, "func(rows int, x *float32, "+y+"vectors, rest int, tail uintptr, peaks *float32, sums *float64, bytes int)", doc)
	pointers := []reg.GPVirtual{f.Gp("x")}
	if y != "" {
		pointers = append(pointers, f.Gp("y"))
	}
	peaks, totals := f.Gp("peaks"), f.Gp("sums")
	f.EachRow(func() {
		rest := f.load(minusInf)
		peak := f.peak(pointers[0], rest)
		f.StoreOne(peak, peaks)
		sums := f.Vecs(16 / f.Lanes)
		for _, v := range sums {
			f.Zero(v)
		}
		f.LongRow("exp", pointers, f.Value(minusInf), func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v := f.Vec()
			load(operand.Mem{Base: p[0]}, v)
			f.Sub(peak, v, v)
			e := f.power(v)
			if y != "" {
				store(e, operand.Mem{Base: p[1]})
			}
			f.AddWidened(e, sums)
		})
		f.VMOVSD(f.Total64(sums), operand.Mem{Base: totals})
		f.Advance(operand.U8(8), totals)
	}, pointers...)
}

func (f *formula) scaleRows() {
	f.Kernel("scaleRows", "func(rows int, y *float32, vectors, rest int, tail uintptr, factors *float32, less float32, bytes int)", "replaces y by y·factor − less, with a factor for each row.")
	y, factors, less := f.Gp("y"), f.Gp("factors"), f.Splat("less")
	f.EachRow(func() {
		factor := f.RowFactors([]reg.GPVirtual{factors})[0]
		f.Row("scale", []reg.GPVirtual{y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v := f.Vec()
			load(operand.Mem{Base: p[0]}, v)
			f.Mul(factor, v, v)
			f.Sub(less, v, v)
			store(v, operand.Mem{Base: p[0]})
		})
	}, y)
}

package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmax emits the parts of a softmax over a row.
func softmax(a *asm) {
	e := newExponential(a)
	e.largest()
	e.expSum()
	e.softmaxGrad()
}

// newExponential prepares the kernels with exponentials. They work on eight float32 at
// a time, widened to float64, by the operations of elementwise.Exp, one for one: every
// level gives the same bits.
func newExponential(a *asm) *exponential {
	e := &exponential{asm: a}
	e.data = a.StaticGlobal("expConstants" + a.name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, v := range []float64{expBound, -expBound, math.Log2E, roundTo, math.Ln2, ln2Low} {
		e.constant(v)
	}
	for n := expDegree; n > 0; n-- {
		e.constant(inverseFactorial(n))
	}
	return e
}

// The constants of elementwise.Exp.
const (
	expBound  = 708
	roundTo   = 3 << 51
	ln2Low    = 2.3190468138462996e-17 // ln 2 less its float64
	expDegree = 10
)

func inverseFactorial(n int) float64 {
	f := 1.0
	for i := 2; i <= n; i++ {
		f *= float64(i)
	}
	return 1 / f
}

// exponential emits functions over groups of eight float32.
type exponential struct {
	*asm
	data operand.Mem
	at   []float64
	full reg.GPVirtual // where a loop keeps the mask of the group at hand
}

// constant is eight copies of a float64 in memory.
func (e *exponential) constant(v float64) operand.Mem {
	const size = 64
	for i, have := range e.at {
		if math.Float64bits(have) == math.Float64bits(v) {
			return e.data.Offset(size * i)
		}
	}
	at := size * len(e.at)
	for i := range 8 {
		e.AddDatum(at+8*i, operand.U64(math.Float64bits(v)))
	}
	e.at = append(e.at, v)
	return e.data.Offset(at)
}

func (e *exponential) load(v float64) reg.VecVirtual {
	r := e.vec()
	e.VMOVUPD(e.constant(v), r)
	return r
}

// exp replaces x by its exponential; NaN stays.
func (e *exponential) exp(x reg.VecVirtual) {
	hi, lo := e.load(expBound), e.load(-expBound)
	e.VMINPD(x, hi, x)
	e.VMAXPD(x, lo, x)
	k, n := e.load(roundTo), e.vec()
	e.fma64(e.constant(math.Log2E), x, k)
	e.sub64(e.constant(roundTo), k, n)
	e.fnma64(e.constant(math.Ln2), n, x)
	e.fnma64(e.constant(ln2Low), n, x)
	p := e.load(inverseFactorial(expDegree))
	for i := expDegree - 1; i >= 0; i-- {
		e.VFMADD213PD(e.constant(inverseFactorial(max(i, 1))), x, p)
	}
	e.VPSLLQ(operand.U8(52), k, k)
	e.VPADDQ(k, p, x)
}

// group is the lanes of eight float32, in one register of float64 or in two.
type group struct {
	e     *exponential
	parts int
	masks []reg.Register
}

func (e *exponential) group() *group { return &group{e: e, parts: 16 / e.lanes} }

// loop runs body for every group of eight: all lanes of each, but of the last only those of tail.
func (g *group) loop(pointers []reg.GPVirtual, body func()) {
	e := g.e
	groups, full, tail := e.gp("groups"), e.gp("full"), e.gp("tail")
	e.full = full
	e.Label("loop")
	e.CMPQ(groups, operand.U8(1))
	e.CMOVQEQ(tail, full)
	g.setMasks(full)
	body()
	for _, p := range pointers {
		e.ADDQ(operand.U8(32), p)
	}
	e.countDown(groups, "loop")
}

// largest emits the maximum of a row, NaNs aside.
func (e *exponential) largest() {
	e.function("largest", "func(groups int, full, tail uintptr, x *float32) (peak float32)", "is the largest of x that is not NaN, or −∞.")
	g, x, bits := e.group(), e.gp("x"), e.GP32()
	low, acc, v := e.XMM(), e.YMM(), e.YMM()
	e.MOVL(operand.U32(math.Float32bits(float32(math.Inf(-1)))), bits)
	e.VMOVD(bits, low)
	e.spread(low, acc)
	g.loop([]reg.GPVirtual{x}, func() {
		e.maxLanes(x, g, v, acc)
	})
	half := e.XMM()
	e.VEXTRACTF128(operand.U8(1), acc, half)
	e.max(acc.AsX(), half, half)
	for _, swap := range []operand.U8{0b01001110, 0b10110001} {
		e.VPERMILPS(swap, half, low)
		e.max(half, low, half)
	}
	e.Store(half, e.Return("peak"))
	e.ret()
}

// expSum emits the exponentials of a row, and their sum: element j goes to sum j mod 8.
func (e *exponential) expSum() {
	e.function("expSum", "func(groups int, full, tail uintptr, x *float32, peak float64, y *float32) (sum float64)",
		"is Σexp(x−peak), and stores each, rounded, in y if that is not nil.")
	g, x, y, peak := e.group(), e.gp("x"), e.gp("y"), e.splat64("peak")
	acc := e.vecs(g.parts)
	for _, v := range acc {
		e.zero(v)
	}
	g.loop([]reg.GPVirtual{x}, func() {
		v := e.vecs(g.parts)
		for part := range v {
			g.load(x, part, v[part])
			e.sub64(peak, v[part], v[part])
			e.exp(v[part])
			g.add(v[part], acc[part], part)
		}
		e.TESTQ(y, y)
		e.JZ(operand.LabelRef("next"))
		for part := range v {
			g.store(v[part], y, part)
		}
		e.ADDQ(operand.U8(32), y)
		e.Label("next")
	})
	e.returnSum(acc, "sum")
	e.ret()
}

// softmaxGrad emits what follows once the sum is known.
func (e *exponential) softmaxGrad() {
	e.function("softmaxGrad", "func(groups int, full, tail uintptr, y *float32, sum, wanted, scale float64)",
		"replaces exponentials by (y/sum − wanted)·scale.")
	g, y, sum, wanted, scale := e.group(), e.gp("y"), e.splat64("sum"), e.splat64("wanted"), e.splat64("scale")
	g.loop([]reg.GPVirtual{y}, func() {
		v := e.vec()
		for part := range g.parts {
			g.load(y, part, v)
			e.div64(sum, v, v)
			e.sub64(wanted, v, v)
			e.mul64(scale, v, v)
			g.store(v, y, part)
		}
	})
	e.ret()
}

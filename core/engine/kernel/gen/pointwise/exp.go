package pointwise

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// softmax emits the parts of a softmax over a row.
func softmax(a *isa.Asm) {
	e := newExponential(a)
	e.largest()
	e.expSum()
	e.softmaxGrad()
}

// newExponential prepares the kernels with exponentials. They work on eight float32 at
// a time, widened to float64, by the operations of elementwise.Exp, one for one: every
// level gives the same bits.
func newExponential(a *isa.Asm) *exponential {
	e := &exponential{Asm: a}
	e.data = a.StaticGlobal("expConstants" + a.Name)
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
	*isa.Asm
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
	r := e.Vec()
	e.VMOVUPD(e.constant(v), r)
	return r
}

// exp replaces x by its exponential; NaN stays.
func (e *exponential) exp(x reg.VecVirtual) {
	hi, lo := e.load(expBound), e.load(-expBound)
	e.VMINPD(x, hi, x)
	e.VMAXPD(x, lo, x)
	k, n := e.load(roundTo), e.Vec()
	e.Fma64(e.constant(math.Log2E), x, k)
	e.Sub64(e.constant(roundTo), k, n)
	e.Fnma64(e.constant(math.Ln2), n, x)
	e.Fnma64(e.constant(ln2Low), n, x)
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

func (e *exponential) group() *group { return &group{e: e, parts: 16 / e.Lanes} }

// loop runs body for every group of eight: all lanes of each, but of the last only those of tail.
func (g *group) loop(pointers []reg.GPVirtual, body func()) {
	e := g.e
	groups, full, tail := e.Gp("groups"), e.Gp("full"), e.Gp("tail")
	e.full = full
	e.Label("loop")
	e.CMPQ(groups, operand.U8(1))
	e.CMOVQEQ(tail, full)
	g.setMasks(full)
	body()
	for _, p := range pointers {
		e.ADDQ(operand.U8(32), p)
	}
	e.CountDown(groups, "loop")
}

// largest emits the maximum of a row, NaNs aside.
func (e *exponential) largest() {
	e.Kernel("largest", "func(groups int, full, tail uintptr, x *float32) (peak float32)", "is the largest of x that is not NaN, or −∞.")
	g, x, bits := e.group(), e.Gp("x"), e.GP32()
	low, acc, v := e.XMM(), e.YMM(), e.YMM()
	e.MOVL(operand.U32(math.Float32bits(float32(math.Inf(-1)))), bits)
	e.VMOVD(bits, low)
	e.Spread(low, acc)
	g.loop([]reg.GPVirtual{x}, func() {
		e.maxLanes(x, g, v, acc)
	})
	half := e.XMM()
	e.VEXTRACTF128(operand.U8(1), acc, half)
	e.Max(acc.AsX(), half, half)
	for _, swap := range []operand.U8{0b01001110, 0b10110001} {
		e.VPERMILPS(swap, half, low)
		e.Max(half, low, half)
	}
	e.Store(half, e.Return("peak"))
	e.Ret()
}

// expSum emits the exponentials of a row, and their sum: element j goes to sum j mod 8.
func (e *exponential) expSum() {
	e.Kernel("expSum", "func(groups int, full, tail uintptr, x *float32, peak float64, y *float32) (sum float64)",
		"is Σexp(x−peak), and stores each, rounded, in y if that is not nil.")
	g, x, y, peak := e.group(), e.Gp("x"), e.Gp("y"), e.Splat64("peak")
	acc := e.Vecs(g.parts)
	for _, v := range acc {
		e.Zero(v)
	}
	g.loop([]reg.GPVirtual{x}, func() {
		v := e.Vecs(g.parts)
		for part := range v {
			g.load(x, part, v[part])
			e.Sub64(peak, v[part], v[part])
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
	e.ReturnSum(acc, "sum")
	e.Ret()
}

// softmaxGrad emits what follows once the sum is known.
func (e *exponential) softmaxGrad() {
	e.Kernel("softmaxGrad", "func(groups int, full, tail uintptr, y *float32, sum, wanted, scale float64)",
		"replaces exponentials by (y/sum − wanted)·scale.")
	g, y, sum, wanted, scale := e.group(), e.Gp("y"), e.Splat64("sum"), e.Splat64("wanted"), e.Splat64("scale")
	g.loop([]reg.GPVirtual{y}, func() {
		v := e.Vec()
		for part := range g.parts {
			g.load(y, part, v)
			e.Div64(sum, v, v)
			e.Sub64(wanted, v, v)
			e.Mul64(scale, v, v)
			g.store(v, y, part)
		}
	})
	e.Ret()
}

// setMasks reads them from where m points, or the mask itself.
func (g *group) setMasks(m reg.GPVirtual) {
	e := g.e
	g.masks = g.masks[:0]
	for part := range g.parts {
		if e.Lanes == 16 {
			k := e.K()
			e.KMOVW(m.As32(), k)
			g.masks = append(g.masks, k)
			continue
		}
		x := e.XMM()
		e.VMOVUPS(operand.Mem{Base: m, Disp: 16 * part}, x)
		g.masks = append(g.masks, x)
	}
}

// load widens four or eight float32; lanes that are masked out are 0.
func (g *group) load(p reg.GPVirtual, part int, v reg.VecVirtual) {
	e := g.e
	if e.Lanes == 16 {
		y := e.YMM()
		e.VMOVUPS_Z(operand.Mem{Base: p}, g.masks[part], y)
		e.VCVTPS2PD(y, v)
		return
	}
	x := e.XMM()
	e.VMASKMOVPS(operand.Mem{Base: p, Disp: 16 * part}, g.masks[part], x)
	e.VCVTPS2PD(x, v)
}

func (g *group) store(v reg.VecVirtual, p reg.GPVirtual, part int) {
	e := g.e
	if e.Lanes == 16 {
		y := e.YMM()
		e.VCVTPD2PS(v, y)
		e.VMOVUPS(y, g.masks[part], operand.Mem{Base: p})
		return
	}
	x := e.XMM()
	e.VCVTPD2PSY(v, x)
	e.VMASKMOVPS(x, g.masks[part], operand.Mem{Base: p, Disp: 16 * part})
}

// add adds the lanes that are not masked out.
func (g *group) add(v, acc reg.VecVirtual, part int) {
	e := g.e
	if e.Lanes == 16 {
		e.VADDPD(v, acc, g.masks[part], acc)
		return
	}
	wide := e.Vec()
	e.VPMOVSXDQ(g.masks[part], wide)
	e.VANDPD(wide, v, wide)
	e.VADDPD(wide, acc, acc)
}

// maxLanes raises eight maxima to the lanes of a group that are not masked out; a NaN
// raises nothing. v is room.
func (e *exponential) maxLanes(x reg.GPVirtual, g *group, v, acc reg.VecVirtual) {
	if e.Lanes == 16 {
		e.VMOVUPS_Z(operand.Mem{Base: x}, g.masks[0], v)
		e.VMAXPS(acc, v, g.masks[0], acc)
		return
	}
	mask := e.YMM()
	e.VMOVUPS(operand.Mem{Base: e.full}, mask)
	e.VMASKMOVPS(operand.Mem{Base: x}, mask, v)
	e.VMAXPS(acc, v, v)
	e.VBLENDVPS(mask, v, acc, acc)
}

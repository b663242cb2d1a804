package norm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of halfNormPool and halfNormPoolGrad.
const (
	hpRows, hpX, hpStride, hpSecond, hpY, hpIdx = 0, 8, 16, 24, 32, 40
	hpOut, hpLoad, hpStore, hpLast, hpLastStore = 48, 56, 64, 72, 80
	hpMean, hpScale, hpShift, hpSign, hpWidth   = 88, 92, 96, 100, 104
	hpBase, hpNext, hpUpper, hpLower            = 108, 172, 176, 240

	hgRows, hgX, hgStride, hgSecond, hgY, hgDY  = 0, 8, 16, 24, 32, 40
	hgIdx, hgOut, hgLoad, hgN, hgDX             = 48, 56, 64, 72, 80
	hgMean, hgSlope, hgOffset, hgScale, hgWidth = 88, 92, 96, 100, 104
	hgNext, hgSum, hgDot, hgLane, hgPlace       = 108, 112, 116, 120, 184
)

// bf16NormPool emits the statistics of a plane of bfloat16, and the passes of
// batch norm, ReLU and 2×2 max pooling over it. A vector of 32-bit lanes holds
// the left and the right pixels of 16 windows: a shift and a mask tell them
// apart, and nothing has to cross lanes. Planes of up to 16 columns put two rows
// into a vector.
func bf16NormPool(a *isa.Asm) {
	halfMoments(a)
	for rows := 1; rows <= 2; rows++ {
		halfNormPool(a, rows)
		halfNormPoolSums(a, rows)
		halfNormPoolGrad(a, rows)
	}
}

// halfMoments is moments of bfloat16: hw is even.
func halfMoments(a *isa.Asm) {
	a.Kernel("halfMoments", "func(x *uint16, vectors int, tail uintptr, inverse float32, ahead int) (mean, diff, square float32)",
		"is a value near the mean of x, with Σ(x−mean) and Σ(x−mean)². tail has a bit per pair of elements that do not fill a vector.")
	x, high, mean, k := a.Gp("x"), a.HighHalves(), a.Splat("inverse"), a.K()
	a.KMOVW(a.Gp("tail").As32(), k)
	twoPasses(a, mean, func(sums []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		overHalves(a, x, a.Gp("ahead"), "sum", high, k, sums, func(v reg.VecVirtual, acc int, tail bool) { body(v, acc) })
	}, func(diffs []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		overHalves(a, x, nil, "diff", high, k, diffs, func(v reg.VecVirtual, acc int, tail bool) {
			if tail {
				a.VSUBPS_Z(mean, v, k, v)
			} else {
				a.VSUBPS(mean, v, v)
			}
			body(v, acc)
		})
	})
}

// overHalves calls body for both halves of every vector of pairs, in pairs of
// vectors and then one by one; lanes beyond the end hold zero. What lies ahead, if
// that is given, is prefetched.
func overHalves(a *isa.Asm, x, ahead reg.GPVirtual, label string, high reg.VecVirtual, k reg.Register, clear []reg.VecVirtual, body func(v reg.VecVirtual, acc int, tail bool)) {
	for _, v := range clear {
		a.Zero(v)
	}
	p, n := a.GP64(), a.Gp("vectors")
	a.MOVQ(x, p)
	both := func(v reg.VecVirtual, acc int, tail bool) {
		left, right := a.SplitPairs16(v, high)
		body(left, acc, tail)
		body(right, acc+1, tail)
	}
	v := a.Vecs(2)
	prefetch := func(disp int) {
		if ahead != nil {
			a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1, Disp: disp})
		}
	}
	a.Label(label + "2")
	a.SUBQ(operand.U8(2), n)
	a.JL(operand.LabelRef(label + "Ones"))
	for i := range v {
		prefetch(64 * i)
		a.VMOVUPS(operand.Mem{Base: p, Disp: 64 * i}, v[i])
		both(v[i], 2*i, false)
	}
	a.ADDQ(operand.U32(128), p)
	a.JMP(operand.LabelRef(label + "2"))
	a.Label(label + "Ones")
	a.ADDQ(operand.U8(2), n)
	a.JZ(operand.LabelRef(label + "Tail"))
	prefetch(0)
	a.VMOVUPS(operand.Mem{Base: p}, v[0])
	both(v[0], 0, false)
	a.ADDQ(operand.U8(64), p)
	a.Label(label + "Tail")
	prefetch(0)
	a.VMOVUPS_Z(operand.Mem{Base: p}, k, v[1])
	both(v[1], 2, true)
}

// halfNormPool emits the forward pass over one or two rows of outputs at a time. x is
// compared before it is normalised, with its sign columns if the scale is negative.
func halfNormPool(a *isa.Asm, rows int) {
	a.Kernel(fmt.Sprintf("halfNormPool%d", rows), "func(halfNormPool *byte)",
		fmt.Sprintf("pools pairs of rows, %d at a time, normalises the maxima, and writes what is positive of them, and their places.", rows))
	t := a.Gp("halfNormPool")
	f, sign, high, zero := affine{broadcast(a, t, hpMean), broadcast(a, t, hpScale), broadcast(a, t, hpShift)}, broadcast(a, t, hpSign), a.HighHalves(), a.Vec()
	a.Zero(zero)
	right, below, belowRight := a.Vec(), a.Splat32(t, hpWidth), a.Vec() // places from the window's first
	a.Ones(right)
	a.AddInt(right, below, belowRight)
	base, next := a.Vec(), a.Splat32(t, hpNext)
	a.VMOVUPS(operand.Mem{Base: t, Disp: hpBase}, base)
	count, x, stride, second := a.Field(t, hpRows), a.Field(t, hpX), a.Field(t, hpStride), a.Field(t, hpSecond)
	y, idx, out := a.Field(t, hpY), a.Field(t, hpIdx), a.Field(t, hpOut)
	load, load2, store := a.LaneMask(t, hpLoad), a.LaneMask(t, hpLoad), a.LaneMask(t, hpStore)

	a.Label("row")
	upper, lower := a.Vec(), a.Vec()
	a.VMOVUPS_Z(operand.Mem{Base: x}, load, upper)
	a.VMOVUPS_Z(operand.Mem{Base: x, Index: second, Scale: 1}, load2, lower)
	if rows == 2 { // each load has both rows of a window
		i, j, both := a.Vec(), a.Vec(), a.Vec()
		a.VMOVUPS(operand.Mem{Base: t, Disp: hpUpper}, i)
		a.VMOVUPS(operand.Mem{Base: t, Disp: hpLower}, j)
		a.VMOVAPS(upper, both)
		a.VPERMT2D(lower, i, upper)
		a.VPERMT2D(lower, j, both)
		lower = both
	}
	a.VPXORD(sign, upper, upper)
	a.VPXORD(sign, lower, lower)
	best, v1 := a.SplitPairs16(upper, high)
	v2, v3 := a.SplitPairs16(lower, high)
	at := a.Vec()
	a.Zero(at)
	a.KeepMax(v1, right, best, at)
	a.KeepMax(v2, below, best, at)
	a.KeepMax(v3, belowRight, best, at)
	applyAffine(a, f, best)
	a.VMAXPS(best, zero, best) // of zero and NaN, the second operand
	a.AddInt(base, at, at)
	a.RoundPairs(best, best)
	a.VMOVDQU16(a.Lower(best), store, operand.Mem{Base: y})
	a.VMOVDQU32(at, store, operand.Mem{Base: idx})
	a.AddInt(base, next, base)
	a.ADDQ(stride, x)
	a.ADDQ(out, y)
	a.LEAQ(operand.Mem{Base: idx, Index: out, Scale: 2}, idx)
	a.CountDown(count, "row")
	if rows == 2 { // an odd last row of outputs
		last := a.GP64()
		a.MOVQ(operand.Mem{Base: t, Disp: hpLast}, last)
		a.TESTQ(last, last)
		a.JZ(operand.LabelRef("done"))
		a.XORQ(count, count)
		a.MOVQ(count, operand.Mem{Base: t, Disp: hpLast})
		a.KMOVW(count.As32(), load2)
		a.MOVQ(operand.Mem{Base: t, Disp: hpLastStore}, last)
		a.KMOVW(last.As32(), store)
		a.INCQ(count)
		a.JMP(operand.LabelRef("row"))
		a.Label("done")
	}
	a.Ret()
}

// halfRows walks over the rows of outputs of a plane, backwards pass: loads 2 or,
// with both rows in a vector, 1 vectors of x ahead of the stores, which masked
// loads behind them would wait for.
type halfRows struct {
	a                      *isa.Asm
	t                      reg.GPVirtual
	rows                   int
	count, x, stride, next reg.GPVirtual
	second                 reg.GPVirtual
	y, dy, idx, out        reg.GPVirtual
	n, load                reg.Register
	high, base, step       reg.VecVirtual
	lane                   reg.VecVirtual
	place                  []reg.VecVirtual // of left and right pixels of each vector
	ahead                  []reg.VecVirtual
}

func newHalfRows(a *isa.Asm, rows int) *halfRows {
	t := a.Gp("halfNormPoolGrad")
	h := &halfRows{a: a, t: t, rows: rows, high: a.HighHalves(), base: a.Vec(), step: a.Splat32(t, hgNext)}
	h.count, h.x, h.stride, h.second = a.Field(t, hgRows), a.Field(t, hgX), a.Field(t, hgStride), a.Field(t, hgSecond)
	h.y, h.dy, h.idx, h.out = a.Field(t, hgY), a.Field(t, hgDY), a.Field(t, hgIdx), a.Field(t, hgOut)
	h.n, h.load = a.LaneMask(t, hgN), a.LaneMask(t, hgLoad)
	a.Zero(h.base)
	one, left := a.Vec(), a.Vec()
	a.Ones(one)
	a.VMOVUPS(operand.Mem{Base: t, Disp: hgPlace}, left)
	right := a.Vec()
	a.AddInt(one, left, right)
	h.place = []reg.VecVirtual{left, right}
	if rows == 2 {
		h.lane = a.Vec()
		a.VMOVUPS(operand.Mem{Base: t, Disp: hgLane}, h.lane)
		h.ahead = a.Vecs(1)
	} else {
		width, left2, right2 := a.Splat32(t, hgWidth), a.Vec(), a.Vec()
		a.AddInt(width, left, left2)
		a.AddInt(width, right, right2)
		h.place = append(h.place, left2, right2)
		h.ahead = a.Vecs(2)
	}
	h.next = a.GP64()
	a.MOVQ(h.x, h.next)
	h.loadAhead()
	return h
}

func (h *halfRows) loadAhead() {
	h.a.VMOVUPS_Z(operand.Mem{Base: h.next}, h.load, h.ahead[0])
	if h.rows == 1 {
		h.a.VMOVUPS_Z(operand.Mem{Base: h.next, Index: h.second, Scale: 1}, h.load, h.ahead[1])
	}
}

// gradient loads dy where it passes the ReLU, and the maxima's places in the
// window's pair of rows.
func (h *halfRows) gradient() (g, at reg.VecVirtual) {
	a := h.a
	g, at = a.Vec(), a.Vec()
	y := a.Vec()
	a.VPMOVZXWD_Z(operand.Mem{Base: h.dy}, h.n, g)
	a.VPMOVZXWD_Z(operand.Mem{Base: h.y}, h.n, y)
	a.VPSLLD(operand.U8(16), g, g)
	a.VPSLLD(operand.U8(16), y, y)
	a.VMOVDQU32_Z(operand.Mem{Base: h.idx}, h.n, at)
	a.KeepPositive(y, g)
	a.VPSUBD(h.base, at, at)
	return g, at
}

// spread brings them above the pixels.
func (h *halfRows) spread(v reg.VecVirtual) reg.VecVirtual {
	if h.rows == 1 {
		return v
	}
	s := h.a.Vec()
	h.a.VPERMD(v, h.lane, s)
	return s
}

// take hands out the vectors of this row, and loads the next row's; behind the
// last it loads the same again.
func (h *halfRows) take() []reg.VecVirtual {
	a := h.a
	v := a.Vecs(len(h.ahead))
	for i, x := range h.ahead {
		a.VMOVAPS(x, v[i])
	}
	ahead := a.GP64()
	a.LEAQ(operand.Mem{Base: h.next, Index: h.stride, Scale: 1}, ahead)
	a.CMPQ(h.count, operand.U8(1))
	a.CMOVQGT(ahead, h.next)
	h.loadAhead()
	return v
}

// loop emits the loop over rows of outputs: perRow gets the row's dy, perPixel dy spread
// over the left (j = 0) or right pixels of a vector and the mask of the maxima among them,
// and perVector the pixels afterwards. The extra pointers move on by stride.
func (h *halfRows) loop(perRow func(g reg.VecVirtual), perPixel func(g, x reg.VecVirtual, k reg.Register, j int), perVector func(i int, left, right reg.VecVirtual), extra ...reg.GPVirtual) {
	a := h.a
	a.Label("row")
	g, at := h.gradient()
	perRow(g)
	g, at = h.spread(g), h.spread(at)
	for i, v := range h.take() {
		left, right := a.SplitPairs16(v, h.high)
		for j, x := range []reg.VecVirtual{left, right} {
			k := a.K()
			a.VPCMPEQD(h.place[2*i+j], at, k)
			perPixel(g, x, k, j)
		}
		perVector(i, left, right)
	}
	a.Advance(h.stride, extra...)
	h.advance()
}

func (h *halfRows) advance() {
	a := h.a
	a.AddInt(h.base, h.step, h.base)
	a.Advance(h.out, h.y, h.dy)
	a.LEAQ(operand.Mem{Base: h.idx, Index: h.out, Scale: 2}, h.idx)
	a.CountDown(h.count, "row")
}

func halfNormPoolSums(a *isa.Asm, rows int) {
	a.Kernel(fmt.Sprintf("halfNormPoolSums%d", rows), "func(halfNormPoolGrad *byte)", "adds up dy and dy·(x−mean).")
	h := newHalfRows(a, rows)
	mean, sums, dots := broadcast(a, h.t, hgMean), a.Vec(), a.Vecs(2)
	for _, v := range append(dots, sums) {
		a.Zero(v)
	}
	h.loop(func(g reg.VecVirtual) { a.VADDPS(g, sums, sums) }, func(g, x reg.VecVirtual, k reg.Register, j int) {
		a.VSUBPS(mean, x, x)
		a.VFMADD231PS(g, x, k, dots[j])
	}, func(int, reg.VecVirtual, reg.VecVirtual) {})
	a.VADDPS(dots[1], dots[0], dots[0])
	a.VMOVSS(a.Total(sums), operand.Mem{Base: h.t, Disp: hgSum})
	a.VMOVSS(a.Total(dots[0]), operand.Mem{Base: h.t, Disp: hgDot})
	a.Ret()
}

// halfNormPoolGrad computes dx as dy·scale + x·slope + offset, which the caller made
// from the sums.
func halfNormPoolGrad(a *isa.Asm, rows int) {
	name := fmt.Sprintf("halfNormPoolGrad%d", rows)
	order := a.WordOrder(name + "Order")
	a.Kernel(name, "func(halfNormPoolGrad *byte)", "writes dx = dy·scale + x·slope + offset, and adds it up.")
	h := newHalfRows(a, rows)
	slope, offset, scale := broadcast(a, h.t, hgSlope), broadcast(a, h.t, hgOffset), broadcast(a, h.t, hgScale)
	interleave, sums, dx := a.Vec(), a.Vecs(2), a.Field(h.t, hgDX)
	a.VMOVUPS(order, interleave)
	for _, v := range sums {
		a.Zero(v)
	}
	h.loop(func(g reg.VecVirtual) { a.VMULPS(scale, g, g) }, func(g, x reg.VecVirtual, k reg.Register, j int) {
		a.VFMADD213PS_Z(offset, slope, h.load, x)
		a.VADDPS(g, x, k, x)
		a.VADDPS(x, sums[j], sums[j])
	}, func(i int, left, right reg.VecVirtual) {
		rounded := a.JoinPairs16(left, right, interleave)
		to := operand.Mem{Base: dx}
		if i == 1 {
			to = operand.Mem{Base: dx, Index: h.second, Scale: 1}
		}
		a.VMOVDQU32(rounded, h.load, to)
	}, dx)
	a.VADDPS(sums[1], sums[0], sums[0])
	a.VMOVSS(a.Total(sums[0]), operand.Mem{Base: h.t, Disp: hgSum})
	a.Ret()
}

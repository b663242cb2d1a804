package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// moments emits the statistics of a plane that fits into the L1 cache: a first
// pass for a mean in float32, a second for the sums of differences from it.
func moments(a *asm) {
	a.function("moments", "func(x *float32, vectors int, tail uintptr, inverse float32, ahead int) (mean, diff, square float32)",
		"is a value near the mean of x, with Σ(x−mean) and Σ(x−mean)². inverse is 1 over the number of elements.")
	x, ahead := a.gp("x"), a.gp("ahead")
	zero, mean := a.vec(), a.splat("inverse")
	a.zero(zero)
	a.twoPasses(mean, func(sums []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		a.overPlane(x, ahead, "sum", sums, body, zero)
	}, func(diffs []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		a.overPlane(x, nil, "diff", diffs, func(v reg.VecVirtual, acc int) {
			a.sub(mean, v, v)
			body(v, acc)
		}, mean)
	})
}

// aPass clears the accumulators, and calls body for every vector with the number of one.
type aPass func(clear []reg.VecVirtual, body func(v reg.VecVirtual, acc int))

// twoPasses emits the results of moments. mean holds 1 over the number of elements, and then
// the mean that diffs subtracts.
func (a *asm) twoPasses(mean reg.VecVirtual, values, diffs aPass) {
	sums := a.vecs(4)
	values(sums, func(v reg.VecVirtual, acc int) { a.add(v, sums[acc], sums[acc]) })
	total := a.total(a.fold(sums))
	a.VMULSS(mean.AsX(), total.AsX(), total.AsX())
	a.spread(total.AsX(), mean)
	diff, square := a.vecs(4), a.vecs(4)
	for _, v := range square {
		a.zero(v)
	}
	diffs(diff, func(v reg.VecVirtual, acc int) {
		a.add(v, diff[acc], diff[acc])
		a.fma(v, v, square[acc])
	})
	a.Store(mean.AsX(), a.Return("mean"))
	a.Store(a.total(a.fold(diff)).AsX(), a.Return("diff"))
	a.Store(a.total(a.fold(square)).AsX(), a.Return("square"))
	a.ret()
}

// fold adds up four vectors.
func (a *asm) fold(v []reg.VecVirtual) reg.VecVirtual {
	a.add(v[1], v[0], v[0])
	a.add(v[3], v[2], v[2])
	a.add(v[2], v[0], v[0])
	return v[0]
}

// overPlane calls body for every vector, in fours and then one by one. Lanes
// beyond the end hold rest. What lies ahead, if that is given, is prefetched.
func (a *asm) overPlane(x, ahead reg.GPVirtual, label string, clear []reg.VecVirtual, body func(v reg.VecVirtual, acc int), rest reg.VecVirtual) {
	for _, v := range clear {
		a.zero(v)
	}
	p, n := a.GP64(), a.gp("vectors")
	a.MOVQ(x, p)
	v := a.vecs(4)
	prefetch := func(disp int) {
		if ahead != nil && disp%64 == 0 {
			a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1, Disp: disp})
		}
	}
	a.Label(label + "4")
	a.SUBQ(operand.U8(4), n)
	a.JL(operand.LabelRef(label + "Ones"))
	for i := range 4 {
		prefetch(4 * i * a.lanes)
		a.move(operand.Mem{Base: p, Disp: 4 * i * a.lanes}, v[i])
		body(v[i], i)
	}
	a.ADDQ(operand.U32(16*a.lanes), p)
	a.JMP(operand.LabelRef(label + "4"))
	a.Label(label + "Ones")
	a.ADDQ(operand.U8(4), n)
	a.Label(label + "1")
	a.DECQ(n)
	a.JL(operand.LabelRef(label + "Tail"))
	prefetch(0)
	a.move(operand.Mem{Base: p}, v[0])
	body(v[0], 0)
	a.ADDQ(operand.U8(4*a.lanes), p)
	a.JMP(operand.LabelRef(label + "1"))
	a.Label(label + "Tail")
	tail := a.gp("tail")
	a.loadOr(operand.Mem{Base: p}, tail, rest, v[0])
	body(v[0], 1)
}

package norm

import (
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// moments emits the statistics of a plane that fits into the L1 cache: a first
// pass for a mean in float32, a second for the sums of differences from it.
func moments(a *isa.Asm) {
	a.Kernel("moments", "func(x *float32, vectors int, tail uintptr, inverse float32, ahead int) (mean, diff, square float32)",
		"is a value near the mean of x, with Σ(x−mean) and Σ(x−mean)². inverse is 1 over the number of elements.")
	x, ahead := a.Gp("x"), a.Gp("ahead")
	zero, mean := a.Vec(), a.Splat("inverse")
	a.Zero(zero)
	twoPasses(a, mean, func(sums []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		a.OverPlane(x, ahead, "sum", sums, body, zero)
	}, func(diffs []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		a.OverPlane(x, nil, "diff", diffs, func(v reg.VecVirtual, acc int) {
			a.Sub(mean, v, v)
			body(v, acc)
		}, mean)
	})
}

// twoPasses emits the results of moments. mean holds 1 over the number of elements, and then
// the mean that diffs subtracts.
func twoPasses(a *isa.Asm, mean reg.VecVirtual, values, diffs aPass) {
	sums := a.Vecs(4)
	values(sums, func(v reg.VecVirtual, acc int) { a.Add(v, sums[acc], sums[acc]) })
	total := a.Total(a.Fold(sums))
	a.VMULSS(mean.AsX(), total.AsX(), total.AsX())
	a.Spread(total.AsX(), mean)
	diff, square := a.Vecs(4), a.Vecs(4)
	for _, v := range square {
		a.Zero(v)
	}
	diffs(diff, func(v reg.VecVirtual, acc int) {
		a.Add(v, diff[acc], diff[acc])
		a.Fma(v, v, square[acc])
	})
	a.Store(mean.AsX(), a.Return("mean"))
	a.Store(a.Total(a.Fold(diff)).AsX(), a.Return("diff"))
	a.Store(a.Total(a.Fold(square)).AsX(), a.Return("square"))
	a.Ret()
}

// aPass clears the accumulators, and calls body for every vector with the number of one.
type aPass func(clear []reg.VecVirtual, body func(v reg.VecVirtual, acc int))

package pointwise

import (
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// peak emits what measures a core: rounds of independent multiply-adds that
// never leave the registers. Twelve sums hide the latency of every core so far.
func peak(a *isa.Asm) {
	a.Kernel("multiplyAdds", "func(rounds int)", "does 12 multiply-adds of whole registers, rounds times.")
	x := a.Vec()
	a.Zero(x)
	eachRound(a, func(sum reg.VecVirtual) { a.MulAdd(x, x, sum) })
}

func eachRound(a *isa.Asm, body func(sum reg.VecVirtual)) {
	n, sums := a.Gp("rounds"), a.Vecs(12)
	for _, s := range sums {
		a.Zero(s)
	}
	a.Label("loop")
	for _, s := range sums {
		body(s)
	}
	a.CountDown(n, "loop")
	a.Ret()
}

package main

import (
	"github.com/mmcloughlin/avo/reg"
)

// peak emits what measures a core: rounds of independent multiply-adds that
// never leave the registers. Twelve sums hide the latency of every core so far.
func peak(a *asm) {
	a.function("multiplyAdds", "func(rounds int)", "does 12 multiply-adds of whole registers, rounds times.")
	x := a.vec()
	a.zero(x)
	a.rounds(func(sum reg.VecVirtual) { a.mulAdd(x, x, sum) })
}

func (a *asm) rounds(body func(sum reg.VecVirtual)) {
	n, sums := a.gp("rounds"), a.vecs(12)
	for _, s := range sums {
		a.zero(s)
	}
	a.Label("loop")
	for _, s := range sums {
		body(s)
	}
	a.countDown(n, "loop")
	a.ret()
}

package pointwise

import (
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// rowSums emits the sums of rows of any length, all rows in one call.
func rowSums(a *isa.Asm) {
	a.Kernel("rowSums", "func(rows int, x *float32, vectors int, tail uintptr, sums *float32, bytes int)", "adds up each row of bytes.")
	x, sums, zero := a.Gp("x"), a.Gp("sums"), a.Vec()
	a.Zero(zero)
	a.EachRow(func() {
		acc := a.Vecs(4)
		a.OverPlane(x, nil, "sum", acc, func(v reg.VecVirtual, i int) { a.Add(v, acc[i], acc[i]) }, zero)
		a.StoreOne(a.Total(a.Fold(acc)), sums)
	}, x)
}

package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of thirdPlanes, and of its thirdRun.
const (
	thPlanes, thX, thY, thXPlane, thYPlane        = 0, 8, 16, 24, 32
	thRuns, thRunCount, thXStep, thYStep, thXRow  = 40, 48, 56, 64, 72
	thMasks, thOrders, thWeights, thWeightsPlane  = 80, 88, 96, 104
	thBias, thBiasPlane, thSums, thSumsPlane      = 112, 120, 128, 136
	thBelow, thBelowVectors                       = 144, 152
	thXAt, thYAt, thWeightsAt, thBiasAt, thSumsAt = 160, 168, 176, 184, 192
	thRunsLeft                                    = 200
	tkX, tkY, tkMasks, tkBlocks, tkSize           = 0, 4, 8, 12, 16
	thirdTaps                                     = 3 // columns of filters, and rows of them at most
)

// thirds emits depthwise convolution with a stride of three columns by filters of three, of which all results see all taps. Three neighbouring vectors of x have, for each
// column of the filter, what a vector of results sees through it: no two of these elements lie in the same lane, as three does not divide the lanes. So two blends
// take them out, and the sums of a column have an order of lanes of their own, until one permutation at the end.
func thirds(a *isa.Asm) {
	for rows := 1; rows <= thirdTaps; rows++ {
		of := fmt.Sprintf("filters of %d×%d, of which all results see all taps, with a stride of three columns", rows, thirdTaps)
		newThirdKernel(a, fmt.Sprint("thirdsForward", rows), "convolves planes by "+of+".", rows).forward()
		newThirdKernel(a, fmt.Sprint("thirdsGrad", rows), "computes the gradient of planes that "+of+" see, and as many rows.", rows).grad()
		newThirdKernel(a, fmt.Sprint("thirdsDots", rows), "adds the products of dy and x for "+of+", [row][column][lane].", rows).dots()
	}
}

// thirdKernel is one of the kernels.
type thirdKernel struct {
	*isa.Asm
	rows           int // of the filter
	t, x, y, masks reg.GPVirtual
	step           reg.GPVirtual // from a row of x to the next
	classes        [thirdTaps]reg.Register
}

func newThirdKernel(a *isa.Asm, name, doc string, rows int) *thirdKernel {
	a.Kernel(name, "func(thirdPlanes *byte)", doc)
	k := &thirdKernel{Asm: a, rows: rows, t: a.Gp("thirdPlanes")}
	if a.Lanes == 16 {
		for i := range k.classes {
			bits, mask := a.GP32(), a.K()
			a.MOVL(operand.U32(uint32(k.class(i))), bits)
			a.KMOVW(bits, mask)
			k.classes[i] = mask
		}
	}
	return k
}

// class is the bits of every third lane from the i-th on.
func (k *thirdKernel) class(i int) (lanes int) {
	for l := i; l < k.Lanes; l += thirdTaps {
		lanes |= 1 << l
	}
	return lanes
}

// third gives every third element of three vectors from the t-th on.
func (k *thirdKernel) third(t int, x []reg.VecVirtual, to reg.VecVirtual) {
	from := x[0]
	for i := 1; i < len(x); i++ {
		class := ((t-k.Lanes*i)%thirdTaps + thirdTaps) % thirdTaps
		if k.Lanes == 16 {
			k.VBLENDMPS(x[i], from, k.classes[class], to)
		} else {
			k.VBLENDPS(operand.U8(uint8(k.class(class))), x[i], from, to)
		}
		from = to
	}
}

// vector is the bytes of one.
func (k *thirdKernel) vector() int { return 4 * k.Lanes }

// vectors loads those that a row of the filter sees.
func (k *thirdKernel) vectors(m operand.Mem, x []reg.VecVirtual) {
	for i, v := range x {
		m := m.Offset(k.vector() * i)
		if k.vector()*i%64 == 0 {
			k.PREFETCHT0(m.Offset(pages))
		}
		k.Move(m, v)
	}
}

// overPlanes emits the loops over planes and the blocks of each: a vector of columns of a row of y, and three of x. Begin is run before them, and end behind them.
func (k *thirdKernel) overPlanes(begin, block, end func()) {
	copyFields(k.Asm, k.t, [2]int{thX, thXAt}, [2]int{thY, thYAt}, [2]int{thWeights, thWeightsAt}, [2]int{thBias, thBiasAt}, [2]int{thSums, thSumsAt})
	k.step = k.Field(k.t, thXRow)
	k.Label("plane")
	begin()
	k.overRuns(block)
	end()
	addFields(k.Asm, k.t, [2]int{thXPlane, thXAt}, [2]int{thYPlane, thYAt}, [2]int{thWeightsPlane, thWeightsAt}, [2]int{thBiasPlane, thBiasAt}, [2]int{thSumsPlane, thSumsAt})
	k.CountDown(operand.Mem{Base: k.t, Disp: thPlanes}, "plane")
	k.Ret()
}

// overRuns emits the loops over runs of blocks, and over those of each.
func (k *thirdKernel) overRuns(block func()) {
	run, left, xStep, yStep := k.Field(k.t, thRuns), k.GP64(), k.Field(k.t, thXStep), k.Field(k.t, thYStep)
	copyFields(k.Asm, k.t, [2]int{thRunCount, thRunsLeft})
	k.Label("run")
	k.x, k.y, k.masks = k.Field(k.t, thXAt), k.Field(k.t, thYAt), k.Field(k.t, thMasks)
	for i, p := range []reg.GPVirtual{k.x, k.y, k.masks} {
		off := k.GP64()
		k.MOVLQSX(operand.Mem{Base: run, Disp: [...]int{tkX, tkY, tkMasks}[i]}, off)
		k.ADDQ(off, p)
	}
	k.MOVLQSX(operand.Mem{Base: run, Disp: tkBlocks}, left)
	k.Label("block")
	block()
	k.ADDQ(xStep, k.x)
	k.ADDQ(yStep, k.y)
	k.DECQ(left)
	k.JNZ(operand.LabelRef("block"))
	k.ADDQ(operand.U8(tkSize), run)
	k.CountDown(operand.Mem{Base: k.t, Disp: thRunsLeft}, "run")
}

// eachRow calls f for the rows of x that a block sees.
func (k *thirdKernel) eachRow(f func(r int, m operand.Mem)) {
	for r := range k.rows {
		m := operand.Mem{Base: k.x}
		if r > 0 {
			m.Index, m.Scale = k.step, uint8(r)
		}
		f(r, m)
	}
}

// permuted gives v in an order of lanes of the table.
func (k *thirdKernel) permuted(orders reg.GPVirtual, i int, v, to reg.VecVirtual) {
	k.Move(operand.Mem{Base: orders, Disp: k.vector() * i}, to)
	k.VPERMPS(v, to, to)
}

// forward computes y = bias + Σ w·x.
func (k *thirdKernel) forward() {
	weights, bias, orders := k.Vecs(thirdTaps*k.rows), k.GP64(), k.Field(k.t, thOrders)
	k.overPlanes(func() {
		k.MOVQ(operand.Mem{Base: k.t, Disp: thBiasAt}, bias)
		from := k.Field(k.t, thWeightsAt)
		for i, v := range weights {
			k.Spread(operand.Mem{Base: from, Disp: 4 * i}, v)
		}
	}, func() {
		acc, x, v := k.Vecs(thirdTaps), k.Vecs(thirdTaps), k.Vec()
		k.Spread(operand.Mem{Base: bias}, acc[0])
		k.eachRow(func(r int, m operand.Mem) {
			k.vectors(m, x)
			for t, acc := range acc {
				k.third(t, x, v)
				if r == 0 && t > 0 {
					k.Mul(weights[t], v, acc)
					continue
				}
				k.Fma(weights[r*thirdTaps+t], v, acc)
			}
		})
		for t := range acc {
			k.permuted(orders, t, acc[t], x[t])
		}
		k.Add(x[0], x[1], x[0])
		k.Add(x[0], x[2], x[0])
		k.Move(x[0], operand.Mem{Base: k.y})
	}, func() {})
}

// dy loads a vector of it, with zeros beside the row.
func (k *thirdKernel) dy() reg.VecVirtual {
	v := k.Vec()
	k.Move(operand.Mem{Base: k.y}, v)
	k.And(operand.Mem{Base: k.masks}, v, v)
	return v
}

// grad computes dx = Σ w·dy, where each row of dy is seen by some rows of dx, which see no other. Three lanes that are neighbours see the same element of dy, through a
// weight each. The rows of dx below see none.
func (k *thirdKernel) grad() {
	weights, orders := k.Vecs(thirdTaps*k.rows), k.Field(k.t, thOrders)
	k.overPlanes(func() {
		from, w := k.Field(k.t, thWeightsAt), k.Vec()
		for i, v := range weights {
			if i%thirdTaps == 0 {
				k.Move(operand.Mem{Base: from, Disp: 4 * i}, w)
			}
			k.permuted(orders, thirdTaps+i%thirdTaps, w, v)
		}
	}, func() {
		dy, spread, dx := k.dy(), k.Vecs(thirdTaps), k.Vec()
		for i, v := range spread {
			k.permuted(orders, i, dy, v)
		}
		k.eachRow(func(r int, m operand.Mem) {
			for i, v := range spread {
				m := m.Offset(k.vector() * i)
				if k.vector()*i%64 == 0 {
					k.PREFETCHT0(m.Offset(pages))
				}
				k.Mul(weights[r*thirdTaps+i], v, dx)
				k.Move(dx, m)
			}
		})
	}, func() {
		at, left, zeros := k.Field(k.t, thBelow), k.Field(k.t, thBelowVectors), k.Vec()
		k.ADDQ(operand.Mem{Base: k.t, Disp: thXAt}, at)
		k.Zero(zeros)
		k.TESTQ(left, left)
		k.JZ(operand.LabelRef("belowDone"))
		k.Label("below")
		k.Move(zeros, operand.Mem{Base: at})
		k.ADDQ(operand.U8(uint8(k.vector())), at)
		k.DECQ(left)
		k.JNZ(operand.LabelRef("below"))
		k.Label("belowDone")
	})
}

// dots adds dy·x.
func (k *thirdKernel) dots() {
	acc, orders := k.Vecs(thirdTaps*k.rows), k.Field(k.t, thOrders)
	k.overPlanes(func() {
		for _, v := range acc {
			k.Zero(v)
		}
	}, func() {
		v, dy, x := k.dy(), k.Vecs(thirdTaps), k.Vecs(thirdTaps)
		for t, to := range dy {
			k.permuted(orders, t, v, to)
		}
		k.eachRow(func(r int, m operand.Mem) {
			k.vectors(m, x)
			for t, dy := range dy {
				k.third(t, x, v)
				k.Fma(v, dy, acc[r*thirdTaps+t])
			}
		})
	}, func() {
		sums := k.Field(k.t, thSumsAt)
		for i, v := range acc {
			m := operand.Mem{Base: sums, Disp: k.vector() * i}
			k.Add(m, v, v)
			k.Move(v, m)
		}
	})
}

package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of tapRows and tapBlock.
const (
	twPlanes, twRows, twBlocks, twTaps = 0, 8, 16, 24
	twSrc, twDst, twSrcPlane, twSrcRow = 32, 40, 48, 56
	twDstPlane, twDstRow, twTap        = 64, 72, 80
	twTable, twOrders                  = 88, 96
	twSrcPlaneAt, twDstPlaneAt         = 104, 112
	twLast                             = 120
	tbSrc, tbDst, tbLanes              = 0, 8, 16
)

// tapSources is from how many vectors of a row what a tap sees comes at most.
const tapSources = 4

// tapRows emits the copies of what the taps of a row of a filter see of rows of planes, and back.
func tapRows(a *isa.Asm) {
	for n := 1; n <= tapSources; n++ {
		gatherTaps(a, n)
		pickRows(a, n)
		spreadRows(a, n)
	}
	scatterTaps(a)
}

// pickLanes overwrites the lanes of sum for which an order names one of v, which is a register or memory.
func pickLanes(a *isa.Asm, v operand.Op, order operand.Mem, sum reg.VecVirtual) {
	picks := a.Vec()
	a.Move(order, picks)
	pickOrdered(a, v, picks, sum)
}

// pickOrdered is pickLanes with an order in a register.
func pickOrdered(a *isa.Asm, v operand.Op, picks, sum reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VPERMT2PS(v, picks, sum)
		return
	}
	picked := a.Vec()
	a.VPERMPS(v, picks, picked)
	a.VBLENDVPS(picks, picked, sum, sum)
}

// tapPlanes calls body for every row of every plane, with where it lies in src and in dst and how many rows are left.
func tapPlanes(a *isa.Asm, t reg.GPVirtual, body func(src, dst, rows reg.GPVirtual)) {
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	copyFields(a, t, [2]int{twSrc, twSrcPlaneAt}, [2]int{twDst, twDstPlaneAt})
	a.Label("plane")
	src, dst, rows := a.Field(t, twSrcPlaneAt), a.Field(t, twDstPlaneAt), a.Field(t, twRows)
	a.Label("row")
	body(src, dst, rows)
	a.ADDQ(field(twSrcRow), src)
	a.ADDQ(field(twDstRow), dst)
	a.CountDown(rows, "row")
	addFields(a, t, [2]int{twSrcPlane, twSrcPlaneAt}, [2]int{twDstPlane, twDstPlaneAt})
	a.CountDown(field(twPlanes), "plane")
	a.Ret()
}

// tapBlocks calls body for every block of every row of every plane, with where it lies in src and in dst, its entry in
// the table, and the orders, which body moves on.
func tapBlocks(a *isa.Asm, t reg.GPVirtual, body func(from, to, table, orders reg.GPVirtual)) {
	tapPlanes(a, t, func(src, dst, _ reg.GPVirtual) {
		table, orders, blocks, from, to := a.Field(t, twTable), a.Field(t, twOrders), a.Field(t, twBlocks), a.GP64(), a.GP64()
		a.Label("block")
		a.MOVQ(operand.Mem{Base: table, Disp: tbSrc}, from)
		a.MOVQ(operand.Mem{Base: table, Disp: tbDst}, to)
		a.ADDQ(src, from)
		a.ADDQ(dst, to)
		body(from, to, table, orders)
		a.Advance(operand.U8(tapBlock), table)
		a.CountDown(blocks, "block")
	})
}

// tapBlock is the size of an entry of the table.
const tapBlock = tbLanes + 8*tapSources

func gatherTaps(a *isa.Asm, n int) {
	a.Kernel(fmt.Sprintf("gatherTaps%d", n), "func(tapRows *byte)",
		fmt.Sprintf("copies what each tap of a row sees of rows of planes, from up to %d vectors. It may write zeros behind a row.", n))
	t := a.Gp("tapRows")
	tapBlocks(a, t, func(from, to, table, orders reg.GPVirtual) {
		v := a.Vecs(n)
		for i := range v {
			a.LoadLanes(operand.Mem{Base: from, Disp: i * vectorBytes(a)}, a.LaneMask(table, tbLanes+8*i), v[i])
		}
		taps, next, sum := a.Field(t, twTaps), a.Field(t, twTap), a.Vec()
		a.Label("tap")
		a.Zero(sum)
		for i := range v {
			pickLanes(a, v[i], operand.Mem{Base: orders, Disp: i * vectorBytes(a)}, sum)
		}
		a.Move(sum, operand.Mem{Base: to})
		a.ADDQ(next, to)
		a.ADDQ(operand.I32(n*vectorBytes(a)), orders)
		a.CountDown(taps, "tap")
	})
}

func scatterTaps(a *isa.Asm) {
	a.Kernel("scatterTaps", "func(tapRows *byte)", "copies what each tap of a row sees back to rows of planes, with zeros where no tap sees anything.")
	t := a.Gp("tapRows")
	tapBlocks(a, t, func(from, to, table, orders reg.GPVirtual) {
		taps, next, sum := a.Field(t, twTaps), a.Field(t, twTap), a.Vec()
		a.Zero(sum)
		a.Label("tap")
		pickLanes(a, operand.Mem{Base: from}, operand.Mem{Base: orders}, sum)
		a.ADDQ(next, from)
		a.ADDQ(operand.I32(vectorBytes(a)), orders)
		a.CountDown(taps, "tap")
		a.StoreLanes(sum, a.Stored(a.LaneMask(table, tbLanes)), operand.Mem{Base: to})
	})
}

// pickRows copies one block of every row, what a single tap sees: its masks and orders stay in registers. The order of the first two
// vectors of sixteen lanes is one. It prefetches the same row of the next plane: hardware does not foresee rows of which some are left out.
func pickRows(a *isa.Asm, n int) {
	a.Kernel(fmt.Sprintf("pickRows%d", n), "func(tapRows *byte)",
		fmt.Sprintf("copies a block of what one tap sees of rows of planes, from up to %d vectors. It may write behind a row.", n))
	t := a.Gp("tapRows")
	table, orders := a.Field(t, twTable), a.Field(t, twOrders)
	picks, lanes := a.Vecs(n), make([]reg.Register, n)
	for i := range picks {
		a.Move(operand.Mem{Base: orders, Disp: i * vectorBytes(a)}, picks[i])
		lanes[i] = a.LaneMask(table, tbLanes+8*i)
	}
	v, sum, next := a.Vec(), a.Vec(), a.Field(t, twSrcPlane)
	tapPlanes(a, t, func(src, dst, _ reg.GPVirtual) {
		for at := 0; at < n*vectorBytes(a); at += 64 {
			a.PREFETCHT0(isa.Offset(src, next, at))
		}
		a.LoadLanes(operand.Mem{Base: src}, lanes[0], sum)
		if a.Lanes == 8 || n == 1 {
			a.VPERMPS(sum, picks[0], sum)
		}
		for i := 1; i < n; i++ {
			a.LoadLanes(operand.Mem{Base: src, Disp: i * vectorBytes(a)}, lanes[i], v)
			pickOrdered(a, v, picks[i], sum)
		}
		a.Move(sum, operand.Mem{Base: dst})
	})
}

// spreadRows writes whole vectors one behind the other: what is behind a row belongs to the rows behind it, which are written later.
func spreadRows(a *isa.Asm, n int) {
	a.Kernel(fmt.Sprintf("spreadRows%d", n), "func(tapRows *byte)",
		fmt.Sprintf("copies what one tap sees back to %d vectors of rows of planes, and writes vectors of zeros behind them; those of the last row have a number of their own. It may write zeros behind a plane.", n))
	t := a.Gp("tapRows")
	table, orders, last, zero := a.Field(t, twTable), a.Field(t, twOrders), a.Field(t, twLast), a.Vec()
	a.Zero(zero)
	picks, from := a.Vecs(n), make([]reg.GPVirtual, n)
	for i := range picks {
		a.Move(operand.Mem{Base: orders, Disp: i * vectorBytes(a)}, picks[i])
		from[i] = a.Field(table, i*tapBlock+tbSrc)
	}
	sum := a.Vec()
	tapPlanes(a, t, func(src, dst, rows reg.GPVirtual) {
		for i := range picks {
			a.Zero(sum)
			pickOrdered(a, isa.Offset(src, from[i], 0), picks[i], sum)
			a.Move(sum, operand.Mem{Base: dst, Disp: i * vectorBytes(a)})
		}
		zeros, to := a.Field(t, twBlocks), a.GP64()
		a.CMPQ(rows, operand.U8(1))
		a.CMOVQEQ(last, zeros)
		a.LEAQ(operand.Mem{Base: dst, Disp: n * vectorBytes(a)}, to)
		a.TESTQ(zeros, zeros)
		a.JZ(operand.LabelRef("whole"))
		a.Label("zero")
		a.Move(zero, operand.Mem{Base: to})
		a.ADDQ(operand.I32(vectorBytes(a)), to)
		a.CountDown(zeros, "zero")
		a.Label("whole")
	})
}

package conv

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// laneSums emits the sums of the lanes of as many vectors as these have lanes at a time: halves of two vectors meet in one, which is added to the one
// of their other halves, until a vector has a sum of each. Lanes are added in the order in which the sum of one vector folds it.
func laneSums(a *isa.Asm) {
	a.Kernel("laneSums", "func(blocks int, x, sums *float32)", "adds up the lanes of vectors, of which a block has as many as there are lanes.")
	blocks, x, sums := a.Gp("blocks"), a.Gp("x"), a.Gp("sums")
	a.Label("block")
	v := make([]reg.VecVirtual, a.Lanes)
	parts := a.Lanes / 4 // of 128 bits
	for i := range v {
		v[i] = a.Vec()
		row := i%parts*4 + i/parts // part k of the result has the sums of rows 4k to 4k + 3
		a.Move(operand.Mem{Base: x, Disp: 4 * a.Lanes * row}, v[i])
	}
	if a.Lanes == 16 {
		v = meet(a, v, shuffle(a.VSHUFF32X4, 0b01000100), shuffle(a.VSHUFF32X4, 0b11101110))
		v = meet(a, v, shuffle(a.VSHUFF32X4, 0b10001000), shuffle(a.VSHUFF32X4, 0b11011101))
	} else {
		quads := func(ops ...operand.Op) { a.VPERM2F128(ops[0], ops[1], ops[2], ops[3]) }
		v = meet(a, v, shuffle(quads, 0x20), shuffle(quads, 0x31))
	}
	v = meet(a, v, a.VUNPCKLPD, a.VUNPCKHPD)
	v = meet(a, v, shuffle(a.VSHUFPS, 0b10001000), shuffle(a.VSHUFPS, 0b11011101))
	a.Move(v[0], operand.Mem{Base: sums})
	a.ADDQ(operand.U32(4*a.Lanes*a.Lanes), x)
	a.ADDQ(operand.U8(4*a.Lanes), sums)
	a.CountDown(blocks, "block")
	a.Ret()
}

// shuffle is an instruction for one choice of what it takes.
func shuffle(f func(...operand.Op), choice uint8) func(...operand.Op) {
	return func(ops ...operand.Op) { f(append([]operand.Op{operand.U8(choice)}, ops...)...) }
}

// meet adds the low parts of each two vectors to their high ones.
func meet(a *isa.Asm, v []reg.VecVirtual, low, high func(...operand.Op)) (sums []reg.VecVirtual) {
	for i := 0; i < len(v); i += 2 {
		other := a.Vec()
		high(v[i+1], v[i], other)
		low(v[i+1], v[i], v[i])
		a.Add(other, v[i], v[i])
		sums = append(sums, v[i])
	}
	return sums
}

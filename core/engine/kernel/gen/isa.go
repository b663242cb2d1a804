package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is a vector extension: how many float32 a register holds, and its registers.
type isa struct {
	name  string
	lanes int
}

var (
	avx2   = isa{"AVX2", 8}
	avx512 = isa{"AVX512", 16}
)

// asm emits functions for one isa.
type asm struct {
	*build.Context
	isa
}

func (a *asm) vec() reg.VecVirtual {
	if a.lanes == 16 {
		return a.ZMM()
	}
	return a.YMM()
}

func (a *asm) vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = a.vec()
	}
	return v
}

// zero clears a vector register.
func (a *asm) zero(v reg.VecVirtual) {
	if a.lanes == 16 {
		a.VPXORD(v, v, v)
	} else {
		a.VXORPS(v, v, v)
	}
}

// function starts a function named base+ISA that the garbage collector need not look into.
func (a *asm) function(base, signature, doc string) {
	a.Function(base + a.name)
	a.Attributes(attr.NOSPLIT)
	a.Pragma("noescape")
	a.SignatureExpr(signature)
	a.Doc(fmt.Sprintf("%s%s %s", base, a.name, doc))
}

func (a *asm) gp(param string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(param), r)
	return r
}

// field loads a 64-bit field of the struct at p.
func (a *asm) field(p reg.GPVirtual, offset int) reg.GPVirtual {
	r := a.GP64()
	a.MOVQ(operand.Mem{Base: p, Disp: offset}, r)
	return r
}

// splat loads a float32 parameter into every lane.
func (a *asm) splat(param string) reg.VecVirtual {
	x, v := a.XMM(), a.vec()
	a.Load(a.Param(param), x)
	a.VBROADCASTSS(x, v)
	return v
}

// blocks emits the loop of an elementwise kernel: body runs with the byte offset
// in off for every block of 16 float32 of the n given, once per register.
func (a *asm) blocks(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	off := a.GP64()
	a.XORQ(off, off)
	a.SHLQ(operand.U8(2), n)
	a.Label("loop")
	a.CMPQ(off, n)
	a.JGE(operand.LabelRef("done"))
	for d := 0; d < 16; d += a.lanes {
		body(off, 4*d)
	}
	a.ADDQ(operand.U8(64), off)
	a.JMP(operand.LabelRef("loop"))
	a.Label("done")
}

func at(base, off reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: off, Scale: 1, Disp: disp}
}

// ret returns to Go code, whose SSE instructions are slow while the upper halves
// of the registers are in use.
func (a *asm) ret() {
	a.VZEROUPPER()
	a.RET()
}

// foldTo128 combines the 128-bit parts of v with add. All its instructions reach
// the upper 16 registers.
func (a *asm) foldTo128(v reg.VecVirtual, add func(...operand.Op)) reg.VecVirtual {
	y := v
	extract := a.VEXTRACTF128
	if a.lanes == 16 {
		extract = func(i, y, x operand.Op) { a.VEXTRACTF32X4(i, y, x) }
		y = a.YMM()
		a.VEXTRACTF64X4(operand.U8(1), v, y)
		add(v.AsY(), y, y)
	}
	x := a.XMM()
	extract(operand.U8(1), y.AsY(), x)
	add(y.AsX(), x, x)
	return x
}

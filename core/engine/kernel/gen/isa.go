package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// asm emits functions for one isa.
type asm struct {
	*build.Context
	isa
	stores int // so far, for the names of labels
}

func (a *asm) vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = a.vec()
	}
	return v
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
	a.spread(x, v)
	return v
}

// splatLate is splat for any register: the way through an XMM register needs one of the lower 16.
func (a *asm) splatLate(param string) reg.VecVirtual {
	v := a.vec()
	p, err := a.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	a.spread(p.Addr, v)
	return v
}

func at(base, off reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: off, Scale: 1, Disp: disp}
}

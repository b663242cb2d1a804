package isa

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Asm emits functions for one isa.
type Asm struct {
	*build.Context
	ISA
	stores int // so far, for the names of labels
}

func (a *Asm) Vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = a.Vec()
	}
	return v
}

// Kernel starts a function named base+ISA that the garbage collector need not look into.
func (a *Asm) Kernel(base, signature, doc string) {
	a.Function(base + a.Name)
	a.Attributes(attr.NOSPLIT)
	a.Pragma("noescape")
	a.SignatureExpr(signature)
	a.Doc(fmt.Sprintf("%s%s %s", base, a.Name, doc))
}

func (a *Asm) Gp(param string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(param), r)
	return r
}

// Interleave emits parts that do not depend on each other, one instruction of each in turn. Processors look for
// instructions that are ready among a few dozen, and one long chain of operations behind the other leaves them few.
func (a *Asm) Interleave(parts ...func()) {
	f := a.function()
	start := len(f.Nodes)
	lists, longest := make([][]ir.Node, len(parts)), 0
	for i, part := range parts {
		from := len(f.Nodes)
		part()
		lists[i] = slices.Clone(f.Nodes[from:])
		longest = max(longest, len(lists[i]))
	}
	f.Nodes = f.Nodes[:start]
	for i := range longest {
		for _, list := range lists {
			if i < len(list) {
				f.Nodes = append(f.Nodes, list[i])
			}
		}
	}
}

// function is the one that is being emitted.
func (a *Asm) function() *ir.Function {
	file, _ := a.Result() // errors are reported at the end
	for _, s := range slices.Backward(file.Sections) {
		if f, ok := s.(*ir.Function); ok {
			return f
		}
	}
	panic("isa: no function")
}

// Field loads a 64-bit field of the struct at p.
func (a *Asm) Field(p reg.GPVirtual, offset int) reg.GPVirtual {
	r := a.GP64()
	a.MOVQ(operand.Mem{Base: p, Disp: offset}, r)
	return r
}

// Splat loads a float32 parameter into every lane.
func (a *Asm) Splat(param string) reg.VecVirtual {
	x, v := a.XMM(), a.Vec()
	a.Load(a.Param(param), x)
	a.Spread(x, v)
	return v
}

// SplatLate is splat for any register: the way through an XMM register needs one of the lower 16.
func (a *Asm) SplatLate(param string) reg.VecVirtual {
	v := a.Vec()
	p, err := a.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	a.Spread(p.Addr, v)
	return v
}

func Offset(base, off reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: off, Scale: 1, Disp: disp}
}

// Splat64 loads a float64 parameter into every lane.
func (a *Asm) Splat64(param string) reg.VecVirtual {
	x, v := a.XMM(), a.Vec()
	a.Load(a.Param(param), x)
	a.VBROADCASTSD(x, v)
	return v
}

// ReturnSum adds up the accumulators and stores the total as a result.
func (a *Asm) ReturnSum(acc []reg.VecVirtual, result string) {
	a.Store(a.Total64(acc), a.Return(result))
}

// Total64 adds up accumulators of float64.
func (a *Asm) Total64(acc []reg.VecVirtual) reg.VecVirtual {
	for _, v := range acc[1:] {
		a.Add64(v, acc[0], acc[0])
	}
	x := a.FoldTo128(acc[0], a.VADDPD)
	y := a.XMM()
	a.VPERMILPD(operand.U8(1), x, y)
	a.Add64(x, y, x)
	return x
}

// Splat32 broadcasts the low half of a field.
func (a *Asm) Splat32(t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.Vec()
	a.SpreadInt(operand.Mem{Base: t, Disp: offset}, v)
	return v
}

// NEON is arm64's vectors. Kernels see AVX2, whose registers are pairs of NEON's, and
// package arm64 compiles what they emit: every family that has kernels for AVX2 has them
// for NEON.
var NEON = AVX2.as("NEON")

// NEONBF16 is NEON with FEAT_BF16: its products are of pairs of bfloat16. Only its own
// families are written for it.
var NEONBF16 = AVX2.as("NEONBF16")

func (v ISA) as(name string) ISA {
	v.Name = name
	return v
}

// All emits several kernels into one family.
func All(emits ...func(*Asm)) func(*Asm) {
	return func(a *Asm) {
		for _, emit := range emits {
			emit(a)
		}
	}
}

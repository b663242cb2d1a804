package arm64

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// value is what stands for a vector register of avo's.
type value struct {
	lo, hi  Reg  // the same for a uniform one
	uniform bool // all lanes are the same, wherever it is set
	scalar  bool // uniform, set from memory, and only multiplied with: the first lane is enough
	whole   bool // set by comparisons alone: all bits of a lane are the same
	count   Reg  // of a mask: its number of lanes
	isMask  bool
	stale   bool // of a mask: something else than a mask has been put there since
}

// registers are what avo's registers of a function became.
type registers struct {
	*code
	ints   map[reg.ID]Reg
	values map[reg.ID]*value
}

// newRegisters looks at all uses first, to find out what each vector register is.
func newRegisters(c *code, f *ir.Function) *registers {
	r := &registers{c, map[reg.ID]Reg{}, map[reg.ID]*value{}}
	set, same, fromMemory, factor, whole := map[reg.ID]bool{}, map[reg.ID]bool{}, map[reg.ID]bool{}, map[reg.ID]bool{}, map[reg.ID]bool{}
	all := func(m map[reg.ID]bool, id reg.ID, holds bool) {
		if before, ok := m[id]; ok {
			holds = holds && before
		}
		m[id] = holds
	}
	for _, i := range f.Instructions() {
		for _, id := range vectorIDs(i.Outputs) {
			set[id] = true
			all(whole, id, i.Opcode == "VCMPPS" || i.Opcode == "VCMPPD")
			all(same, id, isBroadcast(i) || isZeroing(i))
			all(fromMemory, id, i.Opcode == "VBROADCASTSS" && isMemory(i.Operands[0]))
		}
		for _, id := range vectorIDs(i.Inputs) {
			all(factor, id, isFactor(i, id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(set)) {
		v := &value{lo: r.reg(vector), whole: whole[id]}
		v.hi = v.lo
		switch {
		case same[id]:
			v.uniform, v.scalar = true, fromMemory[id] && factor[id]
		default:
			v.hi = r.reg(vector)
		}
		r.values[id] = v
	}
	for _, i := range f.Instructions() {
		if mask := maskOf(i); mask != nil {
			v := r.value(mask)
			if !v.isMask {
				v.isMask, v.count = true, r.reg(general)
			}
		}
	}
	return r
}

// vectorIDs are the vector registers among operands.
func vectorIDs(ops []operand.Op) (ids []reg.ID) {
	for _, o := range ops {
		if v, ok := o.(reg.Register); ok && v.Kind() == reg.KindVector {
			ids = append(ids, v.ID())
		}
	}
	return ids
}

func isMemory(o operand.Op) bool {
	_, ok := o.(operand.Mem)
	return ok
}

// isBroadcast reports an instruction that makes all lanes the same.
func isBroadcast(i *ir.Instruction) bool { return broadcasts[i.Opcode] != 0 }

// isZeroing reports x xor x into a register.
func isZeroing(i *ir.Instruction) bool {
	return i.CancellingInputs && logic[i.Opcode] == "eor 16b" && i.Operands[0] == i.Operands[1]
}

// isFactor reports whether an instruction only multiplies with a register, once.
func isFactor(i *ir.Instruction, id reg.ID) bool {
	if byElement[i.Opcode] == "" {
		return false
	}
	n := 0
	for _, o := range vectorIDs(i.Operands[:2]) {
		if o == id {
			n++
		}
	}
	last, ok := i.Operands[2].(reg.Register)
	return n == 1 && ok && last.ID() != id
}

// int is a register of integers.
func (r *registers) int(o operand.Op) Reg {
	p, ok := o.(reg.Register)
	if !ok || p.Kind() != reg.KindGP {
		panic(fmt.Sprintf("arm64: %s is not an integer register", o.Asm()))
	}
	v, ok := r.ints[p.ID()]
	if !ok {
		v = r.reg(general)
		r.ints[p.ID()] = v
	}
	return v
}

func (r *registers) value(o operand.Op) *value {
	p, ok := o.(reg.Register)
	if !ok || p.Kind() != reg.KindVector {
		panic(fmt.Sprintf("arm64: %s is not a vector register", o.Asm()))
	}
	v, ok := r.values[p.ID()]
	if !ok {
		panic(fmt.Sprintf("arm64: %s is read and never set", o.Asm()))
	}
	return v
}

// halves are the NEON registers of a vector register: one of XMM, and two of YMM.
func (r *registers) halves(o operand.Op) []Reg {
	v := r.value(o)
	if o.(reg.Register).Size() == 16 {
		return []Reg{v.lo}
	}
	return []Reg{v.lo, v.hi}
}

// target is halves for an instruction that sets all of them, from lanes that may differ.
func (r *registers) target(o operand.Op) []Reg {
	v := r.value(o)
	if v.uniform {
		panic("arm64: a uniform vector is set lane by lane")
	}
	v.stale = true
	return r.halves(o)
}

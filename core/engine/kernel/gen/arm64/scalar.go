package arm64

import (
	"fmt"
	"reflect"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// conditions are arm64's branches for those of x86; both compare as signed numbers.
var conditions = map[string]string{
	"JZ": "BEQ", "JE": "BEQ", "JEQ": "BEQ", "JNZ": "BNE", "JNE": "BNE",
	"JL": "BLT", "JLT": "BLT", "JGE": "BGE", "JG": "BGT", "JGT": "BGT", "JLE": "BLE",
}

// selections are the conditions of moves; that of CMOVQCC compares unsigned numbers.
var selections = map[string]string{"CMOVQEQ": "EQ", "CMOVQGT": "GT", "CMOVQCC": "HS"}

// setsFlags are instructions of x86 that change the flags.
var setsFlags = map[string]bool{
	"CMPL": true, "ADDQ": true, "SUBQ": true, "DECQ": true, "INCQ": true, "CMPQ": true, "TESTQ": true,
	"XORQ": true, "ANDQ": true, "SHLQ": true, "SHRQ": true,
}

// readsFlags reports whether the flags that instruction i leaves are looked at.
func readsFlags(nodes []ir.Node, i int) bool {
	for _, n := range nodes[i+1:] {
		next, ok := n.(*ir.Instruction)
		switch {
		case !ok:
			continue
		case next.Opcode == "JMP" || next.IsTerminal || setsFlags[next.Opcode]:
			return false
		case conditions[next.Opcode] != "" || selections[next.Opcode] != "":
			return true
		}
	}
	return false
}

// constantOf is the number that an operand is.
func constantOf(o operand.Op) (int64, bool) {
	switch o.(type) {
	case operand.U8, operand.U16, operand.U32, operand.U64:
		return int64(reflect.ValueOf(o).Uint()), true
	case operand.I8, operand.I32, operand.I64:
		return reflect.ValueOf(o).Int(), true
	}
	return 0, false
}

// number is a register with an operand's value; load is how to read it from memory.
func (r *registers) number(o operand.Op, load string) Reg {
	n, isConstant := constantOf(o)
	m, isMem := o.(operand.Mem)
	if !isConstant && !isMem {
		return r.int(o)
	}
	v := r.reg(general)
	if isConstant {
		r.set(fmt.Sprintf("MOVD\t$%d, R{0}", n), v)
	} else {
		r.load(load, v, r.place(m))
	}
	return v
}

// moveInt is MOVQ, and what loads narrower integers.
func (r *registers) moveInt(load string, ops []operand.Op) {
	from, to := ops[0], ops[1]
	if m, ok := to.(operand.Mem); ok {
		r.store("MOVD", r.number(from, "MOVD"), r.place(m))
		return
	}
	if n, ok := constantOf(from); ok {
		r.set(fmt.Sprintf("MOVD\t$%d, R{0}", n), r.int(to))
		return
	}
	if m, ok := from.(operand.Mem); ok {
		r.load(load, r.int(to), r.place(m))
		return
	}
	r.copy(r.int(to), r.int(from))
}

// arithmetic is an operation that changes its second operand: to = to op from.
func (r *registers) arithmetic(name string, from, to operand.Op, flags bool) {
	emit := r.set
	if flags {
		name, emit = name+"S", r.flags
	}
	at, isMem := to.(operand.Mem)
	old := r.number(to, "MOVD")
	result := old
	if isMem {
		result = r.reg(general)
	}
	if n, ok := constantOf(from); ok {
		emit(fmt.Sprintf("%s\t$%d, R{1}, R{0}", name, n), result, old)
	} else {
		emit(name+"\tR{2}, R{1}, R{0}", result, old, r.number(from, "MOVD"))
	}
	if isMem {
		r.store("MOVD", result, r.place(at))
	}
}

// compare sets the flags by the first operand less the second.
func (r *registers) compare(name, load string, ops []operand.Op) {
	x := r.number(ops[0], load)
	if n, ok := constantOf(ops[1]); ok {
		r.effect(fmt.Sprintf("%s\t$%d, R{0}", name, n), x)
		return
	}
	r.effect(name+"\tR{1}, R{0}", x, r.number(ops[1], load))
}

// test sets the flags by the bits that two operands have in common.
func (r *registers) test(ops []operand.Op) {
	if n, ok := constantOf(ops[0]); ok {
		r.effect(fmt.Sprintf("TST\t$%d, R{0}", n), r.int(ops[1]))
		return
	}
	r.effect("TST\tR{1}, R{0}", r.int(ops[0]), r.int(ops[1]))
}

// countBits counts the ones of 32 bits, which NEON does.
func (r *registers) countBits(from, to Reg) {
	t := r.temp()
	r.set("FMOVS\tR{1}, F{0}", t, from)
	r.set("VCNT\tV{1}.B8, V{0}.B8", t, t)
	r.set("VUADDLV\tV{1}.B8, V{0}", t, t)
	r.set("FMOVS\tF{1}, R{0}", to, t)
}

// address is LEAQ: base + index·scale + disp.
func (r *registers) address(m operand.Mem, to Reg) {
	disp := m.Disp
	m.Disp = 0
	p := r.place(m)
	if disp != 0 {
		r.set(fmt.Sprintf("ADD\t$%d, R{1}, R{0}", disp), to, p.base)
		return
	}
	r.copy(to, p.base)
}

// scalar emits an instruction on integers, and reports whether it is one. i is its place
// among the nodes.
func (r *registers) scalar(in *ir.Instruction, nodes []ir.Node, i int) bool {
	ops := in.Operands
	switch in.Opcode {
	case "MOVQ":
		r.moveInt("MOVD", ops)
	case "MOVL":
		r.moveInt("MOVWU", ops)
	case "MOVW":
		r.store("MOVH", r.int(ops[0]), r.place(ops[1].(operand.Mem)))
	case "MOVLQSX":
		r.moveInt("MOVW", ops)
	case "ADDQ":
		r.arithmetic("ADD", ops[0], ops[1], readsFlags(nodes, i))
	case "SUBQ":
		r.arithmetic("SUB", ops[0], ops[1], readsFlags(nodes, i))
	case "IMULQ":
		r.arithmetic("MUL", ops[0], ops[1], false)
	case "ANDQ":
		r.arithmetic("AND", ops[0], ops[1], readsFlags(nodes, i))
	case "DECQ":
		r.arithmetic("SUB", operand.U8(1), ops[0], readsFlags(nodes, i))
	case "INCQ":
		r.arithmetic("ADD", operand.U8(1), ops[0], readsFlags(nodes, i))
	case "SHLQ":
		r.arithmetic("LSL", ops[0], ops[1], false)
	case "SHRQ":
		r.arithmetic("LSR", ops[0], ops[1], false)
	case "XORQ":
		r.exclusiveOr(ops)
	case "CMPQ":
		r.compare("CMP", "MOVD", ops)
	case "CMPL":
		r.compare("CMPW", "MOVWU", ops)
	case "TESTQ":
		r.test(ops)
	case "POPCNTL":
		r.countBits(r.int(ops[0]), r.int(ops[1]))
	case "LEAQ":
		r.address(ops[0].(operand.Mem), r.int(ops[1]))
	case "CMOVQEQ", "CMOVQGT", "CMOVQCC":
		to := r.int(ops[1])
		r.set("CSEL\t"+selections[in.Opcode]+", R{1}, R{2}, R{0}", to, r.int(ops[0]), to)
	case "PREFETCHT0":
		r.prefetch("PLDL1KEEP", ops[0].(operand.Mem))
	case "PREFETCHT1", "PREFETCHT2":
		r.prefetch("PLDL2KEEP", ops[0].(operand.Mem))
	default:
		return false
	}
	return true
}

func (r *registers) exclusiveOr(ops []operand.Op) {
	if ops[0] == ops[1] {
		r.set("MOVD\tZR, R{0}", r.int(ops[1]))
		return
	}
	r.arithmetic("EOR", ops[0], ops[1], false)
}

func (r *registers) prefetch(kind string, m operand.Mem) {
	p := r.place(m)
	if p.disp < 0 || p.disp%8 != 0 {
		p = place{base: r.register(p)}
	}
	r.effect(fmt.Sprintf("PRFM\t%d(R{0}), %s", p.disp, kind), p.base)
}

// control emits a branch or the end, and reports whether the instruction is one.
func (r *registers) control(in *ir.Instruction) bool {
	switch {
	case in.Opcode == "VZEROUPPER":
	case in.Opcode == "RET":
		r.add(inst{text: "RET", keep: true})
	case in.Opcode == "JMP":
		r.branch("B\t", targetOf(in), false)
	case conditions[in.Opcode] != "":
		r.branch(conditions[in.Opcode]+"\t", targetOf(in), true)
	default:
		return false
	}
	return true
}

func targetOf(in *ir.Instruction) string { return string(in.Operands[0].(operand.LabelRef)) }

// toVector is a move between the register files, or of a single number of a vector.
func (r *registers) toVector(in *ir.Instruction) bool {
	name := map[string]string{"VMOVD": "FMOVS", "MOVSS": "FMOVS", "VMOVSS": "FMOVS", "VMOVQ": "FMOVD", "MOVSD": "FMOVD", "VMOVSD": "FMOVD", "VMOVLPS": "FMOVD"}[in.Opcode]
	if name == "" || len(in.Operands) != 2 {
		return false
	}
	from, to := in.Operands[0], in.Operands[1]
	if m, ok := to.(operand.Mem); ok {
		r.store(name, r.halves(from)[0], r.place(m))
		return true
	}
	if m, ok := from.(operand.Mem); ok {
		r.load(name, r.target(to)[0], r.place(m))
		return true
	}
	f, ok := from.(reg.Register)
	if !ok {
		return false
	}
	switch t := to.(reg.Register); {
	case f.Kind() == reg.KindGP && t.Kind() == reg.KindVector:
		r.set(name+"\tR{1}, F{0}", r.target(to)[0], r.int(from))
	case f.Kind() == reg.KindVector && t.Kind() == reg.KindGP:
		r.set(name+"\tF{1}, R{0}", r.int(to), r.halves(from)[0])
	default:
		return false
	}
	return true
}

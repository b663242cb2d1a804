package arm64

import (
	"fmt"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanewise are the operations of two sources: dst = second op first, as avo orders
// operands.
var lanewise = map[string]string{
	"VADDPS": "fadd 4s", "VSUBPS": "fsub 4s", "VMULPS": "fmul 4s", "VDIVPS": "fdiv 4s",
	"VADDPD": "fadd 2d", "VSUBPD": "fsub 2d", "VMULPD": "fmul 2d", "VDIVPD": "fdiv 2d",
	"VPADDD": "add 4s", "VPSUBD": "sub 4s", "VPMULLD": "mul 4s", "VPMAXSD": "smax 4s", "VPMINSD": "smin 4s",
	"VPADDQ": "add 2d", "VPSUBQ": "sub 2d",
	"VPCMPGTD":  "cmgt 4s",
	"VUNPCKLPS": "zip1 4s", "VUNPCKHPS": "zip2 4s", "VUNPCKLPD": "zip1 2d", "VUNPCKHPD": "zip2 2d",
	"VPUNPCKLDQ": "zip1 4s", "VPUNPCKHDQ": "zip2 4s", "VPUNPCKLQDQ": "zip1 2d", "VPUNPCKHQDQ": "zip2 2d",
}

// singles are those on the lowest element alone.
var singles = map[string]string{"VADDSS": "FADDS", "VSUBSS": "FSUBS", "VMULSS": "FMULS", "VDIVSS": "FDIVS"}

// logic are those on bits.
var logic = map[string]string{
	"VPAND": "and 16b", "VANDPS": "and 16b", "VANDPD": "and 16b",
	"VPOR": "orr 16b", "VORPS": "orr 16b", "VORPD": "orr 16b",
	"VPXOR": "eor 16b", "VXORPS": "eor 16b", "VXORPD": "eor 16b",
}

// broadcasts are those that copy one element to all lanes, with the size of an element.
var broadcasts = map[string]byte{"VBROADCASTSS": 's', "VPBROADCASTD": 's', "VBROADCASTSD": 'd', "VPBROADCASTQ": 'd'}

// byElement are those that NEON has with a scalar for one of the sources.
var byElement = map[string]string{"VFMADD231PS": "fmla", "VFNMADD231PS": "fmls", "VMULPS": "fmul", "VDPBF16PS": "bfdot"}

// fused are multiply-adds; the digits say which operands are multiplied, and which is added.
var fused = map[string]struct {
	name  string
	order string
}{
	"VFMADD231PS": {"fmla 4s", "231"}, "VFNMADD231PS": {"fmls 4s", "231"}, "VFMADD213PS": {"fmla 4s", "213"}, "VFNMADD213PS": {"fmls 4s", "213"},
	"VFMADD132PS": {"fmla 4s", "132"},
	"VDPBF16PS":   {"bfdot 4s", "231"},
	"VFMADD231PD": {"fmla 2d", "231"}, "VFNMADD231PD": {"fmls 2d", "231"}, "VFMADD213PD": {"fmla 2d", "213"}, "VFNMADD213PD": {"fmls 2d", "213"},
	"VFMADD132PD": {"fmla 2d", "132"},
}

// moves are whole vectors from or to memory, or between registers.
var moves = map[string]bool{"VMOVUPS": true, "VMOVAPS": true, "VMOVUPD": true, "VMOVAPD": true, "VMOVDQU": true, "VMOVDQA": true}

// shifts are those by a constant or by the lowest element of a register.
var shifts = map[string]struct {
	name  string
	width int
}{"VPSLLD": {"shl", 32}, "VPSRLD": {"ushr", 32}, "VPSRAD": {"sshr", 32}, "VPSLLQ": {"shl", 64}, "VPSRLQ": {"ushr", 64}}

// vectorOp emits an instruction on vectors, and reports whether it knows it.
func (r *registers) vectorOp(in *ir.Instruction) bool {
	ops := in.Operands
	switch name := in.Opcode; {
	case moves[name]:
		r.moveVector(ops)
	case name == "VMASKMOVPS":
		r.maskedMove(ops)
	case broadcasts[name] != 0:
		r.broadcast(broadcasts[name], ops[0], ops[1])
	case isZeroing(in):
		r.zeroAll(ops[2])
	case logic[name] != "":
		r.each(logic[name], ops)
	case r.scalarFactor(name, ops):
	case lanewise[name] != "":
		r.each(lanewise[name], ops)
	case singles[name] != "":
		r.set(singles[name]+"\tF{2}, F{1}, F{0}", r.target(ops[2])[0], r.halves(ops[1])[0], r.halves(ops[0])[0])
	case fused[name].name != "":
		r.fuse(fused[name].name, fused[name].order, ops)
	case shifts[name].name != "":
		r.shiftAll(shifts[name].name, shifts[name].width, ops)
	default:
		return r.compared(name, ops) || r.converted(name, ops) || r.shuffled(name, ops)
	}
	return true
}

// pairwise calls f for each NEON register of the destination, with those of the sources.
func (r *registers) pairwise(ops []operand.Op, f func(d Reg, from []Reg)) {
	last := len(ops) - 1
	d := r.target(ops[last])
	from := make([][]Reg, last)
	for i, o := range ops[:last] {
		from[i] = r.source(o, len(d))
	}
	for h := range d {
		var regs []Reg
		for _, v := range from {
			regs = append(regs, v[h])
		}
		f(d[h], regs)
	}
}

func (r *registers) each(name string, ops []operand.Op) {
	r.pairwise(ops, func(d Reg, from []Reg) { r.neon(name, d, from[1], from[0]) })
}

func (r *registers) zeroAll(o operand.Op) {
	v := r.value(o)
	v.stale = true
	r.zero(v.lo)
	if v.hi != v.lo && o.(reg.Register).Size() > 16 {
		r.zero(v.hi)
	}
}

func (r *registers) moveVector(ops []operand.Op) {
	from, to := ops[0], ops[1]
	if m, ok := to.(operand.Mem); ok {
		r.storeVector(r.halves(from), r.place(m))
		return
	}
	if m, ok := from.(operand.Mem); ok {
		r.loadVector(r.target(to), r.place(m))
		r.setCount(to, m)
		return
	}
	r.pairwise(ops, func(d Reg, from []Reg) { r.copy(d, from[0]) })
}

// broadcast copies an element of memory, or the lowest of a register, to every lane.
func (r *registers) broadcast(size byte, from, to operand.Op) {
	v := r.value(to)
	v.stale = true
	m, ok := from.(operand.Mem)
	switch {
	case !ok:
		r.spread(size, 0, v.lo, r.value(from).lo)
	case v.scalar:
		r.load("FMOVS", v.lo, r.place(m))
	default:
		r.loadSpread(size, v.lo, r.place(m))
	}
	if v.hi != v.lo && to.(reg.Register).Size() > 16 {
		r.copy(v.hi, v.lo)
	}
}

func (r *registers) loadSpread(size byte, to Reg, p place) {
	if p.name == "" {
		arr := map[byte]string{'s': "S4", 'd': "D2"}[size]
		r.set("VLD1R\t(R{1}), [V{0}."+arr+"]", to, r.register(p))
		return
	}
	name := map[byte]string{'s': "FMOVS", 'd': "FMOVD"}[size]
	t := r.temp()
	r.load(name, t, p)
	r.spread(size, 0, to, t)
}

// scalarFactor emits a product with a factor that is in one lane only.
func (r *registers) scalarFactor(name string, ops []operand.Op) bool {
	if byElement[name] == "" {
		return false
	}
	for i, o := range ops[:2] {
		if isMemory(o) || !r.value(o).scalar {
			continue
		}
		d := r.target(ops[2])
		from, m := r.source(ops[1-i], len(d)), r.value(o).lo
		for h := range d {
			r.byElement(byElement[name], d[h], from[h], m)
		}
		return true
	}
	return false
}

// fuse emits a multiply-add. NEON's adds to its destination.
func (r *registers) fuse(name, order string, ops []operand.Op) {
	all := []operand.Op{ops[2], ops[1], ops[0], ops[2]} // 1, 2 and 3 of the order, and the destination
	x, y, sum := all[order[0]-'1'], all[order[1]-'1'], all[order[2]-'1']
	r.pairwise([]operand.Op{x, y, sum, ops[2]}, func(d Reg, from []Reg) {
		if from[2] == d {
			r.neon(name, d, from[0], from[1])
			return
		}
		t := r.temp()
		r.copy(t, from[2])
		r.neon(name, t, from[0], from[1])
		r.copy(d, t)
	})
}

// shiftAll shifts by a constant, or by a register's lowest element.
func (r *registers) shiftAll(name string, width int, ops []operand.Op) {
	if n, ok := constantOf(ops[0]); ok {
		r.pairwise(ops[1:], func(d Reg, from []Reg) { r.shift(name, width, int(n), d, from[0]) })
		return
	}
	if width != 32 || name == "sshr" {
		panic("arm64: no such shift by a register")
	}
	by := r.temp()
	r.spread('s', 0, by, r.value(ops[0]).lo)
	if name == "ushr" {
		r.neon("neg 4s", by, by)
	}
	r.pairwise(ops[1:], func(d Reg, from []Reg) { r.neon("ushl 4s", d, from[0], by) })
}

// compared are comparisons, and what chooses by them.
func (r *registers) compared(name string, ops []operand.Op) bool {
	switch name {
	case "VMAXPS", "VMAXPD":
		r.choose("fcmgt "+arrangement(name), ops, func(x, y Reg) (Reg, Reg) { return x, y })
	case "VMINPS", "VMINPD":
		r.choose("fcmgt "+arrangement(name), ops, func(x, y Reg) (Reg, Reg) { return y, x })
	case "VCMPPS", "VCMPPD":
		n, _ := constantOf(ops[0])
		r.pairwise(ops[1:], func(d Reg, from []Reg) { r.predicate(int(n), arrangement(name), d, from[1], from[0]) })
	case "VBLENDVPS":
		r.blend(32, ops)
	case "VBLENDVPD":
		r.blend(64, ops)
	case "VANDNPS", "VANDNPD", "VPANDN":
		r.pairwise(ops, func(d Reg, from []Reg) { r.neon("bic 16b", d, from[0], from[1]) })
	case "VPCMPEQD":
		r.each("cmeq 4s", ops)
		if ops[0] == ops[1] {
			r.setAll(ops[2])
		}
	case "VSQRTPS", "VSQRTPD":
		r.pairwise(ops, func(d Reg, from []Reg) { r.neon("fsqrt "+arrangement(name), d, from[0]) })
	default:
		return false
	}
	return true
}

// blend chooses lanes by sign bits, which become whole lanes of bits first unless a
// comparison has made them.
func (r *registers) blend(width int, ops []operand.Op) {
	whole := r.value(ops[0]).whole
	r.pairwise(ops, func(d Reg, from []Reg) {
		t := r.temp()
		if whole {
			r.copy(t, from[0])
		} else {
			r.shift("sshr", width, width-1, t, from[0])
		}
		r.neon("bsl 16b", t, from[1], from[2])
		r.copy(d, t)
	})
}

func arrangement(name string) string {
	if name[len(name)-1] == 'D' {
		return "2d"
	}
	return "4s"
}

// choose is the larger or the smaller of two as x86 has it: the first operand of avo's
// unless the comparison holds, so that it is the result where either is NaN.
func (r *registers) choose(compare string, ops []operand.Op, order func(x, y Reg) (Reg, Reg)) {
	r.pairwise(ops, func(d Reg, from []Reg) {
		t := r.temp()
		x, y := order(from[1], from[0])
		r.neon(compare, t, x, y)
		r.neon("bsl 16b", t, from[1], from[0])
		r.copy(d, t)
	})
}

// predicate is VCMPPS: x compared with y. Predicates that differ in signals alone are
// the same.
func (r *registers) predicate(n int, arr string, d, x, y Reg) {
	not := false
	switch n & 15 {
	case 0: // equal
		r.neon("fcmeq "+arr, d, x, y)
	case 1: // less
		r.neon("fcmgt "+arr, d, y, x)
	case 2: // less or equal
		r.neon("fcmge "+arr, d, y, x)
	case 3, 7: // unordered, ordered
		t := r.temp()
		r.neon("fcmeq "+arr, t, x, x)
		if x != y {
			u := r.temp()
			r.neon("fcmeq "+arr, u, y, y)
			r.neon("and 16b", t, t, u)
		}
		r.copy(d, t)
		not = n&15 == 3
	case 4: // not equal
		r.neon("fcmeq "+arr, d, x, y)
		not = true
	case 5: // not less
		r.neon("fcmgt "+arr, d, y, x)
		not = true
	case 6: // not less or equal
		r.neon("fcmge "+arr, d, y, x)
		not = true
	case 13: // greater or equal
		r.neon("fcmge "+arr, d, x, y)
	case 14: // greater
		r.neon("fcmgt "+arr, d, x, y)
	default:
		panic(fmt.Sprintf("arm64: no predicate %d", n))
	}
	if not {
		r.neon("mvn 16b", d, d)
	}
}

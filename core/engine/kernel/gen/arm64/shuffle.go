package arm64

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// converted are conversions between element types, whose sources and destinations have
// different sizes.
func (r *registers) converted(name string, ops []operand.Op) bool {
	switch name {
	case "VCVTDQ2PS":
		r.pairwise(ops, func(d Reg, from []Reg) { r.neon("scvtf 4s", d, from[0]) })
	case "VCVTPS2DQ":
		r.pairwise(ops, func(d Reg, from []Reg) { r.neon("fcvtns 4s", d, from[0]) })
	case "VCVTTPS2DQ":
		r.pairwise(ops, func(d Reg, from []Reg) { r.neon("fcvtzs 4s", d, from[0]) })
	case "VROUNDPS", "VROUNDPD":
		if n, _ := constantOf(ops[0]); n&7 != 0 {
			panic("arm64: rounds to the nearest only")
		}
		r.pairwise(ops[1:], func(d Reg, from []Reg) { r.neon("frintn "+arrangement(name), d, from[0]) })
	case "VCVTPS2PD":
		r.widen(ops, "fcvtl 2d", "fcvtl2 2d")
	case "VCVTPH2PS":
		r.widen(ops, "fcvtl 4s", "fcvtl2 4s")
	case "VPMOVZXWD":
		r.widen(ops, "ushll 4s", "ushll2 4s")
	case "VPMOVSXDQ":
		r.widen(ops, "sshll 2d", "sshll2 2d")
	case "VCVTPD2PSY":
		r.narrow(ops[0], ops[1], "fcvtn 2s", "fcvtn2 4s")
	case "VCVTPS2PH":
		r.narrow(ops[1], ops[2], "fcvtn 4h", "fcvtn2 8h")
	case "VPMOVZXBD":
		r.widenBytes(ops)
	case "VPMULUDQ":
		r.pairwise(ops, func(d Reg, from []Reg) {
			x, y := r.temp(), r.temp()
			r.neon("xtn 2s", x, from[0])
			r.neon("xtn 2s", y, from[1])
			r.neon("umull 2d", d, x, y)
		})
	case "VPACKUSDW":
		r.pack(ops, "sqxtun 4h", "sqxtun2 8h")
	case "VPACKUSWB":
		r.pack(ops, "sqxtun 8b", "sqxtun2 16b")
	default:
		return false
	}
	return true
}

// widen makes two registers of the halves of one.
func (r *registers) widen(ops []operand.Op, lower, upper string) {
	from, d := r.source(ops[0], 1)[0], r.target(ops[1])
	if len(d) == 1 {
		r.neon(lower, d[0], from)
		return
	}
	t := r.temp()
	r.neon(lower, t, from)
	r.neon(upper, d[1], from)
	r.copy(d[0], t)
}

// narrow makes one register of two.
func (r *registers) narrow(from, to operand.Op, lower, upper string) {
	v, t := r.halves(from), r.temp()
	r.neon(lower, t, v[0])
	if len(v) > 1 {
		r.neon(upper, t, v[1])
	}
	r.copy(r.target(to)[0], t)
}

// widenBytes makes int32 of 8 bytes of memory, or of 4.
func (r *registers) widenBytes(ops []operand.Op) {
	d, t := r.target(ops[1]), r.temp()
	name := map[int]string{1: "FMOVS", 2: "FMOVD"}[len(d)]
	r.load(name, t, r.place(ops[0].(operand.Mem)))
	r.neon("ushll 8h", t, t)
	r.neon("ushll 4s", d[0], t)
	if len(d) > 1 {
		r.neon("ushll2 4s", d[1], t)
	}
}

// pack narrows with saturation, within each half: the second operand of avo's, then the first.
func (r *registers) pack(ops []operand.Op, lower, upper string) {
	r.pairwise(ops, func(d Reg, from []Reg) {
		t := r.temp()
		r.neon(lower, t, from[1])
		r.neon(upper, t, from[0])
		r.copy(d, t)
	})
}

// shuffled are instructions that move elements.
func (r *registers) shuffled(name string, ops []operand.Op) bool {
	n, _ := constantOf(ops[0])
	imm := int(n)
	switch name {
	case "VEXTRACTF128", "VEXTRACTI128":
		v := r.halves(ops[1])
		if m, ok := ops[2].(operand.Mem); ok {
			r.storeVector(v[imm:imm+1], r.place(m))
			return true
		}
		r.copy(r.target(ops[2])[0], v[imm])
	case "VINSERTF128":
		if ops[2] == ops[3] {
			r.copy(r.target(ops[3])[imm], r.source(ops[1], 1)[0])
			return true
		}
		part, v := r.source(ops[1], 1), r.source(ops[2], 2)
		from := []Reg{v[0], v[1]}
		from[imm] = part[0]
		r.assign(ops[3], from...)
	case "VPERM2F128", "VPERM2I128":
		x, y := r.source(ops[2], 2), r.source(ops[1], 2)
		halves := []Reg{x[0], x[1], y[0], y[1]}
		r.assign(ops[3], halves[imm&3], halves[imm>>4&3])
	case "VPERMQ", "VPERMPD":
		r.permuteQuads(imm, ops[1], ops[2])
	case "VPERMILPS", "VPSHUFD":
		r.pairwise(ops[1:], func(d Reg, from []Reg) { r.permute(imm, d, from[0], from[0]) })
	case "VSHUFPS":
		r.pairwise(ops[1:], func(d Reg, from []Reg) { r.permute(imm, d, from[1], from[0]) })
	case "VPERMILPD":
		r.pairwise(ops[1:], func(d Reg, from []Reg) {
			if imm&3 != 1 {
				panic("arm64: VPERMILPD that is no exchange")
			}
			r.half(d, from[0], from[0])
		})
	case "VPSRLDQ":
		r.pairwise(ops[1:], func(d Reg, from []Reg) {
			zero := r.temp()
			r.zero(zero)
			r.set(fmt.Sprintf("VEXT\t$%d, V{2}.B16, V{1}.B16, V{0}.B16", imm), d, from[0], zero)
		})
	case "VPSLLDQ":
		r.pairwise(ops[1:], func(d Reg, from []Reg) {
			zero := r.temp()
			r.zero(zero)
			r.set(fmt.Sprintf("VEXT\t$%d, V{2}.B16, V{1}.B16, V{0}.B16", 16-imm), d, zero, from[0])
		})
	case "VPALIGNR":
		r.pairwise(ops[1:], func(d Reg, from []Reg) {
			r.set(fmt.Sprintf("VEXT\t$%d, V{2}.B16, V{1}.B16, V{0}.B16", imm), d, from[0], from[1])
		})
	case "VMOVMSKPS":
		r.signs(r.halves(ops[0]), r.int(ops[1]))
	case "VBLENDPS":
		r.blendLanes(imm, ops[1:])
	case "VPERMD", "VPERMPS":
		r.lookUp(ops)
	default:
		return false
	}
	return true
}

// assign sets the halves of a register that the sources may be of.
func (r *registers) assign(to operand.Op, from ...Reg) {
	d := r.target(to)
	t := make([]Reg, len(d))
	for i := range d {
		t[i] = r.temp()
		r.copy(t[i], from[i])
	}
	for i := range d {
		r.copy(d[i], t[i])
	}
}

// permuteQuads chooses among the four 64-bit elements of a register.
func (r *registers) permuteQuads(imm int, from, to operand.Op) {
	v := r.source(from, 2)
	var out []Reg
	for h := range 2 {
		i, j, t := imm>>(4*h)&3, imm>>(4*h+2)&3, r.temp()
		x, y := v[i/2], v[j/2]
		switch {
		case i%2 == 0 && j%2 == 0:
			r.neon("zip1 2d", t, x, y)
		case i%2 == 1 && j%2 == 1:
			r.neon("zip2 2d", t, x, y)
		case i%2 == 1:
			r.half(t, x, y)
		default:
			r.copy(t, y)
			r.insert('d', 0, t, 0, x)
		}
		out = append(out, t)
	}
	r.assign(to, out...)
}

// blendLanes takes the lanes whose bits are set from the first operand of avo's.
func (r *registers) blendLanes(bits int, ops []operand.Op) {
	half := 0
	r.pairwise(ops, func(d Reg, from []Reg) {
		t := r.temp()
		r.copy(t, from[1])
		for i := range 4 {
			if bits>>(4*half+i)&1 == 1 {
				r.insert('s', i, t, i, from[0])
			}
		}
		r.copy(d, t)
		half++
	})
}

// permute is VSHUFPS: two elements of x, then two of y, of 32 bits.
func (r *registers) permute(imm int, d, x, y Reg) {
	t := r.temp()
	switch {
	case imm == 0b10001000:
		r.neon("uzp1 4s", t, x, y)
	case imm == 0b11011101:
		r.neon("uzp2 4s", t, x, y)
	case imm == 0b01001110:
		r.half(t, x, y)
	case imm == 0b10110001 && x == y:
		r.neon("rev64 4s", t, x)
	default:
		r.zero(t)
		for i := range 4 {
			from := x
			if i > 1 {
				from = y
			}
			r.insert('s', i, t, imm>>(2*i)&3, from)
		}
	}
	r.copy(d, t)
}

// lookUp is VPERMD: lanes of the first operand of avo's, chosen by those of the second.
// NEON looks up bytes, and gives 0 for places that a register does not have.
func (r *registers) lookUp(ops []operand.Op) {
	table, places := r.source(ops[0], 2), r.source(ops[1], 2)
	four, bytes, scale, size := r.temp(), r.temp(), r.reg(general), r.temp()
	r.set(fmt.Sprintf("MOVD\t$%d, R{0}", 0x04040404), scale)
	r.set("VDUP\tR{1}, V{0}.S4", four, scale)
	order := r.reg(general)
	r.set(fmt.Sprintf("MOVD\t$%d, R{0}", 0x03020100), order)
	r.set("VMOVI\t$16, V{0}.B16", size)
	out := make([]Reg, 2)
	for h := range 2 {
		at, up, low := r.temp(), r.temp(), r.temp()
		r.set("VDUP\tR{1}, V{0}.S4", bytes, order)
		r.copy(at, bytes)
		r.neon("mla 4s", at, places[h], four)
		r.set("VSUB\tV{2}.B16, V{1}.B16, V{0}.B16", up, at, size)
		r.set("VTBL\tV{2}.B16, [V{1}.B16], V{0}.B16", low, table[0], at)
		r.set("VTBL\tV{2}.B16, [V{1}.B16], V{0}.B16", up, table[1], up)
		out[h] = r.temp()
		r.neon("orr 16b", out[h], low, up)
	}
	r.assign(ops[2], out...)
}

// signs collects the sign bits of lanes, the first lane's lowest.
func (r *registers) signs(v []Reg, to Reg) {
	low, high, weights := r.reg(general), r.reg(general), r.temp()
	r.set(fmt.Sprintf("MOVD\t$%d, R{0}", 2<<32|1), low)
	r.set(fmt.Sprintf("MOVD\t$%d, R{0}", 8<<32|4), high)
	r.set("FMOVD\tR{1}, F{0}", weights, low)
	r.change("VMOV\tR{1}, V{0}.D[1]", weights, high)
	r.set("MOVD\tZR, R{0}", to)
	for h, from := range v {
		t, bits := r.temp(), r.reg(general)
		r.shift("ushr", 32, 31, t, from)
		r.neon("mul 4s", t, t, weights)
		r.set("VADDV\tV{1}.S4, V{0}", t, t)
		r.set("FMOVS\tF{1}, R{0}", bits, t)
		r.set(fmt.Sprintf("ORR\tR{2}<<%d, R{1}, R{0}", 4*h), to, to, bits)
	}
}

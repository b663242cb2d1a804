package isa

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// instruction adds an instruction that neither avo nor Go's assembler knows; see encode.
func (a *Asm) instruction(name string, out operand.Op, in ...operand.Op) {
	a.Instruction(&ir.Instruction{Opcode: name, Operands: append(in, out), Inputs: in, Outputs: []operand.Op{out}})
}

// dotPairs adds to each float32 lane of acc the products of two pairs of bfloat16.
func (a *Asm) dotPairs(x, y, acc reg.VecVirtual) {
	a.Instruction(&ir.Instruction{
		Opcode: "VDPBF16PS", Operands: []operand.Op{x, y, acc},
		Inputs: []operand.Op{x, y, acc}, Outputs: []operand.Op{acc},
	})
}

// RoundPairs rounds 16 float32 to bfloat16 in the lower half of dst.
func (a *Asm) RoundPairs(src, dst reg.VecVirtual) {
	a.instruction("VCVTNEPS2BF16", a.Lower(dst), src)
}

// roundTwo rounds 16 float32 of low and of high to the halves of dst.
func (a *Asm) roundTwo(low, high, dst reg.VecVirtual) {
	a.instruction("VCVTNE2PS2BF16", dst, low, high)
}

// MulAdd is acc += x·y in the isa's own products.
func (a *Asm) MulAdd(x, y, acc reg.VecVirtual) {
	if a.ISA == AVX512BF16 || a.ISA == NEONBF16 {
		a.dotPairs(x, y, acc)
		return
	}
	a.VFMADD231PS(x, y, acc)
}

// Unknown are the instructions that Go's assembler lacks, with their operands
// after the registers are chosen.
var Unknown = regexp.MustCompile(`(?m)^\t(VDPBF16PS|VCVTNEPS2BF16|VCVTNE2PS2BF16)\s+(\S.*)$`)

// opcodes are their opcode byte and mandatory prefix: EVEX.512.F3 or F2.0F38.W0.
var opcodes = map[string]struct{ code, prefix byte }{
	"VDPBF16PS": {0x52, prefixF3}, "VCVTNEPS2BF16": {0x72, prefixF3}, "VCVTNE2PS2BF16": {0x72, prefixF2},
}

const prefixF3, prefixF2 = 2, 3

// Encode replaces such a line by its bytes (Intel, "Software Developer's Manual",
// volume 2, section 2.7, "AVX-512 encoding").
func Encode(line []byte) []byte {
	m := Unknown.FindSubmatch(line)
	name, ops := string(m[1]), strings.Split(string(m[2]), ", ")
	dst, rm, second := number(ops[len(ops)-1]), number(ops[0]), 0
	if len(ops) == 3 {
		second = number(ops[1])
	}
	// The register numbers' upper bits are stored inverted.
	bit := func(r, i, to int) byte { return byte(^r>>i&1) << to }
	code := []byte{
		0x62,
		bit(dst, 3, 7) | bit(rm, 4, 6) | bit(rm, 3, 5) | bit(dst, 4, 4) | 2,
		bit(second, 3, 6) | bit(second, 2, 5) | bit(second, 1, 4) | bit(second, 0, 3) | 1<<2 | opcodes[name].prefix,
		2<<5 | bit(second, 4, 3),
		opcodes[name].code,
		0xc0 | byte(dst&7)<<3 | byte(rm&7),
	}
	return byteLine(code, name+" "+string(m[2]))
}

// byteLine is a line of assembly that has these bytes and the text for a comment.
func byteLine(code []byte, text string) []byte {
	var b strings.Builder
	for i, c := range code {
		b.WriteString(map[bool]string{true: "\t", false: "; "}[i == 0])
		fmt.Fprintf(&b, "BYTE $0x%02x", c)
	}
	fmt.Fprintf(&b, " // %s", text)
	return []byte(b.String())
}

// number of a vector register such as Z31.
func number(register string) int {
	n, err := strconv.Atoi(strings.TrimSpace(register)[1:])
	if err != nil {
		panic(fmt.Sprintf("%q is not a vector register", register))
	}
	return n
}

// FirstLanes is a mask of the first min(n, 16) lanes.
func (a *Asm) FirstLanes(n reg.GPVirtual) reg.Register {
	bits, full, k := a.GP64(), a.GP64(), a.K()
	a.MOVQ(n, reg.RCX)
	a.MOVQ(operand.U32(16), full)
	a.CMPQ(reg.RCX, full)
	a.CMOVQGT(full, reg.RCX)
	a.MOVQ(operand.U32(1), bits)
	a.SHLQ(reg.CL, bits)
	a.DECQ(bits)
	a.KMOVW(bits.As32(), k)
	return k
}

// pairMask is StepMask for 32 bfloat16 to a vector. Masked products go by pairs,
// too coarse for an odd number of pixels: only dy is masked, and the zeros take x along.
func (a *Asm) pairMask(steps reg.GPVirtual) Step {
	n, k := a.Field(steps, 8), a.K()
	a.KMOVD(n.As32(), k)
	return Step{
		LoadGrad: func(m operand.Mem, v reg.VecVirtual) { a.VMOVDQU16_Z(m, k, v) },
		Load:     func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS(m, v) },
		Add:      a.dotPairs,
	}
}

// SplitPairs16 gives the left and the right pixel of each lane of v, which it overwrites.
func (a *Asm) SplitPairs16(v, high reg.VecVirtual) (left, right reg.VecVirtual) {
	left = a.Vec()
	a.VPSLLD(operand.U8(16), v, left)
	a.VPANDD(high, v, v)
	return left, v
}

// HighHalves sets the upper 16 bits of every lane.
func (a *Asm) HighHalves() reg.VecVirtual {
	v, r, x := a.Vec(), a.GP32(), a.XMM()
	a.MOVL(operand.U32(0xffff0000), r)
	a.VMOVD(r, x)
	a.VPBROADCASTD(x, v)
	return v
}

// JoinPairs16 rounds and interleaves what splitPairs16 separated.
func (a *Asm) JoinPairs16(left, right, order reg.VecVirtual) reg.VecVirtual {
	v := a.Vec()
	a.roundTwo(left, right, v)
	a.VPERMW(v, order, v)
	return v
}

// WordOrder is the table by which joinPairs16 interleaves.
func (a *Asm) WordOrder(name string) operand.Mem {
	order := a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		a.AddDatum(4*i, operand.U32(i|(16+i)<<16))
	}
	return order
}

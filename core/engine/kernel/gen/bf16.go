package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// instruction adds an instruction that neither avo nor Go's assembler knows; see encode.
func (a *asm) instruction(name string, out operand.Op, in ...operand.Op) {
	a.Instruction(&ir.Instruction{Opcode: name, Operands: append(in, out), Inputs: in, Outputs: []operand.Op{out}})
}

// dotPairs adds to each float32 lane of acc the products of two pairs of bfloat16.
func (a *asm) dotPairs(x, y, acc reg.VecVirtual) {
	a.Instruction(&ir.Instruction{
		Opcode: "VDPBF16PS", Operands: []operand.Op{x, y, acc},
		Inputs: []operand.Op{x, y, acc}, Outputs: []operand.Op{acc},
	})
}

// roundPairs rounds 16 float32 to bfloat16 in the lower half of dst.
func (a *asm) roundPairs(src, dst reg.VecVirtual) {
	a.instruction("VCVTNEPS2BF16", a.lower(dst), src)
}

// roundTwo rounds 16 float32 of low and of high to the halves of dst.
func (a *asm) roundTwo(low, high, dst reg.VecVirtual) {
	a.instruction("VCVTNE2PS2BF16", dst, low, high)
}

// mulAdd is acc += x·y in the isa's own products.
func (a *asm) mulAdd(x, y, acc reg.VecVirtual) {
	if a.isa == avx512bf16 {
		a.dotPairs(x, y, acc)
		return
	}
	a.VFMADD231PS(x, y, acc)
}

// unknown are the instructions that Go's assembler lacks, with their operands
// after the registers are chosen.
var unknown = regexp.MustCompile(`(?m)^\t(VDPBF16PS|VCVTNEPS2BF16|VCVTNE2PS2BF16)\s+(\S.*)$`)

// opcodes are their opcode byte and mandatory prefix: EVEX.512.F3 or F2.0F38.W0.
var opcodes = map[string]struct{ code, prefix byte }{
	"VDPBF16PS": {0x52, prefixF3}, "VCVTNEPS2BF16": {0x72, prefixF3}, "VCVTNE2PS2BF16": {0x72, prefixF2},
}

const prefixF3, prefixF2 = 2, 3

// encode replaces such a line by its bytes (Intel, "Software Developer's Manual",
// volume 2, section 2.7, "AVX-512 encoding").
func encode(line []byte) []byte {
	m := unknown.FindSubmatch(line)
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
	var b strings.Builder
	for i, c := range code {
		b.WriteString(map[bool]string{true: "\t", false: "; "}[i == 0])
		fmt.Fprintf(&b, "BYTE $0x%02x", c)
	}
	fmt.Fprintf(&b, " // %s %s", name, m[2])
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

// firstLanes is a mask of the first min(n, 16) lanes.
func (a *asm) firstLanes(n reg.GPVirtual) reg.Register {
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

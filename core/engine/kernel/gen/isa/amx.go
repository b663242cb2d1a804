package isa

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
)

// AMX is AVX-512 with Intel's Advanced Matrix Extensions: eight registers of up to 16 rows of 64 bytes, tiles, and
// products of two of them. Only its own families are written for it.
var AMX = AVX512.as("AMX")

// TileReg is one of the eight tiles. avo does not know such registers: in its text they are numbers.
type TileReg = operand.U8

// tile adds an instruction on tiles.
func (a *Asm) tile(name string, ops ...operand.Op) {
	i := &ir.Instruction{Opcode: name, Operands: ops}
	for _, o := range ops {
		if m, ok := o.(operand.Mem); ok {
			i.Inputs = append(i.Inputs, m)
		}
	}
	a.Instruction(i)
}

// TileConfig sets the rows and the bytes per row of all tiles from the 64 bytes at m; TileRelease ends their use, after
// which the kernel of the operating system need not save them.
func (a *Asm) TileConfig(m operand.Mem) { a.tile("LDTILECFG", m) }
func (a *Asm) TileRelease()             { a.tile("TILERELEASE") }

// TileZero, TileLoad and TileStore move a tile. The rows of m lie as many bytes apart as its index register says.
func (a *Asm) TileZero(t TileReg)                 { a.tile("TILEZERO", t) }
func (a *Asm) TileLoad(m operand.Mem, t TileReg)  { a.tile("TILELOADD", m, t) }
func (a *Asm) TileStore(t TileReg, m operand.Mem) { a.tile("TILESTORED", t, m) }

// TileDot adds x·y to sum, float32: a row of x has pairs of bfloat16, and y as many rows of them, one for each column.
func (a *Asm) TileDot(x, y, sum TileReg) { a.tile("TDPBF16PS", x, y, sum) }

// tileLine is such an instruction in the text, with the registers that were chosen.
var tileLine = regexp.MustCompile(`(?m)^\t(LDTILECFG|TILERELEASE|TILEZERO|TILELOADD|TILESTORED|TDPBF16PS)[ \t]*(.*)$`)

var (
	tileNumber = regexp.MustCompile(`\$0x0(\d)`)
	tileMemory = regexp.MustCompile(`(\d*)\((\w+)\)(?:\((\w+)\*1\))?`)
)

// EncodeTiles replaces the instructions on tiles by their bytes.
func EncodeTiles(text []byte) []byte {
	return tileLine.ReplaceAllFunc(text, func(line []byte) []byte {
		m := tileLine.FindSubmatch(line)
		return byteLine(tileBytes(string(m[1]), string(m[2])), string(m[1])+" "+string(m[2]))
	})
}

// tileBytes encodes one with a VEX prefix (Intel, "Software Developer's Manual", volume 2, sections 2.3 and AMX's
// instructions): opcode map 0F38, 128 bits, W0.
func tileBytes(name, operands string) []byte {
	const none, p66, pF3, pF2 = 0, 1, 2, 3
	var tiles []int
	for _, t := range tileNumber.FindAllStringSubmatch(operands, -1) {
		tiles = append(tiles, int(t[1][0]-'0'))
	}
	between := func(prefix byte, source int, opcode, modrm byte) []byte {
		return []byte{0xc4, 0xe2, byte(^source&15)<<3 | prefix, opcode, modrm}
	}
	switch name {
	case "TILERELEASE":
		return between(none, 0, 0x49, 0xc0)
	case "TILEZERO":
		return between(pF2, 0, 0x49, byte(0xc0|tiles[0]<<3))
	case "TDPBF16PS": // of Intel's order sum, x, y
		return between(pF3, tiles[1], 0x5c, byte(0xc0|tiles[2]<<3|tiles[0]))
	case "TILELOADD":
		return tileAddress(pF2, 0x4b, tiles[0], operands)
	case "TILESTORED":
		return tileAddress(pF3, 0x4b, tiles[0], operands)
	}
	return tileAddress(none, 0x49, 0, operands) // LDTILECFG
}

// tileAddress encodes one that reads or writes memory, at a base, an index that is not scaled and up to 127 bytes.
func tileAddress(prefix, opcode byte, tile int, operands string) []byte {
	names := []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}
	m := tileMemory.FindStringSubmatch(operands)
	base, index, offset := slices.Index(names, m[2]), 4, 0 // 4 stands for no index
	if m[3] != "" {
		index = slices.Index(names, m[3])
	}
	if m[1] != "" {
		fmt.Sscan(m[1], &offset)
	}
	if base < 0 || index < 0 || offset > 127 || strings.Contains(operands, "-") {
		panic(fmt.Sprintf("%s is no address that is encoded", operands))
	}
	high := func(r, to int) byte { return byte(^r>>3&1) << to }
	return []byte{
		0xc4, 1<<7 | high(index, 6) | high(base, 5) | 2, 0xf<<3 | prefix, opcode,
		byte(1<<6 | tile<<3 | 4), byte(index&7<<3 | base&7), byte(offset),
	}
}

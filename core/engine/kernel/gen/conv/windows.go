package conv

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of windowTaps and tapGroup.
const (
	wnUnits, wnBlocks, wnOverlap, wnGroups = 0, 8, 16, 24
	wnSrc, wnDst, wnSrcUnit, wnDstUnit     = 32, 40, 48, 56
	wnTap, wnPlaces, wnTable               = 64, 72, 80
	wnBlocksLeft                           = 88
	tgSrc, tgDst, tapGroup                 = 0, 8, 16
)

// squaresAtOnce is how many groups of taps are turned at a time: they share the loads of the pixels' places.
const squaresAtOnce = 2

// windowTaps turns squares of four taps and four pixels, as many at a time as a vector has of them.
func windowTaps(a *isa.Asm) {
	a.Kernel("windowTaps", "func(windowTaps *byte)",
		"copies what the taps of windows see: of as many pixels as a vector has lanes, for four taps after the other.")
	t := a.Gp("windowTaps")
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	src, dst := a.Field(t, wnSrc), a.Field(t, wnDst)
	a.Label("unit")
	copyFields(a, t, [2]int{wnBlocks, wnBlocksLeft})
	places, to := a.Field(t, wnPlaces), a.GP64()
	a.MOVQ(dst, to)
	a.Label("block")
	table, left := a.Field(t, wnTable), a.Field(t, wnGroups)
	a.Label("group")
	tap, row := a.Field(t, wnTap), a.GP64()
	at := make([]reg.GPVirtual, squaresAtOnce)
	for i := range at {
		at[i] = a.Field(table, tapGroup*i+tgSrc)
		a.ADDQ(src, at[i])
	}
	v := tapsOfPixels(a, at, places)
	for i := range at {
		a.MOVQ(operand.Mem{Base: table, Disp: tapGroup*i + tgDst}, row)
		a.ADDQ(to, row)
		for _, v := range a.TransposeFours(v[4*i:][:4]) {
			a.Move(v, operand.Mem{Base: row})
			a.ADDQ(tap, row)
		}
	}
	a.Advance(operand.U8(tapGroup*squaresAtOnce), table)
	a.CountDown(left, "group")
	a.ADDQ(operand.U32(8*a.Lanes), places)
	a.Advance(operand.U8(4*a.Lanes), to)
	// The last block of a unit overlaps the one before.
	a.CMPQ(field(wnBlocksLeft), operand.U8(2))
	a.JNE(operand.LabelRef("next"))
	overlap := a.Field(t, wnOverlap)
	a.SUBQ(overlap, to)
	a.ADDQ(overlap, overlap)
	a.SUBQ(overlap, places)
	a.Label("next")
	a.CountDown(field(wnBlocksLeft), "block")
	a.ADDQ(field(wnSrcUnit), src)
	a.ADDQ(field(wnDstUnit), dst)
	a.CountDown(field(wnUnits), "unit")
	a.Ret()
}

// tapsOfPixels loads four taps of every pixel of a block from several places: of the four vectors of each, i has those of pixels i, i+4 and so on in
// its 128-bit parts.
func tapsOfPixels(a *isa.Asm, at []reg.GPVirtual, places reg.GPVirtual) []reg.VecVirtual {
	v := a.Vecs(4 * len(at))
	for i := range 4 {
		for part := range a.Lanes / 4 {
			p := a.Field(places, 8*(4*part+i))
			for j, at := range at {
				m, v := isa.Offset(at, p, 0), v[4*j+i]
				switch {
				case part == 0:
					a.VMOVUPS(m, v.AsX())
				case a.Lanes == 16:
					a.VINSERTF32X4(operand.U8(part), m, v, v)
				default:
					a.VINSERTF128(operand.U8(part), m, v, v)
				}
			}
		}
	}
	return v
}

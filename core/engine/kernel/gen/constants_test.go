package main

import (
	"testing"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// AVX-512 reads a constant that is the same in all lanes as one word; AVX2, which cannot, and constants that differ are left alone.
func TestConstantsAreOneWord(t *testing.T) {
	for _, c := range []struct {
		name   string
		isa    isa.ISA
		lane   func(i int) uint32
		single bool
	}{
		{"the same", isa.AVX512, func(int) uint32 { return 7 }, true},
		{"one differs", isa.AVX512, func(i int) uint32 { return uint32(i / 15) }, false},
		{"AVX2", isa.AVX2, func(int) uint32 { return 7 }, false},
	} {
		ctx := build.NewContext()
		a := &isa.Asm{Context: ctx, ISA: c.isa}
		table := ctx.StaticGlobal("table")
		ctx.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 16 {
			ctx.AddDatum(4*i, operand.U32(c.lane(i)))
		}
		a.Kernel("add", "func(x *float32)", "adds a constant.")
		x, v := a.Gp("x"), a.Vec()
		a.Move(table, v)
		a.Add(table, v, v)
		a.Move(v, operand.Mem{Base: x})
		a.Ret()
		file, err := ctx.Result()
		if err != nil {
			t.Fatal(err)
		}
		broadcastConstants(file)
		var loads, adds bool
		for _, i := range file.Functions()[0].Instructions() {
			loads = loads || i.Opcode == "VBROADCASTSS"
			adds = adds || i.OpcodeWithSuffixes() == "VADDPS.BCST"
		}
		if loads != c.single || adds != c.single {
			t.Errorf("%s: loaded as a word: %v, added as a word: %v, want %v", c.name, loads, adds, c.single)
		}
	}
}

package main

import (
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// A kernel for AVX2 that takes what only AVX-512 has is refused: a register of its upper half, an instruction of its own.
func TestKernelsKeepToTheirLevel(t *testing.T) {
	sum := func(n int) func(*isa.Asm) {
		return func(a *isa.Asm) {
			a.Kernel("sum", "func(x *float32)", "adds vectors.")
			x, v := a.Gp("x"), a.Vecs(n)
			for _, v := range v {
				a.Zero(v)
			}
			for _, w := range v {
				a.Add(w, v[0], v[0])
			}
			for _, w := range v { // all live to the end
				a.Move(w, operand.Mem{Base: x})
			}
			a.Ret()
		}
	}
	for _, c := range []struct {
		name  string
		emit  func(*isa.Asm)
		isa   isa.ISA
		wants string
	}{
		{"16 vectors of AVX2", sum(16), isa.AVX2, ""},
		{"17 vectors of AVX2", sum(17), isa.AVX2, "takes register"},
		{"17 vectors of AVX-512", sum(17), isa.AVX512, ""},
		{"an instruction of AVX-512", func(a *isa.Asm) {
			a.Kernel("ternary", "func()", "is one instruction.")
			v := a.Vec()
			a.Zero(v)
			a.VPTERNLOGD(operand.U8(0xff), v, v, v)
			a.Ret()
		}, isa.AVX2, "VPTERNLOGD needs AVX512"},
	} {
		ctx := build.NewContext()
		c.emit(&isa.Asm{Context: ctx, ISA: c.isa})
		file, err := ctx.Result()
		if err == nil {
			err = pass.Compile.Execute(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = checkLevels(file, []isa.ISA{c.isa})
		if c.wants == "" && err != nil || c.wants != "" && (err == nil || !strings.Contains(err.Error(), c.wants)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.wants)
		}
	}
}

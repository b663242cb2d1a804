package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// extensions are what each level's processors have (dispatch_amd64.go); a level has those of the narrower ones, too.
var extensions = [][]string{
	{"CPUID", "MMX+", "POPCNT", "CMOV", "AVX", "AVX2", "FMA3", "F16C"},
	{"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"},
}

// encodeVEX gives scalars' moves, by which avo loads parameters and stores results, the encoding of AVX. In that of SSE each took 200
// cycles on an Intel core (Emerald Rapids) while the upper halves of registers were in use.
func encodeVEX(file *ir.File) {
	for _, f := range file.Functions() {
		for _, i := range f.Instructions() {
			if i.Opcode == "MOVSS" || i.Opcode == "MOVSD" {
				i.Opcode, i.ISA = "V"+i.Opcode, []string{"AVX"}
			}
		}
	}
}

// checkLevels is an error if a kernel takes more than its level has. A processor with AVX-512 runs it all the same, but one without ends
// the program with SIGILL. avo chooses among all 32 registers of AVX-512, whatever the instruction, when the first 16 are taken.
func checkLevels(file *ir.File, isas []isa.ISA) error {
	for _, f := range file.Functions() {
		i := slices.IndexFunc(isas, func(v isa.ISA) bool { return strings.HasSuffix(f.Name, v.Name) })
		if i < 0 {
			return fmt.Errorf("%s is not named after one of its family's instruction sets", f.Name)
		}
		if err := checkFunction(f, isas[i]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func checkFunction(f *ir.Function, level isa.ISA) error {
	has := slices.Clone(extensions[0])
	if level.Lanes > isa.AVX2.Lanes {
		has = append(has, extensions[1]...)
	}
	for _, i := range f.Instructions() {
		for _, e := range i.ISA {
			if !slices.Contains(has, e) {
				return fmt.Errorf("%s needs %s", i.Opcode, e)
			}
		}
		for _, r := range i.Registers() {
			if p := reg.ToPhysical(r); p != nil && r.Kind() == reg.KindVector && int(p.PhysicalIndex()) >= level.Registers() {
				return fmt.Errorf("%s takes register %s, and there are %d: the kernel has too many values at a time", i.Opcode, r.Asm(), level.Registers())
			}
		}
	}
	return nil
}

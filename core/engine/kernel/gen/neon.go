package main

import (
	"os"
	gopath "path"
	"path/filepath"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/printer"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/arm64"
)

// neon is arm64's vectors. Kernels see AVX2, whose registers are pairs of NEON's, and
// package arm64 compiles what they emit: every family that has kernels for AVX2 has them
// for NEON.
var neon = avx2.as("NEON")

// notForNEON are kernels that take more registers than there are pairs of NEON's.
var notForNEON = []string{"tapSums3x2"}

func (v isa) as(name string) isa {
	v.name = name
	return v
}

// writeNEON writes a family's files for arm64, if it has any.
func (f family) writeNEON(dir string) error {
	if !slices.Contains(f.isas, avx2) {
		return nil
	}
	ctx := build.NewContext()
	f.emit(&asm{Context: ctx, isa: neon})
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	code, err := arm64.Compile(file)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(printer.Config{Argv: []string{"gen"}, Name: "avo", Pkg: gopath.Base(f.folder)}).Print(file)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, f.folder, "zz_"+f.name+"_arm64")
	for suffix, text := range map[string][]byte{".s": code, ".go": stubs} {
		if err := os.WriteFile(path+suffix, opaque.ReplaceAllFunc(text, nameStruct), 0o644); err != nil {
			return err
		}
	}
	return nil
}

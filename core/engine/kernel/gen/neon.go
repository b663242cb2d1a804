package main

import (
	"os"
	gopath "path"
	"path/filepath"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/printer"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/arm64"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// writeNEON writes a family's files for arm64, if it has any.
func writeNEON(f isa.Family, dir string) error {
	if !slices.Contains(f.ISAs, isa.AVX2) {
		return nil
	}
	return compileNEON(f, isa.NEON, dir)
}

// compileNEON writes them for one level of arm64.
func compileNEON(f isa.Family, level isa.ISA, dir string) error {
	ctx := build.NewContext()
	f.Emit(&isa.Asm{Context: ctx, ISA: level})
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	code, err := arm64.Compile(file)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(printer.Config{Argv: []string{"gen"}, Name: "avo", Pkg: gopath.Base(f.Folder)}).Print(file)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, f.Folder, "zz_"+f.Name+"_arm64")
	for suffix, text := range map[string][]byte{".s": code, ".go": stubs} {
		if err := os.WriteFile(path+suffix, opaque.ReplaceAllFunc(text, nameStruct), 0o644); err != nil {
			return err
		}
	}
	return nil
}

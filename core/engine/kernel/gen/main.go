// Command gen writes the assembly below core/engine/kernel: one .s file and one file
// of Go declarations per family of kernels, both named zz_ and what the family is
// called. It is a module of its own, so that trainctl does not depend on the assembler
// library.
//
// Package isa is the instruction sets: registers, how each operation of a vector is spelled,
// and what takes other instructions in each. Packages gemm, amx, conv, norm and pointwise are the
// kernels, and list them with the structs that they read. Kernels of
// bfloat16, and shuffles that only AVX-512 has, spell x86 themselves, and so does what counts
// and branches. Package arm64 compiles what is written for AVX2 to NEON, and program mca models the
// loops that come out. choice.go writes the Go functions that choose between instruction
// sets, layout.go the checks of structs' layouts.
package main

import (
	"flag"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/gemm"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

var families = slices.Concat(gemm.Families, conv.Families, pointwise.Families, norm.Families, amx.Families)

func main() {
	out := flag.String("dir", "..", "folder of package kernel")
	flag.Parse()
	calls := choices{}
	for _, f := range families {
		if slices.Contains(f.ISAs, isa.NEONBF16) {
			if err := compileNEON(f, isa.NEONBF16, *out); err != nil {
				log.Fatalf("%s/%s for arm64: %v", f.Folder, f.Name, err)
			}
			continue
		}
		if err := write(f, *out, calls); err != nil {
			log.Fatalf("%s/%s: %v", f.Folder, f.Name, err)
		}
		if err := writeNEON(f, *out); err != nil {
			log.Fatalf("%s/%s for arm64: %v", f.Folder, f.Name, err)
		}
	}
	if err := calls.write(*out); err != nil {
		log.Fatal(err)
	}
	if err := pointwise.WriteCoefficients(*out); err != nil {
		log.Fatal(err)
	}
	if err := gemm.ProductChoice(filepath.Join(*out, "gemm")); err != nil {
		log.Fatal(err)
	}
	if err := writeNumbered(*out, slices.Concat(conv.Numbered, norm.Numbered)); err != nil {
		log.Fatal(err)
	}
	if err := writeLayouts(*out, slices.Concat(gemm.Layouts, conv.Layouts, norm.Layouts, pointwise.Layouts, amx.Layouts)); err != nil {
		log.Fatal(err)
	}
}

// opaque is how a signature names a struct of the package, whose types avo
// cannot see: a pointer to byte, named after the struct.
var opaque = regexp.MustCompile(`\((\w+) \*byte\)`)

// structs are the types by those names that other packages fill in, too.
var structs = map[string]string{"tile": "Tile", "planeCopy": "PlaneCopy", "runCopy": "RunCopy", "product": "Product"}

// write writes the assembly and its declarations, and adds to calls.
func write(f isa.Family, dir string, calls choices) error {
	ctx := build.NewContext()
	for _, v := range f.ISAs {
		f.Emit(&isa.Asm{Context: ctx, ISA: v})
	}
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	encodeVEX(file)
	broadcastConstants(file)
	if err := checkLevels(file, f.ISAs); err != nil {
		return err
	}
	calls.add(f, file)
	folder := filepath.Join(dir, f.Folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	cfg := printer.Config{Argv: []string{"gen"}, Name: "avo", Pkg: path.Base(path.Join("kernel", f.Folder))}
	for suffix, p := range map[string]printer.Printer{"_amd64.s": printer.NewGoAsm(cfg), "_amd64.go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		text = opaque.ReplaceAllFunc(text, nameStruct)
		text = isa.EncodeTiles(isa.Unknown.ReplaceAllFunc(text, isa.Encode))
		if err := os.WriteFile(filepath.Join(folder, "zz_"+f.Name+suffix), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func nameStruct(param []byte) []byte {
	name := string(opaque.FindSubmatch(param)[1])
	if exported, ok := structs[name]; ok {
		return []byte("(" + name + " *" + exported + ")")
	}
	return []byte("(" + name + " *" + name + ")")
}

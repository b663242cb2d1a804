// Command gen writes the assembly of package kernel: one .s file and one file of
// Go declarations per family. It is a module of its own, so that trainctl does
// not depend on the assembler library.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"regexp"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

var families = map[string]func(*asm){
	"gemm":        gemm,
	"dot":         dot,
	"elementwise": elementwise,
	"update":      update,
	"norm":        norm,
	"half":        half,
	"pool":        pool,
	"minimal":     minimal,
	"normpool":    normPool,
	"moments":     moments,
	"pack":        pack,
	"columns":     columns,
	"normrelu":    normReLU,
	"peak":        peak,
	"product":     product,
	"pixels":      pixels,
	"image":       images,
	"exp":         exp,
}

func main() {
	out := flag.String("dir", "..", "folder of package kernel")
	flag.Parse()
	for name, family := range families {
		if err := write(*out, name, family, avx2, avx512); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
	for name, family := range bf16Families {
		if err := write(*out, name, family, avx512bf16); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
	if err := productChoice(*out); err != nil {
		log.Fatal(err)
	}
}

// opaque is how a signature names a struct of package kernel, whose types avo
// cannot see: a pointer to byte, named after the struct.
var opaque = regexp.MustCompile(`\((\w+) \*byte\)`)

func write(dir, name string, family func(*asm), isas ...isa) error {
	ctx := build.NewContext()
	for _, v := range isas {
		family(&asm{Context: ctx, isa: v})
	}
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Argv: []string{"gen"}, Name: "avo", Pkg: "kernel"}
	for suffix, p := range map[string]printer.Printer{"_amd64.s": printer.NewGoAsm(cfg), "_stub_amd64.go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		text = opaque.ReplaceAll(text, []byte("($1 *$1)"))
		text = unknown.ReplaceAllFunc(text, encode)
		if err := os.WriteFile(filepath.Join(dir, name+suffix), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

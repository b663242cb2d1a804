// Command gen writes the assembly below core/engine/kernel: one .s file and one file
// of Go declarations per family of kernels, both named zz_ and what the family is
// called. It is a module of its own, so that trainctl does not depend on the assembler
// library.
//
// x86.go is the instruction sets: registers, how each operation of a vector is spelt,
// and what takes other instructions in each. The other files are the kernels. Those
// of bfloat16, and shuffles that only AVX-512 has, spell x86 themselves, and so does
// what counts and branches. Package arm64 compiles what is written for AVX2 to NEON, and
// program mca models the loops that come out. choice.go writes the Go functions that choose between
// instruction sets. layout.go says how structs lie that assembly reads.
package main

import (
	"flag"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// family is the kernels of one pair of generated files, which lie in one package
// below core/engine/kernel.
type family struct {
	folder, name string
	emit         func(*asm)
	isas         []isa
}

// each is what has kernels for AVX2 and for AVX-512; wide is what needs more registers
// than AVX2 has, and narrow what replaces that there; bf16 is what needs the extension that multiplies bfloat16, and has
// everything else from AVX-512.
var (
	each   = []isa{avx2, avx512}
	wide   = []isa{avx512}
	narrow = []isa{avx2}
	bf16   = []isa{avx512bf16}
)

var families = []family{
	{"peak", "peak", peak, each},
	{"peak", "bf16_peak", peak, bf16},
	{"elementwise", "elementwise", elementwise, each},
	{"elementwise", "functions", functions, each},
	{"elementwise", "rows", rowSums, each},
	{"elementwise", "bf16", bf16Elementwise, bf16},
	{"loss", "softmax", softmax, each},
	{"convert", "convert", halfConversions, each},
	{"reduce", "reduce", halfSums, each},
	{"reduce", "sums", sums, each},
	{"gemm", "tile", gemm, each},
	{"gemm", "pack", pack, each},
	{"gemm", "product", product, each},
	{"gemm", "bf16_tile", bf16Gemm, bf16},
	{"gemm", "bf16_finish", bf16Finish, bf16},
	{"conv/direct", "dot", dot, each},
	{"conv/planes", "planes", planes, each},
	{"conv/planes", "plane_copies", planeCopies, []isa{avx2}},
	{"conv/geometry", "im2col", im2col, each},
	{"conv/winograd", "winograd", winograd, each},
	{"conv/winograd", "taps", tapSums, narrow},
	{"conv/direct", "bf16_dot", dot, bf16},
	{"conv/winograd", "bf16_winograd", bf16Winograd, bf16},
	{"pool", "pool", pool, each},
	{"norm", "norm", norm, each},
	{"norm", "moments", moments, each},
	{"norm", "layernorm", layerNorm, each},
	{"norm", "normrelu", normReLU, each},
	{"norm", "normpool", normPool, wide},
	{"norm", "normpool_strip", normPoolStrips, narrow},
	{"norm", "bf16_norm", bf16Norm, bf16},
	{"norm", "bf16_normpool", bf16NormPool, bf16},
	{"optimizer", "update", update, each},
	{"image", "levels", levels, each},
	{"image", "image", images, each},
	{"random", "noise", noise, each},
}

// all emits several kernels into one family.
func all(emits ...func(*asm)) func(*asm) {
	return func(a *asm) {
		for _, emit := range emits {
			emit(a)
		}
	}
}

func main() {
	out := flag.String("dir", "..", "folder of package kernel")
	flag.Parse()
	calls := choices{}
	for _, f := range families {
		if err := f.write(*out, calls); err != nil {
			log.Fatalf("%s/%s: %v", f.folder, f.name, err)
		}
		if err := f.writeNEON(*out); err != nil {
			log.Fatalf("%s/%s for arm64: %v", f.folder, f.name, err)
		}
	}
	if err := calls.write(*out); err != nil {
		log.Fatal(err)
	}
	if err := writeCoefficients(*out); err != nil {
		log.Fatal(err)
	}
	if err := productChoice(filepath.Join(*out, "gemm")); err != nil {
		log.Fatal(err)
	}
	if err := writeLayouts(*out); err != nil {
		log.Fatal(err)
	}
}

// opaque is how a signature names a struct of the package, whose types avo
// cannot see: a pointer to byte, named after the struct.
var opaque = regexp.MustCompile(`\((\w+) \*byte\)`)

// structs are the types by those names that other packages fill in, too.
var structs = map[string]string{"tile": "Tile"}

// write writes the assembly and its declarations, and adds to calls.
func (f family) write(dir string, calls choices) error {
	ctx := build.NewContext()
	for _, v := range f.isas {
		f.emit(&asm{Context: ctx, isa: v})
	}
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	calls.add(f, file)
	folder := filepath.Join(dir, f.folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	cfg := printer.Config{Argv: []string{"gen"}, Name: "avo", Pkg: path.Base(f.folder)}
	for suffix, p := range map[string]printer.Printer{"_amd64.s": printer.NewGoAsm(cfg), "_amd64.go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		text = opaque.ReplaceAllFunc(text, nameStruct)
		text = unknown.ReplaceAllFunc(text, encode)
		if err := os.WriteFile(filepath.Join(folder, "zz_"+f.name+suffix), text, 0o644); err != nil {
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

// Command mca models the inner loops of NEON's matrix products and convolutions, and prints a table of
// cycles per iteration beside the bound of the multiply-adds. It disassembles what Go's
// assembler made of the kernels, and asks LLVM's scheduling models (llvm-mca), which
// know latencies, ports and widths, but no caches.
//
//	cd core/engine/kernel/gen && go run ./mca -suffix -19
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A core and the vectors that it multiplies per cycle in its model.
type core struct {
	name, cpu string
	pipes     float64
	bf16      bool // has FEAT_BF16
}

// LLVM models every core of Apple's as its first of 64 bits, with three pipes; M1 and
// later have four.
var cores = []core{
	{"Neoverse N1", "neoverse-n1", 2, false}, {"Neoverse V1", "neoverse-v1", 4, true}, {"Neoverse V2", "neoverse-v2", 4, true}, {"Apple", "apple-m2", 3, true},
}

// kernels are functions by package, with what they are.
var kernels = []struct{ folder, function, what string }{
	{"gemm", "along6x2NEON", "product, A's rows side by side"},
	{"gemm", "across6x2NEON", "product, A's rows apart"},
	{"gemm", "apart6x2NEON", "the same, C not transposed"},
	{"gemm", "tile6NEON", "product, direct convolution"},
	{"gemm", "tile6NEONBF16", "product of bfloat16, by `bfdot`"},
	{"conv/winograd", "pointRows6x1NEON", "Winograd's products, forward, 6 rows"},
	{"conv/winograd", "pointRows5x1NEON", "the same, 5 rows"},
	{"conv/winograd", "pointCols6x1NEON", "Winograd's products, weight gradient, 6 rows"},
	{"conv/winograd", "pointCols5x1NEON", "the same, 5 rows"},
	{"conv/direct", "dotTile4x3NEON", "weight gradient, direct, 4 filters by 3 taps"},
	{"conv/direct", "dotTile3x4NEON", "the same, 3 by 4"},
	{"conv/planes", "planeTile8NEON", "depthwise, from a frame"},
	{"conv/planes", "slideRows2NEON", "depthwise 3×3, straight from the image"},
	{"conv/planes", "slideDots1NEON", "its weight gradient"},
	{"conv/planes", "planeDots4NEON", "depthwise weight gradient, from a frame"},
	{"conv/planes", "stridedForward3Pad1NEON", "depthwise 3×3/2"},
	{"conv/planes", "stridedGrad3Pad1NEON", "its input gradient"},
	{"conv/planes", "stridedDots3Pad1NEON", "its weight gradient"},
}

var suffix = flag.String("suffix", "", "what the names of llvm-objdump and llvm-mca end in, such as -19")

func main() {
	flag.Parse()
	dir, err := os.MkdirTemp("", "mca")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	build(dir, "gemm", "conv")
	fmt.Print("| kernel | loop | multiply-adds |")
	for _, c := range cores {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Println("\n|---|---|---|" + strings.Repeat("---|", len(cores)))
	for _, k := range kernels {
		body := innerLoop(disassemble(filepath.Join(dir, programOf(k.function)), k.folder+"."+k.function))
		n := multiplyAdds(body)
		if n == 0 {
			log.Fatalf("%s.%s is no kernel with multiply-adds in a loop: correct the list in mca/main.go", k.folder, k.function)
		}
		fmt.Printf("| `%s` | %s | %d |", k.function, k.what, n)
		for _, c := range cores {
			if !c.bf16 && ofBF16(k.function) {
				fmt.Print(" – |")
				continue
			}
			bound, cycles := float64(n)/c.pipes, modelled(body, c.cpu)
			fmt.Printf(" %.1f / %.1f = %.0f %% |", bound, cycles, 100*bound/cycles)
		}
		fmt.Println()
	}
}

// build makes the test binaries of packages for arm64 in a folder.
func build(dir string, packages ...string) {
	for _, p := range packages {
		cmd := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, p), "./"+p)
		cmd.Dir, cmd.Env, cmd.Stderr = "..", append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0"), os.Stderr
		if err := cmd.Run(); err != nil {
			log.Fatalf("building the tests of %s: %v", p, err)
		}
	}
}

// programOf is the test binary that has a kernel: conv's has all but the products of bfloat16.
func programOf(function string) string {
	if ofBF16(function) {
		return "gemm"
	}
	return "conv"
}

func ofBF16(function string) bool { return strings.HasSuffix(function, "BF16") }

// instruction is one line of a disassembly; target is where it branches to, or 0.
type instruction struct {
	at, target uint64
	text       string
}

var (
	line   = regexp.MustCompile(`(?m)^\s*([0-9a-f]+):\s+(.*)$`)
	branch = regexp.MustCompile(`^(b|b\.\w+|cbn?z|tbn?z)\s.*0x([0-9a-f]+)`)
)

func disassemble(program, function string) (list []instruction) {
	const packages = "github.com/trainctl/trainctl/core/engine/kernel/"
	symbol := packages + function + ".abi0"
	out, err := exec.Command("llvm-objdump"+*suffix, "-d", "--mattr=+bf16", "--no-show-raw-insn", "--disassemble-symbols="+symbol, program).Output()
	if err != nil {
		log.Fatalf("llvm-objdump%s: %v; install LLVM 19 or later, and name its suffix by -suffix", *suffix, err)
	}
	for _, m := range line.FindAllStringSubmatch(string(out), -1) {
		at, _ := strconv.ParseUint(m[1], 16, 64)
		text, _, _ := strings.Cut(m[2], "<")
		i := instruction{at: at, text: strings.TrimSpace(text)}
		if b := branch.FindStringSubmatch(i.text); b != nil {
			i.target, _ = strconv.ParseUint(b[2], 16, 64)
		}
		list = append(list, i)
	}
	return list
}

// innerLoop is the loop with the most multiply-adds per instruction.
func innerLoop(code []instruction) (best []instruction) {
	density := func(body []instruction) float64 { return float64(multiplyAdds(body)) / float64(max(1, len(body))) }
	for i, in := range code {
		from, ok := slices.BinarySearchFunc(code[:i+1], in.target, func(x instruction, at uint64) int { return cmp.Compare(x.at, at) })
		if body := code[from : i+1]; in.target != 0 && ok && density(body) > density(best) {
			best = body
		}
	}
	return best
}

func multiplyAdds(body []instruction) (n int) {
	for _, i := range body {
		if strings.HasPrefix(i.text, "fmla") || strings.HasPrefix(i.text, "bfdot") {
			n++
		}
	}
	return n
}

var total = regexp.MustCompile(`Total Cycles:\s+(\d+)`)

// modelled is the number of cycles that a core takes for one iteration.
func modelled(body []instruction, cpu string) float64 {
	const iterations = 1000
	text := "loop:\n"
	for _, i := range body {
		if i.target != 0 {
			i.text = i.text[:strings.LastIndex(i.text, "0x")] + "loop"
		}
		text += i.text + "\n"
	}
	cmd := exec.Command("llvm-mca"+*suffix, "-mtriple=aarch64", "-mcpu="+cpu, fmt.Sprintf("-iterations=%d", iterations))
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	m := total.FindSubmatch(out)
	if err != nil || m == nil {
		log.Fatalf("llvm-mca%s for %s: %v", *suffix, cpu, err)
	}
	cycles, _ := strconv.Atoi(string(m[1]))
	return float64(cycles) / iterations
}

package kernels

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/tensor"
)

//go:embed *.cu
var files embed.FS

// shared are the source files that build on each other, in their order.
var shared = []string{"common", "pointwise", "norm", "pool", "conv", "gemm", "loss", "update"}

// families are all source files: behind the shared ones, those of pointwise functions.
var families = func() []string {
	all := slices.Clone(shared)
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("kernels: " + err.Error())
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".cu"); !slices.Contains(shared, name) {
			all = append(all, name)
		}
	}
	return all
}()

// Block is the threads of a block on a GPU, BLOCK in common.cu.
const Block = 256

// MostBlocks is how many blocks an elementwise kernel gets, and about how many one that sums channels.
const MostBlocks = 2048

// Text is the source file name.cu; an error where there is none.
func Text(name string) (string, error) {
	b, err := files.ReadFile(name + ".cu")
	return string(b), err
}

// Source is the program of one element type for blocks of so many threads:
// every family, with the two in front.
func Source(d tensor.DType, threads int) string {
	s := fmt.Sprintf("#define ELEM %d\n#define BLOCK %d\n", Code(d), threads)
	for _, f := range families {
		b, err := files.ReadFile(f + ".cu")
		if err != nil {
			panic("kernels: " + err.Error())
		}
		s += fmt.Sprintf("#line 1 \"%s.cu\"\n%s", f, b)
	}
	return s
}

// Code is the number that kernels know a floating type by.
func Code(d tensor.DType) int32 {
	switch d {
	case tensor.F32:
		return 0
	case tensor.F64:
		return 1
	case tensor.F16:
		return 2
	case tensor.BF16:
		return 3
	}
	panic("kernels: no kernels for " + d.String())
}

package kernel

import (
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// Float are the element types that kernels compute in.
type Float interface{ float32 | float64 }

// Level is a set of CPU instructions that float32 kernels may use.
type Level uint8

// The dispatch levels, from the one that runs everywhere to the fastest.
const (
	unresolved Level = iota
	Generic          // plain Go
	AVX2             // 256-bit vectors, FMA3 and F16C
	AVX512           // 512-bit vectors: F, BW, DQ and VL
	AVX512BF16       // AVX512, and products of bfloat16 for kernels that read it
)

var levelNames = [...]string{unresolved: "unresolved", Generic: "generic", AVX2: "avx2", AVX512: "avx512", AVX512BF16: "avx512bf16"}

func (l Level) String() string { return levelNames[l] }

// EnvCPU names the environment variable that forces a dispatch level.
const EnvCPU = "TRAINCTL_CPU"

// chosen and activeErr are written before main starts; active and bf16Dots by
// tests too. Float32 kernels know nothing above AVX512.
var (
	chosen, activeErr = resolve(os.Getenv(EnvCPU), available())
	active, bf16Dots  = min(chosen, AVX512), chosen == AVX512BF16
)

// Active is the level that this process uses, or the error that the first
// kernel would panic with: EnvCPU asks for what this CPU does not have.
func Active() (Level, error) { return chosen, activeErr }

// Available lists the levels that this CPU has, the fastest first.
func Available() []Level { return available() }

func resolve(want string, have []Level) (Level, error) {
	if want == "" {
		return have[0], nil
	}
	names := make([]string, len(have))
	for i, l := range have {
		if names[i] = l.String(); names[i] == want {
			return l, nil
		}
	}
	return unresolved, fmt.Errorf("%s=%q: this CPU has %s; set one of these or unset it", EnvCPU, want, strings.Join(names, ", "))
}

// level is Active for kernels.
func level() Level {
	if active == unresolved {
		panic(activeErr)
	}
	return active
}

// vectorBlock is the number of float32 that every vector kernel works on at a time.
const vectorBlock = 16

// head is how many of n float32 elements the vector kernels take at the active
// level; the reference does the rest.
func head(n int) int {
	if level() == Generic {
		return 0
	}
	return n &^ (vectorBlock - 1)
}

// is32 is a constant in each instance of a generic function.
func is32[T Float]() bool {
	var z T
	return unsafe.Sizeof(z) == 4
}

// as32 views a slice as float32; T has to be float32.
func as32[T Float](x []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

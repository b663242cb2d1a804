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
	NEON             // arm64: 128-bit vectors, used in pairs
	AVX2             // 256-bit vectors, FMA3 and F16C
	AVX512           // 512-bit vectors: F, BW, DQ and VL
	AVX512BF16       // AVX512, and products of bfloat16 for kernels that read it
	NEONBF16         // NEON, and products of pairs of bfloat16 (FEAT_BF16)
	AVX512AMX        // AVX512BF16, and products of matrices of bfloat16 in tiles (AMX)
)

var levelNames = [...]string{unresolved: "unresolved", Generic: "generic", NEON: "neon", AVX2: "avx2", AVX512: "avx512", AVX512BF16: "avx512bf16", NEONBF16: "neonbf16", AVX512AMX: "avx512amx"}

// String is the level's name in EnvCPU.
func (l Level) String() string { return levelNames[l] }

// EnvCPU names the environment variable that forces a dispatch level.
const EnvCPU = "TRAINCTL_CPU"

// chosen and activeErr are written before main starts; active and bf16 by
// tests too.
var (
	chosen, activeErr = resolve(os.Getenv(EnvCPU), available())
	active, bf16      = chosen.float32()
	halved            = halvedLevel()
)

// products are those of bfloat16 that a level has besides kernels of float32.
type products struct{ pairs, tiles bool }

// float32 is the level of float32 kernels, and what products of bfloat16 there are besides.
func (l Level) float32() (Level, products) {
	switch l {
	case AVX512BF16:
		return AVX512, products{pairs: true}
	case AVX512AMX:
		return AVX512, products{pairs: true, tiles: true}
	case NEONBF16:
		return NEON, products{pairs: true}
	}
	return l, products{}
}

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

// Force makes a level the active one until restore is called. It is for tests and measurements of the levels below
// the best: no kernel may run meanwhile, and none may be called at a level that this CPU lacks.
func Force(l Level) (restore func()) {
	level, before := active, bf16
	active, bf16 = l.float32()
	return func() { active, bf16 = level, before }
}

// Current is Active for kernels.
func Current() Level {
	if active == unresolved {
		panic(activeErr)
	}
	return active
}

// Wide reports whether the kernels of AVX-512 run, and not those of AVX2. It
// does not look for an impossible wish: a caller has asked for the level before.
func Wide() bool { return active == AVX512 }

// Halves reports whether the CPU computes the vectors of the active level in halves, so that they take twice as long as
// vectors half as wide. Kernels of AVX-512 then use those of AVX2 where wider ones would be half empty.
func Halves() bool { return active == halved }

// ForceHalves makes Halves report h at the active level, until restore is called. It is for tests and measurements: no
// kernel may run meanwhile.
func ForceHalves(h bool) (restore func()) {
	old := halved
	if halved = unresolved; h {
		halved = Current()
	}
	return func() { halved = old }
}

// HasBF16 reports whether the vector kernels that read and write bfloat16 exist at
// the active level. Plain Go does the same elsewhere, slower than widening to
// float32, which is what the CPU device does then.
func HasBF16() bool { return Current() == AVX512 && bf16.pairs }

// HasBF16Products reports whether there are matrix products of bfloat16 that need no
// widening at the active level.
func HasBF16Products() bool { return Current() > Generic && bf16.pairs }

// HasTiles reports whether matrices of bfloat16 are multiplied in tiles (AMX) at the active level.
func HasTiles() bool { return bf16.tiles }

// HasVectors reports whether T has vector kernels at the active level.
func HasVectors[T Float]() bool { return Is32[T]() && Current() != Generic }

// Vectors reports whether n elements of T are for the vector kernels of any length.
func Vectors[T Float](n int) bool { return Is32[T]() && n > 0 && Current() != Generic }

// Block is the number of float32 that every vector kernel works on at a time.
const Block = 16

// PairLanes is the number of bfloat16 that the kernels of AVX512BF16 work on at a time:
// a pair in each lane.
const PairLanes = 2 * Block

// Head is how many of n float32 elements the vector kernels take at the active
// level; the reference does the rest.
func Head(n int) int {
	if Current() == Generic {
		return 0
	}
	return n &^ (Block - 1)
}

// HeadOf is Head for elements of type T: 0 unless it is float32.
func HeadOf[T Float](n int) int {
	if !Is32[T]() {
		return 0
	}
	return Head(n)
}

// Is32 is a constant in each instance of a generic function.
func Is32[T Float]() bool {
	var z T
	return unsafe.Sizeof(z) == 4
}

// As32 views a slice as float32; T has to be float32.
func As32[T Float](x []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// Ptr32 points to the first element of x for a vector kernel, nil if x is nil; T has to
// be float32.
func Ptr32[T Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }

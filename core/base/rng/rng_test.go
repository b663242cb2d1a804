package rng

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
)

func TestPermIsTorchRandperm(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		want []int64
	}{
		{0, []int64{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
		{1, []int64{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
		{1<<32 + 1, []int64{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
		{42, []int64{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}},
		{1<<53 - 1, []int64{1, 4, 6, 2, 0, 5, 8, 7, 9, 3}},
	} {
		if got := NewMT(c.seed).Perm(10); !slices.Equal(got, c.want) {
			t.Errorf("seed %d: %v, want %v", c.seed, got, c.want)
		}
	}
}

func TestPermOfMNISTSize(t *testing.T) {
	for _, c := range []struct {
		seed  uint64
		first []int64
		sum   string
	}{
		{0, []int64{36044, 10678, 57327, 55074, 21567, 15479, 9481, 43095}, "4c226c41bdd65c9e11fe47eba8358cefb5c375b9699b1c912586a2125168af52"},
		{1, []int64{35845, 27522, 33254, 23645, 11299, 16178, 58355, 27002}, "1e8385d7899b4c8f2e9f55480fc4c1775cc691c5170f3cf7aa1f43b9c8bc6e0a"},
		{2, []int64{43848, 54736, 56013, 37602, 59754, 51214, 42432, 44443}, "d73288534717ab38ab03c16834066320eb338b5af52cae15f63866a1de382a68"},
		{42, []int64{37542, 43087, 2992, 25810, 39634, 6425, 55768, 11034}, "7cd1a1e010482b25004c00bf2e3caae398061dfa812ba311e56e8b6b9b4cdc7a"},
	} {
		got := NewMT(c.seed).Perm(60000)
		if !slices.Equal(got[:8], c.first) {
			t.Errorf("seed %d starts %v, want %v", c.seed, got[:8], c.first)
		}
		sum := sha256.Sum256(tensor.Bytes(got))
		if hex.EncodeToString(sum[:]) != c.sum {
			t.Errorf("seed %d: sha256 %x, want %s", c.seed, sum, c.sum)
		}
	}
}

// Lists beyond PyTorch's 32-bit limit cannot be drawn in a test; the algorithm can.
func TestPermLargeIsAPermutation(t *testing.T) {
	counts := map[[3]int64]int{}
	m := NewMT(0)
	for range 6000 {
		p := m.permLarge(3)
		counts[[3]int64(p)]++
		slices.Sort(p)
		if !slices.Equal(p, []int64{0, 1, 2}) {
			t.Fatalf("%v", p)
		}
	}
	for p, n := range counts {
		if len(counts) != 6 || n < 850 || n > 1150 {
			t.Errorf("%v came %d times of 6000", p, n)
		}
	}
}

// The goldens are one stream per seed: uniform numbers have to be exact to the
// bit, normal ones to a few units in the last place, and both have to use up as
// much of the stream as PyTorch does.
func TestDrawsAreTorchs(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Seed     uint64    `json:"seed"`
		Normal9  []float32 `json:"normal9"`
		Uniform  []float32 `json:"then_uniform21"`
		Normal1  []float32 `json:"then_normal1"`
		Normal37 []float32 `json:"then_normal37"`
		Perm     []int64   `json:"then_perm"`
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		m := NewMT(c.Seed)
		normal := func(name string, want []float32, tol float64) {
			got := make([]float32, len(want))
			m.NormalF32(got, 1)
			for i := range want {
				if d := math.Abs(float64(got[i] - want[i])); d > tol*math.Max(1, math.Abs(float64(want[i]))) {
					t.Errorf("seed %d, %s[%d]: %v, want %v", c.Seed, name, i, got[i], want[i])
				}
			}
		}
		normal("normal9", c.Normal9, 0)
		uniform := make([]float32, len(c.Uniform))
		m.UniformF32(uniform, -0.3, 0.7)
		if !slices.Equal(uniform, c.Uniform) {
			t.Errorf("seed %d: uniform %v, want %v", c.Seed, uniform, c.Uniform)
		}
		normal("normal1", c.Normal1, 0)
		normal("normal37", c.Normal37, 1e-6)
		if got := m.Perm(7); !slices.Equal(got, c.Perm) {
			t.Errorf("seed %d: permutation after the draws is %v, want %v", c.Seed, got, c.Perm)
		}
	}
}

func TestSkipIsDrawingWithoutLooking(t *testing.T) {
	for _, n := range []int{0, 1, mtSize - 1, mtSize, mtSize + 1, 5*mtSize + 3} {
		drawn, skipped := NewMT(7), NewMT(7)
		for range 100 + n {
			drawn.Uint32()
		}
		skipped.Skip(100)
		skipped.Skip(n)
		if a, b := drawn.Uint32(), skipped.Uint32(); a != b {
			t.Errorf("after %d words: %d, and %d when they are skipped", n, a, b)
		}
	}
}

// Long tensors are made on several threads, of the numbers that one would make.
func TestLongNormalsAreThoseOfOneThread(t *testing.T) {
	for _, n := range []int{chunk - 16, chunk, 3*chunk + 5, 7*chunk - 1} {
		got, want, m, one := make([]float32, n), make([]float32, n), NewMT(3), NewMT(3)
		m.NormalF32(got, 0.25)
		for i := range want {
			want[i] = one.Float32()
		}
		for i := 0; i+16 <= n; i += 16 {
			boxMuller(want[i:][:16], 0.25)
		}
		if tail := want[n-16:]; n%16 != 0 {
			for i := range tail {
				tail[i] = one.Float32()
			}
			boxMuller(tail, 0.25)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d elements differ", n)
		}
		if a, b := m.Uint32(), one.Uint32(); a != b {
			t.Errorf("%d elements: the next word is %d, want %d", n, a, b)
		}
	}
}

// Logarithm, sine and cosine are those of package math for numbers that a generator draws: of the 2²⁴
// possible ones every 37th is compared, and those around eighths of a turn.
func TestFunctionsOfNormalNumbers(t *testing.T) {
	const all = 1 << 24
	for k := 0; k < all; k += 1 + 36*min(1, k%(all/8)/64) {
		u := float64(k) / all
		if got, want := logOf(1-u), math.Log(1-u); math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Fatalf("log(1-%v) = %v, want %v", u, got, want)
		}
		sin, cos := ofTurn(u)
		if wantSin, wantCos := math.Sincos(2 * math.Pi * u); math.Abs(sin-wantSin) > 1e-15 || math.Abs(cos-wantCos) > 1e-15 {
			t.Fatalf("at %v of a turn: %v, %v, want %v, %v", u, sin, cos, wantSin, wantCos)
		}
	}
}

func BenchmarkNormal(b *testing.B) {
	m, x := NewMT(1), make([]float32, 1<<20)
	b.SetBytes(4 << 20)
	for b.Loop() {
		m.NormalF32(x, 1)
	}
}

package elementwise

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Blocks have the bits of one number at a time: of numbers from all over the range and of NaNs, and of those with few
// bits, whose sums are ties more often.
func TestChainsOfBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var blocks chains
	left, decaysLeft := 0, 0
	for i := range 1 << 14 {
		x := make([]float32, 1+i%chainBlock)
		for j := range x {
			switch i % 4 {
			case 0:
				x[j] = math.Float32frombits(r.Uint32())
			case 1:
				x[j] = float32(r.NormFloat64())
			default:
				x[j] = float32(r.IntN(1<<10)-1<<9) / 32
			}
		}
		if !(blocks.reduce(x) && blocks.exponentials(len(x)) && blocks.fractions(len(x))) {
			left++
		}
		if !(blocks.reduceDecay(x) && blocks.exponentials(len(x))) {
			decaysLeft++
		}
		eachTail(x, func(j int, v, e, tail float32) {
			wantE, want := normalTail32(v)
			if math.Float32bits(e) != math.Float32bits(wantE) || math.Float32bits(tail) != math.Float32bits(want) {
				t.Fatalf("of %v: %v, %v, want %v, %v", v, e, tail, wantE, want)
			}
		})
		eachLogistic(x, itself, func(j int, v, less float32) {
			if want := logistic32(v); math.Float32bits(less) != math.Float32bits(want) {
				t.Fatalf("σ(−|%v|) is %v, want %v", v, less, want)
			}
		})
	}
	if left == 0 || decaysLeft == 0 {
		t.Errorf("there was no tie: %d blocks of tails and %d of decays had one", left, decaysLeft)
	}
}

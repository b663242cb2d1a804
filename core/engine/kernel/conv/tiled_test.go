package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/conv/tiled"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Tiles compute every shape that they take as the definition says, whether they are the choice or not.
func TestConvInTiles(t *testing.T) {
	kerneltest.NeedTiles(t)
	onlyTiles = true
	defer func() { onlyTiles = false }()
	shapes := slices.Concat(bf16Cases, unevenCases, direct16Cases, togetherCases, tileCases, halvingCases, pickCases)
	r := rand.New(rand.NewPCG(1, 2))
	for range 90 {
		p := Shape{N: 1 + r.IntN(7), C: 1 + r.IntN(70), H: 1 + r.IntN(20), W: 1 + r.IntN(40), K: 1 + r.IntN(70), R: 1 + r.IntN(6), S: 1 + r.IntN(6), StrideH: 1 + r.IntN(3), StrideW: 1 + r.IntN(2), DilH: 1 + r.IntN(2), DilW: 1 + r.IntN(2)}
		p.PadH, p.PadW = r.IntN(p.DilH*(p.R-1)+1), r.IntN(p.DilW*(p.S-1)+1)
		if p.Validate() == nil && p.N*p.K*p.PatchSize()*p.OutH()*p.OutW() < 1<<24 {
			shapes = append(shapes, p)
		}
	}
	taken := 0
	for _, p := range shapes {
		if tiled.Takes(&p) {
			taken++
			testConvBF16(t, &p, 1e-5)
		}
	}
	if taken < 80 {
		t.Errorf("only %d shapes were tested", taken)
	}
}

// tileCases have several groups of images, several chunks of rows, and several steps of channels.
var tileCases = []Shape{
	{N: 70, C: 17, H: 4, W: 4, K: 33, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 45, C: 100, H: 3, W: 3, K: 31, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 3, C: 37, H: 30, W: 45, K: 40, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 3, H: 9, W: 300, K: 20, R: 3, S: 7, StrideH: 1, StrideW: 1, PadH: 1, PadW: 3},
	{N: 2, C: 64, H: 1, W: 1, K: 48, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 600, C: 5, H: 1, W: 1, K: 6, R: 1, S: 1, StrideH: 1, StrideW: 1},
}

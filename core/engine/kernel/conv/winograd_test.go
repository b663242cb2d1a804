package conv

import (
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// winogradCases are geometries that Winograd takes: tiles that fit, that
// hang over, several groups of images, one and several blocks of channels.
var winogradCases = []Shape{
	{N: 5, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 3, C: 32, H: 16, W: 16, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 7, C: 16, H: 8, W: 8, K: 48, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 32, H: 17, W: 35, K: 16, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 16, H: 20, W: 33, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 4, PadW: 2},
	{N: 3, C: 16, H: 16, W: 16, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // tiles end two columns beyond a vector
	{N: 1, C: 16, H: 32, W: 32, K: 16, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 16, H: 20, W: 22, K: 16, R: 3, S: 3, StrideH: 1, StrideW: 1},
	{N: 1, C: 16, H: 12, W: 12, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 1},
	{N: 3, C: 112, H: 7, W: 7, K: 144, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // uneven blocks of filters
	{N: 33, C: 80, H: 6, W: 6, K: 96, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},  // and several groups of tiles
	{N: 5, C: 80, H: 4, W: 4, K: 112, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 1, C: 64, H: 48, W: 4, K: 64, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // images in several groups
	{N: 2, C: 16, H: 6, W: 140, K: 144, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 0, PadW: 2},
}

// halvingCases are those with stride 2.
var halvingCases = []Shape{
	{N: 5, C: 16, H: 16, W: 16, K: 32, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 3, C: 32, H: 32, W: 48, K: 16, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 66, C: 64, H: 8, W: 8, K: 64, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},  // of several blocks and groups
	{N: 2, C: 16, H: 14, W: 27, K: 48, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1}, // tiles that hang over
	{N: 1, C: 32, H: 55, W: 56, K: 16, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
}

// pickCases are 1×1 filters with a stride.
var pickCases = []Shape{
	{N: 3, C: 16, H: 16, W: 16, K: 32, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 2, C: 48, H: 9, W: 38, K: 16, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 9, C: 64, H: 8, W: 8, K: 128, R: 1, S: 1, StrideH: 2, StrideW: 2},   // several groups
	{N: 2, C: 288, H: 8, W: 7, K: 1024, R: 1, S: 1, StrideH: 2, StrideW: 2}, // and blocks of filters
	{N: 2, C: 32, H: 11, W: 10, K: 16, R: 1, S: 1, StrideH: 3, StrideW: 3},
}

// dilatedCases have phases of one size and of several, in one dimension and in both, several groups of tiles, of which some have to
// grow to all phases, and blocks of filters.
var dilatedCases = []Shape{
	{N: 3, C: 16, H: 16, W: 16, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, DilH: 2, DilW: 2},
	{N: 2, C: 32, H: 23, W: 21, K: 16, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3, DilH: 3, DilW: 3},
	{N: 2, C: 30, H: 16, W: 40, K: 46, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 2, PadW: 5, DilH: 2, DilW: 5},
	{N: 2, C: 16, H: 32, W: 18, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 8, PadW: 3, DilH: 2, DilW: 1},
	{N: 1, C: 16, H: 24, W: 33, K: 48, R: 3, S: 3, StrideH: 1, StrideW: 1, DilH: 2, DilW: 2},
	{N: 3, C: 64, H: 62, W: 16, K: 80, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 16, PadW: 4, DilH: 16, DilW: 4},
	{N: 9, C: 160, H: 16, W: 16, K: 150, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 4, PadW: 4, DilH: 4, DilW: 4},
}

// lineCases are filters of one row and of one column, over images and over lines, dilated, with several groups of tiles and blocks of filters.
var lineCases = []Shape{
	{N: 3, C: 16, H: 9, W: 16, K: 32, R: 1, S: 3, StrideH: 1, StrideW: 1, PadW: 1},
	{N: 2, C: 32, H: 19, W: 11, K: 16, R: 3, S: 1, StrideH: 1, StrideW: 1, PadH: 1},
	{N: 2, C: 16, H: 17, W: 17, K: 48, R: 1, S: 7, StrideH: 1, StrideW: 1, PadW: 3},
	{N: 2, C: 30, H: 16, W: 17, K: 46, R: 7, S: 1, StrideH: 1, StrideW: 1, PadH: 3},
	{N: 5, C: 32, H: 1, W: 100, K: 48, R: 1, S: 5, StrideH: 1, StrideW: 1, PadW: 2},
	{N: 4, C: 16, H: 40, W: 1, K: 16, R: 5, S: 1, StrideH: 1, StrideW: 1, PadH: 4},
	{N: 3, C: 48, H: 1, W: 130, K: 48, R: 1, S: 3, StrideH: 1, StrideW: 1, PadW: 8, DilW: 8},
	{N: 2, C: 16, H: 24, W: 10, K: 16, R: 5, S: 1, StrideH: 1, StrideW: 1, PadH: 4, DilH: 3},
	{N: 9, C: 200, H: 8, W: 8, K: 150, R: 1, S: 7, StrideH: 1, StrideW: 1, PadW: 3},
	{N: 20, C: 144, H: 1, W: 40, K: 160, R: 1, S: 3, StrideH: 1, StrideW: 1, PadW: 1},
}

// groupedCases have several groups of channels, of one vector and of several, which 16 divides and does not.
var groupedCases = []Shape{
	{N: 3, C: 64, H: 12, W: 12, K: 64, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 4},
	{N: 5, C: 96, H: 8, W: 9, K: 60, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 2},
	{N: 2, C: 48, H: 20, W: 16, K: 96, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, Groups: 3},
	{N: 3, C: 72, H: 16, W: 16, K: 48, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, Groups: 3},
	{N: 2, C: 40, H: 1, W: 64, K: 64, R: 1, S: 5, StrideH: 1, StrideW: 1, PadW: 4, DilW: 2, Groups: 2},
	{N: 40, C: 32, H: 8, W: 8, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 2},  // several groups of tiles
	{N: 5, C: 192, H: 8, W: 8, K: 192, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 2}, // several blocks of filters
}

// unevenCases have channels that 16 does not divide.
var unevenCases = []Shape{
	{N: 3, C: 24, H: 12, W: 12, K: 40, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 20, H: 12, W: 13, K: 31, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 16, H: 16, W: 16, K: 30, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 5, C: 45, H: 8, W: 8, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 9, C: 200, H: 8, W: 8, K: 150, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // of several blocks of filters
	{N: 3, C: 30, H: 16, W: 16, K: 62, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 66, C: 72, H: 8, W: 8, K: 104, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 4, C: 29, H: 14, W: 14, K: 43, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 2, C: 17, H: 11, W: 10, K: 21, R: 1, S: 1, StrideH: 3, StrideW: 3},
}

// Interpolation loses about three bits against a direct sum: held against float64.
func TestWinograd(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, c := range slices.Concat(winogradCases, halvingCases, pickCases, dilatedCases, lineCases, groupedCases, unevenCases) {
			p, tol := &c, 6e-5
			if p.StrideH > 1 {
				tol = 1e-5
			}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			if winograd.Takes(p) != (kernel.Current() != kernel.Generic) {
				t.Errorf("%+v: Winograd is %v at %v", *p, winograd.Takes(p), kernel.Current())
			}
			if kernel.Current() == kernel.Generic {
				continue // conv_test.go
			}
			x, w, bias, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.K), kerneltest.Random[float32](4, p.N*p.K*p.OutH()*p.OutW())
			want := exact{p, kerneltest.Widened(x), kerneltest.Widened(w), kerneltest.Widened(bias), kerneltest.Widened(dy)}
			// A plan's workspace holds whatever the step before left there.
			scratch := kerneltest.Poisoned[float32](Scratch[float32](p))
			dirty := func() {
				for i := range scratch {
					scratch[i] = float32(math.NaN())
				}
			}
			y, dx, dw := kerneltest.Awkward(6, len(dy)), kerneltest.Awkward(7, len(x)), kerneltest.Random[float32](8, len(w))
			dirty()
			Forward(p, x, w, bias, y, scratch)
			want.checkY(t, y, tol)
			dirty()
			GradInput(p, dy, w, dx, scratch)
			want.checkDx(t, dx, tol)
			before := slices.Clone(dw)
			dirty()
			GradWeight(p, x, dy, dw, scratch, true)
			want.checkDw(t, before, dw, tol)
			dirty()
			GradWeight(p, x, dy, dw, scratch, false)
			want.checkDw(t, nil, dw, tol)
		}
	})
}

// Whatever depends on a value that is not finite must not come out finite: a
// loss scale is lowered on such evidence. Other images stay as they are.
func TestWinogradKeepsNonFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, c := range slices.Concat(winogradCases[:5], halvingCases[:2], pickCases[:2], dilatedCases[:3], lineCases[:3], groupedCases[:2]) {
			p := &c
			x, w, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			x[len(x)/p.N/2], dy[len(dy)/p.N/3] = bad, bad
			y, dx, dw, scratch := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w)), kerneltest.Poisoned[float32](Scratch[float32](p))
			wantY, wantDx, wantDw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
			Forward(p, x, w, nil, y, scratch)
			convRef(p, x, w, nil, wantY)
			keepsNonFinite(t, "y", y, wantY, len(y)/p.N)
			GradInput(p, dy, w, dx, scratch)
			convGradInputRef(p, dy, w, wantDx)
			keepsNonFinite(t, "dx", dx, wantDx, len(dx)/p.N)
			GradWeight(p, x, dy, dw, scratch, false)
			convGradWeightRef(p, x, dy, wantDw, false)
			keepsNonFinite(t, "dw", dw, wantDw, len(dw))
		}
	}
}

func keepsNonFinite(t *testing.T, what string, got, want []float32, touched int) {
	t.Helper()
	finite := func(v float32) bool { return v-v == 0 }
	for i, v := range want {
		if finite(got[i]) && !finite(v) || !finite(got[i]) && i >= touched {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], v)
		}
	}
}

// Members of a team compute the bits of one call.
func TestTeams(t *testing.T) {
	defer Force(Winograd)()
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, p := range []Shape{
			{N: 3, C: 112, H: 7, W: 9, K: 144, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
			{N: 2, C: 144, H: 6, W: 6, K: 112, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
			{N: 3, C: 112, H: 16, W: 17, K: 112, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 4, PadW: 2, DilH: 4, DilW: 2},
			{N: 3, C: 224, H: 8, W: 8, K: 176, R: 5, S: 1, StrideH: 1, StrideW: 1, PadH: 2},
			{N: 4, C: 96, H: 8, W: 8, K: 224, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
			{N: 100, C: 96, H: 8, W: 8, K: 112, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // four groups, two for each of three threads
		} {
			for _, threads := range []int{2, 3} {
				if p.N == 100 && (threads == 2 || testing.Short()) {
					continue // two groups for each; many products
				}
				if kernel.Current() == kernel.Generic {
					if NewTeam[float32](&p, ToOutput, threads) != nil {
						t.Error("a team without vectors")
					}
					continue
				}
				together(t, &p, threads)
			}
		}
	})
}

// together computes all directions in a team, and compares them with those of one call.
func together(t *testing.T, p *Shape, threads int) {
	t.Helper()
	x, w, bias, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.K), kerneltest.Random[float32](4, p.N*p.K*p.OutH()*p.OutW())
	scratch := kerneltest.Poisoned[float32](Scratch[float32](p))
	y, dx, dw := make([]float32, len(dy)), make([]float32, len(x)), kerneltest.Random[float32](5, len(w))
	Forward(p, x, w, bias, y, scratch)
	GradInput(p, dy, w, dx, scratch)
	gotY, gotDx, gotDw := kerneltest.Awkward(6, len(dy)), kerneltest.Awkward(7, len(x)), slices.Clone(dw)
	GradWeight(p, x, dy, dw, scratch, true)
	run := func(d Direction, x, dy []float32, write func(team *Team, member, group int)) {
		team := NewTeam[float32](p, d, threads)
		if team == nil {
			t.Fatalf("%v, direction %d: %d threads share images", p, d, threads)
		}
		team.Reserve(kerneltest.Poisoned[float32](team.Scratch()))
		for group := range team.Groups() {
			for member := range threads {
				team.Read(member, group, x, dy)
			}
			for member := range threads {
				write(team, member, group)
			}
		}
	}
	run(ToOutput, x, nil, func(team *Team, member, group int) { team.Write(member, group, w, bias, gotY) })
	run(ToInput, dy, nil, func(team *Team, member, group int) { team.Write(member, group, w, nil, gotDx) })
	run(ToWeight, x, dy, func(team *Team, member, group int) { team.WriteWeights(member, group, gotDw, true) })
	kerneltest.SameBits(t, "y", gotY, y)
	kerneltest.SameBits(t, "dx", gotDx, dx)
	kerneltest.SameBits(t, "dw", gotDw, dw)
}

// The scratch memory of some images is enough for fewer of them, whose groups may be larger.
func TestScratchOfFewerImages(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, side := range []int{8, 14, 16} {
			p := Shape{N: 40, C: 128, H: side, W: side, K: 128, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
			scratch := kerneltest.Poisoned[float32](Scratch[float32](&p))
			for images := range p.N {
				share := p.Share(images + 1)
				if n := Scratch[float32](&share); n > len(scratch) {
					t.Errorf("%d images of %d×%d need %d elements, 40 of them %d", share.N, side, side, n, len(scratch))
				}
			}
			if p = p.Share(8); testing.Short() {
				p.N = 1
			}
			x, w, y := make([]float32, p.N*p.C*p.H*p.W), make([]float32, p.K*p.PatchSize()), make([]float32, p.N*p.K*p.H*p.W)
			Forward(&p, x, w, nil, y, scratch)
			GradWeight(&p, x, y, w, scratch, false)
		}
	})
}

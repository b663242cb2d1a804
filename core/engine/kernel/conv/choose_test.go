package conv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// randomShape is a geometry of any kind, one in three depthwise, one in three grouped.
func randomShape(r *rand.Rand) Shape {
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	g := pick(1, 1+r.IntN(5), 1+r.IntN(40))
	cg, kg := pick(1, 1+r.IntN(33)), pick(1, 1, 2, 1+r.IntN(33))
	if g > 5 {
		cg, kg = 1, pick(1, 1, 1, 2)
	}
	p := Shape{
		N: 1 + r.IntN(5), C: g * cg, K: g * kg, Groups: g, R: pick(1, 1, 2, 3, 4, 5, 7), S: pick(1, 1, 2, 3, 4, 5, 7),
		StrideH: pick(1, 1, 2, 3, 4), StrideW: pick(1, 1, 2, 3, 4), DilH: pick(1, 1, 1, 2, 3), DilW: pick(1, 1, 1, 2, 3),
	}
	if r.IntN(8) == 0 { // to whole vectors of channels, with stride 1
		p.Groups, p.K, p.StrideH, p.StrideW, p.DilW, p.S = 1, 16*pick(1, 2, 3), 1, 1, 1, pick(3, 4, 5, 6, 7)
	}
	p.PadH, p.PadW = pick(0, p.R/2, r.IntN(p.R*p.DilH+2)), pick(0, p.S/2, r.IntN(p.S*p.DilW+2))
	p.H = max(1, p.DilH*(p.R-1)+1-2*p.PadH) + pick(0, 0, r.IntN(33))
	p.W = max(1, p.DilW*(p.S-1)+1-2*p.PadW) + pick(0, 0, r.IntN(33))
	if cg == 1 && r.IntN(6) == 0 { // filters that reach across the plane
		p.H, p.W, p.DilH, p.DilW = 1+p.R/2, 1+p.S/2, 1, 1
		p.PadH, p.PadW = p.R/2, p.S/2
	}
	if r.IntN(3) == 0 { // patches, and filters as large as the image
		p.PadH, p.PadW, p.DilH, p.DilW, p.StrideH, p.StrideW = 0, 0, 1, 1, pick(p.R, p.R+1), pick(p.S, p.S+2)
		if r.IntN(2) == 0 {
			p.PadH, p.PadW = r.IntN(p.R+1), r.IntN(p.S+1)
		}
		p.H, p.W = p.R*pick(1, 3, 8), p.S*pick(1, 4, 8)
	}
	return p
}

// TestSharesUseTheAlgorithmOfTheBatch has geometries of any kind.
func TestSharesUseTheAlgorithmOfTheBatch(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 8))
		others := 0
		for range 100 {
			p := randomShape(r)
			p.N = 40
			for d := ToOutput; d <= ToWeight; d++ {
				one, share := p, p.Share(20)
				one.N = 1
				if share = share.Share(1); Choose(&share, d) != Choose(&p, d) {
					t.Errorf("direction %d of an image of %v is computed by %v, of all by %v", d, &p, Choose(&share, d), Choose(&p, d))
				}
				if Choose(&one, d) != Choose(&p, d) {
					others++
				}
			}
		}
		if (others > 0) != (kernel.Current() != kernel.Generic) {
			t.Errorf("%d of the directions have another algorithm for a batch of one image", others)
		}
	})
}

// TestAlgorithms holds every algorithm that takes a geometry against the definition in float64.
func TestAlgorithms(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(14, 4))
		taken := [Algorithms]int{}
		for range rounds {
			p := randomShape(r)
			if err := p.Validate(); err != nil {
				t.Fatalf("%v: %v", &p, err)
			}
			d := define(&p)
			for a := range Algorithms {
				if a != Winograd && d.test(t, a) {
					taken[a]++
				}
			}
		}
		for a, n := range taken {
			expected := kernel.Current() != kernel.Generic && Algorithm(a) != Winograd // which has tests of its own
			switch Algorithm(a) {
			case Columns:
				expected = true
			case Lanes:
				expected = kernel.Current() == kernel.AVX2
			}
			if n == 0 && expected {
				t.Errorf("no geometry for %v", Algorithm(a))
			}
		}
	})
}

// TestOnePixelOfManyImages has more images than its matrix product packs at once.
func TestOnePixelOfManyImages(t *testing.T) {
	d := define(&Shape{N: 100, C: 32, H: 4, W: 4, K: 32, R: 4, S: 4, StrideH: 1, StrideW: 1})
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for a := range Algorithms {
			d.test(t, a)
		}
	})
}

// TestTilesOfEveryHeight has as many output channels as tiles have rows, in rows of pairs of vectors and of a rest, and so
// many channels that products copy planes that are pages apart; and batches that caches do not keep.
func TestTilesOfEveryHeight(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for out := 1; out <= 15; out++ {
			testAlgorithm(t, Product, &Shape{N: 2, C: 3, H: 3, W: 21, K: out, R: 1, S: 1, StrideH: 1, StrideW: 1})
			testAlgorithm(t, Product, &Shape{N: 2, C: 3, H: 16, W: 19, K: out, R: 1, S: 1, StrideH: 1, StrideW: 1})
			testAlgorithm(t, Product, &Shape{N: 2, C: 3, H: 16, W: 19, K: out, R: 1, S: 1, StrideH: 1, StrideW: 1, Batch: 1 << 20})
			testAlgorithm(t, Product, &Shape{N: 1, C: 300, H: 1, W: 21, K: out, R: 1, S: 1, StrideH: 1, StrideW: 1}) // sums in two parts
			testAlgorithm(t, Direct, &Shape{N: 1, C: 3, H: 4, W: 45, K: out, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1})
		}
		for _, batch := range []int{0, 1 << 20} {
			testAlgorithm(t, Product, &Shape{N: 2, C: 70, H: 6, W: 6, K: 66, R: 1, S: 1, StrideH: 1, StrideW: 1, Batch: batch})
			testAlgorithm(t, Product, &Shape{N: 2, C: 7, H: 32, W: 32, K: 35, R: 1, S: 1, StrideH: 1, StrideW: 1, Batch: batch})
			testAlgorithm(t, Product, &Shape{N: 1, C: 40, H: 31, W: 34, K: 33, R: 1, S: 1, StrideH: 1, StrideW: 1, Batch: batch})
		}
		for _, wide := range []int{16, 19} { // few products and many pixels: calls take these beside each other
			testAlgorithm(t, Product, &Shape{N: 3, C: 5, H: 17, W: wide, K: 29, R: 1, S: 1, StrideH: 1, StrideW: 1})
		}
	})
}

// TestImagesSideBySide has images of so few pixels that products take several of them at once: the last ones fewer.
func TestImagesSideBySide(t *testing.T) {
	shapes := []Shape{
		{N: 19, C: 64, H: 5, W: 5, K: 80, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 23, C: 40, H: 3, W: 3, K: 72, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 18, C: 96, H: 7, W: 7, K: 140, R: 1, S: 1, StrideH: 1, StrideW: 1, Groups: 2},
		{N: 21, C: 36, H: 10, W: 10, K: 70, R: 2, S: 2, StrideH: 2, StrideW: 2},
		{N: 33, C: 70, H: 9, W: 9, K: 66, R: 1, S: 1, StrideH: 2, StrideW: 2},
		{N: 17, C: 300, H: 2, W: 3, K: 34, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 21, C: 33, H: 2, W: 2, K: 70, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 21, C: 33, H: 1, W: 3, K: 70, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 21, C: 33, H: 7, W: 13, K: 71, R: 1, S: 1, StrideH: 6, StrideW: 3},
	}
	if testing.Short() {
		shapes = shapes[1:2]
	}
	var all []*defined
	for i := range shapes {
		all = append(all, define(&shapes[i]))
	}
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for _, d := range all {
			d.test(t, Product)
		}
	})
}

// TestPartsOfChannels has matrices of more rows than are multiplied at once: parts of equal and of fewer channels, of one, and of more rows than
// registers add up; images side by side and as they lie, and more of them than a batch has.
func TestPartsOfChannels(t *testing.T) {
	for _, p := range []Shape{
		{N: 3, C: 515, H: 5, W: 5, K: 9, R: 1, S: 1, StrideH: 2, StrideW: 2},
		{N: 37, C: 131, H: 6, W: 6, K: 20, R: 2, S: 2, StrideH: 2, StrideW: 2},
		{N: 2, C: 65, H: 32, W: 32, K: 17, R: 2, S: 2, StrideH: 2, StrideW: 2},
		{N: 11, C: 59, H: 11, W: 12, K: 7, R: 3, S: 3, StrideH: 3, StrideW: 4},
		{N: 17, C: 37, H: 28, W: 29, K: 16, R: 4, S: 4, StrideH: 4, StrideW: 4},
		{N: 7, C: 13, H: 21, W: 22, K: 5, R: 7, S: 7, StrideH: 7, StrideW: 7},
		{N: 23, C: 9, H: 24, W: 24, K: 33, R: 8, S: 8, StrideH: 8, StrideW: 8},
		{N: 3, C: 3, H: 34, W: 34, K: 5, R: 17, S: 17, StrideH: 17, StrideW: 17},
	} {
		d := define(&p)
		kerneltest.AtEachWidth(t, func(t *testing.T) {
			if !d.test(t, Product) && kernel.Current() != kernel.Generic {
				t.Errorf("%+v is not a product", p)
			}
		})
	}
}

// TestWidePatches has patches whose rows are whole vectors, fewer and more of them than a vector has lanes.
func TestWidePatches(t *testing.T) {
	for _, p := range []Shape{
		{N: 3, C: 2, H: 32, W: 48, K: 5, R: 16, S: 16, StrideH: 16, StrideW: 16},
		{N: 2, C: 1, H: 20, W: 8 * 19, K: 3, R: 3, S: 8, StrideH: 4, StrideW: 8},
		{N: 2, C: 4, H: 9, W: 70, K: 6, R: 2, S: 16, StrideH: 3, StrideW: 17, Groups: 2},
		{N: 2, C: 2, H: 18, W: 33, K: 5, R: 9, S: 9, StrideH: 9, StrideW: 12},
		{N: 3, C: 3, H: 14, W: 14, K: 7, R: 7, S: 7, StrideH: 7, StrideW: 7},
		{N: 2, C: 3, H: 4, W: 4, K: 5, R: 1, S: 3, StrideH: 5, StrideW: 2}, // one pixel, of more that are never seen
		{N: 2, C: 4, H: 40, W: 40, K: 6, R: 3, S: 3, StrideH: 3, StrideW: 3, PadH: 1, PadW: 1, Groups: 2},
		{N: 5, C: 4, H: 5, W: 4, K: 6, R: 2, S: 2, StrideH: 3, StrideW: 3, PadH: 2, PadW: 1},
		{N: 3, C: 3, H: 300, W: 8, K: 4, R: 1, S: 1, StrideH: 2, StrideW: 3, PadH: 1, PadW: 4},
		{N: 2, C: 2, H: 9, W: 200, K: 4, R: 5, S: 16, StrideH: 5, StrideW: 16, PadH: 4, PadW: 9},
	} {
		d := define(&p)
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			if !d.test(t, Product) && kernel.Current() != kernel.Generic {
				t.Errorf("%+v is not a product", p)
			}
		})
	}
}

// defined is a convolution of random tensors with its results by the definition, in float64.
type defined struct {
	p                   *Shape
	x, w, bias, dy, old []float32    // old is what gradients of weights are added to
	y, dx               []float32    // rounded
	dw                  [2][]float32 // overwritten, and added to old
}

func define(p *Shape) *defined {
	d := &defined{
		p: p, x: kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), w: kerneltest.Random[float32](2, p.K*p.PatchSize()),
		bias: kerneltest.Random[float32](3, p.K), dy: kerneltest.Random[float32](4, p.N*p.K*p.OutH()*p.OutW()), old: kerneltest.Random[float32](7, p.K*p.PatchSize()),
	}
	x, w, dy := kerneltest.Widened(d.x), kerneltest.Widened(d.w), kerneltest.Widened(d.dy)
	y, dx := make([]float64, len(dy)), make([]float64, len(x))
	convRef(p, x, w, kerneltest.Widened(d.bias), y)
	convGradInputRef(p, dy, w, dx)
	d.y, d.dx = rounded(y), rounded(dx)
	for i := range d.dw {
		dw := kerneltest.Widened(d.old)
		convGradWeightRef(p, x, dy, dw, i == 1)
		d.dw[i] = rounded(dw)
	}
	return d
}

// followed is x with n more elements behind it.
func followed(x []float32, n int) []float32 {
	return append(slices.Clone(x), kerneltest.Random[float32](9, n)...)
}

// testAlgorithm is define and test.
func testAlgorithm(t *testing.T, a Algorithm, p *Shape) {
	t.Helper()
	define(p).test(t, a)
}

// test reports whether the algorithm takes any direction. Images are those of a thread: others follow, which are not read as its own, nor
// written.
func (d *defined) test(t *testing.T, a Algorithm) (taken bool) {
	t.Helper()
	defer Force(a)()
	p := d.p
	x, dy := followed(d.x, len(d.x)/p.N), followed(d.dy, len(d.dy)/p.N)
	check := func(what string, tol float64, got, want []float32, scratch interface{ Check(*testing.T, string) }) {
		t.Helper()
		name := fmt.Sprintf("%s of %+v by %v", what, *p, a)
		kerneltest.CloseTo(t, name, got[:len(want)], want, tol)
		if slices.ContainsFunc(got[len(want):], func(v float32) bool { return v == v }) {
			t.Errorf("%s: the images that follow are overwritten", name)
		}
		scratch.Check(t, name)
	}
	if Takes(p, a, ToOutput) {
		taken = true
		s, got := kerneltest.Exactly[float32](ForwardScratch[float32](p)), kerneltest.Poisoned[float32](len(dy))
		Forward(p, x, d.w, d.bias, got, s.Room)
		check("y", 1e-4, got, d.y, s)
	}
	if Takes(p, a, ToInput) {
		taken = true
		s, got := kerneltest.Exactly[float32](GradInputScratch[float32](p)), kerneltest.Poisoned[float32](len(x))
		GradInput(p, dy, d.w, got, s.Room)
		check("dx", 1e-4, got, d.dx, s)
	}
	if Takes(p, a, ToWeight) {
		taken = true
		for i, want := range d.dw {
			s, got := kerneltest.Exactly[float32](GradWeightScratch[float32](p)), slices.Clone(d.old)
			GradWeight(p, x, dy, got, s.Room, i == 1)
			check("dw", 2e-4, got, want, s)
		}
	}
	return taken
}

package conv

import (
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// eachRow calls f for every tap and row of pixels that it meets: the offsets into x, w and y of the first
// product, and how many outputs there are. Inputs are StrideW apart.
func eachRow(p *Shape, f func(x, w, y, n int)) {
	oh, ow := p.OutH(), p.OutW()
	cg, kg := p.C/p.GroupCount(), p.K/p.GroupCount()
	for i := range p.N * p.K * cg * p.R * p.S {
		s, r, c, k, n := i%p.S, i/p.S%p.R, i/p.S/p.R%cg, i/p.S/p.R/cg%p.K, i/p.S/p.R/cg/p.K
		x, w, y := (n*p.C+k/kg*cg+c)*p.H*p.W, ((k*cg+c)*p.R+r)*p.S+s, (n*p.K+k)*oh*ow
		left := s*p.DilationW() - p.PadW // what output 0 of a row sees
		first := max(0, kernel.CeilDiv(-left, p.StrideW))
		end := min(ow, kernel.CeilDiv(p.W-left, p.StrideW))
		for i := range oh {
			if h := i*p.StrideH - p.PadH + r*p.DilationH(); h >= 0 && h < p.H && first < end {
				f(x+h*p.W+left+first*p.StrideW, w, y+i*ow+first, end-first)
			}
		}
	}
}

func convRef[T kernel.Float](p *Shape, x, w, bias, y []T) {
	hw := p.OutH() * p.OutW()
	for i := range p.N * p.K {
		var b T
		if bias != nil {
			b = bias[i%p.K]
		}
		elementwise.Fill(y[i*hw:][:hw], b)
	}
	eachRow(p, func(xi, wi, yi, n int) {
		v := w[wi]
		for j := range y[yi:][:n] {
			y[yi+j] += x[xi+j*p.StrideW] * v
		}
	})
}

func convGradInputRef[T kernel.Float](p *Shape, dy, w, dx []T) {
	clear(dx[:p.N*p.C*p.H*p.W])
	eachRow(p, func(xi, wi, yi, n int) {
		v := w[wi]
		for j, g := range dy[yi:][:n] {
			dx[xi+j*p.StrideW] += g * v
		}
	})
}

func convGradWeightRef[T kernel.Float](p *Shape, x, dy, dw []T, accumulate bool) {
	if !accumulate {
		clear(dw[:p.K*p.C/p.GroupCount()*p.R*p.S])
	}
	eachRow(p, func(xi, wi, yi, n int) {
		sum := dw[wi]
		for j, g := range dy[yi:][:n] {
			sum += x[xi+j*p.StrideW] * g
		}
		dw[wi] = sum
	})
}

// exact is a convolution in float64, to hold results against. Short tests hold random sums of a result's
// channels against the convolution by the same sums of the filters, or of dy (Freivalds, "Probabilistic machines can use less
// running time", 1977): a wrong element shows as well, and the definition costs one channel instead of all.
type exact struct {
	p              *Shape
	x, w, bias, dy []float64
}

// sums reports whether sums of channels are compared. Those of groups see different channels, so that all are compared there.
func (e *exact) sums() bool { return testing.Short() && e.p.GroupCount() == 1 }

// signs are the factors of such a sum of n channels.
func signs(n int) []float64 {
	r, s := rand.New(rand.NewPCG(5, uint64(n))), make([]float64, n)
	for i := range s {
		s[i] = float64(2*r.IntN(2) - 1)
	}
	return s
}

// summed adds up the n channels of a [outer, n, inner].
func summed[T kernel.Float](outer, n, inner int, a []T) []float64 {
	sums := make([]float64, outer*inner)
	for o := range outer {
		for i, sign := range signs(n) {
			for j, v := range a[(o*n+i)*inner:][:inner] {
				sums[o*inner+j] += sign * float64(v)
			}
		}
	}
	return sums
}

// rounded is float64 as the comparison takes it.
func rounded(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func (e *exact) checkY(t *testing.T, y []float32, tol float64) {
	t.Helper()
	p, w, bias := *e.p, e.w, e.bias
	if e.sums() {
		y = rounded(summed(p.N, p.K, p.OutH()*p.OutW(), y))
		w, bias = summed(1, p.K, p.PatchSize(), w), summed(1, p.K, 1, bias)
		p.K = 1
	}
	want := make([]float64, len(y))
	convRef(&p, e.x, w, bias, want)
	kerneltest.Nearly(t, "y of "+e.p.String(), y, want, tol)
}

func (e *exact) checkDx(t *testing.T, dx []float32, tol float64) {
	t.Helper()
	p, w := *e.p, e.w
	if e.sums() {
		dx, w = rounded(summed(p.N, p.C, p.H*p.W, dx)), summed(p.K, p.C, p.R*p.S, w)
		p.C = 1
	}
	want := make([]float64, len(dx))
	convGradInputRef(&p, e.dy, w, want)
	kerneltest.Nearly(t, "dx of "+e.p.String(), dx, want, tol)
}

// checkDw is for a gradient that was added to before, or written if that is nil.
func (e *exact) checkDw(t *testing.T, before, dw []float32, tol float64) {
	t.Helper()
	p, dy, want := *e.p, e.dy, make([]float64, len(dw))
	if before != nil {
		want = kerneltest.Widened(before)
	}
	if e.sums() {
		dw, want, dy = rounded(summed(1, p.K, p.PatchSize(), dw)), summed(1, p.K, p.PatchSize(), want), summed(p.N, p.K, p.OutH()*p.OutW(), dy)
		p.K = 1
	}
	convGradWeightRef(&p, e.x, dy, want, true)
	kerneltest.Nearly(t, "dw of "+e.p.String(), dw, want, tol)
}

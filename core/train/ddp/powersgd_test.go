package ddp

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
)

func lowRankConfig(rank, start int) Config {
	c := Default()
	c.Compress, c.PowerSGDRank, c.PowerSGDStart = "powersgd", rank, start
	return c
}

// The criterion of powerSGD_hook.py: (n+m)·rank·2 < n·m, and no vectors.
func TestWhatTravelsAsFactors(t *testing.T) {
	for _, c := range []struct {
		shape tensor.Shape
		rank  int
		rows  int // 0: whole
	}{
		{tensor.Shape{128, 64}, 1, 128}, {tensor.Shape{4, 4}, 1, 0}, {tensor.Shape{5, 3}, 1, 0}, {tensor.Shape{5, 4}, 1, 5}, {tensor.Shape{128, 64}, 21, 128}, {tensor.Shape{128, 64}, 22, 0},
		{tensor.Shape{32, 16, 5, 5}, 2, 32}, {tensor.Shape{1000}, 1, 0}, {tensor.Shape{1000, 1}, 1, 0}, {tensor.Shape{}, 1, 0},
	} {
		m, ok := factor(c.shape, c.rank)
		if ok != (c.rows > 0) || ok && (m.rows != c.rows || m.rows*m.cols != c.shape.Elems() || m.r != c.rank) {
			t.Errorf("%v, rank %d: %+v %v", c.shape, c.rank, m, ok)
		}
	}
}

func TestOrthonormalise(t *testing.T) {
	a := make([]float32, 40*4)
	rng.NewMT(3).NormalF32(a, 1)
	for k := range 40 { // the last column depends on the first two
		a[k*4+3] = 2*a[k*4] - a[k*4+1]
	}
	orthonormalise(a, 40, 4)
	for i := range 4 {
		for j := range 4 {
			want := 0.0
			if i == j && i < 3 {
				want = 1
			}
			var dot float64
			for k := range 40 {
				dot += float64(a[k*4+i]) * float64(a[k*4+j])
			}
			if math.Abs(dot-want) > 1e-5 {
				t.Errorf("columns %d and %d: %v, want %v", i, j, dot, want)
			}
		}
	}
}

// steps runs synchronised steps over one matrix and one vector, both filled by
// input, and hands every step's outcome on rank 0 to see, with all residues.
func steps(t *testing.T, world, n int, cfg Config, shape tensor.Shape, input func(rank, step, i int) float64, see func(step int, out []float32)) (residues [][]float32) {
	t.Helper()
	gs := []Gradient{{Name: "w", DType: tensor.F32, Shape: shape}, {Name: "b", DType: tensor.F32, Shape: tensor.Shape{3}}}
	buckets := Assign(gs, []int{1, 0}, MiB, MiB)
	home, end := Layout(buckets, 0)
	wire, end := cfg.LayoutWire(gs, buckets, home, end)
	residues = make([][]float32, world)
	onRanks(t, world, end, func(g *Group) error {
		r := NewReducer(g, cfg, gs, buckets, home, wire)
		grads := r.Gradients(gs)
		b, w := tensor.View[float32](grads[1].Data), tensor.View[float32](grads[0].Data)
		for step := range n {
			r.Begin(true)
			for i := range b {
				b[i] = float32(input(g.Rank, step, i))
			}
			for i := range w {
				w[i] = float32(input(g.Rank, step, len(b)+i))
			}
			r.GradReady(1)
			r.GradReady(0)
			if err := errors.Join(r.Flush(), r.Finish()); err != nil {
				return err
			}
			if g.Rank == 0 {
				see(step, slices.Concat(b, w))
			}
		}
		left := r.factors.buckets[0].residue // laid out as the bucket, gap included
		residues[g.Rank] = slices.Concat(left[:len(b)], left[len(left)-len(w):])
		return nil
	})
	return residues
}

// noise is a reproducible gradient without any structure.
func noise(rank, step, i int) float64 {
	return rand.New(rand.NewPCG(uint64(rank*1000+step), uint64(i))).NormFloat64()
}

// The algorithm written down as the mean M̄ over ranks sees it: P spans M̄·Q, the
// outcome is P·Pᵀ·M̄, what is left comes back, and the next Q is M̄ᵀ·P.
func TestPowerSGDIsItsDefinition(t *testing.T) {
	const world, n, rank, start = 3, 8, 2, 2
	shape := tensor.Shape{14, 3, 4}
	rows, cols := 14, 12
	q32 := make([]float32, cols*rank)
	rng.NewMT(0).NormalF32(q32, 1)
	left := make([]float64, rows*cols)
	steps(t, world, n, lowRankConfig(rank, start), shape, noise, func(step int, out []float32) {
		m := make([]float64, len(out))
		for i := range out {
			for r := range world {
				m[i] += noise(r, step, i) / world
			}
		}
		want := append([]float64(nil), m...)
		if step >= start {
			w := want[3:] // behind the vector
			for i := range w {
				w[i] += left[i]
			}
			orthonormalise(q32, cols, rank)
			p := product(w, widen(q32), rows, cols, rank)
			p32 := make([]float32, len(p))
			for i, v := range p {
				p32[i] = float32(v)
			}
			orthonormalise(p32, rows, rank)
			p = widen(p32)
			q := product(transposed(w, rows, cols), p, cols, rows, rank)
			for i := range q {
				q32[i] = float32(q[i])
			}
			for i := range rows {
				for j := range cols {
					var v float64
					for k := range rank {
						v += p[i*rank+k] * q[j*rank+k]
					}
					left[i*cols+j] = w[i*cols+j] - v
					w[i*cols+j] = v
				}
			}
		}
		for i := range out {
			if math.Abs(float64(out[i])-want[i]) > 2e-5*(1+math.Abs(want[i])) {
				t.Fatalf("step %d, element %d: %v, want %v", step, i, out[i], want[i])
			}
		}
	})
}

func widen(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// product is a·b for a [n, k] and b [k, m].
func product(a, b []float64, n, k, m int) []float64 {
	c := make([]float64, n*m)
	for i := range n {
		for j := range m {
			for l := range k {
				c[i*m+j] += a[i*k+l] * b[l*m+j]
			}
		}
	}
	return c
}

func transposed(a []float64, n, m int) []float64 {
	t := make([]float64, n*m)
	for i := range n {
		for j := range m {
			t[j*n+i] = a[i*m+j]
		}
	}
	return t
}

// Gradients whose mean has no higher rank than the factors come through whole.
func TestEnoughRankIsExact(t *testing.T) {
	const world, cols = 2, 30
	lowRanked := func(rank, step, i int) float64 {
		if i -= 3; i < 0 {
			return float64(rank + step)
		}
		return noise(rank, 10*step+1, i/cols) * noise(rank, 10*step+2, i%cols)
	}
	steps(t, world, 3, lowRankConfig(2, 0), tensor.Shape{20, cols}, lowRanked, func(step int, out []float32) {
		for i, v := range out {
			want := (lowRanked(0, step, i) + lowRanked(1, step, i)) / 2
			if math.Abs(float64(v)-want) > 1e-4*(1+math.Abs(want)) {
				t.Fatalf("step %d, element %d: %v, want %v", step, i, v, want)
			}
		}
	})
}

// Nothing is lost: what came out and what is still left add up to what went in.
func TestErrorsAddUpToTheInput(t *testing.T) {
	const world, n = 2, 40
	shape := tensor.Shape{16, 20}
	sum := make([]float64, 3+shape.Elems())
	left := steps(t, world, n, lowRankConfig(1, 0), shape, noise, func(_ int, out []float32) {
		for i, v := range out {
			sum[i] += float64(v)
		}
	})
	for i := range sum {
		var want float64
		for r := range world {
			sum[i] += float64(left[r][i]) / world
			for s := range n {
				want += noise(r, s, i) / world
			}
		}
		if math.Abs(sum[i]-want) > 1e-3 {
			t.Fatalf("element %d: %v, want %v", i, sum[i], want)
		}
	}
}

func TestPowerSGDDoesNotAllocate(t *testing.T) {
	cfg := lowRankConfig(2, 0)
	gs := []Gradient{{Name: "w", DType: tensor.F32, Shape: tensor.Shape{64, 48}}, {Name: "b", DType: tensor.F32, Shape: tensor.Shape{64}}}
	buckets := Assign(gs, seq(2), MiB, MiB)
	home, end := Layout(buckets, 0)
	wire, end := cfg.LayoutWire(gs, buckets, home, end)
	g := NewGroup(0, 2, &ddptest.Backend{}, ddptest.NewArena(t, end+ScratchBytes), Region{end, ScratchBytes})
	r := NewReducer(g, cfg, gs, buckets, home, wire)
	if got, want := r.BytesPerStep(), 4*(64+2*64+2*48); got != want {
		t.Errorf("%d bytes per step, want %d", got, want)
	}
	if n := testing.AllocsPerRun(10, func() {
		r.Begin(true)
		r.GradReady(0)
		r.GradReady(1)
		if err := errors.Join(r.Flush(), r.Finish()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in a step", n)
	}
}

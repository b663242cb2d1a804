package ddp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
)

// reduced runs one synchronised backward pass on every rank and returns, per
// rank, the gradient that came out of what values put in.
func reduced(t *testing.T, world int, cfg Config, d tensor.DType, values [][]float64) [][]float64 {
	t.Helper()
	return reducedBy(t, world, cfg, d, values, func(*Reducer) {})
}

// reducedBy is reduced by reducers that prepare has changed; backward multiplies the values
// by the factor of the loss's gradient.
func reducedBy(t *testing.T, world int, cfg Config, d tensor.DType, values [][]float64, prepare func(*Reducer)) [][]float64 {
	t.Helper()
	n := len(values[0])
	gs := []Gradient{{Name: "a", DType: d, Shape: tensor.Shape{n - 3}}, {Name: "b", DType: d, Shape: tensor.Shape{3}}}
	buckets := Assign(gs, []int{0, 1}, 1, 1)
	home, end := Layout(buckets, 0)
	wire, end := cfg.LayoutWire(gs, buckets, home, end)
	out := make([][]float64, world)
	onRanks(t, world, end, func(g *Group) error {
		r := NewReducer(g, cfg, gs, buckets, home, wire)
		prepare(r)
		views := r.Gradients(gs)
		r.Begin(true)
		at := 0
		for p, v := range views {
			fill(v, values[g.Rank][at:], r.LossFactor())
			at += v.Shape.Elems()
			r.GradReady(p)
		}
		if err := errors.Join(r.Flush(), r.Finish()); err != nil {
			return err
		}
		for _, v := range views {
			for i := range v.Shape.Elems() {
				out[g.Rank] = append(out[g.Rank], wide(v, i))
			}
		}
		return nil
	})
	return out
}

func fill(t tensor.Tensor, v []float64, factor float64) {
	for i := range t.Shape.Elems() {
		if t.DType == tensor.F64 {
			t.F64()[i] = v[i] * factor
		} else {
			t.F32()[i] = float32(v[i]) * float32(factor)
		}
	}
}

// draws are gradients of all magnitudes that float32 and the half types tell
// apart, with what rounds to zero and what overflows float16.
func draws(world, n int) [][]float64 {
	rnd := rand.New(rand.NewPCG(1, 2))
	out := make([][]float64, world)
	for r := range out {
		for range n {
			out[r] = append(out[r], float64(float32(rnd.NormFloat64()*math.Exp2(float64(rnd.IntN(34)-22)))))
		}
		out[r][0], out[r][1], out[r][2] = 0, 1e-9, 65519*float64(1-2*(r%2))
	}
	return out
}

// halfOf are the two conversions that define a half type.
func halfOf(d tensor.DType) (narrow func(float32) uint16, widen func(uint16) float32) {
	if d == tensor.F16 {
		return tensor.F16FromF32, tensor.F32FromF16
	}
	return tensor.BF16FromF32, tensor.F32FromBF16
}

// The definition of a compressed average, spelled out: cast, divide and round,
// add up in float32 in rank order and round, cast back.
func TestCompressedAverageIsItsDefinition(t *testing.T) {
	for name, half := range map[string]tensor.DType{"fp16": tensor.F16, "bf16": tensor.BF16} {
		for _, world := range []int{2, 3} {
			t.Run(fmt.Sprint(name, "/", world), func(t *testing.T) {
				cfg := Default()
				cfg.Compress = name
				in := draws(world, 301)
				got := reduced(t, world, cfg, tensor.F32, in)
				narrow, widen := halfOf(half)
				for i := range in[0] {
					var sum float32
					for r := range world {
						sum += widen(narrow(widen(narrow(float32(in[r][i]))) * float32(1/float64(world))))
					}
					want := float64(widen(narrow(sum)))
					for r := range world {
						if got[r][i] != want {
							t.Fatalf("rank %d, element %d: %v, want %v", r, i, got[r][i], want)
						}
					}
				}
			})
		}
	}
}

// Gradients of a factor f are divided by f before and by W/f after the sum;
// without one, by W before.
func TestPredivideFactor(t *testing.T) {
	for _, c := range []struct {
		factor    float64
		pre, post float32
	}{{0, 0.25, 1}, {1, 1, 0.25}, {2, 0.5, 0.5}, {3, float32(1 / 3.0), 0.75}, {4, 0.25, 1}} {
		cfg := Default()
		cfg.PredivideFactor = c.factor
		in := draws(4, 100)
		got := reduced(t, 4, cfg, tensor.F32, in)
		for i := range in[0] {
			var sum float32
			for r := range 4 {
				sum += float32(in[r][i]) * c.pre
			}
			if want := float64(sum * c.post); got[3][i] != want {
				t.Fatalf("factor %v, element %d: %v, want %v", c.factor, i, got[3][i], want)
			}
		}
	}
}

// Dividing the loss's gradient instead of all others gives the same bits, and is done for
// powers of two alone, and for buckets that are sent as they are and in no half type.
func TestDividedLoss(t *testing.T) {
	for _, c := range []struct {
		world            int
		factor           float64
		compress         string
		d                tensor.DType
		want, afterwards float64 // afterwards over one rank less
	}{
		{2, 0, "none", tensor.F32, 0.5, 1},
		{2, 2, "none", tensor.F32, 0.5, 1},
		{4, 0, "none", tensor.F64, 0.25, 1},
		{3, 0, "none", tensor.F32, 1, 0.5},
		{4, 2, "none", tensor.F32, 0.5, 0.5},
		{4, 3, "none", tensor.F32, 1, 1},
		{4, 1, "none", tensor.F32, 1, 1},
		{4, 0, "bf16", tensor.F32, 1, 1},
	} {
		cfg := Default()
		cfg.PredivideFactor, cfg.Compress = c.factor, c.compress
		in := draws(c.world, 100)
		plain := reduced(t, c.world, cfg, c.d, in)
		var factors [2]float64
		early := reducedBy(t, c.world, cfg, c.d, in, func(r *Reducer) {
			r.DivideLoss()
			if r.group.Rank == 0 {
				factors[0] = r.LossFactor()
				r.Divide(c.world - 1)
				factors[1] = r.LossFactor()
				r.Divide(c.world)
			}
		})
		if factors != [2]float64{c.want, c.afterwards} {
			t.Errorf("%+v: the loss's gradient is multiplied by %v", c, factors)
		}
		if fmt.Sprint(early) != fmt.Sprint(plain) {
			t.Errorf("%+v: other averages", c)
		}
	}
}

// One rank's gradients are divided by nothing, whatever the factor.
func TestOneRankDividesNothing(t *testing.T) {
	cfg := Default()
	cfg.PredivideFactor = 2
	in := draws(1, 100)
	got := reducedBy(t, 1, cfg, tensor.F64, in, (*Reducer).DivideLoss)
	if fmt.Sprint(got) != fmt.Sprint(in) {
		t.Error("a single rank's gradients changed")
	}
}

// The loss is not divided with a bucket of a half type, nor with gradients that are sent as factors.
func TestLossIsNotDividedForHalfTypesAndFactors(t *testing.T) {
	small, matrix := tensor.Shape{8}, tensor.Shape{64, 64}
	for _, c := range []struct {
		compress string
		second   Gradient
	}{
		{"none", Gradient{Name: "b", DType: tensor.BF16, Shape: small}},
		{"powersgd", Gradient{Name: "b", DType: tensor.F32, Shape: matrix}},
	} {
		cfg := Default()
		cfg.Compress = c.compress
		gs := []Gradient{{Name: "a", DType: tensor.F32, Shape: small}, c.second}
		buckets := Assign(gs, seq(2), 1, 1)
		home, end := Layout(buckets, 0)
		wire, end := cfg.LayoutWire(gs, buckets, home, end)
		g := NewGroup(0, 2, &ddptest.Backend{}, ddptest.NewArena(t, end+ScratchBytes), Region{end, ScratchBytes})
		r := NewReducer(g, cfg, gs, buckets, home, wire)
		if r.DivideLoss(); r.LossFactor() != 1 {
			t.Errorf("%+v: the loss's gradient is multiplied by %v", c, r.LossFactor())
		}
	}
}

// A factor keeps a half sum in range where the plain one, here by 1, overflows.
func TestPredivideKeepsHalfSumsInRange(t *testing.T) {
	in := [][]float64{{1, 1, 40000, 1}, {1, 1, 40000, 1}}
	for factor, want := range map[float64]float64{0: 40000, 1: math.Inf(1), 2: 40000} {
		cfg := Default()
		cfg.Compress, cfg.PredivideFactor = "fp16", factor
		if got := reduced(t, 2, cfg, tensor.F32, in)[0][2]; got != want {
			t.Errorf("factor %v: %v, want %v", factor, got, want)
		}
	}
}

func TestCompressedF64(t *testing.T) {
	cfg := Default()
	cfg.Compress = "fp16"
	got := reduced(t, 2, cfg, tensor.F64, [][]float64{{1, 2, 3, 1.0002}, {3, 4, 5, 1.0002}})
	if fmt.Sprint(got) != "[[2 3 4 1] [2 3 4 1]]" {
		t.Error(got)
	}
}

// What travels is half as large, and buckets that are half already stay where they are.
func TestCompressionHalvesTheBytes(t *testing.T) {
	gs := append(grads("a", 100, "b", 31), Gradient{Name: "c", DType: tensor.F16, Shape: tensor.Shape{10}})
	buckets := Assign(gs, seq(3), 1<<20, 1<<20)
	home, end := Layout(buckets, 0)
	for compress, want := range map[string][2]int{"none": {544, 544}, "fp16": {131*2 + 20, 832}, "bf16": {131*2 + 20, 896}} {
		cfg := Default()
		cfg.Compress = compress
		wire, last := cfg.LayoutWire(gs, buckets, home, end)
		if got := cfg.BytesPerStep(gs, buckets); got != want[0] {
			t.Errorf("%s: %d bytes travel, want %d", compress, got, want[0])
		}
		if compress != "bf16" && wire[1] != home[1] {
			t.Errorf("%s: the float16 bucket moved to %v", compress, wire[1])
		}
		for i, w := range wire {
			if w != home[i] && w.Offset < end || w.Offset+w.Size > last {
				t.Errorf("%s: %v is outside of %d to %d", compress, w, end, last)
			}
		}
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	for _, compress := range []string{"none", "fp16", "bf16"} {
		cfg := Default()
		cfg.Compress, cfg.PredivideFactor = compress, 2
		gs := grads("a", 1000, "b", 31)
		buckets := Assign(gs, seq(2), 1, 1)
		home, end := Layout(buckets, 0)
		wire, end := cfg.LayoutWire(gs, buckets, home, end)
		g := NewGroup(0, 2, &ddptest.Backend{}, ddptest.NewArena(t, end+ScratchBytes), Region{end, ScratchBytes})
		r := NewReducer(g, cfg, gs, buckets, home, wire)
		n := testing.AllocsPerRun(10, func() {
			r.Begin(true)
			r.GradReady(0)
			r.GradReady(1)
			if err := errors.Join(r.Flush(), r.Finish()); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations in a step", compress, n)
		}
	}
}

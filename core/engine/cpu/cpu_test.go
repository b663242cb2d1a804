package cpu

import (
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func randomTensor(d tensor.DType, seed uint64, shape ...int) tensor.Tensor {
	t := tensor.New(d, shape...)
	v := make([]float32, t.Shape.Elems())
	rng.NewMT(seed).UniformF32(v, -2, 2)
	convert.Convert(d, t.Data, tensor.F32, tensor.Bytes(v))
	return t
}

func operand(t tensor.Tensor, p plan.Place, index, offset int) plan.Operand {
	return plan.Operand{Spec: t.Spec(), Place: p, Index: index, Offset: offset}
}

// A step in half precision computes in float32 from the exact values of its
// operands and rounds its result once.
func TestHalfStepRoundsOnce(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		x, w, bias, y := randomTensor(d, 1, 3, 7), randomTensor(d, 2, 5, 7), randomTensor(d, 3, 5), tensor.New(d, 3, 5)
		s := &plan.Step{Op: op.Linear, Layer: "fc",
			In:  []plan.Operand{operand(x, plan.PlaceInput, 0, 0), operand(w, plan.PlaceState, 0, 0), operand(bias, plan.PlaceState, 1, 0)},
			Out: []plan.Operand{operand(y, plan.PlaceArena, 0, 0)}}
		dev := New()
		m := &memory{state: plan.State{Tensors: []tensor.Tensor{w, bias}}, arena: dev.room(y.Spec().Bytes(), dev.Workspace(s))}
		run, err := bind(m, s, tensor.F32)
		if err != nil {
			t.Fatal(err)
		}
		run(&plan.Call{Input: x.Data})
		got, wx, ww, wb := tensor.View[uint16](m.arena.data), wide(x), wide(w), wide(bias)
		for i := range 3 {
			for j := range 5 {
				var sum float64
				for k := range 7 {
					sum += float64(wx[i*7+k]) * float64(ww[j*7+k])
				}
				exact := float32(sum + float64(wb[j]))
				low, high := round(d, exact*(1-1e-6)), round(d, exact*(1+1e-6)) // float32 sums in another order
				if v := got[i*5+j]; v != low && v != high {
					t.Errorf("%v: y[%d,%d] is %#04x, want %#04x for %v", d, i, j, v, low, exact)
				}
			}
		}
	}
}

func wide(t tensor.Tensor) []float32 {
	v := make([]float32, t.Shape.Elems())
	convert.Convert(tensor.F32, tensor.Bytes(v), t.DType, t.Data)
	return v
}

func round(d tensor.DType, x float32) uint16 {
	if d == tensor.F16 {
		return tensor.F16FromF32(x)
	}
	return tensor.BF16FromF32(x)
}

// Rounding in place must not overtake what it has yet to read.
func TestNarrowInPlace(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 1000} {
		v := wide(randomTensor(tensor.F32, uint64(n), n))
		want := make([]uint16, n)
		for i, x := range v {
			want[i] = tensor.BF16FromF32(x)
		}
		raw := tensor.Bytes(v)
		narrowInPlace(tensor.BF16, raw)
		for i, got := range tensor.View[uint16](raw[:2*n]) {
			if got != want[i] {
				t.Fatalf("n = %d: element %d is %#04x, want %#04x", n, i, got, want[i])
			}
		}
	}
}

func TestUnknownOperation(t *testing.T) {
	if _, err := bind(&memory{}, &plan.Step{Op: "fft"}, tensor.F32); err == nil || !strings.Contains(err.Error(), "no kernel") {
		t.Errorf("error %v", err)
	}
}

// Running statistics move by the momentum towards the batch's mean and unbiased
// variance: PyTorch's values for x = [1, 2, 3, 10], momentum 0.1, start (0, 1).
func TestRunningStatistics(t *testing.T) {
	r := runningStats[float64]{mean: []float64{0}, variance: []float64{1}, batches: []int64{0}, momentum: 0.1, count: 4}
	r.update([]float64{4}, []float64{12.5})
	if math.Abs(r.mean[0]-0.4) > 1e-15 || math.Abs(r.variance[0]-2.5666666666666667) > 1e-15 || r.batches[0] != 1 {
		t.Errorf("%+v", r)
	}
}

// One element has no sample variance: PyTorch's 0/0 is not written.
func TestRunningStatisticsOfOneElement(t *testing.T) {
	r := runningStats[float64]{mean: []float64{0}, variance: []float64{2}, batches: []int64{0}, momentum: 0.1, count: 1}
	r.update([]float64{4}, []float64{0})
	if math.Abs(r.mean[0]-0.4) > 1e-15 || r.variance[0] != 2 || r.batches[0] != 1 {
		t.Errorf("%+v", r)
	}
	r.count = 0
	if r.update([]float64{math.NaN()}, []float64{math.NaN()}); r.mean[0] != 0.4 || r.variance[0] != 2 || r.batches[0] != 1 {
		t.Errorf("no element: %+v", r)
	}
}

func TestProgramsTakeTurns(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two programs ran in one arena at a time")
		}
	}()
	d := New()
	a := &executor{jobs: []job{func(*plan.Call) {}}, mem: &memory{arena: d.room(64, 64)}}
	b := &executor{jobs: a.jobs, mem: &memory{arena: d.room(64, 0)}}
	a.Step(0, nil)
	b.Step(0, nil)
}

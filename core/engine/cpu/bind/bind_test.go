package bind_test

import (
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	_ "github.com/trainctl/trainctl/core/engine/cpu/ops"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
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
		m := &bind.Memory{State: plan.State{Tensors: []tensor.Tensor{w, bias}}, Arena: &bind.Arena{Data: tensor.Aligned(y.Spec().Bytes())}, Work: tensor.Aligned(bind.Workspace(s, 1))}
		run, err := bind.Step(m, s, tensor.F32)
		if err != nil {
			t.Fatal(err)
		}
		run(&plan.Call{Input: x.Data})
		got, wx, ww, wb := tensor.View[uint16](m.Arena.Data), wide(x), wide(w), wide(bias)
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

// Where nothing multiplies bfloat16, steps read a float32 weight itself, and the step that rounds it is gone, if
// all of its readers can do so while the copy lives.
func TestUnroundedWeights(t *testing.T) {
	of := func(d tensor.DType, p plan.Place, offset int, shape ...int) plan.Operand {
		return plan.Operand{Spec: tensor.Spec{DType: d, Shape: shape}, Place: p, Offset: offset}
	}
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		weight, rounded := of(tensor.F32, plan.PlaceState, 0, 5, 7), of(d, plan.PlaceArena, 64, 5, 7)
		cast := plan.Step{Op: op.Cast, In: []plan.Operand{weight}, Out: []plan.Operand{rounded}}
		read := func(op graph.Op, w plan.Operand) plan.Step {
			return plan.Step{Op: op, In: []plan.Operand{of(d, plan.PlaceInput, 0, 3, 7), w}, Out: []plan.Operand{of(d, plan.PlaceArena, 1024, 3, 5)}}
		}
		reuse := read(op.Linear, weight)
		reuse.Out[0].Offset = 100
		for _, c := range []struct {
			what  string
			after []plan.Step
			gone  bool
		}{
			{"two products", []plan.Step{read(op.Linear, rounded), read(op.LinearGradInput, rounded)}, true},
			{"another use of the memory", []plan.Step{read(op.Linear, rounded), reuse, read(op.Add, rounded)}, true},
			{"an addition", []plan.Step{read(op.Linear, rounded), read(op.Add, rounded)}, false},
			{"a part of it", []plan.Step{read(op.Linear, of(d, plan.PlaceArena, 64, 2, 7)), read(op.Linear, of(d, plan.PlaceArena, 92, 3, 7))}, false},
		} {
			steps := append([]plan.Step{cast}, c.after...)
			gone := c.gone && d == tensor.BF16 && !kernel.HasBF16Products()
			run := bind.Unrounded(steps)
			if got := run[0].Op == ""; got != gone {
				t.Errorf("%v, %s: the cast being gone is %v, want %v", d, c.what, got, gone)
			}
			if wide := run[1].In[1].Place == plan.PlaceState; wide != gone {
				t.Errorf("%v, %s: the product reads the float32 weight: %v, want %v", d, c.what, wide, gone)
			}
			if steps[1].In[1].Place != plan.PlaceArena {
				t.Errorf("%v, %s: the plan's own step is changed", d, c.what)
			}
		}
	}
}

func TestUnknownOperation(t *testing.T) {
	if _, err := bind.Step(&bind.Memory{}, &plan.Step{Op: "fft"}, tensor.F32); err == nil || !strings.Contains(err.Error(), "no kernel") {
		t.Errorf("error %v", err)
	}
}

package trainctltest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/custom"
)

// square is w·x² with one w.
func square(f32 custom.Kernels[float32], f64 custom.Kernels[float64]) custom.Layer {
	return custom.Layer{
		Name: "square", InPlace: true, Float32: f32, Float64: f64,
		Params: func(custom.Args, []int) ([]custom.Param, error) {
			return []custom.Param{{Name: "weight", Shape: []int{1}, Init: custom.Normal(1)}}, nil
		},
	}
}

func weighted[T custom.Number](c *custom.Call[T]) {
	for i, x := range c.X {
		c.Y[i] = c.Params[0][0] * x * x
	}
}

func weightedBack[T custom.Number](c *custom.Call[T]) {
	for i, x := range c.X {
		dy := c.DY[i]
		c.DX[i] = 2 * dy * c.Params[0][0] * x
		c.DParams[0][0] += dy * x * x
	}
}

// backward is the layer with another gradient in float64.
func backward(change func(c *custom.Call[float64])) custom.Layer {
	return square(custom.Kernels[float32]{Forward: weighted[float32], Backward: weightedBack[float32]},
		custom.Kernels[float64]{Forward: weighted[float64], Backward: func(c *custom.Call[float64]) {
			weightedBack(c)
			change(c)
		}})
}

// The check of layers finds mistakes, and none in a layer without one.
func TestCheckLayerFindsMistakes(t *testing.T) {
	var calls atomic.Int64
	right := backward(func(*custom.Call[float64]) {})
	if p := layerProblems(right, []int{2, 3}, nil); len(p) > 0 {
		t.Errorf("problems of a layer without any: %v", p)
	}
	narrow, order := right, right
	narrow.Float32.Forward = func(c *custom.Call[float32]) {
		weighted(c)
		c.Y[1]++
	}
	order.Float64.Backward = func(c *custom.Call[float64]) {
		clear(c.DX) // which may be DY
		weightedBack(c)
	}
	dirty := right
	dirty.InPlace = false
	dirty.Float64.Backward = func(c *custom.Call[float64]) {
		weightedBack(c)
		clear(c.DY)
	}
	for want, l := range map[string]custom.Layer{
		"the gradient of before.weight[0]":  backward(func(c *custom.Call[float64]) { c.DX[0] = -c.DX[0] }),
		"the gradient of checked.weight[0]": backward(func(c *custom.Call[float64]) { c.DParams[0][0] *= 2 }),
		"a second call differs":             backward(func(c *custom.Call[float64]) { c.DParams[0][0] += 1e-8 * float64(calls.Add(1)) }),
		"float32 differs from float64":      narrow,
		"the gradient of before":            order,
		"in a residual block":               dirty,
	} {
		if p := layerProblems(l, []int{2, 3}, nil); len(p) == 0 || !strings.Contains(p[0].Error(), want) {
			t.Errorf("problems %v, want %q in the first", p, want)
		}
	}
}

// A check leaves no definition behind, and messages name the one that was given.
func TestChecksLeaveNothing(t *testing.T) {
	before := fmt.Sprint(op.Names(), op.KeyNames(), optim.Names(), bind.Operations())
	keyed := backward(func(*custom.Call[float64]) {})
	keyed.Keys = []custom.Key{{Name: "left_behind", Default: 1.0}}
	for _, kind := range []any{1.0, 1} {
		keyed.Keys[0].Default = kind
		if p := layerProblems(keyed, []int{2, 3}, nil); len(p) > 0 {
			t.Errorf("with a key of type %T: %v", kind, p)
		}
	}
	keyed.Name = "Square"
	if p := layerProblems(keyed, []int{2, 3}, nil); len(p) != 1 || !strings.Contains(p[0].Error(), `the layer is named "Square"; fix`) {
		t.Errorf("problems %v", p)
	}
	lossProblems(custom.Loss{Name: "distance", Targets: custom.Numbers, Float32: distance[float32], Float64: distance[float64]}, 3, nil)
	optimizerProblems(custom.Optimizer{Name: "plain", Float32: ball[float32], Float64: ball[float64], State: []string{"velocity"}}, nil)
	if after := fmt.Sprint(op.Names(), op.KeyNames(), optim.Names(), bind.Operations()); after != before {
		t.Errorf("registered after the checks:\n%s\nbefore:\n%s", after, before)
	}
}

func distance[T custom.Number](r custom.Row[T]) (sum float64) {
	for i, x := range r.Output {
		d := x - r.Target[i]
		sum += float64(d * d)
		if r.Grad != nil {
			r.Grad[i] = 2 * d
		}
	}
	return sum
}

func TestCheckLossFindsMistakes(t *testing.T) {
	right := custom.Loss{Name: "distance", Targets: custom.Numbers, Float32: distance[float32], Float64: distance[float64]}
	if p := lossProblems(right, 3, nil); len(p) > 0 {
		t.Errorf("problems of a loss without any: %v", p)
	}
	slope, narrow := right, right
	slope.Float64 = func(r custom.Row[float64]) float64 {
		sum := distance(r)
		if r.Grad != nil {
			r.Grad[0] *= 0.9
		}
		return sum
	}
	narrow.Float32 = func(r custom.Row[float32]) float64 { return 1.01 * distance(r) }
	for want, l := range map[string]custom.Loss{"the gradient of before": slope, "float32 differs from float64: the loss": narrow} {
		if p := lossProblems(l, 3, nil); len(p) == 0 || !strings.Contains(p[0].Error(), want) {
			t.Errorf("problems %v, want %q in the first", p, want)
		}
	}
}

func ball[T custom.Number](u custom.Update[T]) {
	for i, g := range u.Grad {
		u.State[0][i] = T(u.Momentum)*u.State[0][i] + g
		u.Weight[i] -= T(u.LR) * u.State[0][i]
	}
}

func TestCheckOptimizerFindsMistakes(t *testing.T) {
	right := custom.Optimizer{
		Name: "ball", Uses: []string{"momentum"}, State: []string{"velocity"}, Defaults: custom.Settings{LR: 0.05, Momentum: 0.5},
		Float32: ball[float32], Float64: ball[float64],
	}
	if p := optimizerProblems(right, nil); len(p) > 0 {
		t.Errorf("problems of an optimizer without any: %v", p)
	}
	up, kept, neighbours := right, right, right
	up.Float64 = func(u custom.Update[float64]) {
		u.LR = -u.LR
		ball(u)
	}
	var updates float64
	kept.Float64 = func(u custom.Update[float64]) {
		updates++
		u.LR /= updates
		ball(u)
	}
	neighbours.Float64 = func(u custom.Update[float64]) {
		u.Grad[0] += u.Grad[len(u.Grad)-1]
		ball(u)
	}
	for want, o := range map[string]custom.Optimizer{"half the sum of squares": up, "a second run differs": kept, "parts of a parameter": neighbours} {
		found := false
		for _, p := range optimizerProblems(o, nil) {
			found = found || strings.Contains(p.Error(), want)
		}
		if !found {
			t.Errorf("%q is not found", want)
		}
	}
}

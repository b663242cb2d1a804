package custom_test

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/custom"
)

// silu is the built-in layer of that name in plain Go.
var silu = custom.Layer{
	Name: "plain_silu", InPlace: true,
	Float32: custom.Kernels[float32]{Forward: siluForward[float32], Backward: siluBackward[float32]},
	Float64: custom.Kernels[float64]{Forward: siluForward[float64], Backward: siluBackward[float64]},
}

func siluForward[T custom.Number](c *custom.Call[T]) {
	for i, x := range c.X {
		c.Y[i] = x / T(1+math.Exp(-float64(x)))
	}
}

func siluBackward[T custom.Number](c *custom.Call[T]) {
	for i, x := range c.X {
		s := T(1 / (1 + math.Exp(-float64(x))))
		c.DX[i] = c.DY[i] * s * (1 + x*(1-s))
	}
}

// vectorSilu is the same with the kernels of built-in layers.
var vectorSilu = custom.Layer{
	Name:    "vector_silu",
	Float32: custom.Kernels[float32]{Forward: vectorForward[float32], Backward: vectorBackward[float32]},
	Float64: custom.Kernels[float64]{Forward: vectorForward[float64], Backward: vectorBackward[float64]},
}

func vectorForward[T custom.Number](c *custom.Call[T]) {
	custom.Sigmoid(c.X, c.Y)
	custom.Mul(c.X, c.Y, c.Y)
}

func vectorBackward[T custom.Number](c *custom.Call[T]) {
	custom.Sigmoid(c.X, c.DX)
	for i, s := range c.DX {
		c.DX[i] = s * (1 + c.X[i]*(1-s))
	}
	custom.Mul(c.DX, c.DY, c.DX)
}

// BenchmarkLayer compares layers in plain Go and with kernels with the built-in one, forward and backward between small
// linear layers, on one thread; "none" is these alone.
func BenchmarkLayer(b *testing.B) {
	if err := custom.Register(silu, vectorSilu); err != nil {
		b.Fatal(err)
	}
	linear := func(out int) nn.LayerConfig {
		return nn.LayerConfig{Type: "linear", Args: op.Args{"out_features": out}}
	}
	const batch, width = 256, 4096
	for _, typ := range []string{"none", "silu", "vector_silu", "plain_silu"} {
		b.Run(typ, func(b *testing.B) {
			layers := []nn.LayerConfig{linear(width), {Type: typ}, linear(2)}
			if typ == "none" {
				layers = []nn.LayerConfig{layers[0], layers[2]}
			}
			g, err := nn.Build(nn.Config{Layers: layers}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}, tensor.Spec{DType: tensor.I32}, 2)
			if err != nil {
				b.Fatal(err)
			}
			p, err := plan.Compile(g, plan.Options{Batch: batch, Train: true, Fuse: true})
			if err != nil {
				b.Fatal(err)
			}
			var st plan.State
			for _, s := range p.StateSpecs() {
				st.Tensors = append(st.Tensors, tensor.New(s.DType, s.Shape...))
			}
			for _, s := range p.GradSpecs() {
				st.Grads = append(st.Grads, tensor.New(s.DType, s.Shape...))
			}
			prog, err := p.Bind(cpu.New(), st)
			if err != nil {
				b.Fatal(err)
			}
			a := plan.Args{Input: make([]byte, 8*batch), Target: make([]byte, 4*batch)}
			b.ReportAllocs()
			for b.Loop() {
				prog.Run(a)
			}
		})
	}
}

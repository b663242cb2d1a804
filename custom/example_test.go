package custom_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/custom"
)

// train runs a configuration on numbers that are twice others, and prints the loss as it falls.
func train(model string) {
	dir, err := os.MkdirTemp("", "trainctl-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var numbers []float32
	for i := range 64 {
		numbers = append(numbers, float32(i)/64)
	}
	data := trainctl.Slice[float32]{
		Train: numbers, Test: numbers, Shape: []int{1}, TargetShape: []int{1},
		Input:  func(v float32, x []float32) { x[0] = v },
		Target: func(v float32, y []float32) { y[0] = 2 * v },
	}
	cfg := trainctl.TOML(model).With(fmt.Sprintf("run.dir=%q", dir), "run.name=example", "train.per_rank_batch=8", "train.epochs=40", "checkpoint.every=never")
	r, err := trainctl.Run(context.Background(), cfg, trainctl.Dataset(data.New), trainctl.Threads(), trainctl.Ranks(2), trainctl.Backend(trainctl.TCP))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Summary.Eval.Loss < 0.01)
}

// A layer that multiplies by a number that is learned.
func ExampleLayer() {
	err := custom.Register(custom.Layer{
		Name: "gain", Doc: "w·x",
		Keys: []custom.Key{{Name: "start", Default: 1.0, Doc: "w at the start"}},
		Params: func(a custom.Args, in []int) ([]custom.Param, error) {
			return []custom.Param{{Name: "w", Shape: []int{1}, Init: custom.Constant(float32(a.Float("start")))}}, nil
		},
		Float32: custom.Kernels[float32]{Forward: gain[float32], Backward: gainBack[float32]},
		Float64: custom.Kernels[float64]{Forward: gain[float64], Backward: gainBack[float64]},
	})
	if err != nil {
		log.Fatal(err)
	}
	train(`model.layers = [{ type = "gain", start = 0.5 }]
optimizer = { name = "sgd", lr = 0.5 }`)
	// Output: true
}

func gain[T custom.Number](c *custom.Call[T]) {
	for i, x := range c.X {
		c.Y[i] = c.Params[0][0] * x
	}
}

func gainBack[T custom.Number](c *custom.Call[T]) {
	for i, dy := range c.DY {
		c.DX[i] = c.Params[0][0] * dy
		c.DParams[0][0] += dy * c.X[i]
	}
}

// The loss log(cosh(output − target)) of numbers.
func ExampleLoss() {
	err := custom.Register(custom.Loss{Name: "logcosh", Targets: custom.Numbers, Float32: logcosh[float32], Float64: logcosh[float64]})
	if err != nil {
		log.Fatal(err)
	}
	train(`model = { loss = "logcosh", layers = [{ type = "linear", out_features = 1 }] }
optimizer = { name = "sgd", lr = 0.5 }`)
	// Output: true
}

func logcosh[T custom.Number](r custom.Row[T]) (sum float64) {
	for i, x := range r.Output {
		d := float64(x - r.Target[i])
		sum += math.Log(math.Cosh(d))
		if r.Grad != nil {
			r.Grad[i] = T(math.Tanh(d))
		}
	}
	return sum
}

// SGD whose steps have the length of the gradient's root.
func ExampleOptimizer() {
	if err := custom.Register(root); err != nil {
		log.Fatal(err)
	}
	train(`model.layers = [{ type = "linear", out_features = 1 }]
optimizer = { name = "rootsgd", lr = 0.05 }`)
	// Output: true
}

var root = custom.Optimizer{
	Name: "rootsgd", Norms: true, Defaults: custom.Settings{LR: 0.01}, Float32: rootSGD[float32], Float64: rootSGD[float64],
}

func rootSGD[T custom.Number](u custom.Update[T]) {
	rate := T(u.LR / (math.Sqrt(u.GradNorm) + 1e-6))
	for i, g := range u.Grad {
		u.Weight[i] -= rate * g
	}
}

package op

import (
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

func image(c, h, w int) tensor.Spec {
	return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{c, h, w}}
}

var class = tensor.Spec{DType: tensor.I32}

// The messages are what a user sees of a model that does not fit together: they
// name the layer, its type, and both sides of the misfit.
func TestShapeErrors(t *testing.T) {
	plain := Conv2DAttr{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	wide := Conv2DAttr{Stride: [2]int{1, 1}, Dilation: [2]int{2, 1}, Padding: [2]int{1, 0}, Groups: 1}
	flat := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{12}}
	for _, c := range []struct {
		in    tensor.Spec
		build func(g *graph.Graph) error
		want  string
	}{
		{image(3, 3, 3), func(g *graph.Graph) error {
			_, err := Apply(g, Conv2D, "layer2.0", plain, g.Input(), g.NewParam("w", graph.Weight, 1, 8, 3, 5, 5), graph.None)
			return err
		}, "layer2.0 (conv2d): kernel 5 (dilation 1) is larger than the 3×3 image with padding 0"},
		{image(3, 3, 9), func(g *graph.Graph) error {
			_, err := Apply(g, Conv2D, "c", wide, g.Input(), g.NewParam("w", graph.Weight, 1, 8, 3, 4, 2), graph.None)
			return err
		}, "c (conv2d): kernel 4×2 (dilation 2×1) is larger than the 3×9 image with padding 1×0"},
		{image(3, 9, 9), func(g *graph.Graph) error {
			_, err := Apply(g, Conv2D, "c", plain, g.Input(), g.NewParam("w", graph.Weight, 1, 8, 4, 3, 3), graph.None)
			return err
		}, "c (conv2d): in_channels is 4, but the input has 3 channels"},
		{flat, func(g *graph.Graph) error {
			_, err := Apply(g, Conv2D, "c", plain, g.Input(), g.NewParam("w", graph.Weight, 1, 8, 4, 3, 3), graph.None)
			return err
		}, "c (conv2d): needs images [channels, height, width], got [12]"},
		{image(1, 4, 4), func(g *graph.Graph) error {
			_, err := Apply(g, Linear, "fc", nil, g.Input(), g.NewParam("w", graph.Weight, 1, 10, 16), graph.None)
			return err
		}, "fc (linear): in_features is 16, but the input is [1, 4, 4]; a flatten layer may be missing"},
		{image(1, 4, 4), func(g *graph.Graph) error {
			_, err := Apply(g, MaxPool, "p", PoolAttr{Kernel: [2]int{5, 2}, Stride: [2]int{2, 2}}, g.Input())
			return err
		}, "p (maxpool2d): kernel 5×2 is larger than the 4×4 image with padding 0"},
		{image(1, 4, 4), func(g *graph.Graph) error {
			_, err := Apply(g, AvgPool, "p", PoolAttr{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Padding: [2]int{2, 0}}, g.Input())
			return err
		}, "p (avgpool2d): padding 2×0 is more than half of kernel 2"},
		{flat, func(g *graph.Graph) error {
			_, err := Apply(g, AdaptiveAvgPool, "p", AdaptiveAvgPoolAttr{1, 1}, g.Input())
			return err
		}, "p (adaptive_avgpool2d): needs images"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("layernorm").Build(&Site{G: g, Path: "n"}, Args{"normalized_shape": []int{3}}, g.Input())
			return err
		}, "n (layernorm): normalized_shape is [3], but the input is [2, 4, 4]"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("groupnorm").Build(&Site{G: g, Path: "n"}, Args{"num_groups": 3}, g.Input())
			return err
		}, "n (groupnorm): num_groups is 3, but the input has 2 channels, which is no multiple of it"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("batchnorm1d").Build(&Site{G: g, Path: "n"}, Args{}, g.Input())
			return err
		}, "n (batchnorm1d): needs features [channels] or signals [channels, length], got [2, 4, 4]"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			y, _ := Apply(g, Flatten, "f", nil, g.Input())
			_, err := Apply(g, Add, "block", nil, g.Input(), y)
			return err
		}, "block (add): the layers give [2, 4, 4] and the shortcut [32]"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			y, _ := Apply(g, Flatten, "f", nil, g.Input())
			_, err := Layer("concat").Join(&Site{G: g, Path: "cat"}, Args{}, []graph.ValueID{g.Input(), y})
			return err
		}, "cat (concat): cannot join [2, 4, 4] and [32]: they may differ in dimension 1 alone"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("concat").Join(&Site{G: g, Path: "cat"}, Args{"dim": 4}, []graph.ValueID{g.Input(), g.Input()})
			return err
		}, "cat (concat): dim is 4, but a batch of [2, 4, 4] has dimensions 0 to 3"},
		{image(6, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("split").Join(&Site{G: g, Path: "s"}, Args{"sizes": []int{2, 3}}, []graph.ValueID{g.Input()})
			return err
		}, "s (split): sizes [2 3] add up to 5, but dimension 1 of [6, 4, 4] is 6"},
		{image(6, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("split").Join(&Site{G: g, Path: "s"}, Args{"chunks": 4}, []graph.ValueID{g.Input()})
			return err
		}, "s (split): dimension 1 of [6, 4, 4] is not divisible into 4 parts"},
		{image(6, 4, 4), func(g *graph.Graph) error {
			y, _ := Apply(g, AdaptiveAvgPool, "p", AdaptiveAvgPoolAttr{1, 4}, g.Input())
			_, err := Apply(g, Multiply, "m", nil, g.Input(), y)
			return err
		}, "m (multiply): cannot multiply [6, 4, 4] by [6, 1, 4]: the shapes differ"},
		{image(6, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("reshape").Build(&Site{G: g, Path: "r"}, Args{"shape": []int{5, -1}}, g.Input())
			return err
		}, "r (reshape): [6, 4, 4] has 96 elements, which do not fit shape [5, -1]"},
		{image(6, 4, 4), func(g *graph.Graph) error {
			_, err := Layer("permute").Build(&Site{G: g, Path: "p"}, Args{"dims": []int{0, 2, 1}}, g.Input())
			return err
		}, "p (permute): 3 dims given, but a batch of [6, 4, 4] has 4"},
		{flat, func(g *graph.Graph) error {
			_, err := Apply(g, Embedding, "e", nil, g.Input(), g.NewParam("w", graph.Table, 0, 7, 3))
			return err
		}, "e (embedding): needs int32 indices, got f32[12]"},
		{tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{12}}, func(g *graph.Graph) error {
			_, err := Apply(g, Flatten, "f", nil, g.Input())
			return err
		}, "f (flatten): needs floating-point inputs, got i32[12]; an embedding may be missing"},
		{image(2, 4, 4), func(g *graph.Graph) error {
			_, err := Apply(g, CrossEntropy, "loss", nil, g.Input(), g.Target())
			return err
		}, "loss (cross_entropy): needs logits [classes], but the model gives [2, 4, 4]"},
		{flat, func(g *graph.Graph) error {
			_, err := Apply(g, MSE, "loss", nil, g.Input(), g.Target())
			return err
		}, "loss (mse): the model gives [12], but the data set's targets are i32[]"},
	} {
		if err := c.build(graph.New(c.in, class)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %q, want %q", err, c.want)
		}
	}
}

// The pooled size follows PyTorch: with ceil the last window has to start inside,
// and the only one may be larger than the input.
func TestPoolSizes(t *testing.T) {
	for _, c := range []struct {
		a    PoolAttr
		in   int
		want int
	}{
		{PoolAttr{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}, 5, 2},
		{PoolAttr{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Ceil: true}, 5, 3},
		{PoolAttr{Kernel: [2]int{1, 1}, Stride: [2]int{3, 3}, Ceil: true}, 2, 1},
		{PoolAttr{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: [2]int{1, 1}}, 4, 2},
		{PoolAttr{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: [2]int{1, 1}, Ceil: true}, 4, 3},
		{PoolAttr{Kernel: [2]int{4, 4}, Stride: [2]int{4, 4}, Ceil: true}, 3, 1},
		{PoolAttr{Kernel: [2]int{4, 4}, Stride: [2]int{2, 2}, Ceil: true}, 2, 0},
		{PoolAttr{Kernel: [2]int{4, 4}, Stride: [2]int{3, 3}, Ceil: true}, 2, 1},
		{PoolAttr{Kernel: [2]int{5, 5}, Stride: [2]int{3, 3}, Padding: [2]int{1, 1}, Ceil: true}, 2, 1},
		{PoolAttr{Kernel: [2]int{5, 5}, Stride: [2]int{2, 2}}, 4, 0},
	} {
		if got := c.a.out(0, c.in); got != c.want {
			t.Errorf("%+v of %d: %d, want %d", c.a, c.in, got, c.want)
		}
	}
}

// Only what leads to a trained parameter is differentiated.
func TestDifferentiateStopsAtTheInput(t *testing.T) {
	g := graph.New(tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, class)
	x, err := Apply(g, Softmax, "0", nil, g.Input())
	if err != nil {
		t.Fatal(err)
	}
	y, err := Apply(g, Linear, "1", nil, x, g.NewParam("1.weight", graph.Weight, 4, 3, 4), graph.None)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(g, CrossEntropy, "loss", nil, y, g.Target()); err != nil {
		t.Fatal(err)
	}
	if err := g.Differentiate(); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, n := range g.Backward() {
		ops = append(ops, string(n.Op))
	}
	if got := strings.Join(ops, " "); got != "cross_entropy_grad linear_grad_weight" {
		t.Errorf("backward is %s", got)
	}
	if err := graph.New(class, class).Differentiate(); err == nil {
		t.Error("a graph without a loss was differentiated")
	}
}

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

// build adds the operation under test to a graph.
type build func(g *graph.Graph) (graph.ValueID, error)

// applied applies an operation to the input, and to a weight if it has a shape.
func applied(o graph.Op, layer string, attr any, weight ...int) build {
	return func(g *graph.Graph) (graph.ValueID, error) {
		in := []graph.ValueID{g.Input()}
		if weight != nil {
			in = append(in, g.NewParam("w", graph.Weight, 1, weight...), graph.None)
		}
		return Apply(g, o, layer, attr, in...)
	}
}

// beside applies an operation to the input and to what another one makes of it.
func beside(o graph.Op, layer string, other graph.Op, attr any) build {
	return func(g *graph.Graph) (graph.ValueID, error) {
		y, _ := Apply(g, other, "other", attr, g.Input())
		if o == Concat { // whose attributes follow from its inputs
			return buildConcat(&Site{G: g, Path: layer}, Args{}, []graph.ValueID{g.Input(), y})
		}
		return Apply(g, o, layer, nil, g.Input(), y)
	}
}

// layer makes a layer that reads the input, once or twice.
func layer(typ, path string, a Args) build {
	return func(g *graph.Graph) (graph.ValueID, error) {
		in := []graph.ValueID{g.Input(), g.Input()}
		least, _ := Layer(typ).Arity()
		return Layer(typ).Make(&Site{G: g, Path: path}, a, in[:least])
	}
}

// loss ends the pass with the input.
func loss(o graph.Op) build {
	return func(g *graph.Graph) (graph.ValueID, error) { return Apply(g, o, "loss", nil, g.Input(), g.Target()) }
}

// The messages are what a user sees of a model that does not fit together: they
// name the layer, its type, and both sides of the misfit.
func TestShapeErrors(t *testing.T) {
	plain := Conv2DAttr{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	wide := Conv2DAttr{Stride: [2]int{1, 1}, Dilation: [2]int{2, 1}, Padding: [2]int{1, 0}, Groups: 1}
	flat := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{12}}
	for _, c := range []struct {
		in    tensor.Spec
		build build
		want  string
	}{
		{image(3, 3, 3), applied(Conv2D, "layer2.0", plain, 8, 3, 5, 5), "layer2.0 (conv2d): kernel 5 (dilation 1) is larger than the 3×3 image with padding 0"},
		{image(3, 3, 9), applied(Conv2D, "c", wide, 8, 3, 4, 2), "c (conv2d): kernel 4×2 (dilation 2×1) is larger than the 3×9 image with padding 1×0"},
		{image(3, 9, 9), applied(Conv2D, "c", plain, 8, 4, 3, 3), "c (conv2d): in_channels is 4, but the input has 3 channels"},
		{flat, applied(Conv2D, "c", plain, 8, 4, 3, 3), "c (conv2d): needs images [channels, height, width], got [12]"},
		{image(1, 4, 4), applied(Linear, "fc", nil, 10, 16), "fc (linear): in_features is 16, but the input is [1, 4, 4]; a flatten layer may be missing"},
		{image(1, 4, 4), applied(MaxPool, "p", PoolAttr{Kernel: [2]int{5, 2}, Stride: [2]int{2, 2}}), "p (maxpool2d): kernel 5×2 is larger than the 4×4 image with padding 0"},
		{image(1, 4, 4), applied(AvgPool, "p", PoolAttr{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Padding: [2]int{2, 0}}), "p (avgpool2d): padding 2×0 is more than half of kernel 2"},
		{flat, applied(AdaptiveAvgPool, "p", AdaptiveAvgPoolAttr{1, 1}), "p (adaptive_avgpool2d): needs images"},
		{image(2, 4, 4), layer("layernorm", "n", Args{"normalized_shape": []int{3}}), "n (layernorm): normalized_shape is [3], but the input is [2, 4, 4]"},
		{image(2, 4, 4), layer("groupnorm", "n", Args{"num_groups": 3}), "n (groupnorm): num_groups is 3, but the input has 2 channels, which is not a multiple of it"},
		{image(2, 4, 4), layer("batchnorm1d", "n", Args{}), "n (batchnorm1d): needs features [channels] or signals [channels, length], got [2, 4, 4]"},
		{image(2, 4, 4), beside(Add, "block", Flatten, nil), "block (add): the layers give [2, 4, 4] and the shortcut [32]"},
		{image(2, 4, 4), beside(Concat, "cat", Flatten, nil), "cat (concat): cannot join [2, 4, 4] and [32]: they may differ in dimension 1 alone"},
		{image(2, 4, 4), layer("concat", "cat", Args{"dim": 4}), "cat (concat): dim is 4, but a batch of [2, 4, 4] has dimensions 0 to 3"},
		{image(6, 4, 4), layer("split", "s", Args{"sizes": []int{2, 3}}), "s (split): sizes [2 3] add up to 5, but dimension 1 of [6, 4, 4] is 6"},
		{image(6, 4, 4), layer("split", "s", Args{"chunks": 4}), "s (split): dimension 1 of [6, 4, 4] is not divisible into 4 parts"},
		{image(6, 4, 4), beside(Multiply, "m", AdaptiveAvgPool, AdaptiveAvgPoolAttr{1, 4}), "m (multiply): cannot multiply [6, 4, 4] by [6, 1, 4]: the shapes differ"},
		{image(6, 4, 4), layer("reshape", "r", Args{"shape": []int{5, -1}}), "r (reshape): [6, 4, 4] has 96 elements, which do not fit shape [5, -1]"},
		{image(6, 4, 4), layer("permute", "p", Args{"dims": []int{0, 2, 1}}), "p (permute): 3 dims given, but a batch of [6, 4, 4] has 4"},
		{flat, applied(Embedding, "e", nil, 7, 3), "e (embedding): needs int32 indices, got f32[12]"},
		{tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{12}}, applied(Flatten, "f", nil), "f (flatten): needs floating-point inputs, got i32[12]; an embedding may be missing"},
		{image(2, 4, 4), loss(CrossEntropy), "loss (cross_entropy): needs logits [classes], but the model gives [2, 4, 4]"},
		{flat, loss(MSE), "loss (mse): the model gives [12], but the data set's targets are i32[]"},
	} {
		if _, err := c.build(graph.New(c.in, class)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
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

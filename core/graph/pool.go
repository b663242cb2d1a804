package graph

import "github.com/trainctl/trainctl/core/tensor"

// Pooling over images.
const (
	MaxPoolOp             Op = "maxpool2d"
	MaxPoolGradOp         Op = "maxpool2d_grad"
	AvgPoolOp             Op = "avgpool2d"
	AvgPoolGradOp         Op = "avgpool2d_grad"
	AdaptiveAvgPoolOp     Op = "adaptive_avgpool2d"
	AdaptiveAvgPoolGradOp Op = "adaptive_avgpool2d_grad"
)

// Pool holds the arguments of a pooling, each as height and width.
type Pool struct {
	Kernel, Stride, Padding [2]int
	Ceil                    bool // round the output size up
	CountPadding            bool // average: divide by the whole window
}

// out is the rule of aten/src/ATen/native/Pool.h: with Ceil a last window may
// hang over the end, but has to start inside the input or its left padding; the
// only window may be larger than all of it. 0: no window fits.
func (a Pool) out(i, in int) int {
	span := in + 2*a.Padding[i] - a.Kernel[i]
	if a.Ceil {
		span += a.Stride[i] - 1
	}
	if span < 0 {
		return 0
	}
	n := span/a.Stride[i] + 1
	if a.Ceil && (n-1)*a.Stride[i] >= in+a.Padding[i] {
		n--
	}
	return n
}

func (g *Graph) poolShape(op Op, layer string, x ValueID, a Pool) (tensor.Shape, error) {
	in := g.Shape(x)
	if len(in) != 3 {
		return nil, fail(layer, op, "wants images [channels, height, width], gets %v", in)
	}
	for i := range 2 {
		if 2*a.Padding[i] > a.Kernel[i] {
			return nil, fail(layer, op, "padding %s is more than half of kernel %s", pair(a.Padding[0], a.Padding[1]), pair(a.Kernel[0], a.Kernel[1]))
		}
		if a.out(i, in[1+i]) == 0 {
			return nil, fail(layer, op, "kernel %s does not fit into %d×%d with padding %s",
				pair(a.Kernel[0], a.Kernel[1]), in[1], in[2], pair(a.Padding[0], a.Padding[1]))
		}
	}
	return tensor.Shape{in[0], a.out(0, in[1]), a.out(1, in[2])}, nil
}

// MaxPool2D takes each window's maximum of x [C, H, W]. The node's second output
// is the place of each maximum.
func (g *Graph) MaxPool2D(layer string, x ValueID, a Pool) (ValueID, error) {
	shape, err := g.poolShape(MaxPoolOp, layer, x, a)
	if err != nil {
		return None, err
	}
	y, at := g.activation(layer, tensor.F32, shape...), g.activation(layer, tensor.I32, shape...)
	g.node(MaxPoolOp, layer, a, []ValueID{x}, []ValueID{y, at})
	return y, nil
}

func maxPoolGrad(b *backward, n *Node) { b.through(n, MaxPoolGradOp, n.Out[1]) }

// AvgPool2D takes each window's mean of x [C, H, W].
func (g *Graph) AvgPool2D(layer string, x ValueID, a Pool) (ValueID, error) {
	shape, err := g.poolShape(AvgPoolOp, layer, x, a)
	if err != nil {
		return None, err
	}
	y := g.activation(layer, tensor.F32, shape...)
	g.node(AvgPoolOp, layer, a, []ValueID{x}, []ValueID{y})
	return y, nil
}

// AdaptiveAvgPool2D averages x [C, H, W] down, or up, to [C, h, w].
func (g *Graph) AdaptiveAvgPool2D(layer string, x ValueID, h, w int) (ValueID, error) {
	in := g.Shape(x)
	if len(in) != 3 {
		return None, fail(layer, AdaptiveAvgPoolOp, "wants images [channels, height, width], gets %v", in)
	}
	y := g.activation(layer, tensor.F32, in[0], h, w)
	g.node(AdaptiveAvgPoolOp, layer, nil, []ValueID{x}, []ValueID{y})
	return y, nil
}

func avgPoolGrad(b *backward, n *Node) { b.through(n, n.Op.GradOp()) }

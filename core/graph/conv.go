package graph

import "github.com/trainctl/trainctl/core/tensor"

// Convolution and its three gradients.
const (
	Conv2DOp           Op = "conv2d"
	Conv2DGradInputOp  Op = "conv2d_grad_input"
	Conv2DGradWeightOp Op = "conv2d_grad_weight"
	Conv2DGradBiasOp   Op = "conv2d_grad_bias"
)

// Conv2D holds the arguments of a convolution, each as height and width.
type Conv2D struct {
	Stride, Padding, Dilation [2]int
	Groups                    int
}

// Conv2D convolves x [C, H, W] with w [K, C/groups, R, S] and an optional bias [K].
func (g *Graph) Conv2D(layer string, x, w, bias ValueID, a Conv2D) (ValueID, error) {
	in, k := g.Shape(x), g.Shape(w)
	if len(in) != 3 {
		return None, fail(layer, Conv2DOp, "wants images [channels, height, width], gets %v", in)
	}
	if in[0] != k[1]*a.Groups {
		return None, fail(layer, Conv2DOp, "the weight takes %d channels, the input has %d", k[1]*a.Groups, in[0])
	}
	out := tensor.Shape{k[0], 0, 0}
	for i := range 2 {
		span := a.Dilation[i]*(k[2+i]-1) + 1
		if in[1+i]+2*a.Padding[i] < span {
			return None, fail(layer, Conv2DOp, "kernel %s (dilation %s) does not fit into %d×%d with padding %s",
				pair(k[2], k[3]), pair(a.Dilation[0], a.Dilation[1]), in[1], in[2], pair(a.Padding[0], a.Padding[1]))
		}
		out[1+i] = (in[1+i]+2*a.Padding[i]-span)/a.Stride[i] + 1
	}
	y := g.activation(layer, tensor.F32, out...)
	g.node(Conv2DOp, layer, a, []ValueID{x, w, bias}, []ValueID{y})
	return y, nil
}

// convGrad gives the weight's gradient before the bias's, as PyTorch's
// convolution_backward does; the input's comes last so that the parameters' can
// be communicated meanwhile.
func convGrad(b *backward, n *Node) {
	x, w, bias, dy := n.In[0], n.In[1], n.In[2], b.in(n)
	if dw := b.param(w); dw != None {
		b.emit(n, Conv2DGradWeightOp, []ValueID{x, dy}, []ValueID{dw})
	}
	if db := b.param(bias); db != None {
		b.emit(n, Conv2DGradBiasOp, []ValueID{dy}, []ValueID{db})
	}
	if b.needs[x] {
		dx := b.fresh(x)
		b.emit(n, Conv2DGradInputOp, []ValueID{dy, w}, []ValueID{dx})
		b.deliver(n, x, dx)
	}
}

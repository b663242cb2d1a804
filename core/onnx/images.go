package onnx

import (
	"errors"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/pb"
)

func init() {
	forms[op.Conv2D] = conv
	forms[op.ConvTranspose2D] = convTranspose
	forms[op.BatchNorm] = batchNorm
	forms[op.GroupNorm] = groupNorm
	forms[op.MaxPool] = pool("MaxPool")
	forms[op.AvgPool] = pool("AveragePool")
	forms[op.AdaptiveAvgPool] = adaptivePool
	forms[op.Upsample] = upsample
}

// both lists height and width twice, before and after, as ONNX lists padding.
func both(v [2]int) []int { return []int{v[0], v[1], v[0], v[1]} }

// conv writes a convolution. For signals [C, L] it uses the last element of each pair, because ONNX takes one
// value per spatial dimension.
func conv(b *builder, n *graph.Node) error {
	a := n.Attr.(op.Conv2DAttr)
	pads, strides, dilations := both(a.Padding), a.Stride[:], a.Dilation[:]
	if len(b.shape(n, 1)) == 3 {
		pads, strides, dilations = []int{a.Padding[1], a.Padding[1]}, strides[1:], dilations[1:]
	}
	return b.put(n, b.add("Conv", []string{b.in(n, 0), b.in(n, 1), b.in(n, 2)},
		attrInts("pads", pads...), attrInts("strides", strides...), attrInts("dilations", dilations...), attrInt("group", a.Groups)))
}

func convTranspose(b *builder, n *graph.Node) error {
	a := n.Attr.(op.Conv2DAttr)
	return b.put(n, b.add("ConvTranspose", []string{b.in(n, 0), b.in(n, 1), b.in(n, 2)},
		attrInts("pads", both(a.Padding)...), attrInts("strides", a.Stride[:]...), attrInts("dilations", a.Dilation[:]...),
		attrInts("output_padding", a.OutputPadding[:]...), attrInt("group", a.Groups)))
}

// constant is n times v.
func (b *builder) constant(what string, n int, v float32) string {
	return b.floats(what, []int{n}, slices.Repeat([]float32{v}, n)...)
}

// or is an input of a node, or a constant where it is absent.
func (b *builder) or(n *graph.Node, i, elems int, absent float32) string {
	if name := b.in(n, i); name != "" {
		return name
	}
	return b.constant("absent", elems, absent)
}

func batchNorm(b *builder, n *graph.Node) error {
	if len(n.In) < 5 || n.In[3] == graph.None || n.In[4] == graph.None {
		return errors.New("has no running statistics, so that its output depends on the whole batch")
	}
	c := b.shape(n, 0)[0]
	return b.put(n, b.add("BatchNormalization", []string{b.in(n, 0), b.or(n, 1, c, 1), b.or(n, 2, c, 0), b.in(n, 3), b.in(n, 4)},
		attrFloat("epsilon", n.Attr.(op.BatchNormAttr).Eps)))
}

// groupNorm normalises groups as the channels of an instance norm: opset 17 has no other that
// scales each channel.
func groupNorm(b *builder, n *graph.Node) error {
	a, shape := n.Attr.(op.GroupNormAttr), b.shape(n, 0)
	x := b.add("InstanceNormalization", []string{b.reshape(b.in(n, 0), a.Groups, -1), b.constant("ones", a.Groups, 1), b.constant("zeros", a.Groups, 0)}, attrFloat("epsilon", a.Eps))
	x = b.reshape(x, shape...)
	for i, typ := range []string{"Mul", "Add"} {
		if w := b.in(n, 1+i); w != "" {
			perChannel := append([]int{shape[0]}, slices.Repeat([]int{1}, len(shape)-1)...)
			x = b.add(typ, []string{x, b.add("Reshape", []string{w, b.ints("shape", perChannel...)})})
		}
	}
	return b.put(n, x)
}

func pool(typ string) form {
	return func(b *builder, n *graph.Node) error {
		a, shape, out := n.Attr.(op.PoolAttr), b.shape(n, 0), b.g.Shape(n.Out[0])
		attrs := []*pb.AttributeProto{attrInts("kernel_shape", a.Kernel[:]...), attrInts("strides", a.Stride[:]...), attrInts("pads", both(a.Padding)...)}
		if a.Ceil {
			for i := range 2 {
				// ONNX rounds up regardless of where the last window starts.
				span := shape[1+i] + 2*a.Padding[i] - a.Kernel[i]
				if (span+a.Stride[i]-1)/a.Stride[i]+1 != out[1+i] || typ == "AveragePool" && span%a.Stride[i] != 0 {
					return errors.New("ceil_mode places the last window differently in ONNX")
				}
			}
			attrs = append(attrs, attrInt("ceil_mode", 1))
		}
		if typ == "AveragePool" && a.CountPadding {
			attrs = append(attrs, attrInt("count_include_pad", 1))
		}
		return b.put(n, b.add(typ, []string{b.in(n, 0)}, attrs...))
	}
}

func adaptivePool(b *builder, n *graph.Node) error {
	shape, size := b.shape(n, 0), n.Attr.(op.AdaptiveAvgPoolAttr)
	var window [2]int
	for i := range window {
		if window[i] = shape[1+i] / size[i]; window[i]*size[i] != shape[1+i] {
			return errors.New("has windows of different sizes, which ONNX has no operator for")
		}
	}
	return b.put(n, b.add("AveragePool", []string{b.in(n, 0)}, attrInts("kernel_shape", window[:]...), attrInts("strides", window[:]...)))
}

func upsample(b *builder, n *graph.Node) error {
	a := n.Attr.(op.UpsampleAttr)
	attrs := []*pb.AttributeProto{attrString("mode", "nearest"), attrString("coordinate_transformation_mode", "asymmetric"), attrString("nearest_mode", "floor")}
	if a.Bilinear {
		attrs = []*pb.AttributeProto{attrString("mode", "linear"), attrString("coordinate_transformation_mode", "half_pixel")}
	}
	scale := float32(a.Scale)
	return b.put(n, b.add("Resize", []string{b.in(n, 0), "", b.floats("scales", []int{4}, 1, 1, scale, scale)}, attrs...))
}

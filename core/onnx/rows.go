package onnx

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	forms[op.Linear] = linear
	forms[op.LayerNorm] = layerNorm
	forms[op.RMSNorm] = rmsNorm
	forms[op.Softmax] = func(b *builder, n *graph.Node) error {
		return b.put(n, b.add("Softmax", []string{b.in(n, 0)}, attrInt("axis", -1)))
	}
	forms[op.Embedding] = func(b *builder, n *graph.Node) error {
		return b.put(n, b.add("Gather", []string{b.in(n, 1), b.in(n, 0)}))
	}
	forms[op.PositionEmbedding] = positionEmbedding
	forms[op.ClassToken] = classToken
	forms[op.Add], forms[op.Multiply] = plain("Add"), plain("Mul")
	forms[op.Concat], forms[op.Split] = concat, split
	forms[op.Permute] = func(b *builder, n *graph.Node) error {
		return b.put(n, b.transpose(b.in(n, 0), n.Attr.(op.PermuteAttr).Dims...))
	}
	forms[op.Flatten], forms[op.Reshape] = reshaped, reshaped
	forms[op.Dropout], forms[op.Branch] = same, same
}

// plain is an operator with the node's inputs and no attributes.
func plain(typ string) form {
	return func(b *builder, n *graph.Node) error {
		var in []string
		for i := range n.In {
			in = append(in, b.in(n, i))
		}
		return b.put(n, b.add(typ, in))
	}
}

// same passes on its input, for operations that do nothing in evaluation mode.
func same(b *builder, n *graph.Node) error { return b.put(n, b.in(n, 0)) }

func reshaped(b *builder, n *graph.Node) error {
	return b.put(n, b.reshape(b.in(n, 0), b.g.Shape(n.Out[0])...))
}

// linear multiplies with the transposed weight, which may be that of an embedding.
func linear(b *builder, n *graph.Node) error {
	if len(b.shape(n, 0)) == 1 {
		return b.put(n, b.add("Gemm", []string{b.in(n, 0), b.in(n, 1), b.in(n, 2)}, attrInt("transB", 1)))
	}
	y := b.add("MatMul", []string{b.in(n, 0), b.transpose(b.in(n, 1), 1, 0)})
	if bias := b.in(n, 2); bias != "" {
		y = b.add("Add", []string{y, bias})
	}
	return b.put(n, y)
}

func layerNorm(b *builder, n *graph.Node) error {
	a, shape := n.Attr.(op.LayerNormAttr), b.shape(n, 0)
	scale := b.in(n, 1)
	if scale == "" {
		scale = b.floats("ones", shape[len(shape)-a.Dims:], slices.Repeat([]float32{1}, a.Cols)...)
	}
	return b.put(n, b.add("LayerNormalization", []string{b.in(n, 0), scale, b.in(n, 2)}, attrInt("axis", -a.Dims), attrFloat("epsilon", a.Eps)))
}

func rmsNorm(b *builder, n *graph.Node) error {
	a, x := n.Attr.(op.LayerNormAttr), b.in(n, 0)
	axes := make([]int, a.Dims)
	for i := range axes {
		axes[i] = i - a.Dims
	}
	mean := b.add("ReduceMean", []string{b.add("Mul", []string{x, x})}, attrInts("axes", axes...), attrInt("keepdims", 1))
	y := b.add("Div", []string{x, b.add("Sqrt", []string{b.add("Add", []string{mean, b.floats("eps", nil, float32(a.Eps))})})})
	if w := b.in(n, 1); w != "" {
		y = b.add("Mul", []string{y, w})
	}
	return b.put(n, y)
}

// table returns a table as it is stored, without leading dimensions of size 1.
func (b *builder) table(n *graph.Node, i int) (name string, rows, width int) {
	shape := b.shape(n, i)
	name, rows, width = b.in(n, i), shape[len(shape)-2], shape[len(shape)-1]
	if len(shape) > 2 {
		name = b.add("Reshape", []string{name, b.ints("shape", rows, width)})
	}
	return name, rows, width
}

func positionEmbedding(b *builder, n *graph.Node) error {
	table, rows, _ := b.table(n, 1)
	if positions := b.shape(n, 0)[0]; positions < rows {
		table = b.add("Slice", []string{table, b.ints("from", 0), b.ints("to", positions), b.ints("axis", 0)})
	}
	return b.put(n, b.add("Add", []string{b.in(n, 0), table}))
}

func classToken(b *builder, n *graph.Node) error {
	token, _, width := b.table(n, 1)
	x := b.in(n, 0)
	batch := b.add("Slice", []string{b.add("Shape", []string{x}), b.ints("from", 0), b.ints("to", 1)})
	size := b.add("Concat", []string{batch, b.ints("token", 1, width)}, attrInt("axis", 0))
	return b.put(n, b.add("Concat", []string{b.add("Expand", []string{token, size}), x}, attrInt("axis", 1)))
}

// concat fills up with zeros where a part is absent.
func concat(b *builder, n *graph.Node) error {
	a, rank := n.Attr.(op.PartsAttr), len(b.shape(n, 0))+1
	var parts []string
	missing := 0
	for i := range n.In {
		if x := b.in(n, i); x != "" {
			parts = append(parts, x)
		} else {
			missing += a.Sizes[i]
		}
	}
	y := parts[0]
	if len(parts) > 1 {
		y = b.add("Concat", parts, attrInt("axis", 1+a.Axis))
	}
	if missing > 0 {
		pads := make([]int, 2*rank)
		pads[rank+1+a.Axis] = missing
		y = b.add("Pad", []string{y, b.ints("pads", pads...)})
	}
	return b.put(n, y)
}

func split(b *builder, n *graph.Node) error {
	a := n.Attr.(op.PartsAttr)
	from := 0
	for i, size := range a.Sizes {
		b.names[n.Out[i]] = b.add("Slice", []string{b.in(n, 0), b.ints("from", from), b.ints("to", from+size), b.ints("axis", 1+a.Axis)})
		from += size
	}
	return nil
}

package importer

import (
	"errors"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// turns are rotary positions (Su et al., 2021) of a value [..., positions, dim], whose pairs (j, j + dim/2) are turned.
type turns struct {
	of       *value
	cos, sin *value // tables [positions, dim]
}

// rotary recognises x·cos + (−second half of x, first half of x)·sin; nil if a value is something else.
func rotary(v *value) *turns {
	if v.expr == nil || v.expr.op != "Add" || len(v.shape) < 2 {
		return nil
	}
	x, cos := timesTable(v.expr.args[0])
	y, sin := timesTable(v.expr.args[1])
	if x == nil || y == nil {
		return nil
	}
	if x.call != nil && x.call.typ == "concat" {
		x, y, cos, sin = y, x, sin, cos
	}
	if y.call == nil || y.call.typ != "concat" || len(y.call.in) != 2 || y.call.args["dim"] != len(y.shape)-1 || !slices.Equal(x.shape, v.shape) || !slices.Equal(y.shape, v.shape) {
		return nil
	}
	neg, first := y.call.in[0], y.call.in[1]
	if neg.expr == nil || neg.expr.op != "Neg" || !half(neg.expr.args[0], x, 1) || !half(first, x, 0) {
		return nil
	}
	for _, table := range []*value{cos, sin} {
		if !slices.Equal(lastOf(table.shape, 2), lastOf(v.shape, 2)) || elems(table.shape) != elems(lastOf(v.shape, 2)) {
			return nil
		}
	}
	return &turns{of: x, cos: cos, sin: sin}
}

// timesTable is the value and the table of a product; nil without a table.
func timesTable(v *value) (x, table *value) {
	if v.expr == nil || v.expr.op != "Mul" {
		return nil, nil
	}
	a, b := v.expr.args[0], v.expr.args[1]
	if a.konst != nil {
		a, b = b, a
	}
	if !b.floats() || a.konst != nil {
		return nil, nil
	}
	return a, b
}

// half reports whether a value is the first (0) or second (1) half of the last dimension of x.
func half(v, x *value, which int) bool {
	if v.view == nil || v.view.of != x {
		return false
	}
	d := x.shape[len(x.shape)-1]
	shape := append(slices.Clone(x.shape[:len(x.shape)-1]), d/2)
	return d%2 == 0 && slices.Equal(v.shape, shape) && slices.Equal(v.view.index, indices(shape, strides(x.shape), which*d/2))
}

// rotaryArgs finds the arguments of the attention whose queries and keys are turned alike.
func rotaryArgs(q, k *heads, args op.Args) error {
	for _, h := range []*heads{q, k} {
		if d := h.turns.of.shape; d[len(d)-1] != h.dim || d[len(d)-2] != h.positions || !h.rowsTurned() {
			return errors.New("is part of an attention whose rotary positions are not those of its heads")
		}
	}
	f, ok := q.turns.frequencies()
	other, same := k.turns.frequencies()
	if !ok || !same || !slices.Equal(f, other) {
		return errors.New("is part of an attention whose rotary positions are not angles that grow with the position, alike for queries and keys")
	}
	for _, c := range ropes(f, q.turns.gain()) {
		if q.turns.are(c) {
			maps.Copy(args, c)
			return nil
		}
	}
	return errors.New("is part of an attention with rotary positions at frequencies that no scaling of attention layers gives")
}

// rowsTurned reports whether the tables' positions and columns are those of the layer that computes the heads.
func (h *heads) rowsTurned() bool {
	index := make([]int32, elems(h.turns.of.shape))
	for i := range index {
		index[i] = int32(i)
	}
	plain := heads{scale: 1}
	index = plain.follow(h.turns.of, index)
	if plain.base != h.base {
		return false
	}
	width := h.base.shape[2]
	for i, at := range index {
		if int(at)/width%h.positions != i/h.dim%h.positions || (int(at)%width-h.first)%h.dim != i%h.dim {
			return false
		}
	}
	return true
}

// frequencies are the radians of each pair from one position to the next: roughly those of the second position, and more
// digits by the last power of two, whose angle has no rounding error of its own. Without a second position there are none.
func (r *turns) frequencies() ([]float64, bool) {
	shape := lastOf(r.cos.shape, 2)
	d := shape[1]
	if shape[0] < 2 {
		return nil, false
	}
	out, last := make([]float64, d/2), 1<<(bits.Len(uint(shape[0]-1))-1)
	angle := func(t, j int) float64 { return math.Atan2(r.sin.konst.at(t*d+j), r.cos.konst.at(t*d+j)) }
	for j := range out {
		f := angle(1, j)
		turns := math.Round((f*float64(last) - angle(last, j)) / (2 * math.Pi))
		if out[j] = (angle(last, j) + 2*math.Pi*turns) / float64(last); !(f > 0 && out[j] > 0) {
			return nil, false
		}
	}
	return out, true
}

// gain is the factor of turned elements, the mean over the tables.
func (r *turns) gain() (mean float64) {
	n := elems(r.cos.shape)
	for i := range n {
		mean += math.Hypot(r.cos.konst.at(i), r.sin.konst.at(i)) / float64(n)
	}
	return mean
}

// ropes are candidates for the arguments of attentions with given frequencies: of a base alone, with positions divided by a
// factor, with the scalings of YaRN and Llama 3, with their usual bounds, with bases that Llamas have, and with a factor for
// each frequency.
func ropes(f []float64, gain float64) (list []op.Args) {
	last := len(f) - 1
	exponent := func(j int) float64 { return float64(j) / float64(len(f)) }
	base := func(f float64, j int) float64 { return math.Pow(f, -1/exponent(max(j, 1))) }
	factor := rounded(1/f[0], 4)
	for _, digits := range []int{3, 6} {
		list = append(list, op.Args{"rope_theta": rounded(base(f[last], last), digits)},
			op.Args{"rope_theta": rounded(base(f[last]*factor, last), digits), "rope_type": "linear", "rope_factor": factor})
	}
	for _, theta := range []float64{rounded(base(f[min(1, last)], 1), 3), 10000, 500000, 1000000} {
		factor := rounded(math.Pow(theta, -exponent(last))/f[last], 4)
		for context := 1 << 20; context > 0; context /= 2 {
			for _, kind := range []string{op.RopeYaRN, "llama3"} {
				c := op.Args{"rope_theta": theta, "rope_type": kind, "rope_factor": factor, "rope_original_max_position_embeddings": context}
				if usual := 0.1*math.Log(factor) + 1; kind == op.RopeYaRN && math.Abs(gain-usual) > 1e-6 {
					c["rope_attention_factor"] = rounded(gain, 6)
				}
				list = append(list, c)
			}
		}
	}
	const theta = 10000.0
	each := make([]float64, len(f))
	for j := range f {
		each[j] = rounded(math.Pow(theta, -exponent(j))/f[j], 9)
	}
	return append(list, op.Args{"rope_theta": theta, "rope_type": op.RopeLong, "rope_short_factor": each, "rope_long_factor": each, "rope_attention_factor": rounded(gain, 8)})
}

// rounded is a number with so many digits.
func rounded(x float64, digits int) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))+1-float64(digits))
	if unit < 1 { // whole numbers of tenths and so on have no rounding errors of their own
		inverse := math.Round(1 / unit)
		return math.Round(x*inverse) / inverse
	}
	return math.Round(x/unit) * unit
}

// are reports whether the tables are those of an attention with given arguments.
func (r *turns) are(rope op.Args) bool {
	shape := lastOf(r.cos.shape, 2)
	args := op.Args{"heads": 1}
	maps.Copy(args, rope)
	d := op.Layer("attention")
	g := graph.New(tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{shape[0], 3 * shape[1]}}, tensor.Spec{DType: tensor.F32})
	if len(d.Problems(args)) > 0 {
		return false
	}
	if _, err := d.Make(&op.Site{G: g}, args, []graph.ValueID{g.Input()}); err != nil {
		return false
	}
	f, gain := g.Nodes[0].Attr.(op.AttentionAttr).Frequencies()
	for i := range elems(shape) {
		t, j := i/shape[1], i%shape[1]
		sin, cos := math.Sincos(float64(float32(t) * f[j%len(f)]))
		if math.Abs(gain*sin-r.sin.konst.at(i)) > 1e-5 || math.Abs(gain*cos-r.cos.konst.at(i)) > 1e-5 {
			return false
		}
	}
	return true
}

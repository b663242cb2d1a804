package importer

import (
	"math"
	"slices"
	"strconv"

	"github.com/trainctl/trainctl/core/engine/op"
	_ "github.com/trainctl/trainctl/core/engine/op/activation" // its definitions
)

// points are where functions are compared: dense where they bend, and far out where they are straight.
var points = func() quantity {
	q := quantity{rows: 1}
	for i := -120; i <= 120; i++ {
		q.v = append(q.v, float64(i)/10+0.013)
	}
	q.v = append(q.v, -300, -60, -25, 25, 60, 300)
	q.cols = len(q.v)
	return q
}()

// activation finds the layer that computes an expression of one value, and that value. The type is "" if the expression is
// the value itself.
func activation(v *value) (typ string, args op.Args, x *value, found bool) {
	list, numbers := parts(v)
	for i := len(list) - 1; i > 0; i-- {
		got, ok := evaluate(v, list[i], points, 0)
		if !ok || len(got.v) != len(points.v) || !slices.Equal(list[i].shape, v.shape) {
			continue
		}
		if near(got, points) && unchanged(v, list[i], numbers) {
			return "", nil, list[i], true
		}
		if typ, args, ok := named(got, numbers); ok {
			return typ, args, list[i], true
		}
	}
	return "", nil, nil, false
}

// unchanged reports whether an expression is the value itself on either side of its numbers too, as a Clip with
// wide limits is not.
func unchanged(v, x *value, numbers []float64) bool {
	q := quantity{rows: 1}
	for _, c := range numbers {
		if c = 2 * math.Abs(c); c < math.MaxFloat32 {
			q.v = append(q.v, -c, c)
		}
	}
	if q.cols = len(q.v); q.cols == 0 {
		return true
	}
	got, ok := evaluate(v, x, q, 0)
	return ok && near(got, q)
}

// named finds the activation with given values. Its numbers are defaults or occur in the expression.
func named(got quantity, numbers []float64) (typ string, args op.Args, ok bool) {
	for _, d := range op.Layers() {
		if d.Pointwise.Formula == nil {
			continue
		}
		for _, args := range choices(d.Keys, numbers) {
			if near(got, valuesOf(d, args)) {
				return string(d.Name), args, true
			}
		}
	}
	return "", nil, false
}

// mostChoices bounds the arguments that are tried for one activation.
const mostChoices = 256

// choices are the arguments that an activation may have, its defaults first.
func choices(keys []op.Key, numbers []float64) []op.Args {
	out := []op.Args{{}}
	for _, k := range keys {
		for _, a := range out {
			var values []any
			for i := range k.Enum {
				values = append(values, k.Enum[i])
			}
			if k.Kind == op.Float {
				for _, x := range numbers {
					if k.Range[0] == k.Range[1] && (!k.Positive || x > 0) && !math.IsInf(x, 0) {
						values = append(values, x)
					}
				}
			}
			for _, v := range values {
				if len(out) < mostChoices && v != k.Default && (k.Enum == nil || v != k.Enum[0]) {
					with := op.Args{k.Name: v}
					for name, x := range a {
						with[name] = x
					}
					out = append(out, with)
				}
			}
		}
	}
	return out
}

// valuesOf are an activation's by its formula.
func valuesOf(d *op.Definition, a op.Args) quantity {
	var s op.Scalars
	for i, k := range d.Keys {
		switch v := a[k.Name].(type) {
		case float64:
			s[i] = v
		case string:
			for j, name := range k.Enum {
				if name == v {
					s[i] = float64(j)
				}
			}
		default:
			s[i] = k.Default
		}
	}
	f := &formula{values: map[op.Operand]quantity{"x": points}}
	return f.values[d.Pointwise.Formula(f, "x", s)]
}

// formula computes the values of a formula.
type formula struct{ values map[op.Operand]quantity }

func (f *formula) put(q quantity) op.Operand {
	name := op.Operand(strconv.Itoa(len(f.values)))
	f.values[name] = q
	return name
}

// Apply gives NaN for an operator that is not known here.
func (f *formula) Apply(operator string, x ...op.Operand) op.Operand {
	var in []quantity
	for _, name := range x {
		in = append(in, f.values[name])
	}
	d, ok := functions[operator]
	if !ok || d.operands != len(in) {
		return f.Value(math.NaN())
	}
	out, _ := apply(&expr{op: operator, f: d.f}, in, 0)
	return f.put(out)
}

func (f *formula) Value(v float64) op.Operand { return f.put(quantity{1, 1, []float64{v}}) }

package importer

import (
	"math"
	"slices"
	"strconv"
	"sync"

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
	tables := tabulated(numbers)
	for i := len(list) - 1; i > 0; i-- {
		if !slices.Equal(list[i].shape, v.shape) {
			continue
		}
		few, ok := evaluate(v, list[i], spots, 0)
		if !ok || len(few.v) != len(spots.v) || !near(few, spots) && !slices.ContainsFunc(tables, func(t table) bool { return near(few, t.few) }) {
			continue // most parts of a long expression
		}
		got, ok := evaluate(v, list[i], points, 0)
		if !ok {
			continue
		}
		if near(got, points) && unchanged(v, list[i], numbers) {
			return "", nil, list[i], true
		}
		for _, t := range tables {
			if near(got, t.all()) {
				return t.typ, t.args, list[i], true
			}
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

// spots are a few of the points, at which most functions differ.
var spots = func() quantity {
	q := quantity{rows: 1}
	for i := 0; i < len(points.v); i += 30 {
		q.v = append(q.v, points.v[i])
	}
	q.cols = len(q.v)
	return q
}()

// table has the values of an activation.
type table struct {
	typ  string
	args op.Args
	few  quantity        // at spots
	all  func() quantity // at points
}

// tabulated are the activations. Their arguments are defaults or among the numbers.
func tabulated(numbers []float64) (list []table) {
	for _, d := range op.Layers() {
		if d.Pointwise.Formula == nil {
			continue
		}
		for _, args := range choices(d.Keys, numbers) {
			list = append(list, table{string(d.Name), args, valuesOf(d, args, spots), sync.OnceValue(func() quantity { return valuesOf(d, args, points) })})
		}
	}
	return list
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

// valuesOf are an activation's at points x, by its formula.
func valuesOf(d *op.Definition, a op.Args, x quantity) quantity {
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
	f := &formula{values: map[op.Operand]quantity{"x": x}}
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

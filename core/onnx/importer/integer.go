package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// exact are the functions of integers by which exporters compute shapes and positions, modulo 2^64 as in NumPy.
var exact = map[string]func(x []int64) int64{
	"Add": func(x []int64) int64 { return x[0] + x[1] },
	"Sub": func(x []int64) int64 { return x[0] - x[1] },
	"Mul": func(x []int64) int64 { return x[0] * x[1] },
	"Div": func(x []int64) int64 { return x[0] / x[1] },
	"Mod": func(x []int64) int64 {
		r := x[0] % x[1]
		if r != 0 && (r < 0) != (x[1] < 0) {
			r += x[1]
		}
		return r
	},
	fmod:             func(x []int64) int64 { return x[0] % x[1] },
	"Min":            func(x []int64) int64 { return min(x[0], x[1]) },
	"Max":            func(x []int64) int64 { return max(x[0], x[1]) },
	"Clip":           func(x []int64) int64 { return min(max(x[0], x[1]), x[2]) },
	"Neg":            func(x []int64) int64 { return -x[0] },
	"Abs":            func(x []int64) int64 { return max(x[0], -x[0]) },
	"Relu":           func(x []int64) int64 { return max(x[0], 0) },
	"Not":            func(x []int64) int64 { return 1 - x[0] },
	"Equal":          truth(func(a, b int64) bool { return a == b }),
	"Less":           truth(func(a, b int64) bool { return a < b }),
	"LessOrEqual":    truth(func(a, b int64) bool { return a <= b }),
	"Greater":        truth(func(a, b int64) bool { return a > b }),
	"GreaterOrEqual": truth(func(a, b int64) bool { return a >= b }),
	"And":            truth(func(a, b int64) bool { return a != 0 && b != 0 }),
	"Or":             truth(func(a, b int64) bool { return a != 0 || b != 0 }),
	"Where": func(x []int64) int64 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	},
}

// mostExact is up to where float64 has every integer.
const mostExact = 1 << 53

// exactly is an operator's function of integers. One that is only known for floats is refused where those would round.
func exactly(typ string, f function) func(x []int64) (int64, error) {
	g := exact[typ]
	switch {
	case typ == "Div" || typ == "Mod" || typ == fmod:
		return func(x []int64) (int64, error) {
			if x[1] == 0 {
				return 0, errors.New("divides an integer by 0")
			}
			return g(x), nil
		}
	case g != nil:
		return func(x []int64) (int64, error) { return g(x), nil }
	}
	return func(x []int64) (int64, error) {
		v := make([]float64, len(x))
		for i := range x {
			v[i] = float64(x[i])
		}
		y := f(v)
		if !(math.Abs(y) <= mostExact) || slices.ContainsFunc(x, func(v int64) bool { return v > mostExact || v < -mostExact }) {
			return 0, fmt.Errorf("computes %v from the integers %v, and those above 2^53 would be rounded", y, x)
		}
		return int64(y), nil
	}
}

// truncated is the integer part of x, the nearest that 64 bits hold, and 0 for NaN: conversions of other numbers differ between processors.
func truncated(x float64) int64 {
	switch {
	case x != x:
		return 0
	case x >= 1<<63:
		return math.MaxInt64
	case x < -1<<63:
		return math.MinInt64
	}
	return int64(x)
}

package importer

import (
	"errors"
	"math"

	"github.com/trainctl/trainctl/core/onnx/source"
)

// function computes one element from its operands.
type function func(x []float64) float64

func one(f func(float64) float64) function { return func(x []float64) float64 { return f(x[0]) } }

func truth[T float64 | int64](f func(a, b T) bool) func(x []T) T {
	return func(x []T) T {
		if f(x[0], x[1]) {
			return 1
		}
		return 0
	}
}

// fmod is the operator Mod with its attribute fmod: the result has the sign of the first operand, as in C.
const fmod = "Mod.fmod"

// functions are ONNX's operators that compute element by element, without attributes, and the number of their operands.
var functions = map[string]struct {
	operands int
	f        function
}{
	"Add": {2, func(x []float64) float64 { return x[0] + x[1] }},
	"Sub": {2, func(x []float64) float64 { return x[0] - x[1] }},
	"Mul": {2, func(x []float64) float64 { return x[0] * x[1] }},
	"Div": {2, func(x []float64) float64 { return x[0] / x[1] }},
	"Pow": {2, func(x []float64) float64 { return math.Pow(x[0], x[1]) }},
	"Min": {2, func(x []float64) float64 { return math.Min(x[0], x[1]) }},
	"Max": {2, func(x []float64) float64 { return math.Max(x[0], x[1]) }},
	"Mod": {2, func(x []float64) float64 { return x[0] - math.Floor(x[0]/x[1])*x[1] }},
	fmod:  {2, func(x []float64) float64 { return math.Mod(x[0], x[1]) }},
	"PRelu": {2, func(x []float64) float64 {
		if x[0] < 0 {
			return x[0] * x[1]
		}
		return x[0]
	}},
	"Neg": {1, one(func(x float64) float64 { return -x })}, "Abs": {1, one(math.Abs)}, "Sqrt": {1, one(math.Sqrt)},
	"Reciprocal": {1, one(func(x float64) float64 { return 1 / x })},
	"Exp":        {1, one(math.Exp)}, "Log": {1, one(math.Log)}, "Erf": {1, one(math.Erf)},
	"Sin": {1, one(math.Sin)}, "Cos": {1, one(math.Cos)}, "Tanh": {1, one(math.Tanh)},
	"Floor": {1, one(math.Floor)}, "Ceil": {1, one(math.Ceil)},
	"Sigmoid":  {1, one(sigmoid)},
	"Relu":     {1, one(func(x float64) float64 { return math.Max(x, 0) })},
	"Softplus": {1, one(softplus)},
	"Softsign": {1, one(func(x float64) float64 { return x / (1 + math.Abs(x)) })},
	"Mish":     {1, one(func(x float64) float64 { return x * math.Tanh(softplus(x)) })},
	"HardSwish": {1, one(func(x float64) float64 {
		return x * math.Max(0, math.Min(1, x/6+0.5))
	})},
	"IsNaN": {1, one(func(x float64) float64 {
		if x != x {
			return 1
		}
		return 0
	})},
	"Not":            {1, one(func(x float64) float64 { return 1 - x })},
	"Equal":          {2, truth(func(a, b float64) bool { return a == b })},
	"Less":           {2, truth(func(a, b float64) bool { return a < b })},
	"LessOrEqual":    {2, truth(func(a, b float64) bool { return a <= b })},
	"Greater":        {2, truth(func(a, b float64) bool { return a > b })},
	"GreaterOrEqual": {2, truth(func(a, b float64) bool { return a >= b })},
	"And":            {2, truth(func(a, b float64) bool { return a != 0 && b != 0 })},
	"Or":             {2, truth(func(a, b float64) bool { return a != 0 || b != 0 })},
	"Where": {3, func(x []float64) float64 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	}},
	"Clip": {3, func(x []float64) float64 { return math.Min(math.Max(x[0], x[1]), x[2]) }},
}

// logical are the functions whose results are booleans.
var logical = map[string]bool{"IsNaN": true, "Not": true, "Equal": true, "Less": true, "LessOrEqual": true, "Greater": true, "GreaterOrEqual": true, "And": true, "Or": true}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// withSettings are functions of one operand that have attributes: those, and their defaults, come first.
var withSettings = map[string]struct {
	names    []string
	defaults []float64
	f        func(set []float64, x float64) float64
}{
	"LeakyRelu": {[]string{"alpha"}, []float64{0.01}, func(s []float64, x float64) float64 {
		return math.Max(x, 0) + s[0]*math.Min(x, 0)
	}},
	"Elu": {[]string{"alpha"}, []float64{1}, func(s []float64, x float64) float64 {
		return math.Max(x, 0) + s[0]*math.Expm1(math.Min(x, 0))
	}},
	"Celu": {[]string{"alpha"}, []float64{1}, func(s []float64, x float64) float64 {
		return math.Max(x, 0) + s[0]*math.Expm1(math.Min(x, 0)/s[0])
	}},
	"Selu": {[]string{"alpha", "gamma"}, []float64{1.67326319217681884765625, 1.05070102214813232421875}, func(s []float64, x float64) float64 {
		return s[1] * (math.Max(x, 0) + s[0]*math.Expm1(math.Min(x, 0)))
	}},
	"HardSigmoid": {[]string{"alpha", "beta"}, []float64{0.2, 0.5}, func(s []float64, x float64) float64 {
		return math.Max(0, math.Min(1, s[0]*x+s[1]))
	}},
	"ThresholdedRelu": {[]string{"alpha"}, []float64{1}, func(s []float64, x float64) float64 {
		if x > s[0] {
			return x
		}
		return 0
	}},
	"Swish": {[]string{"alpha"}, []float64{1}, func(s []float64, x float64) float64 { return x * sigmoid(s[0]*x) }},
}

// gaussian is ONNX's Gelu, of which one form is an approximation.
func gaussian(n *source.Node) (function, error) {
	switch form := n.Text("approximate", "none"); form {
	case "none":
		return one(func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }), nil
	case "tanh":
		return one(func(x float64) float64 {
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}), nil
	}
	return nil, errors.New("has an unknown approximation")
}

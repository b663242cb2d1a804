package op

import "github.com/trainctl/trainctl/core/engine/graph"

// NormOp names batch norm with a cheap function of one element behind it, fused. Functions that compute for longer
// than memory takes have none: a pass less gains nothing there. The step reads what batch norm reads. It writes the
// function's output, and for training the batch's mean and 1/σ. Its Attr is a NormFunctionAttr.
//
// Its gradient reads x, dy, mean, 1/σ, the weight and the bias, and writes dx, dweight and dbias: it normalises x
// again. That of ReLU, NormReLU, reads the output instead.
func NormOp(function graph.Op) graph.Op { return BatchNorm + "+" + function }

// NormAgainOp names the step that recomputes the output: it reads x, weight, bias, mean and 1/σ.
func NormAgainOp(function graph.Op) graph.Op { return NormOp(function) + "_again" }

// NormFunctionAttr holds the arguments of a batch norm and of the function behind it.
type NormFunctionAttr struct {
	Norm     BatchNormAttr
	Function any // Scalars, or nil
}

// defineNorm enters the fused steps of a function, which ReLU has already.
func defineNorm(function graph.Op, flops [2]int64) {
	name := NormOp(function)
	if Of(name) != nil {
		return
	}
	define(Definition{
		Name: name, Doc: "batchnorm2d and the following " + string(function), CPUOnly: true,
		Steps: []Step{
			{Op: name, Cost: PerElement(7 + flops[0]), InPlace: []int{0}, EvalInPlace: true, Again: Again{Op: NormAgainOp(function), In: normAgain}},
			{Op: GradOp(name), Cost: PerElement(11 + flops[1]), InPlace: []int{1}},
			{Op: NormAgainOp(function), Cost: PerElement(2 + flops[0]), InPlace: []int{0}},
		},
	})
}

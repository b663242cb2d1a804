package op

import "github.com/trainctl/trainctl/core/engine/graph"

// NormOp names batch norm with a function of one element behind it, fused. The step reads what batch norm reads. It writes
// the function's output, and for training the batch's mean and 1/σ. Its Attr is a NormFunctionAttr.
//
// Its gradient reads x, dy, mean, 1/σ, the weight and the bias, and writes dx, dweight and dbias: it normalises x
// again. That of a function with a Slope can make the output again on its way ([GradAgainOp]), as a fourth output. That of
// ReLU, NormReLU, reads the output instead.
func NormOp(function graph.Op) graph.Op { return BatchNorm + "+" + function }

// NormAgainOp names the step that recomputes the output of a cheap function: it reads x, weight, bias, mean and 1/σ.
func NormAgainOp(function graph.Op) graph.Op { return NormOp(function) + "_again" }

// NormFunctionAttr holds the arguments of a batch norm and of the function behind it.
type NormFunctionAttr struct {
	Norm     BatchNormAttr
	Function any // Scalars, or nil
}

// defineNorm enters the fused steps of a function, which ReLU has already.
func defineNorm(function graph.Op, p Pointwise) {
	name := NormOp(function)
	if Of(name) != nil {
		return
	}
	forward := Step{Op: name, Cost: PerElement(7 + p.FLOPs[0]), InPlace: []int{0}, EvalInPlace: true, Again: Again{Op: NormAgainOp(function), In: normAgain}}
	again := Step{Op: NormAgainOp(function), Cost: PerElement(2 + p.FLOPs[0]), InPlace: []int{0}}
	if p.Slope {
		forward.Again = Again{Op: GradAgainOp(name), Gradient: true}
		again = Step{Op: GradAgainOp(name), Cost: PerElement(12 + p.FLOPs[1]), InPlace: []int{1}}
	}
	define(Definition{
		Name: name, Doc: "batchnorm2d and the following " + string(function), CPUOnly: true,
		Steps: []Step{forward, {Op: GradOp(name), Cost: PerElement(11 + p.FLOPs[1]), InPlace: []int{1}}, again},
	})
}

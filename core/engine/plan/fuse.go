package plan

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

// fuse merges neighbouring steps. Each pass looks at the drafts and returns
// them shorter; results stay the same within rounding.
func (l *lowering) fuse() {
	for i := 0; i < len(l.steps); i++ {
		switch l.steps[i].op {
		case op.BatchNorm:
			l.fuseNormPool(i)
			if l.steps[i].op == op.BatchNorm {
				l.fuseNormReLU(i)
			}
			if l.steps[i].op == op.BatchNorm && l.opt.NormFunctions {
				l.fuseNormFunction(i)
			}
		case activation.ReLUGrad:
			l.fuseNormReLUGrad(i)
		case op.Linear:
			l.fuseLinearReLU(i)
		case op.LinearGradInput:
			l.fuseLinearReLUGrad(i)
		}
	}
	if l.opt.Train {
		l.fuseLoss()
	}
	l.fuseCasts()
}

// fuseLoss lets the cross-entropy write its gradient in the pass that computes
// the loss: the softmax is needed once.
func (l *lowering) fuseLoss() {
	for i := range l.steps {
		if l.steps[i].op != op.CrossEntropy {
			continue
		}
		for j := i + 1; j < len(l.steps); j++ {
			if l.steps[j].op == op.CrossEntropyGrad && l.steps[j].in[0] == l.steps[i].in[0] {
				l.steps[i].out = append(l.steps[i].out, l.steps[j].out[0])
				l.steps = append(l.steps[:j], l.steps[j+1:]...)
				return
			}
		}
	}
}

// keepSlopes marks pointwise functions that may leave their slope for the gradient. It comes
// after recompute, which decides whether both read the same memory.
func (l *lowering) keepSlopes() {
	for i := range l.steps {
		if op.Of(l.steps[i].op).Pointwise.Slope {
			l.keepSlope(i)
		}
	}
}

// keepSlope marks the pointwise function of step i and its gradient, if no other step reads
// their input. A half type would round the slope.
func (l *lowering) keepSlope(i int) {
	f := &l.steps[i]
	x := f.in[0]
	if v := l.vals[x]; v.place != PlaceArena || v.spec.DType.Half() {
		return
	}
	readers := l.readers(x)
	if len(readers) != 2 || readers[0] != i {
		return
	}
	if grad := &l.steps[readers[1]]; grad.op == op.GradOp(f.op) && grad.in[0] == x && grad.branch == f.branch {
		f.slope, grad.slope = true, true
	}
}

// fuseNormReLU merges the batch norm of step i with the ReLU behind it, and with
// the addition of a residual in between if there is one. Nothing changes unless
// no other step looks at what is in between. Results are those of the separate
// steps, to the bit, but that a half type does not round before the addition.
func (l *lowering) fuseNormReLU(i int) {
	norm := &l.steps[i]
	out, residual, gone := norm.out[0], absent, []int(nil)
	if sum, ok := l.onlyReader(out, op.Add); ok {
		in := l.steps[sum].in
		if residual = in[0]; residual == out {
			residual = in[1]
		}
		if residual == out || !l.written(residual, i) || l.steps[sum].branch != norm.branch {
			return
		}
		out, gone = l.steps[sum].out[0], append(gone, sum)
	}
	relu, ok := l.onlyReader(out, activation.ReLU)
	if !ok || l.steps[relu].branch != norm.branch {
		return
	}
	norm.op, norm.out = op.NormReLU, append(slices.Clone(l.steps[relu].out), norm.out[1:]...)
	if residual != absent {
		norm.in = append(slices.Clone(norm.in), residual)
	}
	l.remove(append(gone, relu)...)
}

// written reports whether a value is complete before step i.
func (l *lowering) written(v, i int) bool {
	root := l.vals[v].alias
	return !slices.ContainsFunc(l.steps[i:], func(d draft) bool {
		return slices.ContainsFunc(d.out, func(out int) bool { return out != absent && l.vals[out].alias == root })
	})
}

// fuseNormReLUGrad merges the ReLU's gradient of step i with that of the batch
// norm before it, which has to come next. Others may read the ReLU's gradient
// too, as the other side of an addition does: then it is written as well.
func (l *lowering) fuseNormReLUGrad(i int) {
	if i+1 == len(l.steps) {
		return
	}
	relu, norm := &l.steps[i], &l.steps[i+1]
	d := relu.out[0]
	if norm.op != op.BatchNormGrad || norm.in[1] != d || norm.in[0] == d || norm.out[0] == absent || norm.branch != relu.branch {
		return
	}
	x, mean, invstd, weight := norm.in[0], norm.in[2], norm.in[3], norm.in[4]
	norm.op, norm.in = op.NormReLUGrad, []int{x, relu.in[0], relu.in[1], mean, invstd, weight}
	if len(l.readers(d)) > 0 {
		norm.out = append(slices.Clone(norm.out), d)
	}
	l.remove(i)
}

// fuseLinearReLU lets the linear layer of step i write the output of the ReLU
// behind it, where nothing else reads what is in between.
func (l *lowering) fuseLinearReLU(i int) {
	relu, ok := l.onlyReader(l.steps[i].out[0], activation.ReLU)
	if !ok {
		return
	}
	l.steps[i].op, l.steps[i].out = op.LinearReLU, l.steps[relu].out
	l.remove(relu)
}

// fuseLinearReLUGrad does the same backward: the input gradient of step i passes
// the gate of the ReLU before the layer on its way to memory.
func (l *lowering) fuseLinearReLUGrad(i int) {
	relu, ok := l.onlyReader(l.steps[i].out[0], activation.ReLUGrad)
	if !ok {
		return
	}
	gate := l.steps[relu].in[0]
	l.steps[i].op, l.steps[i].in, l.steps[i].out = op.LinearGradInputReLU, append(l.steps[i].in, gate), l.steps[relu].out
	l.remove(relu)
}

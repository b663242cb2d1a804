package plan

import (
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

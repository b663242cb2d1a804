package plan

import (
	"github.com/trainctl/trainctl/core/engine/op"
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
		case op.ReLUGrad:
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

package plan

import "github.com/trainctl/trainctl/core/graph"

// fuse merges neighbouring steps. Each pass looks at the drafts and returns
// them shorter; results stay the same within rounding.
func (l *lowering) fuse() {
	for i := 0; i < len(l.steps); i++ {
		switch l.steps[i].op {
		case graph.BatchNormOp:
			l.fuseNormPool(i)
			if l.steps[i].op == graph.BatchNormOp {
				l.fuseNormReLU(i)
			}
		case graph.ReLUGradOp:
			l.fuseNormReLUGrad(i)
		case graph.LinearOp:
			l.fuseLinearReLU(i)
		case graph.LinearGradInputOp:
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
		if l.steps[i].op != graph.CrossEntropyOp {
			continue
		}
		for j := i + 1; j < len(l.steps); j++ {
			if l.steps[j].op == graph.CrossEntropyGradOp && l.steps[j].in[0] == l.steps[i].in[0] {
				l.steps[i].out = append(l.steps[i].out, l.steps[j].out[0])
				l.steps = append(l.steps[:j], l.steps[j+1:]...)
				return
			}
		}
	}
}

// inPlace lists, for every operation that may write over an input, the input
// whose memory its first output can take when nobody reads it later.
var inPlace = map[graph.Op][]int{
	graph.ReLUOp: {0}, graph.SigmoidOp: {0}, graph.TanhOp: {0}, graph.GELUOp: {0},
	graph.ReLUGradOp: {1}, graph.SigmoidGradOp: {1}, graph.TanhGradOp: {1}, graph.GELUGradOp: {1},
	graph.DropoutOp: {0}, graph.DropoutGradOp: {1}, graph.BranchOp: {0}, graph.BranchGradOp: {0}, graph.AddOp: {0, 1},
	graph.BatchNormOp: {0}, graph.BatchNormGradOp: {1}, SyncBatchNormGradOp: {1}, graph.LayerNormGradOp: {1}, NormPoolGradOp: {0},
	NormReLUOp: {0}, NormReLUGradOp: {2},
	graph.CrossEntropyGradOp: {0}, graph.MSEGradOp: {0},
}

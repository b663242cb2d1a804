package plan

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

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

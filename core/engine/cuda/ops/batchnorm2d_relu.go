package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.NormReLU, bindNormReLU)
	implement(op.NormReLUGrad, bindNormReLUGrad)
	implement(op.NormReLUAgain, func(b *binder) { b.normApply(b.normKnown(), b.in(5), 1) })
}

// bindNormReLU adds the residual and clips on the way to memory.
func bindNormReLU(b *binder) {
	b.normApply(b.normStats(b.s.Attr.(op.BatchNormAttr), 1), b.in(6), 1)
}

// bindNormReLUGrad lets the gradient pass the ReLU, whose output is input 1, on its way.
func bindNormReLUGrad(b *binder) { b.normGrad(b.in(1), b.in(2), b.in(3), b.in(4), 5) }

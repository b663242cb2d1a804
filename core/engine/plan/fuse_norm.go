package plan

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/tensor"
)

// fuseNormPool merges the batch norm of step i with the ReLU and the max pooling
// behind it, and their three gradients, so that each direction passes over the
// images as few times as the statistics allow. Nothing changes unless no other
// step looks at what is in between.
func (l *lowering) fuseNormPool(i int) {
	norm := &l.steps[i]
	relu, ok := l.onlyReader(norm.out[0], activation.ReLU)
	if !ok {
		return
	}
	active := l.steps[relu].out[0]
	pool, ok := l.reader(active, op.MaxPool)
	if !ok {
		return
	}
	attr := op.NormPoolAttr{Norm: norm.attr.(op.BatchNormAttr), Pool: l.steps[pool].attr.(op.PoolAttr)}
	switch readers := l.readers(active); {
	case len(readers) == 2:
		if !l.fuseNormPoolGrad(active, pool, norm.in[2], attr) {
			return
		}
	case len(readers) > 2:
		return
	}
	norm.op, norm.attr = op.NormPool, attr
	norm.out = append(slices.Clone(l.steps[pool].out), norm.out[1:]...)
	l.remove(relu, pool)
}

// fuseNormPoolGrad merges the three gradients, if they are there. bias is the batch norm's.
func (l *lowering) fuseNormPoolGrad(active, pool, bias int, attr op.NormPoolAttr) bool {
	relu, ok := l.reader(active, activation.ReLUGrad)
	if !ok {
		return false
	}
	unpool, ok := l.writer(l.steps[relu].in[1], op.MaxPoolGrad)
	if !ok || len(l.readers(l.steps[relu].in[1])) != 1 {
		return false
	}
	norm, ok := l.onlyReader(l.steps[relu].out[0], op.BatchNormGrad)
	if !ok || l.steps[norm].out[0] == absent {
		return false
	}
	d, out := &l.steps[norm], l.steps[pool].out
	x, mean, invstd, weight := d.in[0], d.in[2], d.in[3], d.in[4]
	d.op, d.attr = op.NormPoolGrad, attr
	d.in = []int{x, out[0], l.steps[unpool].in[1], out[1], mean, invstd, weight, bias}
	d.out = append(d.out, l.sumForBias(d.out[0]))
	l.remove(unpool, relu)
	return true
}

// fuseNormFunction merges the batch norm of step i with the function of one element behind it, and
// their gradients. Nothing changes unless no other step looks at what is in between, and all of it has one type that is
// no half type: those have kernels of their own for the norm alone. Results stay the same to the bit.
func (l *lowering) fuseNormFunction(i int) {
	norm := &l.steps[i]
	x, z := norm.in[0], norm.out[0]
	f := slices.IndexFunc(l.steps, func(d draft) bool {
		return len(d.in) > 0 && d.in[0] == z && d.op != activation.ReLU && op.Of(op.NormOp(d.op)) != nil
	})
	if f < 0 || l.steps[f].branch != norm.branch {
		return
	}
	function := l.steps[f]
	if t := l.vals[x].spec.DType; t.Half() || l.vals[z].spec.DType != t || l.vals[function.out[0]].spec.DType != t {
		return
	}
	gone := []int{f}
	grad, normGrad, ok := l.normFunctionGrads(&function, x)
	if ok {
		gone = append(gone, grad)
	}
	if readers := l.readers(z); len(readers) > len(gone) || !slices.Equal(readers, gone[:len(readers)]) {
		return
	}
	attr := op.NormFunctionAttr{Norm: norm.attr.(op.BatchNormAttr), Function: function.attr}
	if ok {
		d, bias := &l.steps[normGrad], norm.in[2]
		mean, invstd, weight := d.in[2], d.in[3], d.in[4]
		d.op, d.attr, d.in = op.GradOp(op.NormOp(function.op)), attr, []int{x, l.steps[grad].in[1], mean, invstd, weight, bias}
	}
	norm.op, norm.attr, norm.out = op.NormOp(function.op), attr, append([]int{function.out[0]}, norm.out[1:]...)
	l.remove(gone...)
}

// normFunctionGrads finds the gradient of a function, and that of the batch norm of x before it if nothing else
// reads what the former writes.
func (l *lowering) normFunctionGrads(f *draft, x int) (function, norm int, ok bool) {
	saved := f.in[0]
	if op.Of(f.op).Pointwise.Saved == op.SavedOutput {
		saved = f.out[0]
	}
	function = slices.IndexFunc(l.steps, func(d draft) bool { return d.op == op.GradOp(f.op) && d.in[0] == saved && d.branch == f.branch })
	if function < 0 {
		return 0, 0, false
	}
	norm, ok = l.onlyReader(l.steps[function].out[0], op.BatchNormGrad)
	ok = ok && l.steps[norm].in[0] == x && l.steps[norm].out[0] != absent && l.steps[norm].branch == f.branch
	return function, norm, ok
}

// sumForBias lets the gradient of a convolution's bias read the sums that the
// step which writes dx makes on its way; absent if there is no such bias.
func (l *lowering) sumForBias(dx int) int {
	bias, ok := l.reader(dx, op.Conv2DGradBias)
	if !ok {
		return absent
	}
	channels := l.vals[dx].spec.Shape[1]
	sums := l.declare(tensor.Spec{DType: l.opt.DType, Shape: tensor.Shape{1, channels, 1, 1}}, PlaceArena, 0)
	l.steps[bias].in = []int{sums}
	return sums
}

// readers are the steps that read a value's memory, under whatever name.
func (l *lowering) readers(v int) (steps []int) {
	root := l.vals[v].alias
	for i := range l.steps {
		if slices.ContainsFunc(l.steps[i].in, func(in int) bool { return in != absent && l.vals[in].alias == root }) {
			steps = append(steps, i)
		}
	}
	return steps
}

// reader finds the step of one operation that reads exactly v.
func (l *lowering) reader(v int, op graph.Op) (int, bool) {
	i := slices.IndexFunc(l.steps, func(d draft) bool { return d.op == op && slices.Contains(d.in, v) })
	return i, i >= 0
}

// onlyReader is reader where no other step reads v.
func (l *lowering) onlyReader(v int, op graph.Op) (int, bool) {
	if len(l.readers(v)) != 1 {
		return 0, false
	}
	return l.reader(v, op)
}

func (l *lowering) writer(v int, op graph.Op) (int, bool) {
	i := slices.IndexFunc(l.steps, func(d draft) bool { return d.op == op && d.out[0] == v })
	return i, i >= 0
}

// remove takes steps out.
func (l *lowering) remove(which ...int) {
	slices.Sort(which)
	for _, i := range slices.Backward(which) {
		l.steps = slices.Delete(l.steps, i, i+1)
	}
}

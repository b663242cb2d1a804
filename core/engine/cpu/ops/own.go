package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// OwnCall is a call of a layer of a program's own (op.Own) with samples. Slices are valid during it.
type OwnCall[T kernel.Float] struct {
	Attr   *op.OwnAttr
	Batch  int
	X, Y   []T
	Params [][]T

	// DY, DX and DParams are for the gradient, which reads X or Y. DX and DParams are never nil; DParams start at
	// zero.
	DY, DX  []T
	DParams [][]T

	Err error // set by the function if the call failed, which ends the run
}

// OwnFunc computes Y, or DX and DParams.
type OwnFunc[T kernel.Float] func(c *OwnCall[T])

// OwnKernels are a layer's functions for elements of one type.
type OwnKernels[T kernel.Float] struct{ Forward, Backward OwnFunc[T] }

// Owning is how a layer of a program's own runs.
type Owning struct {
	PerSample bool // samples do not depend on each other: threads compute parts of a batch
}

// ImplementOwn enters how a layer of a program's own runs.
func ImplementOwn(name graph.Op, how Owning, f32 OwnKernels[float32], f64 OwnKernels[float64]) {
	scratch := func(s *plan.Step, threads int) int {
		n := how.parts(threads) * ownParamElems(s)
		if !s.Out[0].Present() {
			n += ownInput(s)
		}
		return (n + threads - 1) / threads
	}
	bind.Implement(name, bind.Implementation{F32: bindOwn(how, f32.Forward), F64: bindOwn(how, f64.Forward)})
	bind.Implement(op.GradOp(name), bind.Implementation{F32: bindOwnGrad(how, f32.Backward), F64: bindOwnGrad(how, f64.Backward), Scratch: scratch})
}

func (h Owning) parts(threads int) int {
	if h.PerSample {
		return threads
	}
	return 1
}

// ownInput is the number of elements of a layer's input, ownParamElems that of its parameters, as its gradient sees it.
func ownInput(s *plan.Step) int {
	return s.In[0].Spec.Shape[0] * s.Attr.(*op.OwnAttr).In.Elems()
}

func ownParamElems(s *plan.Step) (n int) {
	for _, p := range s.In[2:] {
		n += p.Spec.Shape.Elems()
	}
	return n
}

// ownCalls prepares a call for each thread, with the parameters, which are the step's inputs from the given one on. load puts
// these into all calls.
func ownCalls[T kernel.Float](b *bind.Binder[T], how Owning, first int) (calls []OwnCall[T], load func(c *plan.Call)) {
	attr := b.Step.Attr.(*op.OwnAttr)
	if b.Step.Positions > 0 {
		attr = attr.Of(b.Step.Positions)
	}
	n := len(b.Step.In) - first
	calls = make([]OwnCall[T], how.parts(b.Memory.Workers.Size()))
	for i := range calls {
		calls[i] = OwnCall[T]{Attr: attr, Params: make([][]T, n), DParams: make([][]T, n)}
	}
	params := make([]func(*plan.Call) []T, n)
	for i := range params {
		params[i] = b.In(first + i)
	}
	return calls, func(c *plan.Call) {
		for i, p := range params {
			v := p(c)
			for j := range calls {
				calls[j].Params[i] = v
			}
		}
	}
}

// unit is how many samples of a batch stay together on one thread.
func (h Owning) unit(batch int, sample tensor.Shape) int {
	if h.PerSample {
		return max(1, bind.ShareElems/sample.Elems())
	}
	return batch
}

// samples are some samples of a tensor of n in all.
func samples[T any](v []T, n, lo, hi int) []T {
	each := len(v) / n
	return v[lo*each : hi*each]
}

func bindOwn[T kernel.Float](how Owning, f OwnFunc[T]) func(b *bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		batch, attr := b.Step.In[0].Spec.Shape[0], b.Step.Attr.(*op.OwnAttr)
		calls, load := ownCalls(b, how, 1)
		x := b.In(0)
		y, _ := b.Out(0)
		share := b.Split(batch, how.unit(batch, attr.In), func(c *plan.Call, part, lo, hi int) {
			call := &calls[part]
			call.Batch, call.X, call.Y = hi-lo, samples(x(c), batch, lo, hi), samples(y, batch, lo, hi)
			f(call)
		})
		return func(c *plan.Call) {
			load(c)
			share(c)
			failOwn(b, calls)
		}
	}
}

// failOwn makes a failed call the failure of the run.
func failOwn[T kernel.Float](b *bind.Binder[T], calls []OwnCall[T]) {
	for i := range calls {
		if err := calls[i].Err; err != nil {
			b.Memory.Fail(err)
		}
	}
}

func bindOwnGrad[T kernel.Float](how Owning, f OwnFunc[T]) func(b *bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		batch, attr := b.Step.In[0].Spec.Shape[0], b.Step.Attr.(*op.OwnAttr)
		calls, load := ownCalls(b, how, 2)
		saved, dy := b.In(0), b.In(1)
		scratch := b.WholeScratch()
		dx, _ := b.Out(0)
		if dx == nil {
			dx, scratch = scratch[:ownInput(b.Step)], scratch[ownInput(b.Step):]
		}
		sums := ownSums(b, calls, scratch)
		share := b.Split(batch, how.unit(batch, attr.In), func(c *plan.Call, part, lo, hi int) {
			call := &calls[part]
			call.Batch, call.DY, call.DX = hi-lo, samples(dy(c), batch, lo, hi), samples(dx, batch, lo, hi)
			if v := samples(saved(c), batch, lo, hi); attr.SaveOutput {
				call.Y = v
			} else {
				call.X = v
			}
			f(call)
		})
		return func(c *plan.Call) {
			load(c)
			for i := range calls {
				for _, v := range calls[i].DParams {
					clear(v)
				}
			}
			share(c)
			sums(c)
			failOwn(b, calls)
		}
	}
}

// ownSums gives each call memory for the gradients of parameters, and returns what adds them up, in order.
func ownSums[T kernel.Float](b *bind.Binder[T], calls []OwnCall[T], scratch []T) func(c *plan.Call) {
	to, add := make([][]T, len(calls[0].DParams)), make([]func(*plan.Call) bool, len(calls[0].DParams))
	for i := range to {
		to[i], add[i] = b.Out(1 + i)
		n := b.Step.In[2+i].Spec.Shape.Elems()
		for j := range calls {
			calls[j].DParams[i], scratch = scratch[:n:n], scratch[n:]
		}
	}
	return func(c *plan.Call) {
		for i, sum := range to {
			if sum == nil { // nobody wants it
				continue
			}
			if !add[i](c) {
				clear(sum)
			}
			for j := range calls {
				for k, v := range calls[j].DParams[i] {
					sum[k] += v
				}
			}
		}
	}
}

// RowLoss is the loss of a row of the model's output, and unless grad is nil writes its gradient there. The targets are
// a class, or else numbers.
type RowLoss[T kernel.Float] func(args op.Args, output []T, class int, numbers, grad []T) float64

// ImplementRowLoss enters how a loss of a program's own runs (op.OwnLoss).
func ImplementRowLoss(name graph.Op, f32 RowLoss[float32], f64 RowLoss[float64]) {
	both := bind.Implementation{F32: bindRowLoss(name, f32), F64: bindRowLoss(name, f64)}
	bind.Implement(name, both)
	bind.Implement(op.GradOp(name), both)
}

func bindRowLoss[T kernel.Float](name graph.Op, f RowLoss[T]) func(b *bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		if b.Step.In[1].Spec.DType.Float() {
			return bindNumberLoss(b, name, f)
		}
		return bindClassLoss(b, name, f)
	}
}

// bindNumberLoss is for targets that are numbers: rows are samples.
func bindNumberLoss[T kernel.Float](b *bind.Binder[T], name graph.Op, f RowLoss[T]) bind.Job {
	rows, args := b.Step.In[0].Spec.Shape[0], b.Step.Attr.(op.Args)
	cols := b.Step.In[0].Spec.Shape.Elems() / rows
	x, target := b.In(0), b.In(1)
	stats, dx := lossOut(b, name)
	return lossParts(b, rows, 1, func(c *plan.Call, lo, hi int) (sum, counted, correct float64) {
		out, t, scale := x(c), target(c), T(c.GradScale/float64(rows))
		for r := lo; r < hi; r++ {
			grad := ownRow(dx, r, cols)
			sum += f(args, out[r*cols:][:cols], -1, t[r*cols:][:cols], grad)
			scaleRow(grad, scale)
		}
		return sum, float64(hi - lo), 0
	}, stats)
}

// bindClassLoss is for targets that are class indices.
func bindClassLoss[T kernel.Float](b *bind.Binder[T], name graph.Op, f RowLoss[T]) bind.Job {
	rows, classes := op.Rows(b.Step.In[0].Spec.Shape)
	args := b.Step.Attr.(op.Args)
	x, target := b.In(0), b.Memory.Place(&b.Step.In[1])
	stats, dx := lossOut(b, name)
	var t []int32
	var scale T
	share := lossParts(b, rows, 1, func(c *plan.Call, lo, hi int) (sum, counted, correct float64) {
		for r, out := lo, x(c); r < hi; r++ {
			row, grad, class := out[r*classes:][:classes], ownRow(dx, r, classes), int(t[r])
			if class == ignoreIndex {
				clear(grad)
				continue
			}
			sum += f(args, row, class, nil, grad)
			scaleRow(grad, scale)
			counted++
			if largest(row) == class {
				correct++
			}
		}
		return sum, counted, correct
	}, stats)
	return func(c *plan.Call) {
		t = tensor.View[int32](target.Bytes(c))
		if !b.Memory.Check("target class", t, classes, ignoreIndex) {
			return
		}
		scale = T(c.GradScale / max(float64(countRows(t)), tiny))
		share(c)
	}
}

// ownRow is row r of a gradient, nil without one.
func ownRow[T kernel.Float](dx []T, r, cols int) []T {
	if dx == nil {
		return nil
	}
	return dx[r*cols:][:cols]
}

func scaleRow[T kernel.Float](v []T, by T) {
	for i := range v {
		v[i] *= by
	}
}

// largest is the index of the first largest element.
func largest[T kernel.Float](v []T) (at int) {
	for i := range v {
		if v[i] > v[at] {
			at = i
		}
	}
	return at
}

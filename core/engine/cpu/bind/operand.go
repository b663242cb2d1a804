package bind

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Binder prepares one step whose kernel computes in T.
type Binder[T kernel.Float] struct {
	Memory *Memory
	Step   *plan.Step
	room   int // scratch elements that the kernel asks for
	used   int // bytes of workspace given out
	before []Job
	after  []Job
}

// In is the step's input i as a slice that is valid during the kernel; an
// absent one gives nil.
func (b *Binder[T]) In(i int) func(c *plan.Call) []T {
	if i >= len(b.Step.In) || !b.Step.In[i].Present() {
		return func(*plan.Call) []T { return nil }
	}
	o := &b.Step.In[i]
	if o.Spec.DType.Half() {
		return Always(b.widened(o))
	}
	return b.direct(o)
}

// Rounded reports whether input i may have been rounded to a half type, of which the kernel sees a float32 copy.
func (b *Binder[T]) Rounded(i int) bool {
	o := &b.Step.In[i]
	return o.Spec.DType.Half() || b.Memory.copies[o] != nil
}

// widened copies a half operand to float32 before the kernel.
func (b *Binder[T]) widened(o *plan.Operand) []T {
	wide, at := b.wide(o), b.Memory.Place(o)
	raw, d := tensor.Bytes(wide), o.Spec.DType
	b.before = append(b.before, func(c *plan.Call) { convert.Convert(tensor.F32, raw, d, at.Bytes(c)) })
	return wide
}

func (b *Binder[T]) wide(o *plan.Operand) []T {
	return tensor.View[T](b.space(o.Spec.Shape.Elems() * sizeof[T]()))
}

func (b *Binder[T]) direct(o *plan.Operand) func(c *plan.Call) []T {
	at := b.Memory.Place(o)
	if at.Data != nil {
		return Always(tensor.View[T](at.Data))
	}
	return func(c *plan.Call) []T { return tensor.View[T](at.Bytes(c)) }
}

// Always is a slice that stays the same from call to call.
func Always[T any](v []T) func(*plan.Call) []T { return func(*plan.Call) []T { return v } }

// Out is the step's output i as a slice for the kernel to write, nil if absent;
// add reports whether the kernel has to add to it.
func (b *Binder[T]) Out(i int) (dst []T, add func(c *plan.Call) bool) {
	if i >= len(b.Step.Out) || !b.Step.Out[i].Present() {
		return nil, never
	}
	o := &b.Step.Out[i]
	if o.Spec.DType.Half() {
		return b.rounded(o), never
	}
	return tensor.View[T](b.Memory.Fixed(o)), adds(o)
}

// rounded gives the kernel a float32 copy and rounds it into the operand after.
// A gradient that is added to rounds twice, its own value and the sum, as
// autograd's accumulation does.
func (b *Binder[T]) rounded(o *plan.Operand) []T {
	wide, dst, d := b.wide(o), b.Memory.Fixed(o), o.Spec.DType
	raw := tensor.Bytes(wide)
	add := adds(o)
	b.after = append(b.after, func(c *plan.Call) {
		if !add(c) {
			convert.Convert(d, dst, tensor.F32, raw)
			return
		}
		term := raw[:len(dst)] // rounding shrinks: it may go over its own source
		narrowInPlace(d, raw)
		reduce.Reduce(reduce.Sum, d, dst, term)
	})
	return wide
}

// narrowInPlace rounds float32 elements to a half type at the front of their own memory.
func narrowInPlace(d tensor.DType, raw []byte) {
	const block = 256
	var buf [2 * block]byte
	n := len(raw) / 4
	for i := 0; i < n; i += block {
		k := min(block, n-i)
		convert.Convert(d, buf[:2*k], tensor.F32, raw[4*i:][:4*k])
		copy(raw[2*i:], buf[:2*k])
	}
}

// State is a tensor of the model that the step reads and changes.
func (b *Binder[T]) State(i int) []T {
	o := &b.Step.In[i]
	if !o.Spec.DType.Half() {
		return tensor.View[T](b.Memory.Fixed(o))
	}
	wide := b.widened(o)
	raw, dst, d := tensor.Bytes(wide), b.Memory.Fixed(o), o.Spec.DType
	b.after = append(b.after, func(*plan.Call) { convert.Convert(d, dst, tensor.F32, raw) })
	return wide
}

// Index views an integer output or input that is not the batch.
func Index[E tensor.Elem](m *Memory, o *plan.Operand) []E { return tensor.View[E](m.Fixed(o)) }

// Scratch is the scratch memory of the step's kernel.
func (b *Binder[T]) Scratch() []T {
	if b.room == 0 {
		return nil
	}
	return tensor.View[T](b.space(b.room * sizeof[T]()))
}

// space gives out the next n bytes of workspace.
func (b *Binder[T]) space(n int) []byte {
	p := b.Memory.Work[b.used:][:n]
	b.used += tensor.RoundUp(n, cacheLine)
	return p
}

// wrap puts the conversions around the kernel.
func (b *Binder[T]) wrap(run Job) Job {
	if len(b.before)+len(b.after) == 0 {
		return run
	}
	before, after := b.before, b.after
	return func(c *plan.Call) {
		for _, f := range before {
			f(c)
		}
		run(c)
		for _, f := range after {
			f(c)
		}
	}
}

func never(*plan.Call) bool { return false }

func yes(*plan.Call) bool { return true }

// adds says when an operand is added to: a gradient in the second micro-step of
// an accumulation, or when an earlier step of this call has written it.
func adds(o *plan.Operand) func(c *plan.Call) bool {
	switch {
	case o.Place != plan.PlaceGrad:
		return never
	case o.Add:
		return yes
	}
	return func(c *plan.Call) bool { return c.Accumulate }
}

// cacheLine is the alignment of scratch memory in bytes.
const cacheLine = 64

// copyBytes is the workspace of an operand's float32 copy. A cast converts
// directly, and needs room only where it adds to a gradient.
func copyBytes(s *plan.Step, o *plan.Operand) int {
	switch {
	case s.Op == op.Cast && o.Place == plan.PlaceGrad:
		return tensor.RoundUp(o.Spec.Bytes(), cacheLine)
	case s.Op == op.Cast || !o.Spec.DType.Half():
		return 0
	}
	return tensor.RoundUp(4*o.Spec.Shape.Elems(), cacheLine)
}

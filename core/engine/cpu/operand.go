package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// memory is what the operands of one bound plan lie in.
type memory struct {
	state   plan.State
	arena   *arena
	workers *workerPool
	fault   fault

	// Of a block of a step (blocks.go): copies of operands, and whether another block
	// of this run came before.
	copies map[*plan.Operand][]byte
	again  *bool
}

// fixed is the memory of an operand that stays where it is from call to call;
// nil for the batch.
func (m *memory) fixed(o *plan.Operand) []byte {
	if p, ok := m.copies[o]; ok {
		return p
	}
	switch o.Place {
	case plan.PlaceArena:
		return m.arena.data[o.Offset:][:o.Spec.Bytes()]
	case plan.PlaceState:
		return m.state.Tensors[o.Index].Data
	case plan.PlaceGrad:
		return m.state.Grads[o.Index].Data
	}
	return nil
}

// place finds an operand's memory, per call if it has to.
type place struct {
	kind plan.Place
	data []byte
}

func (m *memory) place(o *plan.Operand) place { return place{o.Place, m.fixed(o)} }

func (p *place) bytes(c *plan.Call) []byte {
	switch p.kind {
	case plan.PlaceInput:
		return c.Input
	case plan.PlaceTarget:
		return c.Target
	}
	return p.data
}

// binder prepares one step whose kernel computes in T.
type binder[T kernel.Float] struct {
	m      *memory
	s      *plan.Step
	room   int // scratch elements that the kernel asks for
	used   int // bytes of workspace given out
	before []job
	after  []job
}

// in is the step's input i as a slice that is valid during the kernel; an
// absent one gives nil.
func (b *binder[T]) in(i int) func(c *plan.Call) []T {
	if i >= len(b.s.In) || !b.s.In[i].Present() {
		return func(*plan.Call) []T { return nil }
	}
	o := &b.s.In[i]
	if o.Spec.DType.Half() {
		return always(b.widened(o))
	}
	return b.direct(o)
}

// widened copies a half operand to float32 before the kernel.
func (b *binder[T]) widened(o *plan.Operand) []T {
	wide, at := b.wide(o), b.m.place(o)
	raw, d := tensor.Bytes(wide), o.Spec.DType
	b.before = append(b.before, func(c *plan.Call) { convert.Convert(tensor.F32, raw, d, at.bytes(c)) })
	return wide
}

func (b *binder[T]) wide(o *plan.Operand) []T {
	return tensor.View[T](b.space(o.Spec.Shape.Elems() * sizeof[T]()))
}

func (b *binder[T]) direct(o *plan.Operand) func(c *plan.Call) []T {
	at := b.m.place(o)
	if at.data != nil {
		return always(tensor.View[T](at.data))
	}
	return func(c *plan.Call) []T { return tensor.View[T](at.bytes(c)) }
}

func always[T any](v []T) func(*plan.Call) []T { return func(*plan.Call) []T { return v } }

// out is the step's output i as a slice for the kernel to write, nil if absent;
// add reports whether the kernel has to add to it.
func (b *binder[T]) out(i int) (dst []T, add func(c *plan.Call) bool) {
	if i >= len(b.s.Out) || !b.s.Out[i].Present() {
		return nil, never
	}
	o := &b.s.Out[i]
	if o.Spec.DType.Half() {
		return b.rounded(o), never
	}
	return tensor.View[T](b.m.fixed(o)), adds(o)
}

// rounded gives the kernel a float32 copy and rounds it into the operand after.
// A gradient that is added to rounds twice, its own value and the sum, as
// autograd's accumulation does.
func (b *binder[T]) rounded(o *plan.Operand) []T {
	wide, dst, d := b.wide(o), b.m.fixed(o), o.Spec.DType
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

// state is a tensor of the model that the step reads and changes.
func (b *binder[T]) state(i int) []T {
	o := &b.s.In[i]
	if !o.Spec.DType.Half() {
		return tensor.View[T](b.m.fixed(o))
	}
	wide := b.widened(o)
	raw, dst, d := tensor.Bytes(wide), b.m.fixed(o), o.Spec.DType
	b.after = append(b.after, func(*plan.Call) { convert.Convert(d, dst, tensor.F32, raw) })
	return wide
}

// index views an integer output or input that is not the batch.
func index[E tensor.Elem](m *memory, o *plan.Operand) []E { return tensor.View[E](m.fixed(o)) }

// scratch is the scratch memory of the step's kernel.
func (b *binder[T]) scratch() []T {
	if b.room == 0 {
		return nil
	}
	return tensor.View[T](b.space(b.room * sizeof[T]()))
}

// space gives out the next n bytes of workspace.
func (b *binder[T]) space(n int) []byte {
	p := b.m.arena.work[b.used:][:n]
	b.used += tensor.RoundUp(n, cacheLine)
	return p
}

// wrap puts the conversions around the kernel.
func (b *binder[T]) wrap(run job) job {
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

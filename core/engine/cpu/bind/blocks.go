package bind

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// A step on tensors of a half type for which there is no kernel runs block by block: a
// block of its operands is widened to float32 in a workspace that stays in the L2
// cache, the float32 kernel runs on the block as on a smaller step, and what it
// writes is rounded back. Memory is read and written in the half type alone.

// axis is what the blocks of a step are ranges of.
type axis uint8

// The axes. A step without one goes through float32 copies of whole tensors.
const (
	noAxis   axis = iota
	Elements      // of every operand, whatever its shape
	Images        // the first dimension: images, or rows
	Channels      // the second dimension, or the only one of a vector
)

// Cuts says which operands a block has a part of: inputs, and outputs as ^index. The
// others are there as a whole, and outputs among them are sums over the blocks.
type Cuts struct {
	Along axis
	Of    []int
	Moved []int // inputs that the step also writes
}

func (c *Cuts) has(operand int) bool { return contains(c.Of, operand) }

func contains(list []int, operand int) bool {
	for _, d := range list {
		if d == operand {
			return true
		}
	}
	return false
}

// Sizes of blocks: of one that is worked on once, in the L1 cache, and of one that a
// kernel passes over several times, in L2.
const (
	blockElements = 2048
	blockBytes    = 256 << 10
)

// amortise is how many elements of a block at least there are for each element of what
// every block prepares anew, such as packed weights.
const amortise = 8

// blocks is a step that runs so.
type blocks struct {
	s       *plan.Step
	cuts    Cuts
	n, size int // images, say, and how many make a block
	threads int // that take blocks, each with a stage of its own; 1 where blocks are summed
	inner   int // threads that share the kernel of a block
	sums    bool
}

// blocksOf divides a step whose cut operands are of a half type; nil for any other step.
func blocksOf(s *plan.Step, threads int) *blocks {
	c := implementation(s.Op).Blocks
	if c.Along == noAxis || !c.anyHalf(s) {
		return nil
	}
	k := &blocks{s: s, cuts: c, threads: threads, inner: 1}
	whole, each := 0, 0
	eachOperand(s, func(at int, o *plan.Operand) {
		if !c.has(at) {
			k.sums = k.sums || at < 0
			whole += o.Spec.Shape.Elems()
			return
		}
		if p := k.piece(at, o); p.n > 0 {
			if k.n != 0 && k.n != p.n {
				panic(fmt.Sprintf("cpu: %s (%s): operand %d has %d blocks of one, others %d", s.Layer, s.Op, at, p.n, k.n))
			}
			k.n = p.n
			each += p.outer * p.inner
		}
	})
	if k.n == 0 {
		return nil
	}
	if k.sums {
		k.threads, k.inner = 1, threads
	}
	k.size = max(1, blockBytes/4/each, amortise*whole/each)
	if c.Along == Elements {
		k.size = blockElements
	}
	k.size = min(k.size, (k.n+k.threads-1)/k.threads)
	count := (k.n + k.size - 1) / k.size
	k.size = (k.n + count - 1) / count
	k.threads = min(k.threads, (k.n+k.size-1)/k.size)
	return k
}

func (c *Cuts) anyHalf(s *plan.Step) (any bool) {
	eachOperand(s, func(at int, o *plan.Operand) { any = any || c.has(at) && o.Spec.DType.Half() })
	return any
}

// eachOperand calls f for every operand that is there: inputs, and outputs as ^index.
func eachOperand(s *plan.Step, f func(at int, o *plan.Operand)) {
	for i := range s.In {
		if s.In[i].Present() {
			f(i, &s.In[i])
		}
	}
	for i := range s.Out {
		if s.Out[i].Present() {
			f(^i, &s.Out[i])
		}
	}
}

// piece is an operand of which the kernel sees a copy: a block of it, or all of it.
type piece struct {
	at              Place
	from, to        tensor.DType // of the operand, and of the copy
	outer, n, inner int          // runs, how many images, say, a run has, and the elements of each
	in, out         bool         // the copy is read from the operand, and written back
	cut, sum        bool
	add             func(c *plan.Call) bool // it is added to a gradient
	copy            []byte
}

// piece describes an operand; n is 0 if the kernel sees the operand itself.
func (k *blocks) piece(at int, o *plan.Operand) (p piece) {
	cut := k.cuts.has(at)
	if !cut && !o.Spec.DType.Half() {
		return piece{}
	}
	p = piece{from: o.Spec.DType, to: o.Spec.DType, outer: 1, n: 1, inner: o.Spec.Shape.Elems(), cut: cut, add: never}
	if p.from.Half() {
		p.to = tensor.F32
	}
	if shape := o.Spec.Shape; cut {
		switch {
		case k.cuts.Along == Elements:
			p.n, p.inner = shape.Elems(), 1
		case k.cuts.Along == Channels && len(shape) > 1:
			p.outer, p.n = shape[0], shape[1]
		default:
			p.n = shape[0]
		}
		p.inner = shape.Elems() / p.outer / p.n
	}
	p.in, p.out = at >= 0, at < 0 || k.s.Train && contains(k.cuts.Moved, at) || at == 0 && leavesSlope(k.s)
	if grad := o.Place == plan.PlaceGrad; at < 0 && grad && p.from.Half() {
		p.add = adds(o)
	} else if at < 0 && grad {
		p.in = true // the kernel adds to it
	}
	p.sum = at < 0 && !cut
	return p
}

// leavesSlope reports whether a step replaces its first input by the slope.
func leavesSlope(s *plan.Step) bool { return s.KeepSlope && op.Of(s.Op).Name == s.Op }

// bytes is the size of the copy for so many images, say.
func (p *piece) bytes(count int) int {
	if !p.cut {
		count = 1
	}
	return p.outer * count * p.inner * p.to.Size()
}

// runs calls f for every piece of memory that a block takes of the operand, with its
// place in the copy, in elements.
func (p *piece) runs(lo, hi int, f func(at, in, elems int)) {
	switch {
	case !p.cut:
		f(0, 0, p.inner)
	case hi-lo == p.n:
		f(0, 0, p.outer*p.n*p.inner)
	default:
		for o := range p.outer {
			f((o*p.n+lo)*p.inner, o*(hi-lo)*p.inner, (hi-lo)*p.inner)
		}
	}
}

// load reads a block.
func (p *piece) load(c *plan.Call, lo, hi int) {
	from, to := p.from.Size(), p.to.Size()
	src := p.at.Bytes(c)
	p.runs(lo, hi, func(at, in, elems int) {
		rewrite(p.to, p.copy[in*to:][:elems*to], p.from, src[at*from:][:elems*from])
	})
}

// store writes a block back. A gradient that is added to rounds twice, its own value
// and the sum, as autograd's accumulation does.
func (p *piece) store(c *plan.Call, lo, hi int) {
	from, to, add := p.from.Size(), p.to.Size(), p.add(c)
	dst := p.at.Bytes(c)
	p.runs(lo, hi, func(at, in, elems int) {
		raw, dst := p.copy[in*to:][:elems*to], dst[at*from:][:elems*from]
		if !add {
			rewrite(p.from, dst, p.to, raw)
			return
		}
		narrowInPlace(p.from, raw)
		reduce.Reduce(reduce.Sum, p.from, dst, raw[:len(dst)])
	})
}

// rewrite copies elements, and converts those of a half type.
func rewrite(to tensor.DType, dst []byte, from tensor.DType, src []byte) {
	if to == from {
		copy(dst, src)
		return
	}
	convert.Convert(to, dst, from, src)
}

// blockWorker is what one thread needs to take blocks.
type blockWorker struct {
	sums       bool
	images     bool     // blocks are ranges of images
	once, each []*piece // of the whole step, and of a block
	jobs       [2]Job   // of a whole block, and of the last one
	again      bool     // another block of this run came before
	call       plan.Call
}

// bytes is the workspace of one thread: the copies, and the kernel's scratch memory.
func (k *blocks) bytes() (copies, scratch int) {
	eachOperand(k.s, func(at int, o *plan.Operand) {
		if p := k.piece(at, o); p.n > 0 {
			copies += tensor.RoundUp(p.bytes(k.size), cacheLine)
		}
	})
	s := k.step(k.size, nil)
	return copies, k.inner * tensor.RoundUp(scratchElems(&s, k.inner)*4, cacheLine)
}

func (k *blocks) workspace() int {
	copies, scratch := k.bytes()
	return k.threads * (copies + scratch)
}

// step is the one that the float32 kernel sees: a block of count images, say. staged
// gets each operand that is a copy.
func (k *blocks) step(count int, staged func(at int, o *plan.Operand)) plan.Step {
	s := *k.s
	s.Batch = k.n
	s.In, s.Out = append([]plan.Operand(nil), s.In...), append([]plan.Operand(nil), s.Out...)
	eachOperand(&s, func(at int, o *plan.Operand) {
		p := k.piece(at, o)
		if p.n == 0 {
			return
		}
		if p.cut {
			o.Spec.Shape = k.shape(o.Spec.Shape, count)
		}
		o.Spec.DType = p.to
		switch {
		case p.sum:
			o.Place, o.Add = plan.PlaceGrad, true // to zeros
		case at < 0 && p.in:
		default:
			o.Place = plan.PlaceArena
		}
		if staged != nil {
			staged(at, o)
		}
	})
	return s
}

// shape is an operand's with count images, say.
func (k *blocks) shape(shape tensor.Shape, count int) tensor.Shape {
	if k.cuts.Along == Elements {
		return tensor.Shape{count}
	}
	shape = append(tensor.Shape(nil), shape...)
	if k.cuts.Along == Channels && len(shape) > 1 {
		shape[1] = count
	} else {
		shape[0] = count
	}
	return shape
}

// bind prepares the step.
func (k *blocks) bind(m *Memory) (Job, error) {
	workers := make([]*blockWorker, k.threads)
	copies, scratch := k.bytes()
	for i := range workers {
		room := m.ofThread(i, copies+scratch)
		w, err := k.worker(m, room[:copies], room[copies:])
		if err != nil {
			return nil, err
		}
		workers[i] = w
	}
	if k.threads == 1 {
		return func(c *plan.Call) { workers[0].run(c, k.size, 0, k.n, false) }, nil
	}
	var call *plan.Call
	work := func(part int) {
		lo, hi := share(k.n, k.size, k.threads, part)
		workers[part].run(call, k.size, lo, hi, part > 0)
	}
	return func(c *plan.Call) {
		call = c
		m.Workers.run(k.threads, work)
	}, nil
}

// worker lays out the copies in room and binds the kernel to them.
func (k *blocks) worker(m *Memory, room, scratch []byte) (*blockWorker, error) {
	w := &blockWorker{sums: k.sums, images: k.cuts.Along == Images}
	pieces := map[int]*piece{}
	eachOperand(k.s, func(at int, o *plan.Operand) {
		p := k.piece(at, o)
		if p.n == 0 {
			return
		}
		p.at, p.copy = m.Place(o), room[:p.bytes(k.size)]
		room = room[tensor.RoundUp(len(p.copy), cacheLine):]
		pieces[at] = &p
		if p.cut {
			w.each = append(w.each, &p)
		} else {
			w.once = append(w.once, &p)
		}
	})
	sizes := []int{k.size, k.n % k.size}
	for i, count := range sizes {
		if count == 0 {
			continue
		}
		inner := &Memory{State: m.State, Arena: m.Arena, Work: scratch, Again: &w.again, copies: map[*plan.Operand][]byte{}}
		if k.inner > 1 {
			inner.Workers = m.Workers
		}
		s := k.step(count, func(at int, o *plan.Operand) { inner.copies[o] = pieces[at].copy[:pieces[at].bytes(count)] })
		run, err := bindAs[float32](inner, &s)
		if err != nil {
			return nil, err
		}
		w.jobs[i] = run
	}
	return w, nil
}

// run takes the blocks of [lo, hi).
func (w *blockWorker) run(c *plan.Call, size, lo, hi int, again bool) {
	w.call, w.again = *c, again
	for _, p := range w.once {
		if p.sum {
			clear(p.copy)
		} else {
			p.load(c, 0, 1)
		}
	}
	for ; lo < hi; lo += size {
		next := min(lo+size, hi)
		for _, p := range w.each {
			if p.in {
				p.load(c, lo, next)
			}
		}
		run := w.jobs[0]
		if next-lo < size {
			run = w.jobs[1]
		}
		if w.images {
			w.call.Image = lo
		}
		run(&w.call)
		for _, p := range w.each {
			if p.out {
				p.store(c, lo, next)
			}
		}
		w.again, w.call.Accumulate = true, w.sums || c.Accumulate
	}
	for _, p := range w.once {
		if p.sum {
			p.store(c, 0, 1)
		}
	}
}

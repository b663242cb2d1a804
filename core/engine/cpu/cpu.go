package cpu

import (
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Device is the processor. The programs bound to one device share one
// arena, as large as the largest of them needs: a run's training, last and
// evaluation batches cost the memory of one. Running two at a time panics; bind
// them to devices of their own.
type Device struct {
	arena   *arena
	workers *workerPool
}

// New returns the processor as a device that computes on the caller's thread.
func New() *Device { return &Device{} }

// NewParallel returns a device that shares the large steps among that many
// threads. Results depend on the number, and on nothing else.
func NewParallel(threads int) *Device { return &Device{workers: newWorkerPool(threads)} }

// Name is "cpu".
func (*Device) Name() string { return "cpu" }

// Workspace is the scratch memory of a step: what its kernel needs on each thread, and
// a float32 copy of each operand of a half type.
func (d *Device) Workspace(s *plan.Step) int {
	if implementations[s.Op].raw != nil {
		return 0
	}
	if direct := nativeOf(s); direct.bind != nil {
		return direct.workspace(s, d.workers.size())
	}
	if k := blocksOf(s, d.workers.size()); k != nil {
		return k.workspace()
	}
	n := 0
	for _, list := range [2][]plan.Operand{s.In, s.Out} {
		for i := range list {
			n += copyBytes(s, &list[i])
		}
	}
	return n + d.workers.size()*tensor.RoundUp(scratchElems(s, d.workers.size())*scratchSize(s), cacheLine)
}

// Bind prepares every step; memory comes from the Go heap. A step that this
// device does not know is an error.
func (d *Device) Bind(p *plan.Plan, st plan.State) (plan.Executor, error) {
	work := 0
	steps := unrounded(p.Steps())
	for i := range steps {
		work = max(work, d.Workspace(&steps[i]))
	}
	m := &memory{state: st, arena: d.room(p.ArenaBytes(), work), workers: d.workers}
	report := p.Stats()
	e := &executor{jobs: make([]job, len(steps)), stats: index[float64](m, &report), mem: m}
	for i := range steps {
		j, err := bind(m, &steps[i], p.DType)
		if err != nil {
			return nil, fmt.Errorf("step %d, %s (%s): %w", i, steps[i].Layer, steps[i].Op, err)
		}
		e.jobs[i] = j
	}
	return e, nil
}

// Reserve implements [plan.Reserver].
func (d *Device) Reserve(activations, workspace int) { d.room(activations, workspace) }

// room is the device's arena, or a new one where that is too small. Programs
// bound before keep theirs.
func (d *Device) room(data, work int) *arena {
	if d.arena == nil || len(d.arena.data) < data || len(d.arena.work) < work {
		d.arena = &arena{data: tensor.Aligned(data), work: tensor.Aligned(work)}
	}
	return d.arena
}

// job is one prepared step.
type job func(c *plan.Call)

func bind(m *memory, s *plan.Step, d tensor.DType) (job, error) {
	switch s.Op {
	case op.Cast:
		return bindCast(m, s), nil
	case "":
		return func(*plan.Call) {}, nil
	}
	if raw := implementations[s.Op].raw; raw != nil {
		return raw(&binder[float32]{m: m, s: s}), nil
	}
	if d == tensor.F64 {
		return bindAs[float64](m, s)
	}
	if direct := nativeOf(s); direct.bind != nil {
		b := &binder[float32]{m: m, s: s, room: direct.room(m.workers.size())}
		run := direct.bind(b)
		return b.wrap(run), nil
	}
	if k := blocksOf(s, m.workers.size()); k != nil {
		return k.bind(m)
	}
	return bindAs[float32](m, s)
}

func bindAs[T kernel.Float](m *memory, s *plan.Step) (job, error) {
	f := binding[T](s.Op)
	if f == nil {
		return nil, fmt.Errorf("the CPU has no kernel for this operation")
	}
	b := &binder[T]{m: m, s: s, room: scratchElems(s, m.workers.size())}
	run := f(b)
	return b.wrap(run), nil
}

func sizeof[T any]() int {
	var z T
	return int(unsafe.Sizeof(z))
}

var (
	_ plan.Device   = (*Device)(nil)
	_ plan.Reserver = (*Device)(nil)
)

package cpu

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	_ "github.com/trainctl/trainctl/core/engine/cpu/ops" // registers what the processor runs
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Device is the processor. The programs bound to one device share one
// arena, as large as the largest of them needs: a run's training, last and
// evaluation batches cost the memory of one. Running two at a time panics; bind
// them to devices of their own.
type Device struct {
	arena   *bind.Arena
	workers *bind.WorkerPool
}

// New returns the processor as a device that computes on the caller's thread.
func New() *Device { return &Device{} }

// NewParallel returns a device that shares the large steps among that many
// threads. Results depend on the number, and on nothing else.
func NewParallel(threads int) *Device { return &Device{workers: bind.NewWorkerPool(threads)} }

// BF16From is from how many bytes of activations on bfloat16 pays: 0, which is always, where there
// are products of it. Elsewhere it saves memory and costs time for widening and rounding.
func BF16From() int {
	if kernel.HasBF16Products() {
		return 0
	}
	return muchMemory
}

// Converts reports whether an operation works element by element: the processor widens and rounds
// a few of a half type at a time on the way. See [plan.Options].
func Converts(o graph.Op) bool { return bind.Elementwise(o) }

// muchMemory is the bytes of activations of which half is worth the time that it costs to save it.
const muchMemory = 256 << 20

// Operations lists the steps that the processor runs, sorted.
func Operations() []graph.Op { return bind.Operations() }

// Name is "cpu".
func (*Device) Name() string { return "cpu" }

// Workspace is the scratch memory of a step: what its kernel needs on each thread, and
// a float32 copy of each operand of a half type.
func (d *Device) Workspace(s *plan.Step) int { return bind.Workspace(s, d.workers.Size()) }

// Bind prepares every step; memory comes from the Go heap. A step that this
// device does not know is an error.
func (d *Device) Bind(p *plan.Plan, st plan.State) (plan.Executor, error) {
	steps := bind.Unrounded(p.Steps())
	work := make([]int, len(steps))
	for i := range steps {
		work[i] = d.Workspace(&steps[i])
	}
	packed := d.pack(p, steps, work)
	steps = packed.Steps
	m := &bind.Memory{State: st, Arena: d.room(packed.Size), Workers: d.workers}
	e := &executor{jobs: make([]bind.Job, len(steps)), stats: bind.Index[float64](m, &packed.Stats), mem: m}
	for i := range steps {
		m.Work = m.Arena.Data[packed.Work[i]:][:work[i]]
		j, err := bind.Step(m, &steps[i], p.DType)
		if err != nil {
			return nil, fmt.Errorf("step %d, %s (%s): %w", i, steps[i].Layer, steps[i].Op, err)
		}
		e.jobs[i] = j
	}
	return e, nil
}

// pack finds memory for the workspace of each step, and sets work to what it may use. With several threads it is
// the same for all steps, where each thread has a part of its own.
func (d *Device) pack(p *plan.Plan, steps []plan.Step, work []int) plan.Packing {
	if d.Packs() {
		return p.Pack(steps, func(i int) int { return work[i] })
	}
	packed := p.Pack(steps, func(int) int { return 0 })
	most := slices.Max(append(work, 0))
	for i := range work {
		packed.Work[i], work[i] = packed.Size, most
	}
	packed.Size += most
	return packed
}

// Packs implements [plan.Reserver].
func (d *Device) Packs() bool { return d.workers.Size() == 1 }

// Reserve implements [plan.Reserver].
func (d *Device) Reserve(activations, workspace int) { d.room(activations + workspace) }

// Share implements [plan.Sharer].
func (d *Device) Share(n, unit int, part func(lo, hi int) func()) func() {
	return d.workers.Share(n, unit, part)
}

// room is the device's arena, or a new one where that is too small. Programs
// bound before keep theirs.
func (d *Device) room(size int) *bind.Arena {
	if d.arena == nil || len(d.arena.Data) < size {
		d.arena = &bind.Arena{Data: tensor.Aligned(size)}
		pages.Populate(d.arena.Data)
	}
	return d.arena
}

var (
	_ plan.Device   = (*Device)(nil)
	_ plan.Reserver = (*Device)(nil)
	_ plan.Sharer   = (*Device)(nil)
)

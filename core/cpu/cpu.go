// Package cpu runs plans on the processor. Each file binds one family of steps
// to the kernels of core/kernel.
//
// Binding resolves every operand to a slice and every geometry to a struct, so
// that a step at run time is a call of a closure and nothing else. A plan in
// float64 computes in float64, any other in float32: operands of half types are
// widened into workspace before a kernel and rounded after it, so every
// operation rounds once, as hardware that multiplies in half and adds in float does.
package cpu

import (
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Device is the processor. It has no state: any number of plans may be bound to it.
type Device struct{}

// New returns the processor as a device.
func New() *Device { return &Device{} }

// Name is "cpu".
func (*Device) Name() string { return "cpu" }

// Workspace is the scratch that a step needs: what its kernel asks for, and a
// float32 copy of each operand of a half type.
func (*Device) Workspace(s *plan.Step) int {
	n := 0
	for _, list := range [2][]plan.Operand{s.In, s.Out} {
		for i := range list {
			n += copyBytes(s, &list[i])
		}
	}
	return n + roundUp(scratchElems(s)*scratchSize(s))
}

// Bind allocates arena and workspace on the Go heap and prepares every step. A
// step that this device does not know is an error.
func (d *Device) Bind(p *plan.Plan, st plan.State) (plan.Executor, error) {
	work := 0
	steps := p.Steps()
	for i := range steps {
		work = max(work, d.Workspace(&steps[i]))
	}
	m := &memory{state: st, arena: tensor.Aligned(p.ArenaBytes()), work: tensor.Aligned(work)}
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

// job is one prepared step.
type job func(c *plan.Call)

type executor struct {
	jobs  []job
	stats []float64
	mem   *memory
}

func (e *executor) Step(i int, c *plan.Call) { e.jobs[i](c) }

func (e *executor) Stats() (plan.Stats, error) {
	s := plan.Stats{LossSum: e.stats[0], Counted: e.stats[1], Correct: e.stats[2]}
	if e.mem.fault.limit == 0 {
		return s, nil
	}
	f := e.mem.fault
	e.mem.fault = fault{}
	return s, fmt.Errorf("cpu: %s: sample element %d is %d, outside 0 to %d", f.what, f.at, f.value, f.limit-1)
}

// fault is the first index of a batch that is out of range; limit 0 for none.
type fault struct {
	what             string
	at, value, limit int
}

// check reports whether all of v are within [0, limit), or are ignored, and
// remembers the first that is not.
func (m *memory) check(what string, v []int32, limit int, ignore int32) bool {
	for i, x := range v {
		if (x < 0 || int(x) >= limit) && x != ignore {
			if m.fault.limit == 0 {
				m.fault = fault{what, i, int(x), limit}
			}
			return false
		}
	}
	return true
}

func (e *executor) Close() error {
	e.jobs = nil
	return nil
}

func bind(m *memory, s *plan.Step, d tensor.DType) (job, error) {
	if s.Op == plan.CastOp {
		return bindCast(m, s), nil
	}
	if d == tensor.F64 {
		return bindAs[float64](m, s)
	}
	return bindAs[float32](m, s)
}

func bindAs[T kernel.Float](m *memory, s *plan.Step) (job, error) {
	f := binding[T](s.Op)
	if f == nil {
		return nil, fmt.Errorf("the CPU has no kernel for this operation")
	}
	b := &binder[T]{m: m, s: s}
	run := f(b)
	return b.wrap(run), nil
}

func sizeof[T any]() int {
	var z T
	return int(unsafe.Sizeof(z))
}

var _ plan.Device = (*Device)(nil)

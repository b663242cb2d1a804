package cpu

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// executor is one bound plan.
type executor struct {
	jobs  []bind.Job
	stats []float64
	mem   *bind.Memory
}

func (e *executor) Step(i int, c *plan.Call) {
	if i == 0 && !e.mem.Arena.Running.CompareAndSwap(false, true) {
		panic("cpu: two programs of one device run at the same time")
	}
	e.jobs[i](c)
}

func (e *executor) Stats() (plan.Stats, error) {
	e.mem.Arena.Ran()
	defer e.mem.Arena.Running.Store(false)
	if e.stats == nil { // a plan without a loss
		return plan.Stats{}, e.mem.TakeFault()
	}
	s := plan.Stats{LossSum: e.stats[0], Counted: e.stats[1], Correct: e.stats[2]}
	return s, e.mem.TakeFault()
}

func (e *executor) Close() error {
	e.jobs = nil
	return nil
}

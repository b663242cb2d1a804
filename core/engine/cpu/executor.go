package cpu

import (
	"fmt"
	"sync/atomic"

	"github.com/trainctl/trainctl/core/engine/plan"
)

// arena is the memory that programs share: only one runs at a time.
type arena struct {
	data    []byte // activations
	work    []byte // scratch of one step
	running atomic.Pointer[executor]
}

// executor is one bound plan.
type executor struct {
	jobs  []job
	stats []float64
	mem   *memory
}

func (e *executor) Step(i int, c *plan.Call) {
	if i == 0 && !e.mem.arena.running.CompareAndSwap(nil, e) {
		panic("cpu: two programs of one device run at the same time")
	}
	e.jobs[i](c)
}

func (e *executor) Stats() (plan.Stats, error) {
	defer e.mem.arena.running.Store(nil)
	s := plan.Stats{LossSum: e.stats[0], Counted: e.stats[1], Correct: e.stats[2]}
	if f := e.mem.fault; f.limit != 0 {
		e.mem.fault = fault{}
		return s, fmt.Errorf("cpu: %s: element %d of the batch is %d, outside 0 to %d", f.what, f.at, f.value, f.limit-1)
	}
	return s, nil
}

func (e *executor) Close() error {
	e.jobs = nil
	return nil
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

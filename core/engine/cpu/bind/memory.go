package bind

import (
	"fmt"
	"sync/atomic"

	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// Arena is the memory that programs share: only one runs at a time.
type Arena struct {
	Data    []byte // activations, and scratch of the steps where they leave room
	Running atomic.Bool
	runs    int // that have ended, up to joinAfter
}

// joinAfter is how many runs show that there will be many, so that huge pages are worth their time. The first step of
// a job, which a user waits for, is not among them, and before the second one a rank gives back what getting ready took.
const joinAfter = 2

// Ran says that a run has ended.
func (a *Arena) Ran() {
	if a.runs == joinAfter {
		return
	}
	if a.runs++; a.runs == joinAfter {
		go pages.Join(a.Data)
	}
}

// fault is the first index of a batch that is out of range; limit 0 for none.
type fault struct {
	what             string
	at, value, Limit int
}

// Check reports whether all of v are within [0, limit), or are ignored, and
// remembers the first that is not.
func (m *Memory) Check(what string, v []int32, limit int, ignore int32) bool {
	for i, x := range v {
		if (x < 0 || int(x) >= limit) && x != ignore {
			if m.Fault.Limit == 0 {
				m.Fault = fault{what, i, int(x), limit}
			}
			return false
		}
	}
	return true
}

// Fail makes the run return an error. The first one counts.
func (m *Memory) Fail(err error) {
	if m.failed == nil {
		m.failed = err
	}
}

// TakeFault is what failed, or the first index out of range, since it was last called.
func (m *Memory) TakeFault() error {
	if err := m.failed; err != nil {
		m.failed = nil
		return err
	}
	f := m.Fault
	if f.Limit == 0 {
		return nil
	}
	m.Fault = fault{}
	return fmt.Errorf("cpu: %s: element %d of the batch is %d, outside 0 to %d", f.what, f.at, f.value, f.Limit-1)
}

// Memory is what the operands of one bound plan lie in.
type Memory struct {
	State   plan.State
	Arena   *Arena
	Workers *WorkerPool
	Work    []byte // scratch of the step that is bound; with several threads, the same memory for all steps
	Fault   fault
	failed  error

	// Of a block of a step (blocks.go): copies of operands, and whether another block
	// of this run came before.
	copies map[*plan.Operand][]byte
	Again  *bool
}

// ofThread is the n bytes of workspace of a thread. They begin at the same place in all steps,
// if these have the same workspace: what a thread wrote last is in its core's cache, and to write where
// another core did takes several times as long on processors with more than one L3 cache.
func (m *Memory) ofThread(thread, n int) []byte {
	share := len(m.Work) / m.Workers.Size() / cacheLine * cacheLine
	return m.Work[thread*max(n, share):][:n]
}

// Fixed is the memory of an operand that stays where it is from call to call;
// nil for the batch.
func (m *Memory) Fixed(o *plan.Operand) []byte {
	if p, ok := m.copies[o]; ok {
		return p
	}
	switch o.Place {
	case plan.PlaceArena:
		return m.Arena.Data[o.Offset:][:o.Spec.Bytes()]
	case plan.PlaceState:
		return m.State.Tensors[o.Index].Data
	case plan.PlaceGrad:
		return m.State.Grads[o.Index].Data
	}
	return nil
}

// Place finds an operand's memory, per call if it has to.
type Place struct {
	kind plan.Place
	Data []byte // nil for the batch
}

// Place finds an operand's memory.
func (m *Memory) Place(o *plan.Operand) Place { return Place{o.Place, m.Fixed(o)} }

// Bytes is the memory during a call.
func (p *Place) Bytes(c *plan.Call) []byte {
	switch p.kind {
	case plan.PlaceInput:
		return c.Input
	case plan.PlaceTarget:
		return c.Target
	}
	return p.Data
}

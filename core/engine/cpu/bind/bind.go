package bind

import (
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Job is one prepared step.
type Job func(c *plan.Call)

// Step prepares a step of a plan in d. It is an error if no package has implemented the operation.
func Step(m *Memory, s *plan.Step, d tensor.DType) (Job, error) {
	switch s.Op {
	case op.Cast:
		return bindCast(m, s), nil
	case "":
		return func(*plan.Call) {}, nil
	}
	if raw := implementation(s.Op).Raw; raw != nil {
		return raw(&Binder[float32]{Memory: m, Step: s}), nil
	}
	if d == tensor.F64 {
		return bindAs[float64](m, s)
	}
	if direct := nativeOf(s); direct.Bind != nil {
		b := &Binder[float32]{Memory: m, Step: s, room: direct.room(m.Workers.Size())}
		run := direct.Bind(b)
		return b.wrap(run), nil
	}
	if k := blocksOf(s, m.Workers.Size()); k != nil {
		return k.bind(m)
	}
	return bindAs[float32](m, s)
}

func bindAs[T kernel.Float](m *Memory, s *plan.Step) (Job, error) {
	f := binding[T](s.Op)
	if f == nil {
		return nil, fmt.Errorf("the CPU has no kernel for this operation")
	}
	b := &Binder[T]{Memory: m, Step: s, room: scratchElems(s, m.Workers.Size())}
	run := f(b)
	return b.wrap(run), nil
}

func sizeof[T any]() int {
	var z T
	return int(unsafe.Sizeof(z))
}

// Workspace is the scratch memory of a step with so many threads: what its kernel needs on each
// of them, and a float32 copy of each operand of a half type.
func Workspace(s *plan.Step, threads int) int {
	if implementation(s.Op).Raw != nil {
		return 0
	}
	if direct := nativeOf(s); direct.Bind != nil {
		return direct.workspace(s, threads)
	}
	if k := blocksOf(s, threads); k != nil {
		return k.workspace()
	}
	n := 0
	for _, list := range [2][]plan.Operand{s.In, s.Out} {
		for i := range list {
			n += copyBytes(s, &list[i])
		}
	}
	return n + threads*tensor.RoundUp(scratchElems(s, threads)*ScratchSize(s), cacheLine)
}

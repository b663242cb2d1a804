package bind

import (
	"maps"
	"slices"
	"sync"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Implementation is how the processor runs one operation of a plan.
type Implementation struct {
	F32 func(*Binder[float32]) Job
	F64 func(*Binder[float64]) Job

	// Raw moves elements without looking at them, whatever their type; no other field is then set.
	Raw func(*Binder[float32]) Job

	// BF16 says how a step runs whose operands are bfloat16; nil: through float32.
	BF16 func(s *plan.Step) Native

	// Half is BF16 for both half types, at every level with vectors; nil: through blocks.
	Half func(s *plan.Step) Native

	// Blocks says how a step on half types is cut; zero: it is not.
	Blocks Cuts

	// Scratch is the elements that the kernel asks for on each of some threads; nil: none.
	Scratch func(s *plan.Step, threads int) int

	// Sums: the first output is a parameter's gradient, which the kernel sums in
	// float32 and nothing else reads.
	Sums bool

	// WideWeight: the second input may be float32 where the others are of a half type.
	WideWeight bool
}

// The registry. Programs add operations of their own while others train, hence the lock.
var (
	lock            sync.RWMutex
	implementations = map[graph.Op]Implementation{}
)

// Implement enters how an operation runs; each file calls it from init.
func Implement(op graph.Op, i Implementation) {
	lock.Lock()
	defer lock.Unlock()
	implementations[op] = i
}

// Remove takes out an operation of a program's own that nothing uses any more.
func Remove(op graph.Op) {
	lock.Lock()
	defer lock.Unlock()
	delete(implementations, op)
}

// implementation is how an operation runs, zero for an unknown one.
func implementation(op graph.Op) Implementation {
	lock.RLock()
	defer lock.RUnlock()
	return implementations[op]
}

// Override replaces how an operation runs in float32 by what f makes of it.
func Override(op graph.Op, f func(func(*Binder[float32]) Job) func(*Binder[float32]) Job) {
	i := implementation(op)
	i.F32 = f(i.F32)
	Implement(op, i)
}

// InBF16 sets how an operation runs on bfloat16 ([Implementation.BF16]).
func InBF16(op graph.Op, native func(s *plan.Step) Native) {
	i := implementation(op)
	i.BF16 = native
	Implement(op, i)
}

// Operations lists the steps that the processor runs, sorted.
func Operations() []graph.Op {
	lock.RLock()
	defer lock.RUnlock()
	return append(slices.Sorted(maps.Keys(implementations)), op.Cast)
}

// Elementwise reports whether an operation's blocks are ranges of elements.
func Elementwise(o graph.Op) bool { return implementation(o).Blocks.Along == Elements }

// binding is the function that prepares an operation, nil for an unknown one.
func binding[T kernel.Float](op graph.Op) func(*Binder[T]) Job {
	i := implementation(op)
	if f, ok := any(i.F32).(func(*Binder[T]) Job); ok {
		return f
	}
	f, _ := any(i.F64).(func(*Binder[T]) Job)
	return f
}

// scratchElems is the number of scratch elements that a step's kernel asks for
// on each of some threads.
func scratchElems(s *plan.Step, threads int) int {
	if f := implementation(s.Op).Scratch; f != nil {
		return f(s, threads)
	}
	return 0
}

// ScratchSize is the size of the elements that a step computes in.
func ScratchSize(s *plan.Step) int {
	for i := range s.In {
		if s.In[i].Spec.DType == tensor.F64 {
			return 8
		}
	}
	return 4
}

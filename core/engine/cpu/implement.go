package cpu

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"maps"
	"slices"
)

// implementation is how the processor runs one operation of a plan.
type implementation struct {
	f32 func(*binder[float32]) job
	f64 func(*binder[float64]) job

	// raw moves elements without looking at them, whatever their type; no other field is then set.
	raw func(*binder[float32]) job

	// bf16 says how a step runs whose operands are bfloat16; nil: through float32.
	bf16 func(s *plan.Step) native

	// half is bf16 for both half types, at every level with vectors; nil: through blocks.
	half func(s *plan.Step) native

	// blocks says how a step on half types is cut; zero: it is not.
	blocks cuts

	// scratch is the elements that the kernel asks for on each of some threads; nil: none.
	scratch func(s *plan.Step, threads int) int

	// sums: the first output is a parameter's gradient, which the kernel sums in
	// float32 and nothing else reads.
	sums bool
}

var implementations = map[graph.Op]implementation{}

// implement enters how an operation runs; each file calls it from init.
func implement(op graph.Op, i implementation) { implementations[op] = i }

// Operations lists the steps that the processor runs, sorted.
func Operations() []graph.Op { return append(slices.Sorted(maps.Keys(implementations)), op.Cast) }

// binding is the function that prepares an operation, nil for an unknown one.
func binding[T kernel.Float](op graph.Op) func(*binder[T]) job {
	i := implementations[op]
	if f, ok := any(i.f32).(func(*binder[T]) job); ok {
		return f
	}
	f, _ := any(i.f64).(func(*binder[T]) job)
	return f
}

// scratchElems is the number of scratch elements that a step's kernel asks for
// on each of some threads.
func scratchElems(s *plan.Step, threads int) int {
	if f := implementations[s.Op].scratch; f != nil {
		return f(s, threads)
	}
	return 0
}

// scratchSize is the size of the elements that a step computes in.
func scratchSize(s *plan.Step) int {
	for i := range s.In {
		if s.In[i].Spec.DType == tensor.F64 {
			return 8
		}
	}
	return 4
}

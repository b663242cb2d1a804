package ops

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/cuda/library"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/engine/plan/layout"
	"github.com/trainctl/trainctl/core/tensor"
)

// Binder prepares the launches of a plan's steps, in their order.
type Binder struct {
	g     *gpu.GPU
	lib   *library.Libraries
	flow  *flow
	masks map[int]driver.DevicePtr // of the ReLUs of linear layers, by step
	done  map[int]bool             // steps whose work an earlier one does; of a gradient, unless it is added
	lay   []layout.Layout
}

// New looks at the plan as a whole: who reads what, and how images lie.
func New(steps []plan.Step, g *gpu.GPU, lib *library.Libraries) *Binder {
	return &Binder{g: g, lib: lib, flow: follow(steps), masks: map[int]driver.DevicePtr{}, done: map[int]bool{}, lay: layout.Of(steps, tensorCores{lib})}
}

// Workspace is the scratch that step i needs, in bytes: partial sums, and what libraries ask for.
func (w *Binder) Workspace(i int) int {
	s := &w.flow.steps[i]
	b := &binder{s: s, m: &memory.Program{GPU: w.g}, step: i, measure: true, Binder: w}
	if bind := bindings[s.Op]; bind != nil {
		bind(b)
	}
	return b.used
}

// Bind prepares step i over a program's memory, and returns which tensors of the State
// it changes besides its outputs. A step that this device does not know is an error,
// and so is a tensor of 2³¹ elements.
func (w *Binder) Bind(i int, m *memory.Program) (items []Item, changed []int, err error) {
	s := &w.flow.steps[i]
	bind := bindings[s.Op]
	if bind == nil {
		return nil, nil, fmt.Errorf("the GPU has no kernel for this operation")
	}
	for _, list := range [2][]plan.Operand{s.In, s.Out} {
		for j := range list {
			if n := list[j].Spec.Shape.Elems(); list[j].Present() && n > math.MaxInt32 {
				return nil, nil, fmt.Errorf("a tensor of %d elements: kernels count up to 2³¹", n)
			}
		}
	}
	b := &binder{s: s, m: m, step: i, Binder: w}
	bind(b)
	return b.items, b.changed, b.err
}

// binder prepares the launches of one step. With measure set it only adds up scratch.
type binder struct {
	s       *plan.Step
	m       *memory.Program
	step    int
	measure bool
	used    int
	items   []Item
	changed []int // tensors of the State
	err     error

	*Binder
}

// last reports whether the images of the step are channels-last.
func (b *binder) last() bool { return b.lay[b.step].Out }

// in and out are operands' addresses, 0 where absent.
func (b *binder) in(i int) driver.DevicePtr { return b.at(b.s.In, i) }

func (b *binder) out(i int) driver.DevicePtr { return b.at(b.s.Out, i) }

func (b *binder) at(list []plan.Operand, i int) driver.DevicePtr {
	if b.measure || i >= len(list) {
		return 0
	}
	return b.m.At(&list[i])
}

// scratch is n bytes of workspace.
func (b *binder) scratch(n int) (p driver.DevicePtr) {
	if !b.measure {
		p = b.m.Work(b.used)
	}
	b.used += memory.RoundUp(n)
	return p
}

// keep is n bytes that stay until the plan has run.
func (b *binder) keep(n int) (p driver.DevicePtr) {
	if !b.measure && b.err == nil {
		p, b.err = b.m.Own(n, "what a run keeps")
	}
	return p
}

// call adds what a library enqueues.
func (b *binder) call(name string, f func() error) {
	if !b.measure {
		b.items = append(b.items, Item{Name: name, call: f})
	}
}

// only makes the items from an index on depend on a call: they run where *when
// is not 0, or where *unless is.
func (b *binder) only(from int, when, unless *int32) {
	for i := from; i < len(b.items); i++ {
		b.items[i].when, b.items[i].unless = when, unless
	}
}

// adds tells a kernel whether to add to output i: yes, no, or as the call says.
func (b *binder) adds(i int) *int32 {
	switch {
	case i >= len(b.s.Out) || b.s.Out[i].Place != plan.PlaceGrad:
		return new(int32)
	case b.s.Out[i].Add:
		one := int32(1)
		return &one
	}
	return &b.m.Accumulate
}

// typeOf is the number of an operand's type; float's for an absent one.
func typeOf(list []plan.Operand, i int) int32 {
	if i >= len(list) || !list[i].Present() {
		return 0
	}
	return kernels.Code(list[i].Spec.DType)
}

// state marks the State behind input i as changed by the step.
func (b *binder) state(i int) driver.DevicePtr {
	b.changed = append(b.changed, b.s.In[i].Index)
	return b.in(i)
}

// grid is enough blocks for n elements, four to a thread.
func grid(n int) int { return max(1, min((n+4*kernels.Block-1)/(4*kernels.Block), kernels.MostBlocks)) }

// launch adds a kernel of the programs for type d on x·y blocks. Arguments are
// passed by their Go type's size; a *int32 is read at each launch.
func (b *binder) launch(d tensor.DType, name string, x, y int, args ...any) {
	if b.measure || b.err != nil {
		return
	}
	it := Item{Name: name, x: uint32(x), y: uint32(y)}
	if it.f, b.err = b.g.Function(d, name); b.err != nil {
		return
	}
	for _, a := range args {
		it.params = append(it.params, param(a))
	}
	b.items = append(b.items, it)
}

// param is the memory of a kernel's argument.
func param(a any) unsafe.Pointer {
	switch v := a.(type) {
	case driver.DevicePtr:
		return unsafe.Pointer(&v)
	case int:
		n := int32(v)
		return unsafe.Pointer(&n)
	case int32:
		return unsafe.Pointer(&v)
	case int64:
		return unsafe.Pointer(&v)
	case uint64:
		return unsafe.Pointer(&v)
	case float32:
		return unsafe.Pointer(&v)
	case float64:
		return unsafe.Pointer(&v)
	case *int32:
		return unsafe.Pointer(v)
	case poolGeometry:
		return unsafe.Pointer(&v)
	case library.Geometry:
		return unsafe.Pointer(&v)
	case attentionHeads:
		return unsafe.Pointer(&v)
	case rope:
		return unsafe.Pointer(&v)
	case normTargets:
		return unsafe.Pointer(&v)
	}
	panic(fmt.Sprintf("cuda: a kernel takes no %T", a))
}

// elementwise launches a kernel over n elements; n is its last argument.
func (b *binder) elementwise(d tensor.DType, name string, n int, args ...any) {
	b.launch(d, name, grid(n), 1, append(args, n)...)
}

// bindings prepare the operations.
var bindings = map[graph.Op]func(*binder){}

// implement enters how steps are prepared; each file calls it from init.
func implement(o graph.Op, bind func(*binder)) { bindings[o] = bind }

// Operations lists the steps that GPUs run, sorted.
func Operations() []graph.Op { return slices.Sorted(maps.Keys(bindings)) }

package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Workspace is the scratch that a step needs: partial sums, and what libraries ask for.
func (d *Device) Workspace(s *plan.Step) int {
	defer d.enter()()
	return d.workspace(newWhole([]plan.Step{*s}, &d.lib), 0)
}

func (d *Device) workspace(w *whole, i int) int {
	s := &w.flow.steps[i]
	b := &binder{s: s, m: &memory{dev: d}, step: i, measure: true, whole: w}
	if bind := bindings[s.Op]; bind != nil {
		bind(b)
	}
	return b.used
}

// Bind copies nothing yet: it finds memory and prepares every launch. A step
// that this device does not know is an error, and so is a tensor of 2³¹ elements.
func (d *Device) Bind(p *plan.Plan, st plan.State) (_ plan.Executor, err error) {
	defer d.enter()()
	e := &executor{m: &memory{dev: d, st: st, resident: map[driver.DevicePtr]bool{}}, plan: p, dirty: map[int]bool{}}
	defer func() {
		if err != nil {
			err = joinFree(err, e.free())
		}
	}()
	if err = e.place(); err != nil {
		return nil, err
	}
	report := p.Stats()
	e.report = e.m.at(&report)
	steps, w := p.Steps(), newWhole(p.Steps(), &d.lib)
	for i := range steps {
		items, err := e.bind(w, i, &steps[i])
		if err != nil {
			return nil, fmt.Errorf("step %d, %s (%s): %w", i, steps[i].Layer, steps[i].Op, err)
		}
		e.items = append(e.items, items)
	}
	e.actions = divide(steps, p.GradSpecs(), e.items)
	return e, nil
}

// executor is one bound plan.
type executor struct {
	plan   *plan.Plan
	m      *memory
	items  [][]item
	dirty  map[int]bool // tensors of the State that a run changes
	report driver.DevicePtr
	leave  func()
	failed error

	actions [][]action // by step
	eager   error      // why launches are not captured

	words [3]uint64 // of a Call, as kernels read it
	stats [3]float64
	fault [4]int32
}

func (e *executor) place() (err error) {
	m, d := e.m, e.m.dev
	work, w := 0, newWhole(e.plan.Steps(), &d.lib)
	for i := range e.plan.Steps() {
		work = max(work, d.workspace(w, i))
	}
	if m.room, err = d.reserve(e.plan.ArenaBytes(), work); err != nil {
		return err
	}
	m.owned = append(m.owned, func() error { return d.release(m.room) })
	for _, t := range m.st.Tensors {
		p, err := m.mirrored(t)
		if err != nil {
			return err
		}
		m.state = append(m.state, p)
	}
	for _, t := range m.st.Grads {
		p, err := m.mirrored(t)
		if err != nil {
			return err
		}
		m.grads = append(m.grads, p)
	}
	in, target := e.plan.Batches()
	for _, a := range []struct {
		at *driver.DevicePtr
		n  int
	}{{&m.batch, in.Bytes()}, {&m.target, target.Bytes()}, {&m.call, 24}, {&m.fault, 16}} {
		if *a.at, err = m.own(a.n); err != nil {
			return err
		}
	}
	return nil
}

func (e *executor) bind(w *whole, i int, s *plan.Step) ([]item, error) {
	bind := bindings[s.Op]
	if bind == nil {
		return nil, fmt.Errorf("the GPU has no kernel for this operation")
	}
	for _, list := range [2][]plan.Operand{s.In, s.Out} {
		for j := range list {
			if n := list[j].Spec.Shape.Elems(); list[j].Present() && n > math.MaxInt32 {
				return nil, fmt.Errorf("a tensor of %d elements: kernels count up to 2³¹", n)
			}
		}
	}
	for _, o := range s.Out {
		if o.Place == plan.PlaceState {
			e.dirty[o.Index] = true
		}
	}
	b := &binder{s: s, m: e.m, step: i, whole: w}
	bind(b)
	for _, o := range b.changed {
		e.dirty[o] = true
	}
	return b.items, b.err
}

// Step puts on the stream what begins with step i. Complete gradients are
// waited for and brought back, unless their memory is mirrored.
func (e *executor) Step(i int, c *plan.Call) {
	if e.leave == nil { // the first step may be in a branch that is left out
		e.leave, e.failed = e.m.dev.enter(), nil
		e.fail(c, "copying the model and the batch to the device", e.begin(c))
	}
	for _, a := range e.actions[i] {
		if e.failed != nil {
			return
		}
		if a.segment != nil {
			e.failed = e.start(a.segment)
		} else {
			e.failed = a.host(c)
		}
		c.Err = e.failed
	}
	if s := &e.plan.Steps()[i]; e.failed == nil && len(s.Complete) > 0 {
		e.fail(c, fmt.Sprintf("%s (%s)", s.Layer, s.Op), e.fetch(s))
	}
}

func (e *executor) fail(c *plan.Call, where string, err error) {
	if err != nil {
		e.failed = fmt.Errorf("cuda: %s: %w", where, err)
		c.Err = e.failed
	}
}

// begin copies what the run reads.
func (e *executor) begin(c *plan.Call) error {
	m := e.m
	m.accumulate = 0
	if c.Accumulate {
		m.accumulate = 1
		for i, t := range m.st.Grads {
			if m.resident[m.grads[i]] {
				continue
			}
			if err := m.up(m.grads[i], t.Data); err != nil {
				return err
			}
		}
	}
	for i, t := range m.st.Tensors {
		if m.resident[m.state[i]] {
			continue
		}
		if err := m.up(m.state[i], t.Data); err != nil {
			return err
		}
	}
	e.words = [3]uint64{math.Float64bits(c.GradScale), c.Seed, c.Stream}
	if err := m.eat(c); err != nil {
		return err
	}
	if err := m.up(m.call, tensor.Bytes(e.words[:])); err != nil {
		return err
	}
	return m.dev.cu.MemsetD8Async(m.fault, 0, 16, m.dev.stream)
}

// fetch brings back the gradients that a step completes.
func (e *executor) fetch(s *plan.Step) error {
	all := true
	for _, p := range s.Complete {
		if e.m.resident[e.m.grads[p]] {
			continue
		}
		all = false
		if err := e.m.down(e.m.st.Grads[p].Data, e.m.grads[p]); err != nil {
			return err
		}
	}
	if all {
		return nil
	}
	return e.m.dev.cu.StreamSynchronize(e.m.dev.stream)
}

// Stats waits, and brings back what the run changed.
func (e *executor) Stats() (plan.Stats, error) {
	if e.leave == nil {
		return plan.Stats{}, e.failed
	}
	defer func() {
		e.leave()
		e.leave = nil
	}()
	m := e.m
	err := joinFree(m.down(tensor.Bytes(e.stats[:]), e.report), m.down(tensor.Bytes(e.fault[:]), m.fault))
	for i := range m.st.Tensors {
		if e.dirty[i] && !m.resident[m.state[i]] && err == nil && e.failed == nil {
			err = m.down(m.st.Tensors[i].Data, m.state[i])
		}
	}
	err = joinFree(err, m.dev.cu.StreamSynchronize(m.dev.stream))
	switch {
	case e.failed != nil:
		return plan.Stats{}, e.failed
	case err != nil:
		return plan.Stats{}, fmt.Errorf("cuda: the end of a run: %w", err)
	}
	if f := e.fault; f[3] != 0 {
		err = fmt.Errorf("cuda: %s: element %d of the batch is %d, outside 0 to %d", e.blame(int(f[0])), f[1], f[2], f[3]-1)
	}
	return plan.Stats{LossSum: e.stats[0], Counted: e.stats[1], Correct: e.stats[2]}, err
}

// blame names what a step's indices are.
func (e *executor) blame(step int) string {
	if s := e.plan.Steps()[step]; !slices.Contains(lossOps, s.Op) {
		return s.Layer
	}
	return "target class"
}

// Close frees what only this program used.
func (e *executor) Close() error {
	defer e.m.dev.enter()()
	return e.free()
}

func (e *executor) free() (err error) {
	for _, f := range slices.Backward(e.m.owned) {
		err = joinFree(err, f())
	}
	e.m.owned, e.items, e.actions = nil, nil, nil
	return err
}

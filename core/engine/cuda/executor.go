package cuda

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
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
	steps, w := p.Steps(), newWhole(p.Steps(), &d.lib)
	e.random = slices.ContainsFunc(steps, func(s plan.Step) bool { return op.Of(s.Op).Random })
	for i := range steps {
		e.m.dev.calls.Add(1) // libraries compile here
		items, err := e.bind(w, i, &steps[i])
		if err != nil {
			return nil, fmt.Errorf("step %d, %s (%s): %w", i, steps[i].Layer, steps[i].Op, err)
		}
		e.items = append(e.items, items)
	}
	e.actions = divide(steps, p.GradSpecs(), e.items)
	return e, e.mark()
}

// executor is one bound plan.
type executor struct {
	plan   *plan.Plan
	m      *memory
	items  [][]item
	dirty  map[int]bool // tensors of the State that a run changes
	begun  bool
	failed error

	actions [][]action // by step
	eager   error      // why launches are not captured
	marks   marks
	asked   purpose // of the wait for a run's end

	talk   *talk
	sent   bool // the device has talk's words
	random bool // a step draws numbers
}

// talk is what a run and the host tell each other, in pinned memory: words are
// copied to the device, where every kernel reads them; the rest kernels write here.
type talk struct {
	words [3]uint64 // of a Call
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
	if m.batch, err = m.own(roundUp(in.Bytes())+target.Bytes(), "a batch"); err != nil {
		return err
	}
	m.target = m.batch + driver.DevicePtr(roundUp(in.Bytes()))
	if m.call, err = m.own(24, "a run"); err != nil {
		return err
	}
	p, err := m.ownPinned(int(unsafe.Sizeof(talk{})))
	if err != nil {
		return err
	}
	e.talk = (*talk)(p.host)
	m.stats = p.at + driver.DevicePtr(unsafe.Offsetof(talk{}.stats))
	m.fault = p.at + driver.DevicePtr(unsafe.Offsetof(talk{}.fault))
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
	if !e.begun { // the first step may be in a branch that is left out
		e.begun, e.failed = true, nil
		e.fail(c, e.begin(c))
	}
	for _, a := range e.actions[i] {
		if e.failed != nil {
			return
		}
		if a.segment != nil {
			e.fail(c, e.start(a.segment))
		} else {
			e.fail(c, a.host(c))
		}
	}
	if s := &e.plan.Steps()[i]; e.failed == nil && len(s.Complete) > 0 {
		e.fail(c, e.fetch(s))
	}
}

func (e *executor) fail(c *plan.Call, err error) {
	if err != nil {
		e.failed, c.Err = err, err
	}
}

// begin copies what the run reads.
func (e *executor) begin(c *plan.Call) error {
	m := e.m
	if err := m.dev.gone(); err != nil {
		return err
	}
	defer m.dev.enter()()
	return m.dev.told(e.copyIn(c), to("copying the model and the batch to the device"))
}

func (e *executor) copyIn(c *plan.Call) error {
	m := e.m
	e.marks.begin()
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
	if err := m.eat(c); err != nil {
		return err
	}
	e.talk.fault = [4]int32{}
	return e.tell([3]uint64{math.Float64bits(c.GradScale), c.Seed, c.Stream})
}

// tell gives kernels the words of a run, if they are others than before. What
// makes a run's numbers its own is of interest to dropout alone.
func (e *executor) tell(words [3]uint64) error {
	if !e.random {
		words[1], words[2] = 0, 0
	}
	if e.sent && e.talk.words == words {
		return nil
	}
	e.talk.words, e.sent = words, true
	return e.m.up(e.m.call, tensor.Bytes(e.talk.words[:]))
}

// fetch brings back the gradients that a step completes.
func (e *executor) fetch(s *plan.Step) error {
	m := e.m
	if !slices.ContainsFunc(s.Complete, func(p int) bool { return !m.resident[m.grads[p]] }) {
		return nil
	}
	defer m.dev.enter()()
	why := purpose{text: "the gradients of " + s.Layer, where: e.marks.where}
	if err := m.dev.finish(why); err != nil { // copies to pageable memory would wait without an end
		return err
	}
	for _, p := range s.Complete {
		if m.resident[m.grads[p]] {
			continue
		}
		if err := m.down(m.st.Grads[p].Data, m.grads[p]); err != nil {
			return m.dev.told(err, why)
		}
	}
	return m.dev.finish(why)
}

// Stats waits, and brings back what the run changed.
func (e *executor) Stats() (plan.Stats, error) {
	if !e.begun {
		return plan.Stats{}, e.failed
	}
	e.begun = false
	defer e.m.dev.enter()()
	err := e.m.dev.finish(e.asked)
	if err == nil {
		err = e.copyOut()
	}
	switch {
	case e.failed != nil:
		return plan.Stats{}, e.failed
	case err != nil:
		return plan.Stats{}, err
	}
	if f := e.talk.fault; f[3] != 0 {
		err = fmt.Errorf("cuda: %s: element %d of the batch is %d, outside 0 to %d", e.blame(int(f[0])), f[1], f[2], f[3]-1)
	}
	s := &e.talk.stats
	return plan.Stats{LossSum: s[0], Counted: s[1], Correct: s[2]}, err
}

// copyOut brings tensors that the run changed to the host, where they are not mirrored.
func (e *executor) copyOut() error {
	m, any := e.m, false
	for i := range m.st.Tensors {
		if !e.dirty[i] || m.resident[m.state[i]] || e.failed != nil {
			continue
		}
		if err := m.down(m.st.Tensors[i].Data, m.state[i]); err != nil {
			return m.dev.told(err, e.asked)
		}
		any = true
	}
	if !any {
		return nil
	}
	return m.dev.finish(e.asked)
}

// blame names what a step's indices are.
func (e *executor) blame(step int) string {
	if s := e.plan.Steps()[step]; !op.Of(s.Op).Loss {
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
		if e.m.dev.gone() != nil {
			break // the driver frees what is left with the process
		}
		err = joinFree(err, f())
	}
	e.m.owned, e.items, e.actions = nil, nil, nil
	return err
}

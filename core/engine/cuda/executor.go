package cuda

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/engine/cuda/ops"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Workspace is the scratch that a step needs: partial sums, and what libraries ask for.
func (d *Device) Workspace(s *plan.Step) int {
	defer d.gpu.Enter()()
	return ops.New([]plan.Step{*s}, d.gpu, d.lib).Workspace(0)
}

// Bind copies nothing yet: it finds memory and prepares every launch. A step
// that this device does not know is an error, and so is a tensor of 2³¹ elements.
func (d *Device) Bind(p *plan.Plan, st plan.State) (_ plan.Executor, err error) {
	defer d.gpu.Enter()()
	e := &executor{g: d.gpu, st: st, plan: p, dirty: map[int]bool{}}
	defer func() {
		if err != nil {
			err = cmp.Or(err, e.free())
		}
	}()
	steps, copies := ops.ShareCasts(p, func(i int) bool {
		_, ok := d.mem.CopyOf(st.Tensors[i].Data)
		return ok
	})
	if err = e.place(d, steps, copies); err != nil {
		return nil, err
	}
	w := ops.New(steps, d.gpu, d.lib)
	e.random = slices.ContainsFunc(steps, func(s plan.Step) bool { return op.Of(s.Op).Random })
	for i := range steps {
		d.gpu.Busy() // libraries compile here
		items, changed, err := w.Bind(i, e.m)
		if err != nil {
			return nil, fmt.Errorf("step %d, %s (%s): %w", i, steps[i].Layer, steps[i].Op, err)
		}
		e.items = append(e.items, items)
		e.changes(&steps[i], changed)
	}
	e.actions = divide(steps, p.GradSpecs(), e.items)
	return e, e.mark()
}

// executor is one bound plan.
type executor struct {
	g      *gpu.GPU
	plan   *plan.Plan
	st     plan.State
	m      *memory.Program
	items  [][]ops.Item
	dirty  map[int]bool // tensors of the State that a run changes
	begun  bool
	failed error

	actions [][]action // by step
	eager   error      // why launches are not captured
	marks   marks
	waiting gpu.Activity // of the wait for a run's end

	msg    *message
	sent   bool // the device has the message's words
	random bool // a step draws numbers
}

// message is what a run and the host tell each other, in pinned memory: words are
// copied to the device, where every kernel reads them; the rest kernels write here.
type message struct {
	words [3]uint64 // of a Call
	stats [3]float64
	fault [4]int32
}

func (e *executor) place(d *Device, steps []plan.Step, copies []ops.Copy) (err error) {
	w, work := ops.New(steps, d.gpu, d.lib), 0
	for i := range steps {
		work = max(work, w.Workspace(i))
	}
	if e.m, err = d.mem.NewProgram(e.plan, e.st, work); err != nil {
		return err
	}
	for _, c := range copies {
		if err := e.m.NeedCopy(c.Tensor, c.From, c.DType); err != nil {
			return err
		}
	}
	p, err := e.m.OwnPinned(int(unsafe.Sizeof(message{})))
	if err != nil {
		return err
	}
	e.msg = (*message)(p.Host)
	e.m.Stats = p.At + driver.DevicePtr(unsafe.Offsetof(message{}.stats))
	e.m.Fault = p.At + driver.DevicePtr(unsafe.Offsetof(message{}.fault))
	return nil
}

// changes notes which tensors of the State a step writes.
func (e *executor) changes(s *plan.Step, more []int) {
	for _, o := range s.Out {
		if o.Place == plan.PlaceState {
			e.dirty[o.Index] = true
		}
	}
	for _, i := range more {
		e.dirty[i] = true
	}
}

// Step enqueues the work that begins with step i. Complete gradients are waited for
// and brought back, unless their memory is mirrored.
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
	if err := e.g.Lost(); err != nil {
		return err
	}
	defer e.g.Enter()()
	return e.g.Check(e.copyIn(c), gpu.Doing("copying the model and the batch to the device"))
}

func (e *executor) copyIn(c *plan.Call) error {
	m := e.m
	e.marks.begin()
	m.Accumulate = 0
	if c.Accumulate {
		m.Accumulate = 1
		for i, t := range e.st.Grads {
			if m.Resident(m.Grads[i]) {
				continue
			}
			if err := e.g.Put(m.Grads[i], t.Data); err != nil {
				return err
			}
		}
	}
	for i, t := range e.st.Tensors {
		if m.Resident(m.Tensors[i]) {
			continue
		}
		if err := e.g.Put(m.Tensors[i], t.Data); err != nil {
			return err
		}
	}
	if err := m.LoadBatch(c); err != nil {
		return err
	}
	if err := m.RefreshCopies(); err != nil {
		return err
	}
	e.msg.fault = [4]int32{}
	return e.tell([3]uint64{math.Float64bits(c.GradScale), c.Seed, c.Stream})
}

// tell gives kernels the words of a run, if they are others than before. What
// makes a run's numbers its own is of interest to dropout alone.
func (e *executor) tell(words [3]uint64) error {
	if !e.random {
		words[1], words[2] = 0, 0
	}
	if e.sent && e.msg.words == words {
		return nil
	}
	e.msg.words, e.sent = words, true
	return e.g.Put(e.m.Call, tensor.Bytes(e.msg.words[:]))
}

// fetch copies back the gradients that a step completes.
func (e *executor) fetch(s *plan.Step) error {
	m := e.m
	if !slices.ContainsFunc(s.Complete, func(p int) bool { return !m.Resident(m.Grads[p]) }) {
		return nil
	}
	defer e.g.Enter()()
	why := gpu.Activity{Text: "the gradients of " + s.Layer, Where: e.marks.where}
	if err := e.g.Finish(why); err != nil { // copies to pageable memory would wait forever
		return err
	}
	for _, p := range s.Complete {
		if m.Resident(m.Grads[p]) {
			continue
		}
		if err := e.g.Get(e.st.Grads[p].Data, m.Grads[p]); err != nil {
			return e.g.Check(err, why)
		}
	}
	return e.g.Finish(why)
}

// Stats waits, and copies back what the run changed.
func (e *executor) Stats() (plan.Stats, error) {
	if !e.begun {
		return plan.Stats{}, e.failed
	}
	e.begun = false
	defer e.g.Enter()()
	err := e.g.Finish(e.waiting)
	if err == nil {
		err = e.copyOut()
	}
	switch {
	case e.failed != nil:
		return plan.Stats{}, e.failed
	case err != nil:
		return plan.Stats{}, err
	}
	if f := e.msg.fault; f[3] != 0 {
		err = fmt.Errorf("cuda: %s: element %d of the batch is %d, outside 0 to %d", e.blame(int(f[0])), f[1], f[2], f[3]-1)
	}
	s := &e.msg.stats
	return plan.Stats{LossSum: s[0], Counted: s[1], Correct: s[2]}, err
}

// copyOut copies tensors that the run changed to the host, unless they are mirrored.
func (e *executor) copyOut() error {
	m, any := e.m, false
	for i := range e.st.Tensors {
		if !e.dirty[i] || m.Resident(m.Tensors[i]) || e.failed != nil {
			continue
		}
		if err := e.g.Get(e.st.Tensors[i].Data, m.Tensors[i]); err != nil {
			return e.g.Check(err, e.waiting)
		}
		any = true
	}
	if !any {
		return nil
	}
	return e.g.Finish(e.waiting)
}

// blame describes a step's indices.
func (e *executor) blame(step int) string {
	if s := e.plan.Steps()[step]; !op.Of(s.Op).Loss {
		return s.Layer
	}
	return "target class"
}

// Close frees what only this program used.
func (e *executor) Close() error {
	defer e.g.Enter()()
	return e.free()
}

func (e *executor) free() (err error) {
	if e.m != nil {
		err = e.m.Free()
	}
	e.items, e.actions = nil, nil
	return err
}

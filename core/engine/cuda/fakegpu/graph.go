package fakegpu

import "github.com/trainctl/trainctl/core/engine/cuda/driver"

// work is what a kernel or a library's function does; free is called when it will not run again.
type work struct {
	name      string
	run, free func()
}

// graph is what was enqueued while it was captured.
type graph struct {
	work    []work
	invalid bool
}

func (g *graph) free() {
	for _, w := range g.work {
		if w.free != nil {
			w.free()
		}
	}
}

// compute puts what a kernel or a library's function does on a stream, or into
// the graph that is captured there. The machine is locked.
func (p *Process) compute(name string, s driver.Stream, run, free func()) driver.CUResult {
	m := p.m
	q := m.streams[s]
	if code := p.usable(name, q); code != success {
		return code
	}
	w := work{name, run, free}
	if q.capture != nil {
		if name == m.uncapturable {
			q.capture.invalid = true
			return driver.StreamCaptureInvalidated
		}
		q.capture.work = append(q.capture.work, w)
		return success
	}
	q.queue = append(q.queue, func() bool {
		m.do(w)
		if free != nil {
			free()
		}
		return true
	})
	m.advance()
	return success
}

func (m *Machine) do(w work) {
	m.ran[w.name]++
	w.run()
}

// Uncapturable makes a kernel, or a library's function, end every capture that it is launched in.
func (m *Machine) Uncapturable(name string) { m.locked(func() { m.uncapturable = name }) }

// Replays is how often graphs were launched, Graphs how many there are, ready ones included.
func (m *Machine) Replays() (n int) {
	m.locked(func() { n = m.replays })
	return n
}

// Graphs is how many graphs there are, ready ones included.
func (m *Machine) Graphs() (n int) {
	m.locked(func() { n = len(m.graphs) })
	return n
}

func (p *Process) fillGraphs(c *driver.CUDA) {
	m := p.m
	c.StreamBeginCapture = func(s driver.Stream, mode int32) error {
		return m.fails("cuStreamBeginCapture", func() driver.CUResult {
			q := m.streams[s]
			if code := p.usable("cuStreamBeginCapture", q); code != success {
				return code
			}
			if q.capture != nil || mode != driver.CaptureThreadLocal {
				m.mistake("a capture of mode %d within another", mode)
				return driver.InvalidValue
			}
			q.capture = &graph{}
			return success
		})
	}
	c.StreamEndCapture = func(s driver.Stream, g *driver.Graph) error {
		return m.fails("cuStreamEndCapture", func() driver.CUResult {
			q := m.streams[s]
			if q == nil || q.owner != p.id || q.capture == nil {
				return driver.InvalidValue
			}
			done := q.capture
			q.capture = nil
			if done.invalid {
				done.free()
				return driver.StreamCaptureInvalidated
			}
			*g = driver.Graph(m.newHandle())
			m.graphs[uintptr(*g)] = done
			return success
		})
	}
	c.GraphInstantiateWithFlags = func(x *driver.GraphExec, g driver.Graph, _ uint64) error {
		return m.fails("cuGraphInstantiate", func() driver.CUResult {
			from := m.graphs[uintptr(g)]
			if from == nil {
				return driver.InvalidHandle
			}
			*x = driver.GraphExec(m.newHandle())
			m.graphs[uintptr(*x)] = &graph{work: from.work}
			from.work = nil // which is the ready one's to free
			return success
		})
	}
	c.GraphDestroy = func(g driver.Graph) error { return m.dropGraph("cuGraphDestroy", uintptr(g)) }
	c.GraphExecDestroy = func(x driver.GraphExec) error { return m.dropGraph("cuGraphExecDestroy", uintptr(x)) }
	c.GraphLaunch = func(x driver.GraphExec, s driver.Stream) error {
		return p.enqueue("cuGraphLaunch", s, func() (func() bool, driver.CUResult) {
			g := m.graphs[uintptr(x)]
			if g == nil {
				return nil, driver.InvalidHandle
			}
			m.replays++
			return func() bool {
				for _, w := range g.work {
					m.do(w)
				}
				return true
			}, success
		})
	}
}

// dropGraph lets launches that are under way end first.
func (m *Machine) dropGraph(call string, handle uintptr) error {
	return m.fails(call, func() driver.CUResult {
		g := m.graphs[handle]
		if g == nil {
			m.mistake("%s of %d, which is not there", call, handle)
			return driver.InvalidHandle
		}
		m.settle()
		g.free()
		delete(m.graphs, handle)
		return success
	})
}

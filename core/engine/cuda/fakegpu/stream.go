package fakegpu

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// stream is work in order. A piece of work says whether it is done now.
type stream struct {
	owner int
	queue []func() bool
	busy  *comm // whose launch on this stream is still in progress

	capture *graph // what is enqueued goes there
}

// event is a handle of an event, which may have several.
type event struct {
	owner int
	flags uint32
	*record
}

// record is what handles of one event share.
type record struct {
	home   int  // the process that made the event
	alive  bool // there is a handle there
	exists bool // it has been recorded
	latest *bool
	at     float32 // the machine's clock when it happened
}

// advance lets every stream go as far as it can: what one finishes may be what
// another waits for.
func (m *Machine) advance() {
	for moved := true; moved; {
		moved = false
		for _, s := range m.streams {
			for len(s.queue) > 0 && s.queue[0]() {
				s.queue, moved = s.queue[1:], true
			}
		}
	}
}

// look is advance for a query of a caller that waits and sleeps between queries. A copy to
// the device is done at the second query: the first one finds it under way.
func (m *Machine) look() {
	for range slowness - 1 {
		m.advance()
	}
}

// Block puts work on a stream that ends when release is called, as a long
// kernel would.
func (m *Machine) Block(s driver.Stream) (release func()) {
	over := false
	m.locked(func() { m.streams[s].queue = append(m.streams[s].queue, func() bool { return over }) })
	return func() { m.locked(func() { over = true; m.advance() }) }
}

func (p *Process) fillStreams(c *driver.CUDA) {
	m := p.m
	c.StreamCreate = func(s *driver.Stream, _ uint32) error {
		m.locked(func() {
			*s = driver.Stream(m.newHandle())
			m.streams[*s] = &stream{owner: p.id}
		})
		return nil
	}
	c.StreamDestroy = func(s driver.Stream) error { m.locked(func() { delete(m.streams, s) }); return nil }
	c.StreamQuery = func(s driver.Stream) error {
		return m.fails("cuStreamQuery", func() driver.CUResult {
			m.look()
			q := m.streams[s]
			if code := p.usable("cuStreamQuery", q); code != success {
				return code
			}
			switch {
			case q.capture != nil:
				m.mistake("cuStreamQuery while launches are captured")
				return driver.StreamCaptureUnsupported
			case len(q.queue) > 0:
				return driver.NotReady
			}
			return success
		})
	}
}

func (p *Process) fillEvents(c *driver.CUDA) {
	m := p.m
	c.EventCreate = func(e *driver.Event, flags uint32) error {
		return m.fails("cuEventCreate", func() driver.CUResult {
			if flags&driver.EventInterprocess != 0 && flags&driver.EventDisableTiming == 0 {
				return driver.InvalidValue
			}
			*e = driver.Event(m.newHandle())
			m.events[*e] = &event{owner: p.id, flags: flags, record: &record{home: p.id, alive: true, latest: new(bool)}}
			return success
		})
	}
	c.EventDestroy = func(h driver.Event) error {
		return m.fails("cuEventDestroy", func() driver.CUResult {
			e := m.events[h]
			if e == nil || e.owner != p.id {
				return driver.InvalidHandle
			}
			if e.owner == e.home {
				e.alive = false
			}
			delete(m.events, h)
			return success
		})
	}
	c.EventRecord = func(h driver.Event, s driver.Stream) error {
		return p.enqueue("cuEventRecord", s, func() (func() bool, driver.CUResult) {
			e := p.event(h)
			if e == nil {
				return nil, driver.InvalidHandle
			}
			done := new(bool)
			e.latest, e.exists = done, true
			return func() bool {
				*done, e.at = true, m.clock
				return true
			}, success
		})
	}
	c.StreamWaitEvent = func(s driver.Stream, h driver.Event, _ uint32) error {
		return p.enqueue("cuStreamWaitEvent", s, func() (func() bool, driver.CUResult) {
			e := p.event(h)
			if e == nil {
				return nil, driver.InvalidHandle
			}
			if !e.exists {
				m.mistake("a wait for an event that was never recorded")
				return func() bool { return true }, success
			}
			done := e.latest
			return func() bool { return *done }, success
		})
	}
	p.fillQueries(c)
}

func (p *Process) fillQueries(c *driver.CUDA) {
	m := p.m
	c.EventElapsedTime = func(ms *float32, from, to driver.Event) error {
		return m.fails("cuEventElapsedTime", func() driver.CUResult {
			a, b := p.event(from), p.event(to)
			switch {
			case a == nil || b == nil || !a.exists || !b.exists || (a.flags|b.flags)&driver.EventDisableTiming != 0:
				return driver.InvalidHandle
			case !*a.latest || !*b.latest:
				return driver.NotReady
			}
			*ms = b.at - a.at
			return success
		})
	}
	c.EventQuery = func(h driver.Event) error {
		return m.fails("cuEventQuery", func() driver.CUResult {
			m.look()
			switch e := p.event(h); {
			case e == nil:
				return driver.InvalidHandle
			case e.exists && !*e.latest:
				return driver.NotReady
			}
			return success
		})
	}
}

// event is one of the process's, nil if it has none such.
func (p *Process) event(h driver.Event) *event {
	e := p.m.events[h]
	if e == nil || e.owner != p.id {
		return nil
	}
	if !e.alive {
		p.m.mistake("a use of an event that was destroyed where it was made")
	}
	return e
}

// enqueue puts work on a stream. While NCCL is not done launching on it, that
// is a mistake of the caller.
func (p *Process) enqueue(call string, s driver.Stream, f func() (func() bool, driver.CUResult)) error {
	m := p.m
	return m.fails(call, func() driver.CUResult {
		q := m.streams[s]
		if code := p.usable(call, q); code != success {
			return code
		}
		if q.capture != nil {
			m.mistake("%s while launches are captured", call)
			q.capture.invalid = true
			return driver.StreamCaptureUnsupported
		}
		work, code := f()
		if code == success {
			q.queue = append(q.queue, work)
			m.advance()
		}
		return code
	})
}

// usable checks that work can go on a stream: it is the process's, whose context
// is current on this thread, and no collective is being launched on it.
func (p *Process) usable(call string, q *stream) driver.CUResult {
	switch {
	case q == nil || q.owner != p.id:
		return driver.InvalidHandle
	case q.busy != nil:
		return driver.NotPermitted
	case p.m.t != nil && p.current[thread()] == 0:
		p.m.mistake("%s on a thread where no context is current", call)
		return driver.InvalidContext
	}
	return success
}

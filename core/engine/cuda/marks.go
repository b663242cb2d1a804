package cuda

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// marks are events behind the segments of a plan: they tell how far a run came
// that does not end. A plan of one segment needs none.
type marks struct {
	cu     *driver.CUDA
	events []driver.Event
	parts  []string // from which layer to which each segment reaches
	passed int      // segments of the run that are on the stream
}

// mark makes a mark for every segment.
func (e *executor) mark() error {
	m, steps := &e.marks, e.plan.Steps()
	m.cu = e.g.CU
	e.waiting = gpu.Activity{Text: "the pass over a batch", Where: m.where}
	for _, list := range e.actions {
		for _, a := range list {
			if s := a.segment; s != nil {
				s.index = len(m.parts)
				m.parts = append(m.parts, between(&steps[s.items[0].step], &steps[s.items[len(s.items)-1].step]))
			}
		}
	}
	if len(m.parts) < 2 {
		return nil
	}
	for range m.parts {
		var event driver.Event
		if err := m.cu.EventCreate(&event, driver.EventDisableTiming); err != nil {
			return e.g.Check(err, gpu.Doing("an event"))
		}
		m.events = append(m.events, event)
		e.m.OnFree(func() error { return m.cu.EventDestroy(event) })
	}
	return nil
}

func between(a, b *plan.Step) string {
	return fmt.Sprintf(" from %s (%s) to %s (%s)", a.Layer, a.Op, b.Layer, b.Op)
}

func (m *marks) begin() { m.passed = 0 }

// set is called behind a segment.
func (m *marks) set(s *segment, stream driver.Stream) error {
	m.passed = s.index + 1
	if len(m.events) == 0 {
		return nil
	}
	return m.cu.EventRecord(m.events[s.index], stream)
}

// where is the first segment that is not done.
func (m *marks) where() string {
	for i, event := range m.events[:min(m.passed, len(m.events))] {
		if errors.Is(m.cu.EventQuery(event), driver.NotReady) {
			return m.parts[i]
		}
	}
	if len(m.events) == 0 && len(m.parts) > 0 {
		return m.parts[0]
	}
	return ""
}

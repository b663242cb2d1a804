package cuda

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/ops"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// segment is a stretch of a plan's launches with nothing for the host to do in
// between. It is launched one by one the first time, when libraries make
// themselves ready; then it is captured, and replayed as one graph. What
// differs from run to run lies in memory that is written before; whether
// gradients are added is in the launches themselves, so there are two graphs.
type segment struct {
	items  []launch
	graphs [2]captured // by whether gradients are added
	index  int         // of the plan's segments
}

// launch is an item with its step.
type launch struct {
	step int
	*ops.Item
}

type captured struct {
	warm bool
	exec driver.GraphExec
}

// action is what a step begins with: a segment, which may reach into
// later steps, or an item for the host.
type action struct {
	segment *segment
	host    func(c *plan.Call) error
}

// worthHandingOut is how many bytes of gradients are complete before a segment
// ends for them, so that the host can begin to reduce them while the next one
// runs: PyTorch's first bucket. Those of a small model come with the last segment.
const worthHandingOut = 1 << 20

// divide cuts the launches of a plan where the host has something to do: to
// exchange with other ranks, to hand out gradients, or to leave out a branch.
func divide(steps []plan.Step, grads []tensor.Spec, items [][]ops.Item) [][]action {
	all := make([][]action, len(steps))
	var open *segment
	complete := 0
	for i := range steps {
		if i > 0 && steps[i].Branch != steps[i-1].Branch {
			open = nil
		}
		for j := range items[i] {
			it := &items[i][j]
			if it.Host != nil {
				all[i], open = append(all[i], action{host: it.Host}), nil
				continue
			}
			if open == nil {
				open = &segment{}
				all[i] = append(all[i], action{segment: open})
			}
			open.items = append(open.items, launch{i, it})
		}
		for _, p := range steps[i].Complete {
			complete += grads[p].Bytes()
		}
		if complete >= worthHandingOut {
			open, complete = nil, 0
		}
	}
	return all
}

// start puts a segment on the stream.
func (e *executor) start(s *segment) error {
	defer e.g.Enter()()
	if err := e.launch(s); err != nil {
		return err
	}
	if err := e.marks.set(s, e.g.Stream); err != nil {
		return e.g.Check(err, gpu.Activity{Text: "an event", Where: e.marks.where})
	}
	return nil
}

func (e *executor) launch(s *segment) error {
	const worthIt = 2 // launches
	c := &s.graphs[e.m.Accumulate]
	switch {
	case c.exec != 0:
		return e.replay(s, c)
	case !c.warm || e.eager != nil || len(s.items) < worthIt:
		c.warm = true
		return e.each(s)
	}
	if err := e.capture(s, c); err != nil {
		e.eager = err // for good: what cannot be captured once cannot be the next time
		return e.each(s)
	}
	return e.replay(s, c)
}

func (e *executor) replay(s *segment, c *captured) error {
	if err := e.g.CU.GraphLaunch(c.exec, e.g.Stream); err != nil {
		return e.g.Check(err, gpu.Doing("a graph of this plan"+e.marks.parts[s.index]))
	}
	return nil
}

// each launches the items of a segment one by one.
func (e *executor) each(s *segment) error {
	for _, it := range s.items {
		if err := it.Enqueue(e.g); err != nil {
			step := &e.plan.Steps()[it.step]
			return e.g.Check(err, gpu.Doing(fmt.Sprintf("%s (%s), kernel %s", step.Layer, step.Op, it.Name)))
		}
	}
	return nil
}

// capture records a segment instead of running it.
func (e *executor) capture(s *segment, c *captured) (err error) {
	g := e.g
	if err := g.CU.StreamBeginCapture(g.Stream, driver.CaptureThreadLocal); err != nil {
		return err
	}
	err = e.each(s)
	var graph driver.Graph
	err = errors.Join(err, g.CU.StreamEndCapture(g.Stream, &graph))
	if graph == 0 {
		return errors.Join(err, errors.New("cuda: the capture was invalidated"))
	}
	if err == nil {
		err = g.CU.GraphInstantiateWithFlags(&c.exec, graph, 0)
	}
	if err = errors.Join(err, g.CU.GraphDestroy(graph)); err != nil {
		return err
	}
	exec := c.exec
	e.m.OnFree(func() error { return g.CU.GraphExecDestroy(exec) })
	return nil
}

package layout

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Layout is how the images that a step reads and writes lie: planes of one channel each, as everywhere
// outside the arena, or with the channels of a pixel side by side.
type Layout struct{ In, Out bool } // channels last

// Device says what channels side by side are worth to it.
type Device interface {
	// Saves is the operations of a convolution if it is faster so, and less than nothing by as many if not.
	Saves(convolution *plan.Step) int64

	// Stores reports whether images of a type may lie so, and places of maxima of pooling with them.
	Stores(d tensor.DType) bool
}

// convolutions are the steps that are asked what they save.
var convolutions = map[graph.Op]bool{op.Conv2D: true, op.Conv2DGradInput: true, op.Conv2DGradWeight: true, op.ConvTranspose2D: true}

// IsConvolution reports whether the layout pass asks the device about a step.
func IsConvolution(s *plan.Step) bool { return convolutions[s.Op] }

// isImage reports whether the order of channels and pixels matters.
func isImage(s tensor.Shape) bool { return len(s) == 4 && s[1] > 1 && s[2]*s[3] > 1 }

// layouts are sets of values in the arena that lie alike. A set has its
// channels last if every step that touches it can take it so, and most of the work of its
// convolutions is saved by that. A device lets the others convert what they
// read and write, so that one of them does not decide for a network.
type layouts struct {
	device Device
	shapes []tensor.Shape // by value
	parent []int
	keep   []bool  // by root: stays in planes
	saved  []int64 // by root: operations of convolutions that are faster with channels last, less those of others
	now    map[plan.Address]int
}

func (l *layouts) value(shape tensor.Shape) int {
	l.shapes = append(l.shapes, shape)
	l.parent = append(l.parent, len(l.parent))
	l.keep, l.saved = append(l.keep, false), append(l.saved, 0)
	return len(l.parent) - 1
}

func (l *layouts) root(v int) int {
	for l.parent[v] != v {
		v = l.parent[v]
	}
	return v
}

func (l *layouts) join(v, w int) int {
	v, w = l.root(v), l.root(w)
	if v != w {
		l.parent[w] = v
		l.keep[v], l.saved[v] = l.keep[v] || l.keep[w], l.saved[v]+l.saved[w]
	}
	return v
}

// none is the value of a step without images in the arena.
const none = -1

// Of is how each step's images lie on a device; without one, in planes.
func Of(steps []plan.Step, device Device) []Layout {
	all := make([]Layout, len(steps))
	if device == nil {
		return all
	}
	l := &layouts{device: device, now: map[plan.Address]int{}}
	in, out := make([]int, len(steps)), make([]int, len(steps))
	for i := range steps {
		in[i], out[i] = l.step(&steps[i])
	}
	last := func(v int) bool { return v != none && l.saved[l.root(v)] > 0 && !l.keep[l.root(v)] }
	for i := range steps {
		all[i] = Layout{last(in[i]), last(out[i])}
	}
	return all
}

// step gives its images to sets: to one, unless it is a cast.
func (l *layouts) step(s *plan.Step) (in, out int) {
	in, out = none, none
	for j := range s.In {
		l.operand(s, &s.In[j], func() int { return l.read(&s.In[j]) }, &in)
	}
	for j := range s.Out {
		l.operand(s, &s.Out[j], func() int { return l.write(&s.Out[j]) }, &out)
	}
	if s.Op == op.Cast || in == none && out == none {
		return in, out
	}
	switch {
	case in == none:
		in = out
	case out != none:
		in = l.join(in, out)
	}
	if IsConvolution(s) {
		l.saved[l.root(in)] += l.device.Saves(s)
	}
	return in, in
}

// operand adds an operand to its step's set. What is not an image, or not as an
// image to this step, stays as it is.
func (l *layouts) operand(s *plan.Step, o *plan.Operand, value func() int, set *int) {
	image := op.StepOf(s.Op).AnyLayout && isImage(o.Spec.Shape)
	isFilter := IsConvolution(s) && o == filterOf(s)
	switch {
	case !o.Present():
	case o.Place != plan.PlaceArena:
		if image && !isFilter && s.Op != op.Cast {
			v := l.value(o.Spec.Shape)
			l.keep[v] = true
			l.into(set, v)
		}
	case !image || isFilter:
		l.keep[l.root(value())] = true
	default:
		v := value()
		if !l.device.Stores(o.Spec.DType) {
			l.keep[l.root(v)] = true
		}
		l.into(set, v)
	}
}

// filterOf is a convolution's weight or its gradient, which has four dimensions and is not an image.
func filterOf(s *plan.Step) *plan.Operand {
	if s.Op == op.Conv2DGradWeight {
		return &s.Out[0]
	}
	return &s.In[1]
}

func (l *layouts) into(set *int, v int) {
	if *set == none {
		*set = v
		return
	}
	*set = l.join(*set, v)
}

func (l *layouts) read(o *plan.Operand) int {
	v, ok := l.now[o.Address()]
	if !ok {
		return l.write(o)
	}
	if !l.shapes[v].Equal(o.Spec.Shape) { // reshaped, in the order of planes
		l.keep[l.root(v)] = true
	}
	return v
}

func (l *layouts) write(o *plan.Operand) int {
	v := l.value(o.Spec.Shape)
	l.now[o.Address()] = v
	return v
}

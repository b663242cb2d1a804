package conv

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

const (
	slideMost        = 9 // neighbouring taps that kernels take: a window of two vectors of eight lanes has as many
	slideNarrow      = 7 // of these, with stride 2 and vectors of eight lanes
	slideEverySecond = 5 // taps that see every second element
	slideKinds       = slideMost + slideEverySecond - 1
)

// lineSlides emits convolution along rows for few taps that are near: their weights, or sums, stay in registers while a window slides along a row. What is
// known of the row is a list (see slide in conv/lines): the edge of the first vector, which is where its masks are, or 0 if it lies inside the row; for the vectors behind it their edges, or, less than 0,
// the length of a run of those that lie inside; a 0; and the edges of the last vector and of the last results. With stride 2, pairs of vectors
// are read, and for two phases of results they are written.
func lineSlides(a *isa.Asm) {
	kernel := func(stride, phases int, dots bool, taps []slideTap) *lineSlide {
		return &lineSlide{windowKernel: &windowKernel{Asm: a, stride: stride, phases: phases, dots: dots}, taps: taps}
	}
	most := slideMost
	if a.Lanes == 8 {
		most = slideNarrow
	}
	for kind := 1; kind <= slideKinds; kind++ {
		taps, step := kind, 1
		if kind > slideMost {
			taps, step = kind-slideMost+1, 2
		}
		seen := fmt.Sprintf("%d neighbouring taps", taps)
		if step > 1 {
			seen = fmt.Sprintf("%d taps that see every second element", taps)
		}
		kernel(1, 1, false, nearTaps(taps, step, 1)).results(fmt.Sprint("lineSlide", kind), "convolves rows with "+seen+".")
		kernel(1, 1, true, nearTaps(taps, step, 1)).gradients(fmt.Sprint("lineSlideDots", kind), "adds the products of dy and x for "+seen+", [row][tap][lane].")
	}
	for taps := 1; taps <= most; taps++ {
		kernel(2, 1, false, nearTaps(taps, 1, 2)).results(fmt.Sprint("lineSlideStrided", taps), fmt.Sprintf("convolves rows with %d taps and stride 2.", taps))
		kernel(2, 1, true, nearTaps(taps, 1, 2)).gradients(fmt.Sprint("lineSlideDotsStrided", taps), fmt.Sprintf("adds the products of dy and x for %d taps with stride 2, [row][tap][lane].", taps))
		for first, of := range []string{"even", "odd"} {
			doc := fmt.Sprintf("convolves rows to the even and the odd elements of results with %d taps, the first of which is for the %s ones.", taps, of)
			kernel(1, 2, false, phaseTaps(taps, first)).results(fmt.Sprint("lineSlidePhases", 2*taps-1+first), doc)
		}
	}
}

// slideTap is what a tap sees: a phase of what is read, from some element of the window on. It is for a phase of results.
type slideTap struct{ stream, at, phase int }

// nearTaps see elements step apart, of rows with a stride.
func nearTaps(n, step, stride int) (taps []slideTap) {
	for i := range n {
		taps = append(taps, slideTap{stream: i * step % stride, at: i * step / stride})
	}
	return taps
}

// phaseTaps are for the phases of results in turn, from the first one on. An odd element and the even one behind it see the same.
func phaseTaps(n, first int) (taps []slideTap) {
	for i := range n {
		phase := (first + i) % 2
		taps = append(taps, slideTap{at: (i + phase - first) / 2, phase: phase})
	}
	return taps
}

// lineSlide is one of the kernels.
type lineSlide struct {
	*windowKernel
	taps    []slideTap
	list    reg.GPVirtual
	window  [2][]reg.VecVirtual // neighbouring vectors, of each phase
	factors []reg.VecVirtual    // weights
	start   reg.VecVirtual      // of results: the bias
	sums    [][]reg.VecVirtual  // of each tap, that do not wait for each other
}

// results computes rows of y.
func (s *lineSlide) results(name, doc string) {
	a := s.Asm
	a.Kernel(name, "func(lineWindows *byte)", doc)
	s.t = a.Gp("lineWindows")
	copyFields(a, s.t, [2]int{lwX, lwXAt}, [2]int{lwY, lwYAt}, [2]int{lwImages, lwImagesLeft})
	s.loadOrders()
	a.Label("image")
	x, y, weights, bias := a.Field(s.t, lwXAt), a.Field(s.t, lwYAt), a.Field(s.t, lwWeights), a.Field(s.t, lwBias)
	copyFields(a, s.t, [2]int{lwRows, lwRowsLeft})
	a.Label("row")
	s.start = a.Vec()
	a.Spread(operand.Mem{Base: bias}, s.start)
	s.loadWeights(weights)
	s.row(x, y)
	a.ADDQ(operand.Mem{Base: s.t, Disp: lwXRow}, x)
	a.ADDQ(operand.Mem{Base: s.t, Disp: lwYRow}, y)
	a.ADDQ(operand.Mem{Base: s.t, Disp: lwWeightsRow}, weights)
	a.ADDQ(operand.Mem{Base: s.t, Disp: lwBiasRow}, bias)
	a.CountDown(operand.Mem{Base: s.t, Disp: lwRowsLeft}, "row")
	addFields(a, s.t, [2]int{lwXImage, lwXAt}, [2]int{lwYImage, lwYAt})
	a.CountDown(operand.Mem{Base: s.t, Disp: lwImagesLeft}, "image")
	a.Ret()
}

// loadWeights loads those of a row.
func (s *lineSlide) loadWeights(weights reg.GPVirtual) {
	s.factors = s.Vecs(len(s.taps))
	at, next := s.GP64(), s.Field(s.t, lwWeightNext)
	s.MOVQ(weights, at)
	for i, v := range s.factors {
		if i > 0 {
			s.ADDQ(next, at)
		}
		s.Spread(operand.Mem{Base: at}, v)
	}
}

// gradients adds the sums of rows over images.
func (s *lineSlide) gradients(name, doc string) {
	a := s.Asm
	a.Kernel(name, "func(lineWindows *byte)", doc)
	s.t = a.Gp("lineWindows")
	sums := a.Field(s.t, lwWeights)
	s.loadOrders()
	copyFields(a, s.t, [2]int{lwX, lwXAt}, [2]int{lwY, lwYAt}, [2]int{lwRows, lwRowsLeft})
	a.Label("row")
	sets := 2
	if 2*len(s.taps)+4+2*s.stride > a.Registers() {
		sets = 1
	}
	s.sums = make([][]reg.VecVirtual, sets)
	for i := range s.sums {
		s.sums[i] = a.Vecs(len(s.taps))
		for _, v := range s.sums[i] {
			a.Zero(v)
		}
	}
	x, y := a.Field(s.t, lwXAt), a.Field(s.t, lwYAt)
	copyFields(a, s.t, [2]int{lwImages, lwImagesLeft})
	a.Label("image")
	s.row(x, y)
	a.ADDQ(operand.Mem{Base: s.t, Disp: lwXImage}, x)
	a.ADDQ(operand.Mem{Base: s.t, Disp: lwYImage}, y)
	a.CountDown(operand.Mem{Base: s.t, Disp: lwImagesLeft}, "image")
	s.addSums(sums)
	a.ADDQ(operand.U32(4*a.Lanes*len(s.taps)), sums)
	addFields(a, s.t, [2]int{lwXRow, lwXAt}, [2]int{lwYRow, lwYAt})
	a.CountDown(operand.Mem{Base: s.t, Disp: lwRowsLeft}, "row")
	a.Ret()
}

// addSums adds them to those in memory, which are in the order that lists of steps have taps in: first those of one phase of x.
func (s *lineSlide) addSums(sums reg.GPVirtual) {
	for i, tap := range s.order() {
		v := s.sums[0][tap]
		if len(s.sums) > 1 {
			s.Add(s.sums[1][tap], v, v)
		}
		m := operand.Mem{Base: sums, Disp: 4 * s.Lanes * i}
		s.Add(m, v, v)
		s.Move(v, m)
	}
}

// order is the taps by what they see.
func (s *lineSlide) order() (taps []int) {
	for stream := range s.stride {
		for i, t := range s.taps {
			if t.stream == stream {
				taps = append(taps, i)
			}
		}
	}
	return taps
}

// row slides along a row.
func (s *lineSlide) row(x, y reg.GPVirtual) {
	a := s.Asm
	s.x, s.y, s.list = a.GP64(), a.GP64(), a.Field(s.t, lwSteps)
	a.MOVQ(operand.Mem{Base: a.Field(s.t, lwList), Disp: wgX}, s.x)
	a.ADDQ(x, s.x)
	a.MOVQ(y, s.y)
	s.window = [2][]reg.VecVirtual{a.Vecs(s.stride), a.Vecs(s.stride)}
	s.edge("first", s.window[0])
	a.Label("step")
	step := a.GP64()
	a.MOVLQSX(operand.Mem{Base: s.list}, step)
	a.TESTQ(step, step)
	a.JZ(operand.LabelRef("last"))
	a.JG(operand.LabelRef("masked"))
	a.ADDQ(operand.U8(4), s.list)
	s.run(step)
	a.JMP(operand.LabelRef("step"))
	a.Label("masked")
	s.edge("next", s.window[1])
	s.vector(s.window, 0)
	s.moved()
	a.JMP(operand.LabelRef("step"))
	a.Label("last")
	a.ADDQ(operand.U8(4), s.list)
	s.edge("last", s.window[1])
	s.lastVector()
}

// edge loads vectors of x of which some lanes may lie beside the row, and moves on.
func (s *lineSlide) edge(label string, v []reg.VecVirtual) {
	s.vectors(s.x, s.list, label, v)
	s.split(v)
	s.ADDQ(operand.U8(4), s.list)
	s.ADDQ(operand.U32(4*s.Lanes*s.stride), s.x)
}

// whole loads vectors of x inside the row, and moves on.
func (s *lineSlide) whole(v []reg.VecVirtual) {
	for i, v := range v {
		s.Move(operand.Mem{Base: s.x, Disp: 4 * s.Lanes * i}, v)
	}
	s.split(v)
	s.ADDQ(operand.U32(4*s.Lanes*s.stride), s.x)
}

// moved makes the second vectors of a window the first ones.
func (s *lineSlide) moved() {
	for i, v := range s.window[1] {
		s.Copy(v, s.window[0][i])
	}
}

// run computes the results that see a run of whole vectors, of which there are minus count.
func (s *lineSlide) run(count reg.GPVirtual) {
	a, w := s.Asm, s.window
	one := func(w [2][]reg.VecVirtual, set int) {
		s.whole(w[1])
		s.vector(w, set)
	}
	a.ADDQ(operand.U8(2), count)
	a.JG(operand.LabelRef("single"))
	a.Label("pair")
	one(w, 0)
	one([2][]reg.VecVirtual{w[1], w[0]}, len(s.sums)-1)
	a.ADDQ(operand.U8(2), count)
	a.JLE(operand.LabelRef("pair"))
	a.Label("single")
	a.SUBQ(operand.U8(2), count)
	a.JZ(operand.LabelRef("step"))
	one(w, 0)
	s.moved()
}

// vector computes a vector of results of each phase, or the products of one of dy, and moves on.
func (s *lineSlide) vector(w [2][]reg.VecVirtual, set int) {
	if s.dots {
		dy := s.Vec()
		s.Move(operand.Mem{Base: s.y}, dy)
		s.products(w, dy, set)
	} else {
		row := s.sum(w)
		if s.phases > 1 {
			row = s.joined(row[:1], row[1:])
		}
		for i, v := range row {
			s.Move(v, operand.Mem{Base: s.y, Disp: 4 * s.Lanes * i})
		}
	}
	s.ADDQ(operand.U32(4*s.Lanes*s.phases), s.y)
}

// lastVector computes the last one, of which some lanes may lie beside the row.
func (s *lineSlide) lastVector() {
	if s.dots {
		dy := s.Vec()
		s.vectors(s.y, s.list, "dy", []reg.VecVirtual{dy})
		s.products(s.window, dy, 0)
		return
	}
	s.store(s.sum(s.window), 1, s.list, s.Field(s.t, lwTable), "store")
}

// sum is a vector of each phase of results.
func (s *lineSlide) sum(w [2][]reg.VecVirtual) []reg.VecVirtual {
	acc := s.Vecs(s.phases)
	for _, v := range acc {
		s.Copy(s.start, v)
	}
	view := s.views(w)
	for _, i := range s.order() {
		s.Fma(view(s.taps[i]), s.factors[i], acc[s.taps[i].phase])
	}
	return acc
}

// products adds those of dy to a set of sums.
func (s *lineSlide) products(w [2][]reg.VecVirtual, dy reg.VecVirtual, set int) {
	view := s.views(w)
	for _, i := range s.order() {
		s.Fma(view(s.taps[i]), dy, s.sums[set][i])
	}
}

// views gives what taps see of a window, if they are in order.
func (s *lineSlide) views(w [2][]reg.VecVirtual) func(t slideTap) reg.VecVirtual {
	seen := map[slideTap]reg.VecVirtual{}
	var view func(stream, at int) reg.VecVirtual
	view = func(stream, at int) reg.VecVirtual {
		key := slideTap{stream: stream, at: at}
		if seen[key] == nil {
			v, next := w[0][stream], w[1][stream]
			switch first := at % quad; {
			case at == 0:
				seen[key] = v
			case at == s.Lanes:
				seen[key] = next
			case first == 0:
				seen[key] = s.Vec()
				s.MoveQuads(at/quad, v, next, seen[key])
			default:
				var middle reg.VecVirtual
				if first != 2 && s.ISA != isa.NEON && s.sees(stream, at-first+2) {
					middle = view(stream, at-first+2)
				}
				seen[key] = s.WithinQuads(first, view(stream, at-first), view(stream, at-first+quad), middle)
			}
		}
		return seen[key]
	}
	return func(t slideTap) reg.VecVirtual { return view(t.stream, t.at) }
}

// sees reports whether a tap sees a phase of what is read from that element on.
func (s *lineSlide) sees(stream, at int) bool {
	return slices.ContainsFunc(s.taps, func(t slideTap) bool { return t.stream == stream && t.at == at })
}

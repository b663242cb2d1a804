package lines

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// GradInput computes the gradient of x from dy and w, and overwrites dx.
func (l *Lines) GradInput(dy, w, dx, scratch []float32) {
	if windowed() {
		l.windowResults(true, dy, w, nil, dx, scratch)
		return
	}
	if l.stride > 1 {
		l.gradPhases(dy, w, dx, scratch)
		return
	}
	back := l.back()
	turned := scratch[:l.channels*l.taps]
	geometry.TurnFilters(l.taps, w[:len(turned)], turned)
	back.convolve(dy, turned, nil, dx, scratch[len(turned):])
}

// phases is the convolution with stride 1 that gives each of the two phases of dx from dy: its taps are those of both.
func (l *Lines) phases() Lines {
	p := Lines{images: l.images, channels: l.channels, in: l.out, out: kernel.CeilDiv(l.in, 2), taps: l.taps, step: 1, stride: 1}
	p.pad = kernel.CeilDiv((l.taps-1)*l.step-l.pad, 2)
	p.taps = max(1, p.pad+1+(1+l.pad)/2) // as far as any of them sees
	return p
}

// phasesScratch is the elements that they need.
func (l *Lines) phasesScratch() int {
	p := l.phases()
	f := newLineFrame(&p)
	channels := f.channels(1)
	return p.tableElems() + l.channels*l.taps + 2*l.taps + f.elems(channels) + 2*channels*p.out + 3*kernel.Block
}

// linePhase is the taps that an element of every other one of dx sees dy through.
type linePhase struct {
	off     []int
	weights []float32 // [channels][len(off)]
}

// gradPhases computes the even elements of dx and the odd ones, and joins them.
func (l *Lines) gradPhases(dy, w, dx, scratch []float32) {
	p := l.phases()
	t, scratch := p.table(true, false, scratch)
	f := &t.frame
	off := unsafe.Slice((*int)(unsafe.Pointer(&scratch[0])), l.taps)
	scratch = scratch[2*l.taps:]
	var phases [2]linePhase
	for a := range phases {
		phases[a], scratch = l.gradPhase(a, p.pad, w, off, scratch)
		off = off[len(phases[a].off):]
	}
	channels := f.channels(1)
	frame, scratch := scratch[:f.elems(channels)], scratch[f.elems(channels):]
	clear(frame)
	half := channels * p.out
	join := geometry.PlaneCopy{Src: &scratch[0], Odd: 4 * half, SrcRow: 4 * p.out, DstRow: 4 * l.in}
	join.SetWidth(l.in, 2)
	for at := 0; at < l.images*l.channels; at += min(channels, l.channels-at%l.channels) {
		c, channels := at%l.channels, min(channels, l.channels-at%l.channels)
		f.fill(channels, dy[at*l.out:], frame)
		for a := range phases {
			phase := &phases[a]
			call := t.taps(channels, &frame[0], &geometry.NoBias[0], &scratch[a*half])
			if call.taps = len(phase.off); call.taps > 0 {
				call.off, call.weights, call.weightsChannel = &phase.off[0], &phase.weights[c*call.taps], 4*call.taps
			}
			vecLineTaps(&call)
		}
		join.Images, join.Rows, join.Dst = 1, channels, &dx[at*l.in]
		join.Join()
	}
}

// gradPhase lists the taps of a phase in off, and packs their weights: element 2j+a of dx sees element j + (a+pad-tap·step)/2 of dy
// through a tap, if that is even. Frames have so many zeros before dy.
func (l *Lines) gradPhase(a, zeros int, w []float32, off []int, scratch []float32) (phase linePhase, rest []float32) {
	phase.off = off[:0]
	first, every := -1, 1
	for tap := range l.taps {
		if d := a + l.pad - tap*l.step; d%2 == 0 {
			if first < 0 {
				first = tap
			} else if len(phase.off) == 1 {
				every = tap - first
			}
			phase.off = append(phase.off, 4*(zeros+d/2))
		}
	}
	n := len(phase.off)
	phase.weights, rest = scratch[:l.channels*n], scratch[l.channels*n:]
	for i := range phase.weights {
		phase.weights[i] = w[i/n*l.taps+first+i%n*every]
	}
	return phase, rest
}

// runLineDots adds the sums of so many taps.
func runLineDots(taps int, t *lineDots) {
	switch taps {
	case 1:
		vecLineDots1(t)
	case 2:
		vecLineDots2(t)
	case 3:
		vecLineDots3(t)
	case 4:
		vecLineDots4(t)
	case 5:
		vecLineDots5(t)
	case 6:
		vecLineDots6(t)
	case 7:
		vecLineDots7(t)
	case 8:
		vecLineDots8(t)
	}
}

// together is how many images' rows the kernels of weight gradients add up before they add to memory: short rows take less time than the sums.
func (l *Lines) together() int {
	const few, most = 256, 8
	return max(1, min(most, few/l.in))
}

// WeightSums is the gradient of the weights, [channels][taps], in scratch: all of what other images see through a weight is added up. They are no
// numbers if x or dy has elements that are none.
func (l *Lines) WeightSums(x, dy, scratch []float32) []float32 {
	if windowed() {
		return l.windowSums(x, dy, scratch)
	}
	t, scratch := l.table(l.framed(), true, scratch)
	n := l.channels * l.taps
	totals, scratch := scratch[:n], scratch[n:]
	sums, scratch := scratch[:n*narrow], scratch[n*narrow:]
	clear(sums)
	together := l.together()
	most := min(l.channels, max(1, lineElems/(together*l.in)))
	if t.framed {
		most = t.frame.channels(together)
		scratch = scratch[:together*t.frame.elems(most)]
		clear(scratch)
	}
	for n := 0; n < l.images; n += together {
		images := min(together, l.images-n)
		t.edges(n, images, most, func(c int) {
			t.dots(n, images, c, 1, x, dy, sums, scratch, true)
		}, func(c, channels int) {
			t.dots(n, images, c, channels, x, dy, sums, scratch, false)
		})
	}
	geometry.LaneSums(narrow, sums, totals)
	return totals
}

// dots adds the products of some channels of some images, of which room may hold copies.
func (t *lineTable) dots(n, images, c, channels int, x, dy, sums, room []float32, copies bool) {
	l := &t.l
	at := n*l.channels + c
	x = x[at*l.in:]
	d := lineDots{
		x: &x[0], dy: &dy[at*l.out], xChannel: 4 * t.xRow, dyChannel: 4 * l.out, tiles: len(t.tiles), table: &t.tiles[0],
		masks: t.masksFrom(0), images: images, xImage: 4 * l.channels * l.in, dyImage: 4 * l.channels * l.out, sumsChannel: 4 * l.taps * narrow,
	}
	switch {
	case t.framed:
		size := len(room) / l.together()
		for i := range images {
			t.frame.fill(channels, x[i*d.xImage/4:], room[i*size:])
		}
		d.x, d.xImage = &room[0], 4*size
	case copies:
		d.x, d.xImage = l.guard(images, x, room), 4*l.in
	}
	for first := 0; first < l.taps; {
		left := l.taps - first
		taps := kernel.CeilDiv(left, kernel.CeilDiv(left, lineDotTaps))
		d.off, d.sums = &t.off[first], &sums[(c*l.taps+first)*narrow]
		d.viewMasks, d.channels = 4*(1+first)*narrow, channels // which the kernel counts down
		runLineDots(taps, &d)
		first += taps
	}
}

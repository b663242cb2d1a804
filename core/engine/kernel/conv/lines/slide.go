package lines

import "github.com/trainctl/trainctl/core/engine/kernel"

// This file is about rows that few taps see which are near: a window slides along a row, and the weights of all taps stay in registers, so there are no
// steps and no groups.

const (
	slideMost   = 9      // neighbouring taps that kernels take which slide along rows: their weights stay in registers
	slideNarrow = 7      // of these, with stride 2 and vectors of eight lanes
	slideSecond = 5      // taps that see every second element
	slideImages = 8      // whose rows the kernels of weight gradients add up before they add to memory, at most
	slideElems  = 1 << 8 // of these rows
)

// slides reports whether there are kernels for few taps.
func (l *Lines) slides() bool {
	switch {
	case l.step == 2:
		return l.stride == 1 && l.taps > 1 && l.taps <= slideSecond
	case l.stride > 1 && kernel.Lanes() < kernel.Block:
		return l.step == 1 && l.taps <= slideNarrow
	}
	return l.step == 1 && l.taps <= slideMost
}

// slide lists what kernels that slide along a row know of it, in place of steps: the edge of the first vector that is read; for those behind it their edges, or, less than 0, the length of
// a run of vectors inside the row; a 0; and the edges of the last vector and of the last results.
func (w *windows) slide() {
	n, first := w.vectors(), w.groups[0].x/4
	w.tiles = append(w.tiles, w.tileAt(0, n))
	w.steps = append(w.steps, w.edge(first, w.stride, w.in))
	for i := 1; i < n; i++ {
		edge, last := w.edge(first+i*w.stride*w.lanes, w.stride, w.in), len(w.steps)-1
		switch {
		case edge > 0:
			w.steps = append(w.steps, edge)
		case last > 0 && w.steps[last] < 0:
			w.steps[last]--
		default:
			w.steps = append(w.steps, -1)
		}
	}
	w.steps = append(w.steps, 0, w.edge(first+n*w.stride*w.lanes, w.stride, w.in), w.edge((n-1)*w.phases*w.lanes, w.phases, w.out))
	w.edges = append(w.edges, 0) // which nothing reads
}

// kind is the number of the kernel that slides along rows.
func (w *windows) kind() int {
	switch {
	case w.phases > 1:
		return 2*w.taps - 1 + int(w.list[0].phase)
	case w.stride == 1 && w.step == 2:
		return slideMost + w.taps - 1
	}
	return w.taps
}

// slideImages is how many images' rows those kernels add up before they add to memory: more would lie too far apart.
func (w *windows) slideImages() int { return min(slideImages, kernel.CeilDiv(slideElems, w.in)) }

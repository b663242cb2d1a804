package lines

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// windows is a convolution along rows. Two neighbouring vectors of a row are a window: what a tap sees is as many elements of it as a vector has, so each vector of x is
// loaded once for all taps that see the same window. These taps are a group. Moves within each four elements are cheaper than those of a whole vector, so
// a window moves on by four elements at a time, and a tap sees it from one of the next four on.
// Masks leave out what lies beside a row: kernels touch no element outside of a tensor, and read x where it is.
//
// With stride 2 a window is two of the even elements of x and two of the odd ones, and a tap sees one of both. An element of the gradient of x sees dy
// through every other tap, as its neighbours do through those between: even and odd elements have sums, and taps, of their own. Even and odd
// elements, of x or of dx, are phases 0 and 1.
type windows struct {
	channels       int
	reads, writes  int // rows that each channel has of what is read, and of results
	in, out        int // elements of a row that is read, and of one of results
	stride         int // of what is read: a window has so many phases
	phases         int // of results
	taps, step     int // step: elements of x from what a tap sees to what the next one does
	lanes          int
	list           []windowTap
	groups         []windowGroup
	steps          []int32 // of each group, one list for each phase of what is read
	tiles          []windowTile
	edges          []int32 // of each tile: bytes to the masks of its results, then to those of each group's windows; 0: none are needed
	masks          []int32 // of vectors of which some lanes lie beside a row; see edge
	weightNext     int     // bytes from the weight of a tap to that of the next one in the same phase
	vectorsAtATime int     // that a tile has at most, of each phase
	slides         bool    // few neighbouring taps: a window slides along rows, and a tile is a whole one; see slide
}

// windowTap is a tap: element i of its phase sees element stride·i + at of what is read.
type windowTap struct{ at, phase, weight int32 }

// windowGroup is the taps of a window, which begins x bytes from the element that an element of results has the place of: how many taps
// each phase has, and the offset of the weight of the first of these. The layout is known to gen/conv/lines.go, as are those of
// windowTile and lineWindows.
type windowGroup struct {
	x       int
	taps    [2]int
	weights [2]int
}

// windowTile is a run of vectors of a row of results, of each phase. All but their number and masks are bytes; edges is where those of the tile are.
type windowTile struct {
	x, y, vectors, edges int
	last                 [2]kernel.Mask // of the last vectors of results, one of each phase
}

// lineWindows is a call of the kernels, for all channels of some images. For weight gradients, y is dy, and weights are sums, [rows][taps][lanes], to which the kernel
// adds. Steps from one to the next are bytes.
type lineWindows struct {
	x, y                             *float32
	rows                             int
	xRow, yRow                       int
	images, xImage, yImage           int
	tiles                            int
	table                            *windowTile
	masks                            *int32
	groups                           int
	list                             *windowGroup
	steps                            *int32
	pairs                            *[kernel.Block]int32
	weights                          *float32
	weightsRow                       int
	weightNext                       int
	bias                             *float32
	biasRow                          int
	xAt, yAt                         int // room for the kernel: addresses that it moves on are no pointers
	imagesLeft, rowsLeft, groupsLeft int
	tileAt                           int
	edges                            *int32
}

const (
	windowElems     = 1 << 12 // of rows of several tiles, or of sums, that are worked on at once: the L1 cache holds them
	quad            = 4       // elements that a window moves on by
	windowTapElems  = int(unsafe.Sizeof(windowTap{})) / 4
	windowTileElems = int(unsafe.Sizeof(windowTile{})) / 4
	groupElems      = int(unsafe.Sizeof(windowGroup{})) / 4
)

// vectorsOf is how many vectors tiles have at most: with stride 1, of each phase of two, and for weight gradients with stride 2.
type vectorsOf struct{ one, pair, dotPair int }

// mostVectors is what there are registers for.
func mostVectors() vectorsOf {
	if kernel.Lanes() == kernel.Block {
		return vectorsOf{8, 6, 6}
	}
	return vectorsOf{4, 3, 2}
}

// pairOrders are the permutations of two vectors to their even elements and to their odd ones, and those of a vector of even elements and one of odd ones
// back to the first half of a row and to the second. Vectors of eight lanes need none.
var pairOrders = func() (orders [4][kernel.Block]int32) {
	for lane := range int32(kernel.Block) {
		orders[0][lane], orders[1][lane] = 2*lane, 2*lane+1
		orders[2][lane] = lane/2 + lane%2*kernel.Block
		orders[3][lane] = orders[2][lane] + kernel.Block/2
	}
	return orders
}()

// windowsOf is the convolution that gives y, or, if back, dx, without its tables.
func (l *Lines) windowsOf(back bool) windows {
	w := windows{
		channels: l.channels, reads: 1, writes: l.outputs, in: l.in, out: l.out, stride: l.stride, phases: 1, taps: l.taps, step: l.step, lanes: kernel.Lanes(),
		weightNext: 4, vectorsAtATime: mostVectors().one,
	}
	if back {
		w.in, w.out, w.stride, w.phases = l.out, l.in, 1, l.stride
		w.reads, w.writes = l.outputs, 1
	}
	if l.stride > 1 {
		w.vectorsAtATime = mostVectors().pair
	}
	if l.stride > 1 && l.step%2 > 0 {
		w.weightNext *= 2
	}
	if w.slides = w.reads == 1 && l.slides(); w.slides {
		w.vectorsAtATime = w.vectors()
	}
	if back {
		w.weightNext = -w.weightNext
	}
	return w
}

// forWeights is for the kernels of weight gradients.
func (w *windows) forWeights() {
	if w.stride > 1 && !w.slides {
		w.vectorsAtATime = mostVectors().dotPair
	}
}

// vectors counts those of a row of results, of each phase.
func (w *windows) vectors() int { return kernel.CeilDiv(w.out, w.phases*w.lanes) }

// tileCount is how many tiles a row has.
func (w *windows) tileCount() int { return kernel.CeilDiv(w.vectors(), w.vectorsAtATime) }

// edgeElems are the words of the edge of a vector.
func (w *windows) edgeElems() int {
	if w.lanes == kernel.Block {
		return 1
	}
	return 3 * w.lanes
}

// mostSteps is how many there are at most: a group has a list for each phase that is read.
func (w *windows) mostSteps() int {
	if w.slides {
		return w.vectors() + 4
	}
	return w.reads * w.taps * (1 + w.stride*(w.lanes/quad+1))
}

// mostMasks is how many words masks have at most. They are the same for all rows that a channel has.
func (w *windows) mostMasks() int {
	return 1 + w.edgeElems()*(w.stride*w.taps*(w.vectors()+w.tileCount())+w.phases*w.vectors())
}

// elems is the scratch that tables take.
func (w *windows) elems() int {
	tables := w.taps*windowTapElems + w.reads*w.taps*groupElems + w.tileCount()*windowTileElems
	return tables + w.mostSteps() + w.tileCount()*(1+w.reads*w.taps) + w.mostMasks() + 7*kernel.Block
}

// setTables lists taps, groups, steps, tiles, edges and masks in scratch.
func (w *windows) setTables(l *Lines, back bool, scratch []float32) (rest []float32) {
	rest = scratch
	room := func(elems int) unsafe.Pointer {
		at := geometry.Aligned(rest)
		rest = at[elems:]
		return unsafe.Pointer(&at[0])
	}
	w.list = unsafe.Slice((*windowTap)(room(w.taps*windowTapElems)), w.taps)
	w.groups = unsafe.Slice((*windowGroup)(room(w.reads*w.taps*groupElems)), w.reads*w.taps)[:0]
	w.steps = unsafe.Slice((*int32)(room(w.mostSteps())), w.mostSteps())[:0]
	w.tiles = unsafe.Slice((*windowTile)(room(w.tileCount()*windowTileElems)), w.tileCount())[:0]
	l.windowTaps(back, w.list)
	w.setGroups()
	edges := w.tileCount() * (1 + len(w.groups))
	w.edges = unsafe.Slice((*int32)(room(edges)), edges)[:0]
	w.masks = unsafe.Slice((*int32)(room(w.mostMasks())), w.mostMasks())[:1]
	if w.slides {
		w.slide()
	} else {
		w.tile()
	}
	return geometry.Aligned(rest)
}

// setGroups lists the groups of all rows that are read.
func (w *windows) setGroups() {
	if w.slides {
		g := windowGroup{x: 4 * int(w.list[0].at)}
		for i, t := range w.list {
			stream := i % w.stride
			if g.taps[stream] == 0 {
				g.weights[stream] = 4 * int(t.weight)
			}
			g.taps[stream]++
		}
		w.groups = append(w.groups, g)
		return
	}
	for row := range w.reads {
		for first := 0; first < len(w.list); {
			first += w.group(row, w.list[first:])
		}
	}
}

// windowTaps lists what taps see, from the left to the right: for element j of y element stride·j + at of x, or, if back, for element
// stride·j + phase of dx element j + at of dy.
func (l *Lines) windowTaps(back bool, list []windowTap) {
	for i := range list {
		if !back {
			list[i] = windowTap{at: int32(i*l.step - l.pad), weight: int32(i)}
			continue
		}
		tap := l.taps - 1 - i
		from := l.pad - tap*l.step // element i of dx sees element (i + from)/stride of dy, if that is whole
		phase := -from & (l.stride - 1)
		list[i] = windowTap{at: int32((from + phase) / l.stride), phase: int32(phase), weight: int32(tap)}
	}
}

// group appends the group of the first tap of a list for one of a channel's rows, and its steps, and returns how many taps it has.
func (w *windows) group(row int, list []windowTap) (n int) {
	first := list[0].at
	g := windowGroup{x: 4 * (int(first) + row*w.in)}
	shift := func(t windowTap) int { return int(t.at-first) / w.stride } // where in the window a tap begins to see
	for n < len(list) && shift(list[n]) <= w.lanes {
		n++
	}
	for stream := range w.stride {
		steps := windowSteps{w: w}
		for _, t := range list[:n] {
			phase := int(t.phase)
			if w.phases == 1 {
				phase = int(t.at-first) % w.stride
				if phase != stream {
					continue
				}
			}
			if g.taps[phase] == 0 {
				g.weights[phase] = 4 * (int(t.weight) + row*w.taps)
			}
			g.taps[phase]++
			steps.add(shift(t), int(t.phase))
		}
		steps.end()
	}
	w.groups = append(w.groups, g)
	return n
}

// windowSteps is a list of steps that is being made. The kernels know their numbers: first those of the taps of each phase from one of four elements
// on, then that of four neighbouring taps, if results have one phase, that of moving on by four elements, and that of the end.
type windowSteps struct {
	w     *windows
	moved int // by how many times four elements
	run   int // neighbouring taps at the end of the list, from the first of four elements on
}

func (s *windowSteps) add(shift, phase int) {
	w := s.w
	for ; s.moved < shift/quad; s.moved++ {
		s.move()
	}
	at := shift % quad
	w.steps = append(w.steps, int32(quad*phase+at))
	if at == s.run {
		s.run++
	} else {
		s.run = 0
	}
}

// move moves on, with the four taps before if there are four.
func (s *windowSteps) move() {
	w := s.w
	move := quad * w.phases
	if w.phases == 1 {
		move++
		if s.run == quad {
			w.steps, move = w.steps[:len(w.steps)-quad], quad
		}
	}
	w.steps, s.run = append(w.steps, int32(move)), 0
}

func (s *windowSteps) end() {
	end := quad*s.w.phases + 1
	if s.w.phases == 1 {
		end++
	}
	s.w.steps = append(s.w.steps, int32(end))
}

// tile lists the tiles of a row, their edges and masks.
func (w *windows) tile() {
	for tiles, at, left := w.tileCount(), 0, w.vectors(); tiles > 0; tiles-- {
		n := kernel.CeilDiv(left, tiles)
		w.tiles = append(w.tiles, w.tileAt(at, n))
		w.edges = append(w.edges, w.edge(w.phases*at, w.phases*n, w.out))
		first, each := len(w.edges), len(w.groups)/w.reads
		for g := range w.groups {
			if g < each {
				w.edges = append(w.edges, w.edge(w.stride*at+w.groups[g].x/4, w.stride*(n+1), w.in))
			} else { // all rows of a channel are seen alike
				w.edges = append(w.edges, w.edges[first+g-each])
			}
		}
		at, left = at+n*w.lanes, left-n
	}
}

// tileAt is the one of n vectors of each phase from the at-th element on.
func (w *windows) tileAt(at, n int) windowTile {
	t := windowTile{x: 4 * w.stride * at, y: 4 * w.phases * at, vectors: n, edges: 4 * len(w.edges)}
	for i := range w.phases {
		before := w.phases*at + (w.phases*(n-1)+i)*w.lanes
		t.last[i] = kernel.FirstLanes(min(max(w.out-before, 0), w.lanes))
	}
	return t
}

// edge is that of so many vectors from an element of a row on: 0 if all lanes lie inside, or bytes to their masks. For a vector of sixteen lanes a mask is bits. One of
// eight is read from where all of them lie inside, which is some bytes further; its mask has these, the lanes that are meant, and those of them that are inside.
func (w *windows) edge(at, vectors, row int) int32 {
	if at >= 0 && at+vectors*w.lanes <= row {
		return 0
	}
	offset := int32(4 * len(w.masks))
	for ; vectors > 0; vectors-- {
		bits := lanesInside(at, row, w.lanes)
		if w.lanes == kernel.Block {
			w.masks = append(w.masks, bits)
		} else {
			further := min(max(at, 0), row-w.lanes) - at
			w.masks = append(w.masks, int32(4*further), 0, 0, 0, 0, 0, 0, 0)
			for lane := range w.lanes {
				w.masks = append(w.masks, int32((lane-further)&(w.lanes-1)))
			}
			for lane := range w.lanes {
				w.masks = append(w.masks, -(bits >> lane & 1))
			}
		}
		at += w.lanes
	}
	return offset
}

// lanesInside is the mask of the lanes of a vector that lie in a row of so many elements, if lane 0 is element at.
func lanesInside(at, row, lanes int) int32 {
	from, to := min(max(-at, 0), lanes), min(max(row-at, 0), lanes)
	return 1<<to - 1<<min(from, to)
}

// call is that for some channels of some images from n on, and the output-th row of results of each.
func (w *windows) call(n, images, channel, channels, output int, x, y []float32) lineWindows {
	read, write := w.reads*w.in, w.writes*w.out
	return lineWindows{
		x: &x[(n*w.channels+channel)*read], y: &y[(n*w.channels+channel)*write+output*w.out], rows: channels, xRow: 4 * read, yRow: 4 * write,
		images: images, xImage: 4 * w.channels * read, yImage: 4 * w.channels * write, tiles: len(w.tiles), table: &w.tiles[0],
		masks: &w.masks[0], groups: len(w.groups), list: &w.groups[0], steps: &w.steps[0], pairs: &pairOrders[0], edges: &w.edges[0],
	}
}

// atOnce is how many rows of how many images a call takes: of several tiles, or for several outputs, as many as the L1 cache holds.
func (w *windows) atOnce(images, rows int) (int, int) {
	if len(w.tiles) == 1 && w.writes == 1 {
		return images, rows
	}
	fit := max(1, windowElems/(w.in+w.out))
	rows = min(rows, fit)
	return min(images, max(1, fit/rows)), rows
}

// setWeights says where the weights of the first row lie, which are those of filter after filter.
func (w *windows) setWeights(t *lineWindows, filters []float32) {
	t.weights, t.weightNext = &filters[0], w.weightNext
	if !w.slides { // groups have offsets of their own
		return
	}
	t.weights, t.weightNext = &filters[w.list[0].weight], 4
	if w.weightNext < 0 {
		t.weightNext = -4
	}
}

// run computes results.
func (w *windows) run(t *lineWindows) {
	switch {
	case w.slides && w.stride > 1:
		runLineSlideStrided(w.lanes, w.kind(), t)
	case w.slides && w.phases > 1:
		runLineSlidePhases(w.lanes, w.kind(), t)
	case w.slides:
		runLineSlide(w.lanes, w.kind(), t)
	case w.stride > 1:
		vecLineWindowsStrided(t)
	case w.phases > 1:
		vecLineWindowsPhases(t)
	default:
		vecLineWindows(t)
	}
}

// summed is how many channels are summed at a time: their sums stay in the L1 cache.
func (w *windows) summed() int {
	return min(w.channels, max(1, windowElems/(w.writes*w.taps*w.lanes)))
}

// sum puts the sums of some channels from a first one on into lanes, [outputs][channels][taps], over all images: x may go on behind them.
func (w *windows) sum(all, first, channels int, x, dy, lanes []float32) {
	clear(lanes)
	images, rows := w.atOnce(all, channels)
	if w.slides { // which takes a row of all of these before the next one
		images = min(images, w.slideImages())
	}
	for n := 0; n < all; n += images {
		for row := 0; row < channels; row += rows {
			for output := range w.writes {
				t := w.call(n, min(images, all-n), first+row, min(rows, channels-row), output, x, dy)
				t.weights = &lanes[(output*channels+row)*w.taps*w.lanes]
				switch {
				case w.slides && w.stride > 1:
					runLineSlideDotsStrided(w.lanes, w.kind(), &t)
				case w.slides:
					runLineSlideDots(w.lanes, w.kind(), &t)
				case w.stride > 1:
					vecLineWindowDotsStrided(&t)
				default:
					vecLineWindowDots(&t)
				}
			}
		}
	}
}

// reorder copies sums of weights of an output of each channel, in the order that kernels meet their taps in, to their places.
func (w *windows) reorder(from, to []float32) {
	for i, row := 0, 0; i < len(from); row += w.writes * w.taps {
		for _, g := range w.groups {
			for p, taps := range g.taps {
				for tap := range taps {
					to[row+(g.weights[p]+tap*w.weightNext)/4] = from[i]
					i++
				}
			}
		}
	}
}

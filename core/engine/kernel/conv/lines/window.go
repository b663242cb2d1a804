package lines

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// windows is a convolution along rows for CPUs with vectors of sixteen lanes. Two neighbouring vectors of a row are a window: what a tap sees is sixteen elements
// of it, which one permutation takes, so that each vector of x is loaded once for all taps that see the same window. These taps are a group.
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
	taps           int
	list           []windowTap
	groups         []windowGroup
	tiles          []windowTile
	masks          []uint16              // of each tile: of the vectors of each group's windows, then of those of results
	orders         [][kernel.Block]int32 // of the permutations, as kernels meet the taps; the first tap of a group needs none unless results have phases
	weightNext     int                   // bytes from the weight of a tap to that of the next one in the same phase
	vectorsAtATime int                   // that a tile has at most, of each phase
}

// windowTap is a tap: element i of its phase sees element stride·i + at of what is read.
type windowTap struct{ at, phase, weight int32 }

// windowGroup is the taps of a window, which begins x bytes from the element that an element of results has the place of: how many taps
// each phase has, and the offset of the weight of the first of these. The layout is known to gen/conv/window_lines.go, as are those of
// windowTile and lineWindows.
type windowGroup struct {
	x       int
	taps    [2]int
	weights [2]int
}

// windowTile is a run of vectors of a row of results, of each phase. All but their number are bytes; masks is where those of the tile are.
type windowTile struct{ x, y, vectors, masks int }

// lineWindows is a call of the kernels, for all channels of some images. For weight gradients, y is dy, and weights are sums, [rows][taps][lanes], to which the kernel
// adds. Steps are bytes.
type lineWindows struct {
	x, y                             *float32
	rows                             int
	xRow, yRow                       int
	images, xImage, yImage           int
	tiles                            int
	table                            *windowTile
	masks                            *uint16
	groups                           int
	list                             *windowGroup
	orders, pairs                    *[kernel.Block]int32
	weights                          *float32
	weightsRow                       int
	weightNext                       int
	bias                             *float32
	biasRow                          int
	xAt, yAt                         int // room for the kernel: addresses that it moves on are no pointers
	imagesLeft, rowsLeft, groupsLeft int
	tileAt                           int
}

const (
	windowVectors   = 8       // of a tile, at most
	windowPairs     = 6       // of each phase of one, at most
	windowHead      = 2       // vectors of a window in front of which kernels look at the masks; behind are two of each phase
	mostTaps        = 1 << 9  // of several outputs of a channel: their permutations take 32 KiB
	windowElems     = 1 << 12 // of rows of several tiles, or of sums, that are worked on at once: the L1 cache holds them
	windowTapElems  = int(unsafe.Sizeof(windowTap{})) / 4
	windowTileElems = int(unsafe.Sizeof(windowTile{})) / 4
	groupElems      = int(unsafe.Sizeof(windowGroup{})) / 4
)

// pairOrders are the permutations of two vectors to their even elements and to their odd ones, and those of a vector of even elements and one of odd ones
// back to the first half of a row and to the second.
var pairOrders = func() (orders [4][kernel.Block]int32) {
	for lane := range int32(kernel.Block) {
		orders[0][lane], orders[1][lane] = 2*lane, 2*lane+1
		orders[2][lane] = lane/2 + lane%2*kernel.Block
		orders[3][lane] = orders[2][lane] + kernel.Block/2
	}
	return orders
}()

// windowed reports whether convolutions are computed by windows.
func windowed() bool { return kernel.Wide() }

// windowsOf is the convolution that gives y, or, if back, dx, without its tables.
func (l *Lines) windowsOf(back bool) windows {
	w := windows{channels: l.channels, reads: 1, writes: l.outputs, in: l.in, out: l.out, stride: l.stride, phases: 1, taps: l.taps, weightNext: 4, vectorsAtATime: windowVectors}
	if back {
		w.in, w.out, w.stride, w.phases = l.out, l.in, 1, l.stride
		w.reads, w.writes = l.outputs, 1
	}
	if l.stride > 1 {
		w.vectorsAtATime = windowPairs
	}
	if l.stride > 1 && l.step%2 > 0 {
		w.weightNext *= 2
	}
	if back {
		w.weightNext = -w.weightNext
	}
	return w
}

// vectors counts those of a row of results, of each phase.
func (w *windows) vectors() int { return kernel.CeilDiv(w.out, w.phases*kernel.Block) }

// tileCount is how many tiles a row has.
func (w *windows) tileCount() int { return kernel.CeilDiv(w.vectors(), w.vectorsAtATime) }

// mostTiles is how many it has at most.
func (w *windows) mostTiles() int { return kernel.CeilDiv(w.vectors(), w.edgeVectors()) }

// edgeVectors is how many a tile has at most of which kernels look at all masks.
func (w *windows) edgeVectors() int { return windowHead/w.stride + 1 }

// elems is the scratch that tables take.
func (w *windows) elems() int {
	tables := w.taps*windowTapElems + w.reads*w.taps*(groupElems+kernel.Block) + w.mostTiles()*windowTileElems
	return tables + w.mostMasks(w.reads*w.taps)/2 + 6*kernel.Block
}

// mostMasks is how many masks tiles of so many groups have at most.
func (w *windows) mostMasks(groups int) int {
	return w.stride*groups*(w.vectors()+w.mostTiles()) + w.phases*w.vectors()
}

// setTables lists taps, groups, tiles and masks in scratch.
func (w *windows) setTables(l *Lines, back bool, scratch []float32) (rest []float32) {
	rest = geometry.Aligned(scratch)
	w.orders = unsafe.Slice((*[kernel.Block]int32)(unsafe.Pointer(&rest[0])), w.reads*w.taps)[:0]
	rest = rest[w.reads*w.taps*kernel.Block:]
	w.list = unsafe.Slice((*windowTap)(unsafe.Pointer(&rest[0])), w.taps)
	rest = geometry.Aligned(rest[w.taps*windowTapElems:])
	w.groups = unsafe.Slice((*windowGroup)(unsafe.Pointer(&rest[0])), w.reads*w.taps)[:0]
	rest = geometry.Aligned(rest[w.reads*w.taps*groupElems:])
	w.tiles = unsafe.Slice((*windowTile)(unsafe.Pointer(&rest[0])), w.mostTiles())
	rest = rest[len(w.tiles)*windowTileElems:]
	l.windowTaps(back, w.list)
	for row := range w.reads {
		for first := 0; first < len(w.list); {
			first += w.group(row, w.list[first:])
		}
	}
	most := w.mostMasks(len(w.groups))
	w.masks = unsafe.Slice((*uint16)(unsafe.Pointer(&rest[0])), most)
	if w.tile(); !w.edged() {
		w.vectorsAtATime = w.edgeVectors()
		w.tile()
	}
	return geometry.Aligned(rest[kernel.CeilDiv(most, 2):])
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

// group appends the group of the first tap of a list for one of a channel's rows, and returns how many taps it has.
func (w *windows) group(row int, list []windowTap) (n int) {
	first := list[0].at
	g := windowGroup{x: 4 * (int(first) + row*w.in)}
	shift := func(t windowTap) int { return int(t.at-first) / w.stride } // where in the window a tap begins to see
	phase := func(t windowTap) int {
		if w.phases > 1 {
			return int(t.phase)
		}
		return int(t.at-first) % w.stride
	}
	for n < len(list) && shift(list[n]) <= kernel.Block {
		n++
	}
	for p := range g.taps {
		for i, t := range list[:n] {
			if phase(t) != p {
				continue
			}
			if g.taps[p] == 0 {
				g.weights[p] = 4 * (int(t.weight) + row*w.taps)
			}
			g.taps[p]++
			if i > 0 || w.phases > 1 {
				w.orders = append(w.orders, orderFrom(shift(t)))
			}
		}
	}
	w.groups = append(w.groups, g)
	return n
}

// orderFrom is the permutation of two vectors to sixteen elements from one of the first vector on.
func orderFrom(shift int) (order [kernel.Block]int32) {
	for lane := range order {
		order[lane] = int32(shift + lane)
	}
	return order
}

// tile lists the tiles of a row, and their masks.
func (w *windows) tile() {
	w.tiles, w.masks = w.tiles[:0], w.masks[:0]
	for tiles, at, left := w.tileCount(), 0, w.vectors(); tiles > 0; tiles-- {
		n := kernel.CeilDiv(left, tiles)
		w.tiles = append(w.tiles, windowTile{x: 4 * w.stride * at, y: 4 * w.phases * at, vectors: n, masks: 2 * len(w.masks)})
		for i := range w.phases * n {
			w.masks = append(w.masks, lanesInside(w.phases*at+i*kernel.Block, w.out))
		}
		for g := range w.groups {
			first := w.groups[g%(len(w.groups)/w.reads)].x / 4 // all rows are seen alike
			for i := range w.stride * (n + 1) {
				w.masks = append(w.masks, lanesInside(w.stride*at+first+i*kernel.Block, w.in))
			}
		}
		at, left = at+n*kernel.Block, left-n
	}
}

// edged reports whether all vectors that are read lie inside a row, but for those at the edges of windows, of which kernels look at the masks.
func (w *windows) edged() bool {
	for _, t := range w.tiles {
		masks, n := w.masks[t.masks/2+w.phases*t.vectors:], w.stride*(t.vectors+1)
		for g := range w.groups {
			for _, mask := range masks[g*n:][:n][min(n, windowHead):max(windowHead, n-2*w.stride)] {
				if mask != 1<<kernel.Block-1 {
					return false
				}
			}
		}
	}
	return true
}

// lanesInside is the mask of the lanes of a vector that lie in a row of so many elements, if lane 0 is element at.
func lanesInside(at, row int) uint16 {
	from, to := min(max(-at, 0), kernel.Block), min(max(row-at, 0), kernel.Block)
	return uint16(1<<to - 1<<min(from, to))
}

// call is that for some channels of some images from n on, and the output-th row of results of each.
func (w *windows) call(n, images, channel, channels, output int, x, y []float32) lineWindows {
	read, write := w.reads*w.in, w.writes*w.out
	return lineWindows{
		x: &x[(n*w.channels+channel)*read], y: &y[(n*w.channels+channel)*write+output*w.out], rows: channels, xRow: 4 * read, yRow: 4 * write,
		images: images, xImage: 4 * w.channels * read, yImage: 4 * w.channels * write, tiles: len(w.tiles), table: &w.tiles[0],
		masks: &w.masks[0], groups: len(w.groups), list: &w.groups[0], orders: &w.orders[:1][0], pairs: &pairOrders[0],
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

// windowResults computes y from x, or, if back, dx from dy.
func (l *Lines) windowResults(back bool, x, weights, bias, y, scratch []float32) {
	w := l.windowsOf(back)
	w.setTables(l, back, scratch)
	images, rows := w.atOnce(l.images, w.channels)
	for n := 0; n < l.images; n += images {
		for row := 0; row < w.channels; row += rows {
			for output := range w.writes {
				t := w.call(n, min(images, l.images-n), row, min(rows, w.channels-row), output, x, y)
				filter := row*l.outputs + output
				t.weights, t.weightsRow, t.weightNext, t.bias = &weights[filter*w.taps], 4*l.outputs*w.taps, w.weightNext, &geometry.NoBias[0]
				if bias != nil {
					t.bias, t.biasRow = &bias[filter], 4*l.outputs
				}
				w.run(&t)
			}
		}
	}
}

// run computes results.
func (w *windows) run(t *lineWindows) {
	switch {
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
	return min(w.channels, max(1, windowElems/(w.writes*w.taps*kernel.Block)))
}

// windowSums is WeightSums.
func (l *Lines) windowSums(x, dy, scratch []float32) []float32 {
	w := l.windowsOf(false)
	scratch = w.setTables(l, false, scratch)
	most, filters := w.summed(), w.writes*w.taps
	sums, scratch := scratch[:most*filters*kernel.Block], scratch[most*filters*kernel.Block:]
	ordered, totals := scratch[:most*filters], scratch[most*filters:][:w.channels*filters]
	for first := 0; first < w.channels; first += most {
		n := min(most, w.channels-first)
		w.sum(l.images, first, n, x, dy, sums[:n*filters*kernel.Block])
		geometry.LaneSums(kernel.Block, sums[:n*filters*kernel.Block], ordered[:n*filters])
		for output := range w.writes {
			w.reorder(ordered[output*n*w.taps:][:n*w.taps], totals[first*filters+output*w.taps:])
		}
	}
	return totals
}

// sum puts the sums of some channels from a first one on into lanes, [outputs][channels][taps], over all images: x may go on behind them.
func (w *windows) sum(all, first, channels int, x, dy, lanes []float32) {
	clear(lanes)
	images, rows := w.atOnce(all, channels)
	for n := 0; n < all; n += images {
		for row := 0; row < channels; row += rows {
			for output := range w.writes {
				t := w.call(n, min(images, all-n), first+row, min(rows, channels-row), output, x, dy)
				if t.weights = &lanes[(output*channels+row)*w.taps*kernel.Block]; w.stride > 1 {
					vecLineWindowDotsStrided(&t)
				} else {
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

// windowScratch is the elements of scratch that a direction needs.
func (l *Lines) windowScratch(d geometry.Direction) int {
	w := l.windowsOf(d == geometry.ToInput)
	n := w.elems()
	if d == geometry.ToWeight {
		n += w.writes * w.taps * (w.summed()*(kernel.Block+1) + w.channels)
	}
	return n
}

// windowWork is Work.
func (l *Lines) windowWork(d geometry.Direction) Work {
	w := l.windowsOf(d == geometry.ToInput)
	groups := min(l.taps, kernel.CeilDiv((l.taps-1)*l.step+1, l.stride*(kernel.Block+1)))
	rows, vectors := float64(l.images*l.channels*w.writes), w.vectors()
	loads := w.stride*groups*w.reads*(vectors+w.tileCount()) + w.phases*vectors
	if d == geometry.ToWeight {
		loads += l.taps * w.tileCount() // sums
	}
	return Work{Rows: rows, WindowProducts: rows * float64(w.reads*vectors*l.taps), WindowLoads: rows * float64(loads)}
}

package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of lineWindows and its windowTile and windowGroup.
const (
	lwX, lwY, lwRows, lwXRow, lwYRow           = 0, 8, 16, 24, 32
	lwImages, lwXImage, lwYImage               = 40, 48, 56
	lwTiles, lwTable, lwMasks                  = 64, 72, 80
	lwGroups, lwList, lwSteps, lwPairs         = 88, 96, 104, 112
	lwWeights, lwWeightsRow                    = 120, 128
	lwWeightNext, lwBias, lwBiasRow            = 136, 144, 152
	lwXAt, lwYAt, lwImagesLeft                 = 160, 168, 176
	lwRowsLeft, lwGroupsLeft, lwTileAt         = 184, 192, 200
	lwEdges                                    = 208
	wiX, wiY, wiVectors, wiEdges, wiLast       = 0, 8, 16, 24, 32
	wiSize                                     = 48
	wgX, wgTaps, wgWeights, wgSize             = 0, 8, 24, 40
	windowVectors, windowPairs                 = 8, 6    // of a tile of vectors of sixteen lanes, at most: of results, and of each phase of two
	narrowVectors, narrowPairs, narrowDotPairs = 4, 3, 2 // of eight lanes; the last are those of weight gradients
	windowEdge                                 = 96      // bytes of a vector of eight lanes, of which some lie beside a row
	windowAhead                                = 2048    // bytes that are prefetched ahead
	quad                                       = 4       // elements that instructions move within
)

// lineWindows emits depthwise convolution along rows. A window is two neighbouring vectors of a row, of which a tap sees as many elements as a vector has: each vector
// of x is loaded once for a group of taps. Masks leave out what lies beside the row. Tiles are computed for all rows, one after the other, so that it is known
// early which of their vectors need masks.
func lineWindows(a *isa.Asm) {
	most, pairs, dotPairs := windowVectors, windowPairs, windowPairs
	if a.Lanes == 8 {
		most, pairs, dotPairs = narrowVectors, narrowPairs, narrowDotPairs
	}
	k := &windowKernel{Asm: a, stride: 1, phases: 1, most: most}
	k.emit("lineWindows", "convolves rows.")
	k = &windowKernel{Asm: a, stride: 2, phases: 1, most: pairs}
	k.emit("lineWindowsStrided", "convolves rows with stride 2.")
	k = &windowKernel{Asm: a, stride: 1, phases: 2, most: pairs}
	k.emit("lineWindowsPhases", "convolves rows to the even elements of results, and to the odd ones.")
	k = &windowKernel{Asm: a, stride: 1, phases: 1, most: most, dots: true}
	k.emit("lineWindowDots", "adds the products of dy and x for each tap, [row][tap][lane].")
	k = &windowKernel{Asm: a, stride: 2, phases: 1, most: dotPairs, dots: true}
	k.emit("lineWindowDotsStrided", "adds the products of dy and x for each tap, [row][tap][lane], with stride 2.")
}

// windowKernel is one of the kernels.
type windowKernel struct {
	*isa.Asm
	stride, phases       int  // phases of what is read, and of results
	most                 int  // vectors of a tile, of each phase
	dots                 bool // y is dy, and weights are sums
	t, x, y              reg.GPVirtual
	weights, bias, edges reg.GPVirtual
	orders               [2]reg.VecVirtual // that split pairs, or join them, with vectors of sixteen lanes
}

func (k *windowKernel) emit(name, doc string) {
	a := k.Asm
	a.Kernel(name, "func(lineWindows *byte)", doc)
	k.t = a.Gp("lineWindows")
	copyFields(a, k.t, [2]int{lwTable, lwTileAt})
	a.Label("tile")
	tile, x, y := a.Field(k.t, lwTileAt), a.Field(k.t, lwX), a.Field(k.t, lwY)
	k.edges = a.Field(k.t, lwEdges)
	a.ADDQ(operand.Mem{Base: tile, Disp: wiX}, x)
	a.ADDQ(operand.Mem{Base: tile, Disp: wiY}, y)
	a.ADDQ(operand.Mem{Base: tile, Disp: wiEdges}, k.edges)
	a.MOVQ(x, operand.Mem{Base: k.t, Disp: lwXAt})
	a.MOVQ(y, operand.Mem{Base: k.t, Disp: lwYAt})
	copyFields(a, k.t, [2]int{lwImages, lwImagesLeft})
	k.choose(a.Field(tile, wiVectors), 1, k.most)
	a.Label("tileDone")
	a.ADDQ(operand.U8(wiSize), operand.Mem{Base: k.t, Disp: lwTileAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: lwTiles}, "tile")
	a.Ret()
}

// choose emits tiles of low to high vectors, and a binary search for the one to take.
func (k *windowKernel) choose(vectors reg.GPVirtual, low, high int) {
	if low == high {
		k.tileOf(low)
		k.JMP(operand.LabelRef("tileDone"))
		return
	}
	half := (low + high + 1) / 2
	label := fmt.Sprint("from", half)
	k.CMPQ(vectors, operand.U8(half))
	k.JGE(operand.LabelRef(label))
	k.choose(vectors, low, half-1)
	k.Label(label)
	k.choose(vectors, half, high)
}

// tileOf computes tiles of n vectors of each phase.
func (k *windowKernel) tileOf(n int) {
	a, label := k.Asm, func(name string) string { return fmt.Sprint(name, "Of", n) }
	a.Label(label("image"))
	k.x, k.y, k.weights = a.Field(k.t, lwXAt), a.Field(k.t, lwYAt), a.Field(k.t, lwWeights)
	if !k.dots {
		k.bias = a.Field(k.t, lwBias)
	}
	copyFields(a, k.t, [2]int{lwRows, lwRowsLeft})
	a.Label(label("row"))
	k.row(n, label)
	a.ADDQ(operand.Mem{Base: k.t, Disp: lwXRow}, k.x)
	a.ADDQ(operand.Mem{Base: k.t, Disp: lwYRow}, k.y)
	if !k.dots {
		a.ADDQ(operand.Mem{Base: k.t, Disp: lwWeightsRow}, k.weights)
		a.ADDQ(operand.Mem{Base: k.t, Disp: lwBiasRow}, k.bias)
	}
	a.CountDown(operand.Mem{Base: k.t, Disp: lwRowsLeft}, label("row"))
	addFields(a, k.t, [2]int{lwXImage, lwXAt}, [2]int{lwYImage, lwYAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: lwImagesLeft}, label("image"))
}

// row computes a tile of n vectors of a row.
func (k *windowKernel) row(n int, label func(string) string) {
	a := k.Asm
	y := k.start(n, label)
	copyFields(a, k.t, [2]int{lwGroups, lwGroupsLeft})
	group, steps, edge := a.Field(k.t, lwList), a.Field(k.t, lwSteps), a.GP64()
	a.LEAQ(operand.Mem{Base: k.edges, Disp: 4}, edge) // behind that of results
	a.Label(label("group"))
	at := a.GP64()
	a.MOVQ(operand.Mem{Base: group, Disp: wgX}, at)
	a.ADDQ(k.x, at)
	for list, x := range k.load(at, edge, n, label("load")) {
		k.list(label(fmt.Sprint("list", list)), list, group, steps, x, y)
	}
	a.ADDQ(operand.U8(wgSize), group)
	a.ADDQ(operand.U8(4), edge)
	a.CountDown(operand.Mem{Base: k.t, Disp: lwGroupsLeft}, label("group"))
	if !k.dots {
		if k.phases > 1 {
			k.loadOrders()
		}
		k.store(y, n, k.edges, k.Field(k.t, lwTileAt), label("store"))
	}
}

// start gives the vectors of results with the bias in them, or those of dy.
func (k *windowKernel) start(n int, label func(string) string) []reg.VecVirtual {
	y := k.Vecs(n * k.phases)
	if k.dots {
		k.vectors(k.y, k.edges, label("dy"), y)
		return y
	}
	k.Spread(operand.Mem{Base: k.bias}, y[0])
	for _, v := range y[1:] {
		k.Copy(y[0], v)
	}
	return y
}

// vectors loads neighbouring ones. The edge is where their masks lie, or 0 if all their lanes are inside the row.
func (k *windowKernel) vectors(at, edge reg.GPVirtual, label string, v []reg.VecVirtual) {
	for i := range v {
		if disp := 4 * k.Lanes * i; disp%64 == 0 && k.most > 0 {
			k.PREFETCHT0(operand.Mem{Base: at, Disp: disp + windowAhead})
		}
	}
	p := k.masked(edge, label)
	for i, v := range v {
		k.Move(operand.Mem{Base: at, Disp: 4 * k.Lanes * i}, v)
	}
	k.JMP(operand.LabelRef(label + "Done"))
	k.Label(label + "Masked")
	k.ADDQ(operand.Mem{Base: k.t, Disp: lwMasks}, p)
	for i, v := range v {
		m := operand.Mem{Base: at, Disp: 4 * k.Lanes * i}
		if k.Lanes == 8 {
			k.eightOf(m, operand.Mem{Base: p, Disp: windowEdge * i}, v)
			continue
		}
		mask := k.K()
		k.KMOVW(operand.Mem{Base: p, Disp: 4 * i}, mask)
		k.VMOVUPS_Z(m, mask, v)
	}
	k.Label(label + "Done")
}

// eightOf loads a vector of eight lanes of which some lie beside the row, which has at least as many elements. The edge says how many bytes further
// it is read, which lanes of that are meant, and which of these lie inside.
func (k *windowKernel) eightOf(m, edge operand.Mem, v reg.VecVirtual) {
	further, order := k.GP64(), k.Vec()
	k.MOVLQSX(edge, further)
	k.ADDQ(m.Base, further)
	k.Move(operand.Mem{Base: further, Disp: m.Disp}, v)
	k.Move(edge.Offset(4*k.Lanes), order)
	k.VPERMPS(v, order, v)
	k.And(edge.Offset(8*k.Lanes), v, v)
}

// masked goes to its label if an edge is not 0, and gives its register, to which that label adds where edges are.
func (k *windowKernel) masked(edge reg.GPVirtual, label string) reg.GPVirtual {
	p := k.GP64()
	k.MOVLQSX(operand.Mem{Base: edge}, p)
	k.TESTQ(p, p)
	k.JNZ(operand.LabelRef(label + "Masked"))
	return p
}

// load loads the windows of n vectors, by phase: n + 1 vectors, of which each two neighbours are one.
func (k *windowKernel) load(at, edge reg.GPVirtual, n int, label string) [][]reg.VecVirtual {
	v := k.Vecs(k.stride * (n + 1))
	k.vectors(at, edge, label, v)
	if k.stride == 1 {
		return [][]reg.VecVirtual{v}
	}
	k.loadOrders()
	k.split(v)
	streams := make([][]reg.VecVirtual, 2)
	for i, v := range v {
		streams[i%2] = append(streams[i%2], v)
	}
	return streams
}

// split leaves the even elements of each two vectors in the first of these, and the odd ones in the second, if the stride is 2.
func (k *windowKernel) split(v []reg.VecVirtual) {
	if k.stride == 1 {
		return
	}
	split := k.SplitPairsOf
	if k.Lanes == 16 {
		even, odd := k.orders[0], k.orders[1]
		split = func(x, y reg.VecVirtual) {
			both := k.Vec()
			k.Copy(odd, both)
			k.VPERMI2PS(y, x, both)
			k.VPERMT2PS(y, even, x)
			k.Copy(both, y)
		}
	}
	for i := 0; i < len(v); i += 2 {
		split(v[i], v[i+1])
	}
}

// loadOrders loads what splits pairs of vectors, or joins them.
func (k *windowKernel) loadOrders() {
	if k.Lanes < 16 || k.stride*k.phases == 1 {
		return
	}
	table, first := k.Field(k.t, lwPairs), 2*(k.phases-1)
	for i := range k.orders {
		k.orders[i] = k.Vec()
		k.Move(operand.Mem{Base: table, Disp: 4 * k.Lanes * (first + i)}, k.orders[i])
	}
}

// window is the vectors of a phase of a row as the taps of a list see them: from some element on. Of each vector, next has the elements from its fifth one on, and
// four of its neighbour.
type window struct{ x, next []reg.VecVirtual }

// advance moves on by four elements.
func (k *windowKernel) advance(w *window) {
	last := len(w.next)
	for i, v := range w.next {
		k.Copy(v, w.x[i])
	}
	k.MoveQuads(1, w.x[last], w.x[last], w.x[last])
	k.lookAhead(w)
}

func (k *windowKernel) lookAhead(w *window) {
	for i, v := range w.next {
		k.MoveQuads(1, w.x[i], w.x[i+1], v)
	}
}

// view is the i-th vector from one of the next four elements on.
func (k *windowKernel) view(w *window, first, i int) reg.VecVirtual {
	if first == 0 {
		return w.x[i]
	}
	return k.WithinQuads(first, w.x[i], w.next[i], nil)
}

// list takes a list of steps: a tap of a phase from one of four elements on, four taps of neighbours in one phase, or four elements further; the last step is the end.
// The numbers of steps are known to conv/lines, as are their places: first the taps of each phase.
func (k *windowKernel) list(label string, list int, group, steps reg.GPVirtual, x, y []reg.VecVirtual) {
	n := len(y) / k.phases
	w := &window{x, k.Vecs(n)}
	k.lookAhead(w)
	step, kinds := k.GP64(), k.kinds(list, group, w, y)
	k.Label(label)
	k.MOVLQSX(operand.Mem{Base: steps}, step)
	k.ADDQ(operand.U8(4), steps)
	k.kind(label, step, 0, kinds)
	k.Label(label + "End")
}

// kinds are what the steps of a list do; the last one, which is the end, does nothing.
func (k *windowKernel) kinds(list int, group reg.GPVirtual, w *window, y []reg.VecVirtual) (kinds []func()) {
	n := len(y) / k.phases
	var taps []func(first int)
	for phase := range k.phases {
		add := k.sums(y)
		if !k.dots {
			add = k.products(group, list+phase, y[phase*n:][:n])
		}
		taps = append(taps, func(first int) { add(func(i int) reg.VecVirtual { return k.view(w, first, i) }) })
	}
	for _, tap := range taps {
		for first := range quad {
			kinds = append(kinds, func() { tap(first) })
		}
	}
	if k.phases == 1 {
		kinds = append(kinds, func() {
			for first := range quad {
				taps[0](first)
			}
			k.advance(w)
		})
	}
	return append(kinds, func() { k.advance(w) }, nil)
}

// kind emits those from first on, and a binary search for that of a step. The end has none.
func (k *windowKernel) kind(label string, step reg.GPVirtual, first int, kinds []func()) {
	if len(kinds) > 1 {
		half := len(kinds) / 2
		from := fmt.Sprint(label, "From", first+half)
		k.CMPQ(step, operand.U8(first+half))
		k.JGE(operand.LabelRef(from))
		k.kind(label, step, first, kinds[:half])
		k.Label(from)
		k.kind(label, step, first+half, kinds[half:])
		return
	}
	next := label
	if kinds[0] == nil {
		next += "End"
	} else {
		kinds[0]()
	}
	k.JMP(operand.LabelRef(next))
}

// products adds those of a tap's weight and what it sees to the vectors of results.
func (k *windowKernel) products(group reg.GPVirtual, list int, acc []reg.VecVirtual) func(view func(i int) reg.VecVirtual) {
	weights, w := k.Field(group, wgWeights+8*list), k.Vec()
	k.ADDQ(k.weights, weights)
	return func(view func(i int) reg.VecVirtual) {
		k.Spread(operand.Mem{Base: weights}, w)
		for i, v := range acc {
			k.Fma(view(i), w, v)
		}
		k.ADDQ(operand.Mem{Base: k.t, Disp: lwWeightNext}, weights)
	}
}

// sums adds the products of dy and what a tap sees to its sums, which lie behind those of the tap before. Two do not wait for each other.
func (k *windowKernel) sums(dy []reg.VecVirtual) func(view func(i int) reg.VecVirtual) {
	return func(view func(i int) reg.VecVirtual) {
		acc := k.Vecs(min(2, len(dy)))
		k.Move(operand.Mem{Base: k.weights}, acc[0])
		for i, v := range dy {
			if i == 1 {
				k.Mul(view(i), v, acc[1])
			} else {
				k.Fma(view(i), v, acc[i%2])
			}
		}
		if len(acc) > 1 {
			k.Add(acc[1], acc[0], acc[0])
		}
		k.Move(acc[0], operand.Mem{Base: k.weights})
		k.ADDQ(operand.U8(4*k.Lanes), k.weights)
	}
}

// store writes a tile, whose last vectors may have lanes beside the row. Even and odd results take turns.
func (k *windowKernel) store(acc []reg.VecVirtual, n int, edge, tile reg.GPVirtual, label string) {
	if k.phases > 1 {
		acc = k.joined(acc[:n], acc[n:])
	}
	for i := range acc {
		if disp := 4 * k.Lanes * i; disp%64 == 0 && k.most > 0 {
			k.PREFETCHT0(operand.Mem{Base: k.y, Disp: disp + windowAhead})
		}
	}
	last := len(acc) - k.phases
	for i, v := range acc[:last] {
		k.Move(v, operand.Mem{Base: k.y, Disp: 4 * k.Lanes * i})
	}
	k.masked(edge, label)
	for i, v := range acc[last:] {
		k.Move(v, operand.Mem{Base: k.y, Disp: 4 * k.Lanes * (last + i)})
	}
	k.JMP(operand.LabelRef(label + "Done"))
	k.Label(label + "Masked")
	for i, v := range acc[last:] {
		mask := k.LaneMask(tile, wiLast+8*i)
		k.StoreLanes(v, k.Stored(mask), operand.Mem{Base: k.y, Disp: 4 * k.Lanes * (last + i)})
	}
	k.Label(label + "Done")
}

// joined are the vectors of a row whose even and odd elements these are.
func (k *windowKernel) joined(even, odd []reg.VecVirtual) (row []reg.VecVirtual) {
	join := k.JoinPairs
	if k.Lanes == 16 {
		lower, upper := k.orders[0], k.orders[1]
		join = func(x, y reg.VecVirtual) {
			both := k.Vec()
			k.Copy(upper, both)
			k.VPERMI2PS(y, x, both)
			k.VPERMT2PS(y, lower, x)
			k.Copy(both, y)
		}
	}
	for i := range even {
		join(even[i], odd[i])
		row = append(row, even[i], odd[i])
	}
	return row
}

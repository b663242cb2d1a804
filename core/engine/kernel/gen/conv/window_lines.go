package conv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of lineWindows and its windowTile and windowGroup.
const (
	lwX, lwY, lwRows, lwXRow, lwYRow     = 0, 8, 16, 24, 32
	lwImages, lwXImage, lwYImage         = 40, 48, 56
	lwTiles, lwTable, lwMasks            = 64, 72, 80
	lwGroups, lwList, lwOrders, lwPairs  = 88, 96, 104, 112
	lwWeights, lwWeightsRow              = 120, 128
	lwWeightNext, lwBias, lwBiasRow      = 136, 144, 152
	lwXAt, lwYAt, lwImagesLeft           = 160, 168, 176
	lwRowsLeft, lwGroupsLeft, lwTileAt   = 184, 192, 200
	wiX, wiY, wiVectors, wiMasks, wiSize = 0, 8, 16, 24, 32
	wgX, wgTaps, wgWeights, wgSize       = 0, 8, 24, 40
	windowVectors, windowPairs           = 8, 6 // of a tile, at most: of results, and of each phase of two
	windowAhead                          = 2048 // bytes that are prefetched ahead
	windowHead                           = 2    // vectors of a window in front that have masks
)

// lineWindows emits depthwise convolution along rows for registers of sixteen lanes. A window is two neighbouring vectors of a row: what a tap sees of it is one
// permutation, so that each vector is loaded once for a group of taps. Masks leave out what lies beside the row. Tiles are computed for all rows, one after the other, so
// that the masks of a tile stay in registers.
func lineWindows(a *isa.Asm) {
	k := &windowKernel{Asm: a, stride: 1, phases: 1, most: windowVectors}
	k.emit("lineWindows", "convolves rows.")
	k = &windowKernel{Asm: a, stride: 2, phases: 1, most: windowPairs}
	k.emit("lineWindowsStrided", "convolves rows with stride 2.")
	k = &windowKernel{Asm: a, stride: 1, phases: 2, most: windowPairs}
	k.emit("lineWindowsPhases", "convolves rows to the even elements of results, and to the odd ones.")
	k = &windowKernel{Asm: a, stride: 1, phases: 1, most: windowVectors, dots: true}
	k.emit("lineWindowDots", "adds the products of dy and x for each tap, [row][tap][lane].")
	k = &windowKernel{Asm: a, stride: 2, phases: 1, most: windowPairs, dots: true}
	k.emit("lineWindowDotsStrided", "adds the products of dy and x for each tap, [row][tap][lane], with stride 2.")
}

// windowKernel is one of the kernels.
type windowKernel struct {
	*isa.Asm
	stride, phases      int  // phases of what is read, and of results
	most                int  // vectors of a tile, of each phase
	dots                bool // y is dy, and weights are sums
	t, x, y             reg.GPVirtual
	weights, bias, mask reg.GPVirtual
}

func (k *windowKernel) emit(name, doc string) {
	a := k.Asm
	a.Kernel(name, "func(lineWindows *byte)", doc)
	k.t = a.Gp("lineWindows")
	copyFields(a, k.t, [2]int{lwTable, lwTileAt})
	a.Label("tile")
	tile, x, y := a.Field(k.t, lwTileAt), a.Field(k.t, lwX), a.Field(k.t, lwY)
	k.mask = a.Field(k.t, lwMasks)
	a.ADDQ(operand.Mem{Base: tile, Disp: wiX}, x)
	a.ADDQ(operand.Mem{Base: tile, Disp: wiY}, y)
	a.ADDQ(operand.Mem{Base: tile, Disp: wiMasks}, k.mask)
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
	results := k.masks(k.mask, 0, n*k.phases, 0, k.phases)
	a.ADDQ(operand.U8(2*n*k.phases), k.mask)
	edges := k.edges(k.mask, n)
	a.Label(label("image"))
	k.x, k.y, k.weights = a.Field(k.t, lwXAt), a.Field(k.t, lwYAt), a.Field(k.t, lwWeights)
	if !k.dots {
		k.bias = a.Field(k.t, lwBias)
	}
	copyFields(a, k.t, [2]int{lwRows, lwRowsLeft})
	a.Label(label("row"))
	k.row(n, label, results, edges)
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

// row computes a tile of n vectors of a row, of which the first and the last ones have masks. Those of a single group stay in registers for all rows.
func (k *windowKernel) row(n int, label func(string) string, results, edges map[int]reg.Register) {
	a := k.Asm
	y := k.start(n, results)
	copyFields(a, k.t, [2]int{lwGroups, lwGroupsLeft})
	group, orders := a.Field(k.t, lwList), a.Field(k.t, lwOrders)
	mask := a.GP64()
	a.MOVQ(k.mask, mask)
	a.CMPQ(operand.Mem{Base: k.t, Disp: lwGroups}, operand.U8(1))
	a.JE(operand.LabelRef(label("group")))
	k.loadEdges(mask, edges)
	a.Label(label("group"))
	at := a.GP64()
	a.MOVQ(operand.Mem{Base: group, Disp: wgX}, at)
	a.ADDQ(k.x, at)
	streams := k.load(at, n, edges)
	for list := range max(k.stride, k.phases) {
		k.list(label(fmt.Sprint("list", list)), list, group, orders, streams[list%k.stride], y[list%k.phases*n:][:n])
	}
	a.ADDQ(operand.U8(wgSize), group)
	a.DECQ(operand.Mem{Base: k.t, Disp: lwGroupsLeft})
	a.JZ(operand.LabelRef(label("groupsDone")))
	a.ADDQ(operand.U8(2*k.stride*(n+1)), mask)
	k.loadEdges(mask, edges)
	a.JMP(operand.LabelRef(label("group")))
	a.Label(label("groupsDone"))
	if !k.dots {
		k.store(y, n, results)
	}
}

// start gives the vectors of results with the bias in them, or those of dy.
func (k *windowKernel) start(n int, results map[int]reg.Register) []reg.VecVirtual {
	a, y := k.Asm, k.Vecs(n*k.phases)
	if k.dots {
		for i, v := range y {
			k.PREFETCHT0(operand.Mem{Base: k.y, Disp: 4*a.Lanes*i + windowAhead})
			k.part(operand.Mem{Base: k.y, Disp: 4 * a.Lanes * i}, results[i], v)
		}
		return y
	}
	a.Spread(operand.Mem{Base: k.bias}, y[0])
	for _, v := range y[1:] {
		a.Copy(y[0], v)
	}
	return y
}

// masks loads those of the first vectors of some, and of the last ones.
func (k *windowKernel) masks(at reg.GPVirtual, disp, vectors, head, tail int) map[int]reg.Register {
	masks := map[int]reg.Register{}
	for i := range vectors {
		if i < head || i >= vectors-tail {
			masks[i] = k.K()
			k.KMOVW(operand.Mem{Base: at, Disp: disp + 2*i}, masks[i])
		}
	}
	return masks
}

// edges are the masks of a group's windows, for n vectors.
func (k *windowKernel) edges(at reg.GPVirtual, n int) map[int]reg.Register {
	return k.masks(at, 0, k.stride*(n+1), windowHead, 2*k.stride)
}

// loadEdges loads those of another group.
func (k *windowKernel) loadEdges(at reg.GPVirtual, edges map[int]reg.Register) {
	for _, i := range slices.Sorted(maps.Keys(edges)) {
		k.KMOVW(operand.Mem{Base: at, Disp: 2 * i}, edges[i])
	}
}

// load loads the windows of n vectors, by phase: n + 1 vectors, of which each two neighbours are one.
func (k *windowKernel) load(at reg.GPVirtual, n int, edges map[int]reg.Register) [][]reg.VecVirtual {
	streams := make([][]reg.VecVirtual, k.stride)
	var pairs []reg.VecVirtual
	if k.stride > 1 {
		pairs = k.Vecs(k.stride)
		table := k.Field(k.t, lwPairs)
		for s, v := range pairs {
			k.Move(operand.Mem{Base: table, Disp: 4 * k.Lanes * s}, v)
		}
	}
	for i := range n + 1 {
		v := k.Vecs(k.stride)
		k.loadWindow(at, i, edges, pairs, v)
		for s := range v {
			streams[s] = append(streams[s], v[s])
		}
	}
	return streams
}

// loadWindow loads the i-th vector of each phase of a row.
func (k *windowKernel) loadWindow(at reg.GPVirtual, i int, edges map[int]reg.Register, pairs, v []reg.VecVirtual) {
	raw := v
	if k.stride > 1 {
		raw = k.Vecs(k.stride)
	}
	for j, r := range raw {
		n := k.stride*i + j
		k.PREFETCHT0(operand.Mem{Base: at, Disp: 4*k.Lanes*n + windowAhead})
		k.part(operand.Mem{Base: at, Disp: 4 * k.Lanes * n}, edges[n], r)
	}
	for s, order := range pairs {
		k.Copy(order, v[s])
		k.VPERMI2PS(raw[1], raw[0], v[s])
	}
}

// part loads the lanes of a mask, and zeros into the others, or all lanes if there is none.
func (k *windowKernel) part(m operand.Mem, mask reg.Register, v reg.VecVirtual) {
	if mask == nil {
		k.Move(m, v)
		return
	}
	k.VMOVUPS_Z(m, mask, v)
}

// list adds the products of a group's taps of one phase. With one phase of results, the first of phase 0 sees the first vector of each window as it is.
func (k *windowKernel) list(label string, list int, group, orders reg.GPVirtual, x, y []reg.VecVirtual) {
	a := k.Asm
	left := a.Field(group, wgTaps+8*list)
	add := k.sums(y)
	if !k.dots {
		add = k.products(list, group, y)
	}
	done := label + "Done"
	if list == 0 && k.phases == 1 {
		add(func(i int) reg.VecVirtual { return x[i] })
		a.DECQ(left)
	} else {
		a.TESTQ(left, left)
	}
	a.JZ(operand.LabelRef(done))
	a.Label(label)
	order := a.Vec()
	a.Move(operand.Mem{Base: orders}, order)
	add(func(i int) reg.VecVirtual {
		view := a.Vec()
		a.Copy(order, view)
		a.VPERMI2PS(x[i+1], x[i], view)
		return view
	})
	a.ADDQ(operand.U8(4*a.Lanes), orders)
	a.CountDown(left, label)
	a.Label(done)
}

// products adds those of a tap's weight and what it sees to the vectors of results.
func (k *windowKernel) products(list int, group reg.GPVirtual, acc []reg.VecVirtual) func(view func(i int) reg.VecVirtual) {
	a := k.Asm
	weights, next, w := a.Field(group, wgWeights+8*list), a.Field(k.t, lwWeightNext), a.Vec()
	a.ADDQ(k.weights, weights)
	return func(view func(i int) reg.VecVirtual) {
		a.Spread(operand.Mem{Base: weights}, w)
		for i, v := range acc {
			a.Fma(view(i), w, v)
		}
		a.ADDQ(next, weights)
	}
}

// sums adds the products of dy and what a tap sees to its sums, which lie behind those of the tap before. Two do not wait for each other.
func (k *windowKernel) sums(dy []reg.VecVirtual) func(view func(i int) reg.VecVirtual) {
	a := k.Asm
	return func(view func(i int) reg.VecVirtual) {
		acc := a.Vecs(min(2, len(dy)))
		a.Move(operand.Mem{Base: k.weights}, acc[0])
		for i, v := range dy {
			if i == 1 {
				a.Mul(view(i), v, acc[1])
			} else {
				a.Fma(view(i), v, acc[i%2])
			}
		}
		if len(acc) > 1 {
			a.Add(acc[1], acc[0], acc[0])
		}
		a.Move(acc[0], operand.Mem{Base: k.weights})
		a.ADDQ(operand.U8(4*a.Lanes), k.weights)
	}
}

// store writes a tile. Even and odd results take turns.
func (k *windowKernel) store(acc []reg.VecVirtual, n int, results map[int]reg.Register) {
	a := k.Asm
	var pairs []reg.VecVirtual
	if k.phases > 1 {
		pairs = a.Vecs(2)
		table := a.Field(k.t, lwPairs)
		for i, v := range pairs {
			a.Move(operand.Mem{Base: table, Disp: 4 * a.Lanes * (2 + i)}, v)
		}
	}
	for i := range n * k.phases {
		v := acc[i/k.phases]
		if k.phases > 1 {
			v = a.Vec()
			a.Copy(pairs[i%2], v)
			a.VPERMI2PS(acc[n+i/2], acc[i/2], v)
		}
		m := operand.Mem{Base: k.y, Disp: 4 * a.Lanes * i}
		a.PREFETCHT0(m.Offset(windowAhead))
		if lanes := results[i]; lanes != nil {
			a.VMOVUPS(v, lanes, m)
		} else {
			a.Move(v, m)
		}
	}
}

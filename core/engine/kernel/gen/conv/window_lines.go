package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of lineWindows and its windowTile and windowGroup.
const (
	lwX, lwY, lwRows, lwXRow, lwYRow            = 0, 8, 16, 24, 32
	lwTiles, lwTable, lwMasks                   = 40, 48, 56
	lwGroups, lwList, lwOrders, lwPairs         = 64, 72, 80, 88
	lwWeights, lwWeightsRow, lwWeightNext       = 96, 104, 112
	lwBias, lwBiasRow                           = 120, 128
	lwXAt, lwYAt, lwLeft, lwWeightsAt, lwBiasAt = 136, 144, 152, 160, 168
	lwGroupsLeft                                = 176
	wiX, wiY, wiVectors, wiMasks, wiSize        = 0, 8, 16, 24, 32
	wgX, wgTaps, wgWeights, wgSize              = 0, 8, 24, 40
	windowVectors, windowPairs                  = 8, 6 // of a tile, at most: of results, and of each phase of two
)

// lineWindows emits depthwise convolution along rows for registers of sixteen lanes. A window is two neighbouring vectors of a row: what a tap sees of it is one
// permutation, so that each vector is loaded once for a group of taps. Masks leave out what lies beside the row.
func lineWindows(a *isa.Asm) {
	k := &windowKernel{Asm: a, stride: 1, phases: 1, most: windowVectors}
	k.emit("lineWindows", "convolves rows.")
	k = &windowKernel{Asm: a, stride: 2, phases: 1, most: windowPairs}
	k.emit("lineWindowsStrided", "convolves rows with stride 2.")
	k = &windowKernel{Asm: a, stride: 1, phases: 2, most: windowPairs}
	k.emit("lineWindowsPhases", "convolves rows to the even elements of results, and to the odd ones.")
}

// windowKernel is one of the kernels.
type windowKernel struct {
	*isa.Asm
	stride, phases   int // phases of what is read, and of results
	most             int // vectors of a tile, of each phase
	t, tile, x, mask reg.GPVirtual
}

func (k *windowKernel) emit(name, doc string) {
	a := k.Asm
	a.Kernel(name, "func(lineWindows *byte)", doc)
	k.t = a.Gp("lineWindows")
	copyFields(a, k.t, [2]int{lwX, lwXAt}, [2]int{lwY, lwYAt}, [2]int{lwWeights, lwWeightsAt}, [2]int{lwBias, lwBiasAt})
	a.Label("row")
	copyFields(a, k.t, [2]int{lwTiles, lwLeft})
	k.tile = a.Field(k.t, lwTable)
	a.Label("tile")
	k.x, k.mask = a.Field(k.t, lwXAt), a.Field(k.t, lwMasks)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wiX}, k.x)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wiMasks}, k.mask)
	k.choose(a.Field(k.tile, wiVectors), 1, k.most)
	a.Label("tileDone")
	a.ADDQ(operand.U8(wiSize), k.tile)
	a.CountDown(operand.Mem{Base: k.t, Disp: lwLeft}, "tile")
	addFields(a, k.t, [2]int{lwXRow, lwXAt}, [2]int{lwYRow, lwYAt}, [2]int{lwWeightsRow, lwWeightsAt}, [2]int{lwBiasRow, lwBiasAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: lwRows}, "row")
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

// tileOf computes a tile of n vectors of each phase.
func (k *windowKernel) tileOf(n int) {
	a, label := k.Asm, func(name string) string { return fmt.Sprint(name, "Of", n) }
	acc, bias := a.Vecs(n*k.phases), a.Field(k.t, lwBiasAt)
	a.Spread(operand.Mem{Base: bias}, acc[0])
	for _, v := range acc[1:] {
		a.Copy(acc[0], v)
	}
	copyFields(a, k.t, [2]int{lwGroups, lwGroupsLeft})
	group, orders := a.Field(k.t, lwList), a.Field(k.t, lwOrders)
	a.Label(label("group"))
	at := a.GP64()
	a.MOVQ(operand.Mem{Base: group, Disp: wgX}, at)
	a.ADDQ(k.x, at)
	streams := k.load(at, n)
	for list := range max(k.stride, k.phases) {
		k.list(label(fmt.Sprint("list", list)), list, group, orders, streams[list%k.stride], acc[list%k.phases*n:][:n])
	}
	a.ADDQ(operand.U8(wgSize), group)
	a.CountDown(operand.Mem{Base: k.t, Disp: lwGroupsLeft}, label("group"))
	k.store(acc, n)
}

// load loads the windows of n vectors, by phase: n + 1 vectors, of which each two neighbours are one.
func (k *windowKernel) load(at reg.GPVirtual, n int) [][]reg.VecVirtual {
	streams := make([][]reg.VecVirtual, k.stride)
	for i := range n + 1 {
		v := k.Vecs(k.stride)
		loadWindow(k.Asm, at, k.mask, i, k.stride, k.Field(k.t, lwPairs), v)
		for s := range v {
			streams[s] = append(streams[s], v[s])
		}
	}
	k.ADDQ(operand.U8(2*k.stride*(n+1)), k.mask)
	return streams
}

// loadWindow loads the i-th vector of each phase of a row.
func loadWindow(a *isa.Asm, at, mask reg.GPVirtual, i, stride int, pairs reg.GPVirtual, v []reg.VecVirtual) {
	raw := v
	if stride > 1 {
		raw = a.Vecs(stride)
	}
	for j, r := range raw {
		loadPart(a, operand.Mem{Base: at, Disp: 4 * a.Lanes * (stride*i + j)}, operand.Mem{Base: mask, Disp: 2 * (stride*i + j)}, r)
	}
	if stride == 1 {
		return
	}
	for s := range v {
		a.Move(operand.Mem{Base: pairs, Disp: 4 * a.Lanes * s}, v[s])
		a.VPERMI2PS(raw[1], raw[0], v[s])
	}
}

// loadPart loads the lanes of a mask in memory, and zeros into the others.
func loadPart(a *isa.Asm, m, mask operand.Mem, v reg.VecVirtual) {
	lanes := a.K()
	a.KMOVW(mask, lanes)
	a.VMOVUPS_Z(m, lanes, v)
}

// list adds the products of a group's taps of one phase. With one phase of results, the first of phase 0 sees the first vector of each window as it is.
func (k *windowKernel) list(label string, list int, group, orders reg.GPVirtual, x, acc []reg.VecVirtual) {
	a := k.Asm
	left, weights, next, w := a.Field(group, wgTaps+8*list), a.Field(group, wgWeights+8*list), a.Field(k.t, lwWeightNext), a.Vec()
	a.ADDQ(operand.Mem{Base: k.t, Disp: lwWeightsAt}, weights)
	done := label + "Done"
	if list == 0 && k.phases == 1 {
		a.Spread(operand.Mem{Base: weights}, w)
		for i, v := range acc {
			a.Fma(x[i], w, v)
		}
		a.ADDQ(next, weights)
		a.DECQ(left)
	} else {
		a.TESTQ(left, left)
	}
	a.JZ(operand.LabelRef(done))
	a.Label(label)
	order := a.Vec()
	a.Spread(operand.Mem{Base: weights}, w)
	a.Move(operand.Mem{Base: orders}, order)
	for i, v := range acc {
		view := a.Vec()
		a.Copy(order, view)
		a.VPERMI2PS(x[i+1], x[i], view)
		a.Fma(view, w, v)
	}
	a.ADDQ(operand.U8(4*a.Lanes), orders)
	a.ADDQ(next, weights)
	a.CountDown(left, label)
	a.Label(done)
}

// store writes a tile. Even and odd results take turns.
func (k *windowKernel) store(acc []reg.VecVirtual, n int) {
	a, y := k.Asm, k.Field(k.t, lwYAt)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wiY}, y)
	var pairs reg.GPVirtual
	if k.phases > 1 {
		pairs = a.Field(k.t, lwPairs)
	}
	for i := range n * k.phases {
		v, lanes := acc[i/k.phases], a.K()
		if k.phases > 1 {
			v = a.Vec()
			a.Move(operand.Mem{Base: pairs, Disp: 4 * a.Lanes * (2 + i%2)}, v)
			a.VPERMI2PS(acc[n+i/2], acc[i/2], v)
		}
		a.KMOVW(operand.Mem{Base: k.mask, Disp: 2 * i}, lanes)
		a.VMOVUPS(v, lanes, operand.Mem{Base: y, Disp: 4 * a.Lanes * i})
	}
}

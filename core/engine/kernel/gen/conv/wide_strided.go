package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of wideStrides and of its wideColumns.
const (
	wsX, wsY, wsXNext, wsYNext            = 0, 8, 16, 24
	wsPlanes, wsXPlane, wsYPlane          = 32, 40, 48
	wsImages, wsXImage, wsYImage          = 56, 64, 72
	wsXRow, wsYRow, wsXFirst              = 80, 88, 96
	wsXEnd, wsYEnd, wsSteps               = 104, 112, 120
	wsBlocks, wsTable                     = 128, 136
	wsWeights, wsBias, wsBiasNext, wsSums = 144, 152, 160, 168
	wsXAt, wsYAt, wsXPlaneAt, wsYPlaneAt  = 176, 184, 192, 200
	wsWeightsAt, wsBiasAt, wsSumsAt       = 208, 216, 224
	wsImagesLeft, wsBlocksLeft, wsAhead   = 232, 240, 248
	wcX, wcY, wcMasks, wcOrders, wcSize   = 0, 8, 16, 64, 512
	wcMaskX, wcMaskXUpper                 = 0, 2 // of x's vectors where they need masks, or of those that are written
	wcMaskY, wcMaskYUpper                 = 4, 6 // of y
	wcMaskViews                           = 8    // of what each column of the filter sees, or of what it moves of dy: two masks each
	near                                  = 2048 // how far ahead of what they read and write kernels prefetch
	wcOrderViews                          = 0    // of the elements of two vectors that each column of the filter sees
)

// wideStrided emits depthwise convolution with strides of 2 and 3 for registers of sixteen lanes: a permutation of two takes from a row of x what a
// column of the filter sees.
func wideStrided(a *isa.Asm) {
	for _, size := range []int{3, 5, 7} {
		for _, pair := range []bool{false, true} {
			for _, stride := range []int{2, 3} {
				wideStridedForward(a, size, stride, pair)
				for _, columns := range stridedParts[size] {
					wideStridedDots(a, size, stride, columns, pair)
				}
			}
			for odd := range 2 {
				wideStridedGrad(a, size, odd, pair)
			}
		}
	}
	wideStridedApart(a, 3)
}

// stridedParts are the columns of a filter of that size whose gradients a kernel sums, from one to another: as many as have
// registers for the sums. Package planes knows them, too.
var stridedParts = map[int][][2]int{3: {{0, 3}}, 5: {{0, 5}}, 7: {{0, 3}, {3, 5}, {5, 7}}}

// wideStridedKernel is what these kernels share.
type wideStridedKernel struct {
	*isa.Asm
	size, stride      int    // of the filter
	columns           [2]int // of it, from one to another, that the kernel looks at
	pair              bool   // the second vector, and the upper lanes of results, are another image's
	t, block          reg.GPVirtual
	x, xNext, off     reg.GPVirtual // the block's columns in both vectors, and the offset of a row
	xAhead            reg.GPVirtual // what to prefetch, unless images are computed in pairs
	end, xRow         reg.GPVirtual
	maskX             reg.Register
	masks             []reg.Register
	orders, registers []reg.VecVirtual
	weights           reg.GPVirtual
}

// stridedName is a kernel's name, with a stride that is not 2.
func stridedName(base string, size, stride int) string {
	if stride == 2 {
		return fmt.Sprint(base, size)
	}
	return fmt.Sprintf("%s%dBy%d", base, size, stride)
}

func newWideStrided(a *isa.Asm, name, doc string, size, stride int, pair bool) *wideStridedKernel {
	if pair {
		name, doc = name+"Pair", doc+" Lanes from the eighth on are those of another image."
	}
	a.Kernel(name, "func(wideStrides *byte)", doc)
	return &wideStridedKernel{Asm: a, size: size, stride: stride, pair: pair, columns: [2]int{0, size}, t: a.Gp("wideStrides")}
}

// overPlanes emits the loop over planes and that over the blocks of columns of each; begin is run for a plane, and prepare for a block. Planes that
// are computed in pairs have a single block, which is prepared once.
func (k *wideStridedKernel) overPlanes(begin, prepare, block, end func()) {
	a := k.Asm
	if k.pair {
		k.block = a.Field(k.t, wsTable)
		prepare()
	}
	a.Label("plane")
	begin()
	if !k.pair {
		copyFields(a, k.t, [2]int{wsBlocks, wsBlocksLeft})
		k.block = a.Field(k.t, wsTable)
		a.Label("block")
		prepare()
	}
	k.x, k.off, k.end, k.xRow = a.Field(k.t, wsXAt), a.Field(k.t, wsXFirst), a.Field(k.t, wsXEnd), a.Field(k.t, wsXRow)
	a.ADDQ(operand.Mem{Base: k.block, Disp: wcX}, k.x)
	k.xNext = a.Field(k.t, wsXNext)
	a.ADDQ(k.x, k.xNext)
	if !k.pair {
		k.xAhead = a.Field(k.t, wsAhead)
		a.ADDQ(k.x, k.xAhead)
	}
	block()
	if !k.pair {
		a.ADDQ(operand.U32(wcSize), k.block)
		a.CountDown(operand.Mem{Base: k.t, Disp: wsBlocksLeft}, "block")
	}
	end()
	a.CountDown(operand.Mem{Base: k.t, Disp: wsPlanes}, "plane")
	a.Ret()
}

func (k *wideStridedKernel) mask(disp int) reg.Register {
	v := k.K()
	k.KMOVW(operand.Mem{Base: k.block, Disp: wcMasks + disp}, v)
	return v
}

func (k *wideStridedKernel) order(i int) operand.Mem {
	return operand.Mem{Base: k.block, Disp: wcOrders + 64*i}
}

// masksStay is how many masks of views stay in registers, of which masks of rows take some, too: others are loaded when they are used.
const masksStay = 5

// viewsOf loads the masks of what columns of the filter see, and the orders of the elements, as many as stay in registers.
func (k *wideStridedKernel) viewsOf(inRegisters bool) {
	k.masks, k.orders, k.maskX = nil, nil, nil
	many := k.columns[1]-k.columns[0] > masksStay
	if k.pair && !many {
		k.maskX = k.mask(wcMaskX)
	}
	for s := k.columns[0]; s < k.columns[1]; s++ {
		if !many || len(k.masks) < masksStay {
			k.masks = append(k.masks, k.mask(wcMaskViews+4*s))
		}
		if inRegisters {
			v := k.Vec()
			k.VMOVDQU32(k.order(wcOrderViews+s), v)
			k.orders = append(k.orders, v)
		}
	}
}

// stays is a mask that is in a register, or is loaded.
func (k *wideStridedKernel) stays(mask reg.Register, disp int) reg.Register {
	if mask == nil {
		return k.mask(disp)
	}
	return mask
}

// maskOf is the mask of what column s of the filter sees.
func (k *wideStridedKernel) maskOf(s int) reg.Register {
	if i := s - k.columns[0]; i < len(k.masks) {
		return k.masks[i]
	}
	return k.mask(wcMaskViews + 4*s)
}

// row calls add with what every column of the filter sees of the next row of x, if it lies in the plane.
func (k *wideStridedKernel) row(label string, add func(s int, view reg.VecVirtual)) {
	a := k.Asm
	a.CMPQ(k.off, k.end)
	a.JCC(operand.LabelRef(label))
	v := a.Vecs(2)
	k.ahead()
	var maskX reg.Register
	if k.pair {
		maskX = k.stays(k.maskX, wcMaskX)
	}
	for i, from := range []reg.GPVirtual{k.x, k.xNext} {
		if k.pair {
			a.VMOVUPS_Z(isa.Offset(from, k.off, 0), maskX, v[i])
		} else {
			a.Move(isa.Offset(from, k.off, 0), v[i])
		}
	}
	for s := k.columns[0]; s < k.columns[1]; s++ {
		view := a.Vec()
		if len(k.orders) > 0 {
			a.Copy(k.orders[s-k.columns[0]], view)
		} else {
			a.VMOVDQU32(k.order(wcOrderViews+s), view)
		}
		a.VPERMI2PS_Z(v[1], v[0], k.maskOf(s), view)
		add(s, view)
	}
	a.Label(label)
	a.ADDQ(k.xRow, k.off)
}

// ahead prefetches what lies behind the row.
func (k *wideStridedKernel) ahead() {
	if !k.pair {
		k.PREFETCHT0(isa.Offset(k.xAhead, k.off, 0))
		k.PREFETCHT0(isa.Offset(k.xAhead, k.off, 64))
		return
	}
	k.PREFETCHT0(isa.Offset(k.x, k.off, near))
	k.PREFETCHT0(isa.Offset(k.xNext, k.off, near))
}

// loadTaps loads the first weights of a plane into count registers.
func (k *wideStridedKernel) loadTaps(count int) {
	k.weights, k.registers = k.Field(k.t, wsWeightsAt), k.Vecs(min(count, k.size*k.size))
	for i, v := range k.registers {
		k.Spread(operand.Mem{Base: k.weights, Disp: 4 * i}, v)
	}
}

// besideSums is how many weights stay in registers, most of filters of up to 5×5: sums of 7×7 filters and what they see take more.
func besideSums(size, most int) int {
	if size > 5 {
		return most - 4
	}
	return most
}

// addTap adds the product of a weight with v.
func (k *wideStridedKernel) addTap(r, s int, v, sum reg.VecVirtual) {
	if i := r*k.size + s; i < len(k.registers) {
		k.Fma(k.registers[i], v, sum)
	} else {
		k.FmaFactor(operand.Mem{Base: k.weights, Disp: 4 * i}, v, sum)
	}
}

// together is how many rows of y see a row of x at most.
func (k *wideStridedKernel) together() int { return (k.size + k.stride - 1) / k.stride }

// rowsOf are the rows of the filter that meet row i of a step, the last of which completes a row of y: for this row of y, the next one and so on.
func (k *wideStridedKernel) rowsOf(i int) (rows []int) {
	for r := k.size - k.stride + i; r >= 0; r -= k.stride {
		rows = append(rows, r)
	}
	return rows
}

// wideStridedForward computes y = bias + Σ w·x: every step takes as many rows of x as the stride has, which complete a row of y.
func wideStridedForward(a *isa.Asm, size, stride int, pair bool) {
	k := newWideStrided(a, stridedName("wideStridedForward", size, stride), fmt.Sprintf("convolves planes with a %d×%d filter each, with stride %d.", size, size, stride), size, stride, pair)
	next := k.together() - 1
	copyFields(a, k.t, [2]int{wsX, wsXAt}, [2]int{wsY, wsYAt}, [2]int{wsWeights, wsWeightsAt}, [2]int{wsBias, wsBiasAt})
	var maskY reg.Register
	k.overPlanes(func() { k.loadTaps(besideSums(size, 15)) }, func() {
		k.viewsOf(true)
		if maskY = nil; size < 7 {
			maskY = k.mask(wcMaskY)
		}
	}, func() {
		acc, bias := a.Vecs(next+1), a.Field(k.t, wsBiasAt)
		others := acc // sums of the other rows of x, if those of all would wait for each other for long
		if size > 3 {
			others = a.Vecs(len(acc))
			for _, v := range others {
				a.Zero(v)
			}
		}
		y, yRow, steps, lead := a.Field(k.t, wsYAt), a.Field(k.t, wsYRow), a.Field(k.t, wsSteps), a.GP64()
		a.ADDQ(operand.Mem{Base: k.block, Disp: wcY}, y)
		a.MOVQ(operand.U32(next), lead)
		a.Spread(operand.Mem{Base: bias}, acc[0])
		for _, v := range acc[1:] {
			a.Copy(acc[0], v)
		}
		a.Label("step")
		for i := range stride {
			sums := acc
			if i == 1 {
				sums = others
			}
			k.row(fmt.Sprint("below", i), func(s int, view reg.VecVirtual) {
				for q, r := range k.rowsOf(i) {
					k.addTap(r, s, view, sums[q])
				}
			})
		}
		a.DECQ(lead)
		a.JGE(operand.LabelRef("stored"))
		if size > 3 {
			a.Add(others[0], acc[0], acc[0])
		}
		k.store(acc[0], y, k.stays(maskY, wcMaskY))
		a.ADDQ(yRow, y)
		a.Label("stored")
		for q := range next {
			a.Copy(acc[q+1], acc[q])
			if size > 3 {
				a.Copy(others[q+1], others[q])
			}
		}
		if size > 3 {
			a.Zero(others[next])
		}
		a.Spread(operand.Mem{Base: bias}, acc[next])
		a.CountDown(steps, "step")
	}, func() {
		addFields(a, k.t, [2]int{wsXPlane, wsXAt}, [2]int{wsYPlane, wsYAt}, [2]int{wsBiasNext, wsBiasAt})
		a.ADDQ(operand.U8(4*size*size), operand.Mem{Base: k.t, Disp: wsWeightsAt})
	})
}

// store writes a row of y, or of two images.
func (k *wideStridedKernel) store(v reg.VecVirtual, y reg.GPVirtual, mask reg.Register) {
	a := k.Asm
	a.PREFETCHT0(operand.Mem{Base: y, Disp: pages})
	if !k.pair {
		a.VMOVUPS(v, mask, operand.Mem{Base: y})
		return
	}
	next, upper := a.Field(k.t, wsYNext), a.YMM()
	a.VEXTRACTF32X8(operand.U8(1), v, upper)
	a.VMOVUPS(v.AsY(), mask, operand.Mem{Base: y})
	a.VMOVUPS(upper, mask, isa.Offset(y, next, 0))
	a.PREFETCHT0(isa.Offset(y, next, near))
}

// wideStridedDots sums dy·x for each weight over planes of several images: a step takes as many rows of x as the stride has, and the rows of dy that they meet.
func wideStridedDots(a *isa.Asm, size, stride int, columns [2]int, pair bool) {
	name, of := stridedName("wideStridedDots", size, stride), fmt.Sprintf("each weight of a %d×%d filter", size, size)
	if columns != [2]int{0, size} {
		name += fmt.Sprintf("From%d", columns[0])
		of = fmt.Sprintf("the columns %d to %d of a %d×%d filter", columns[0], columns[1]-1, size, size)
	}
	k := newWideStrided(a, name, fmt.Sprintf("adds the products of dy and x for %s with stride %d, [row][column][lanes].", of, stride), size, stride, pair)
	k.columns = columns
	behind := k.together() - 1
	copyFields(a, k.t, [2]int{wsX, wsXPlaneAt}, [2]int{wsY, wsYPlaneAt}, [2]int{wsSums, wsSumsAt})
	acc := make([][]reg.VecVirtual, size) // by the rows of the filter
	for r := range acc {
		acc[r] = a.Vecs(columns[1] - columns[0])
	}
	each := func(f func(v, m operand.Op)) {
		sums := a.Field(k.t, wsSumsAt)
		for r := range acc {
			for i, v := range acc[r] {
				f(v, operand.Mem{Base: sums, Disp: 4 * a.Lanes * (r*size + columns[0] + i)})
			}
		}
	}
	var masks laneMasks
	k.overPlanes(func() {
		copyFields(a, k.t, [2]int{wsXPlaneAt, wsXAt}, [2]int{wsYPlaneAt, wsYAt}, [2]int{wsImages, wsImagesLeft})
		each(func(v, m operand.Op) { a.Move(m, v) })
		a.Label("image")
	}, func() {
		k.viewsOf(size == 3)
		masks = k.lanesOf(wcMaskY, size == 3)
	}, func() {
		y, next := k.grads()
		at, steps, yEnd := a.GP64(), a.Field(k.t, wsSteps), a.Field(k.t, wsYEnd)
		a.XORQ(at, at)
		dy := a.Vecs(behind + 1)
		for _, v := range dy {
			a.Zero(v)
		}
		last := dy[behind]
		a.Label("step")
		a.Zero(last)
		a.CMPQ(at, yEnd)
		a.JCC(operand.LabelRef("below"))
		a.PREFETCHT0(isa.Offset(y, at, near))
		k.loadGrads(masks, y, next, at, 0, last)
		a.Label("below")
		a.ADDQ(operand.Mem{Base: k.t, Disp: wsYRow}, at)
		for i := range stride {
			k.row(fmt.Sprint("below", i), func(s int, view reg.VecVirtual) {
				for q, r := range k.rowsOf(i) {
					a.Fma(dy[q], view, acc[r][s-columns[0]])
				}
			})
		}
		for q := range behind {
			a.Copy(dy[q+1], dy[q])
		}
		a.CountDown(steps, "step")
	}, func() {
		addFields(a, k.t, [2]int{wsXImage, wsXAt}, [2]int{wsYImage, wsYAt})
		a.CountDown(operand.Mem{Base: k.t, Disp: wsImagesLeft}, "image")
		each(func(v, m operand.Op) { a.Move(v, m) })
		addFields(a, k.t, [2]int{wsXPlane, wsXPlaneAt}, [2]int{wsYPlane, wsYPlaneAt})
		a.ADDQ(operand.U32(4*a.Lanes*size*size), operand.Mem{Base: k.t, Disp: wsSumsAt})
	})
}

// laneMasks are the masks of a row, and of another image's row, in registers unless they are loaded when they are used.
type laneMasks struct {
	disp         int
	lower, upper reg.Register
}

// lanesOf loads masks if they are to stay in registers.
func (k *wideStridedKernel) lanesOf(disp int, stay bool) (m laneMasks) {
	if m.disp = disp; stay {
		m.lower = k.mask(disp)
		if k.pair {
			m.upper = k.mask(disp + 2)
		}
	}
	return m
}

// loadGrads reads the lanes of a row of dy that masks have, or of two images' rows: y and next are these images.
func (k *wideStridedKernel) loadGrads(masks laneMasks, y, next, at reg.GPVirtual, disp int, v reg.VecVirtual) {
	a, lower := k.Asm, masks.lower
	if lower == nil {
		lower = k.mask(masks.disp)
	}
	if !k.pair {
		a.VMOVUPS_Z(isa.Offset(y, at, disp), lower, v)
		return
	}
	a.VMOVUPS_Z(isa.Offset(y, at, disp), lower, v.AsY())
	upper := masks.upper
	if upper == nil {
		upper = k.mask(masks.disp + 2)
	}
	a.VBROADCASTF32X8(isa.Offset(next, at, disp), upper, v)
}

// grads are the block's columns of dy, and those of another image.
func (k *wideStridedKernel) grads() (y, next reg.GPVirtual) {
	y = k.Field(k.t, wsYAt)
	k.ADDQ(operand.Mem{Base: k.block, Disp: wcY}, y)
	if k.pair {
		next = k.Field(k.t, wsYNext)
		k.ADDQ(y, next)
	}
	return y, next
}

// wideStridedGrad computes the gradient of planes' inputs: a step takes a row of dy and completes two rows of dx. Odd is the remainder of the
// padding: pairs of columns of dx begin with one that the odd columns of the filter reach, or the even ones.
func wideStridedGrad(a *isa.Asm, size, odd int, pair bool) {
	name := fmt.Sprintf("wideStridedGrad%d%s", size, []string{"Even", "Odd"}[odd])
	k := newWideStrided(a, name, fmt.Sprintf("computes the gradient of planes that %d×%d filters see with stride 2.", size, size), size, 2, pair)
	copyFields(a, k.t, [2]int{wsX, wsXAt}, [2]int{wsY, wsYAt}, [2]int{wsWeights, wsWeightsAt})
	dy, order := a.Vecs((size+1)/2), a.Vecs(2)
	var masks []laneMasks
	var written []reg.Register
	k.overPlanes(func() { k.loadTaps(besideSums(size, 13)) }, func() {
		masks = nil
		for i := range dy {
			masks = append(masks, k.lanesOf(wcMaskViews+4*i, size < 7 || !pair))
		}
		written = []reg.Register{k.mask(wcMaskX)}
		if written = append(written, written[0]); !pair {
			written[1] = k.mask(wcMaskXUpper)
		}
		for i, v := range order {
			a.VMOVDQU32(k.order(i), v)
		}
	}, func() {
		y, next := k.grads()
		at, steps, yEnd := a.GP64(), a.Field(k.t, wsSteps), a.Field(k.t, wsYEnd)
		a.XORQ(at, at)
		sums := make([][2]reg.VecVirtual, size) // of rows of dx, by the parity of the column
		for r := range sums {
			sums[r] = [2]reg.VecVirtual{a.Vec(), a.Vec()}
			a.Zero(sums[r][0])
			a.Zero(sums[r][1])
		}
		a.Label("step")
		a.CMPQ(at, yEnd)
		a.JCC(operand.LabelRef("below"))
		a.PREFETCHT0(isa.Offset(y, at, near))
		for i, v := range dy {
			k.loadGrads(masks[i], y, next, at, -4*i, v)
		}
		for r := range size {
			for s := range size {
				column := (s + odd) % 2
				k.addTap(r, s, dy[odd-(column+odd-s)/2], sums[r][column])
			}
		}
		a.Label("below")
		a.ADDQ(operand.Mem{Base: k.t, Disp: wsYRow}, at)
		for r := range 2 {
			k.join(fmt.Sprint("joined", r), sums[r], order, written)
		}
		for r := range size - 2 {
			for i := range 2 {
				a.Copy(sums[r+2][i], sums[r][i])
			}
		}
		for _, v := range sums[size-2:] {
			a.Zero(v[0])
			a.Zero(v[1])
		}
		a.CountDown(steps, "step")
	}, func() {
		addFields(a, k.t, [2]int{wsXPlane, wsXAt}, [2]int{wsYPlane, wsYAt})
		a.ADDQ(operand.U8(4*size*size), operand.Mem{Base: k.t, Disp: wsWeightsAt})
	})
}

// join writes the next row of dx from its even and its odd columns, if it lies in the plane.
func (k *wideStridedKernel) join(label string, columns [2]reg.VecVirtual, order []reg.VecVirtual, masks []reg.Register) {
	a := k.Asm
	a.CMPQ(k.off, k.end)
	a.JCC(operand.LabelRef(label))
	k.ahead()
	for i, to := range []reg.GPVirtual{k.x, k.xNext} {
		v := a.Vec()
		a.Copy(order[i], v)
		a.VPERMI2PS(columns[1], columns[0], v)
		a.VMOVUPS(v, masks[i], isa.Offset(to, k.off, 0))
	}
	a.Label(label)
	a.ADDQ(k.xRow, k.off)
}

// wideStridedApart computes the gradient of planes' inputs where filters are as large as the stride, so that they do not overlap: of a row of dy, a
// permutation gives what a vector of dx meets, and one of a row of the filter its weights.
func wideStridedApart(a *isa.Asm, size int) {
	k := newWideStrided(a, stridedName("wideStridedGrad", size, size), fmt.Sprintf("computes the gradient of planes that %d×%d filters see with stride %d.", size, size, size), size, size, false)
	copyFields(a, k.t, [2]int{wsX, wsXAt}, [2]int{wsY, wsYAt}, [2]int{wsWeights, wsWeightsAt})
	order, weights := a.Vecs(size), make([][]reg.VecVirtual, size)
	for r := range weights {
		weights[r] = a.Vecs(size)
	}
	var maskY reg.Register
	var written []reg.Register
	k.overPlanes(func() {
		k.block = a.Field(k.t, wsTable)
		row, from := k.mask(wcMaskViews+4*size), a.Field(k.t, wsWeightsAt)
		for r := range size {
			all := a.Vec()
			a.VMOVUPS_Z(operand.Mem{Base: from, Disp: 4 * size * r}, row, all)
			for i, v := range weights[r] {
				a.VMOVDQU32(k.order(size+i), v)
				a.VPERMPS(all, v, v)
			}
		}
	}, func() {
		maskY, written = k.mask(wcMaskY), nil
		for i, v := range order {
			a.VMOVDQU32(k.order(i), v)
			written = append(written, k.mask(wcMaskViews+4*i))
		}
	}, func() {
		y, _ := k.grads()
		at, steps, yEnd := a.GP64(), a.Field(k.t, wsSteps), a.Field(k.t, wsYEnd)
		a.XORQ(at, at)
		a.Label("step")
		dy := a.Vec()
		a.Zero(dy)
		a.CMPQ(at, yEnd)
		a.JCC(operand.LabelRef("below"))
		a.VMOVUPS_Z(isa.Offset(y, at, 0), maskY, dy)
		a.Label("below")
		a.ADDQ(operand.Mem{Base: k.t, Disp: wsYRow}, at)
		met := a.Vecs(size)
		for i, v := range met {
			a.VPERMPS(dy, order[i], v)
		}
		for r := range size {
			label := fmt.Sprint("written", r)
			a.CMPQ(k.off, k.end)
			a.JCC(operand.LabelRef(label))
			k.ahead()
			for i, v := range met {
				product := a.Vec()
				a.Mul(weights[r][i], v, product)
				a.VMOVUPS(product, written[i], isa.Offset(k.x, k.off, 64*i))
			}
			a.Label(label)
			a.ADDQ(k.xRow, k.off)
		}
		a.CountDown(steps, "step")
	}, func() {
		addFields(a, k.t, [2]int{wsXPlane, wsXAt}, [2]int{wsYPlane, wsYAt})
		a.ADDQ(operand.U8(4*size*size), operand.Mem{Base: k.t, Disp: wsWeightsAt})
	})
}

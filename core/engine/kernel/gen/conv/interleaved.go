package conv

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of pixelCopy, of pixelSums, its parts and taps, of pixelPairs and of pixelDots.
const (
	icPlanes, icPlane, icAt, icTable     = 0, 8, 16, 24
	icBlocks, icBack, icMask, icRest     = 32, 40, 48, 56
	icAhead, icHalves, icNear, icDense   = 64, 72, 80, 88
	isParts, isCount, isPixels, isX      = 0, 8, 16, 24
	isList, isWeights, isBias, isY       = 32, 40, 48, 56
	isPartAt, isLeft                     = 64, 72
	ipPixelCount, ipPixels, ipY          = 0, 8, 16
	ipTaps, ipList, ipAdd, ipSize        = 24, 32, 40, 48
	iqGroups, iqPixels, iqX, iqTaps      = 0, 8, 16, 24
	iqList, iqWeights, iqBias, iqY       = 32, 40, 48, 56
	iqWeightNext, iqBiasNext, iqYNext    = 64, 72, 80
	itX, itWeight, itSize                = 0, 4, 8
	idPixels, idTable, idDY, idSums, idX = 0, 8, 16, 24, 40
	idPitch                              = 32
	interleavedHalf                      = 8    // pixels of half a cache line
	interleavedGroup                     = 8    // pixels of two outputs that are summed at once
	interleavedMost, interleavedPairs    = 9, 6 // weights whose products are summed at once, and gradients of two outputs of each channel
	idDYNext, idSumsNext                 = 112, 120
)

// interleaveBlocks calls whole for every block of pixels, of a cache line each, and half for halves behind the last one: the last may overlap with what is before
// it. Where there are fewer pixels it calls part.
func interleaveBlocks(a *isa.Asm, t, planes, table reg.GPVirtual, whole, half, part func()) {
	rest := a.Field(t, icRest)
	a.TESTQ(rest, rest)
	a.JNZ(operand.LabelRef("part"))
	left := a.Field(t, icBlocks)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("halves"))
	a.Label("block")
	whole()
	a.CountDown(left, "block")
	a.Label("halves")
	a.MOVQ(operand.Mem{Base: t, Disp: icHalves}, left)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("done"))
	a.Label("half")
	a.CMPQ(left, operand.U8(1))
	a.JNE(operand.LabelRef("apart"))
	back := a.Field(t, icBack)
	a.SUBQ(back, planes)
	a.SUBQ(back, table)
	a.Label("apart")
	half()
	a.CountDown(left, "half")
	a.JMP(operand.LabelRef("done"))
	a.Label("part")
	part()
	a.Label("done")
	a.Ret()
}

// lanesApart are the addresses of the planes of every lane, from one that moves on.
type lanesApart struct {
	*isa.Asm
	step, three, five, seven reg.GPVirtual
}

func newLanesApart(a *isa.Asm, t reg.GPVirtual) *lanesApart {
	l := &lanesApart{a, a.Field(t, icPlane), a.GP64(), a.GP64(), a.GP64()}
	a.LEAQ(operand.Mem{Base: l.step, Index: l.step, Scale: 2}, l.three)
	a.LEAQ(operand.Mem{Base: l.step, Index: l.step, Scale: 4}, l.five)
	a.LEAQ(operand.Mem{Base: l.three, Index: l.step, Scale: 4}, l.seven)
	return l
}

// from is the address of each lane's plane.
func (l *lanesApart) from(p reg.GPVirtual) (at []operand.Mem) {
	for len(at) < l.Lanes {
		if len(at) > 0 {
			next := l.GP64()
			l.LEAQ(operand.Mem{Base: p, Index: l.step, Scale: 8}, next)
			p = next
		}
		by := func(index reg.GPVirtual, scale uint8) operand.Mem {
			return operand.Mem{Base: p, Index: index, Scale: scale}
		}
		at = append(at, operand.Mem{Base: p}, by(l.step, 1), by(l.step, 2), by(l.three, 1), by(l.step, 4), by(l.five, 1), by(l.three, 2), by(l.seven, 1))
	}
	return at
}

// prefetch asks for the cache lines that a block of pixels of the planes ahead has. Where planes lie side by side these lines are so, too: cores
// soon read ahead of them on their own.
func (l *lanesApart) prefetch(t, p reg.GPVirtual) {
	at := l.Field(t, icAhead)
	l.CMPQ(operand.Mem{Base: t, Disp: icDense}, operand.U8(0))
	l.JNE(operand.LabelRef("sideBySide"))
	l.ADDQ(p, at)
	l.ask(t, "apart", l.from(at))
	l.JMP(operand.LabelRef("asked"))
	l.Label("sideBySide")
	first, done, lines := l.Field(t, icPlanes), l.GP64(), make([]operand.Mem, l.Lanes)
	l.ADDQ(first, at)
	l.MOVQ(p, done)
	l.SUBQ(first, done)
	l.SHLQ(operand.U8(bits.TrailingZeros(uint(l.Lanes))), done)
	l.ADDQ(done, at)
	for i := range lines {
		lines[i] = operand.Mem{Base: at, Disp: 64 * i}
	}
	l.ask(t, "dense", lines)
	l.Label("asked")
}

// ask prefetches cache lines.
func (l *lanesApart) ask(t reg.GPVirtual, way string, lines []operand.Mem) {
	far, done := way+"Far", way+"Done"
	l.CMPQ(operand.Mem{Base: t, Disp: icNear}, operand.U8(0))
	l.JE(operand.LabelRef(far))
	for _, m := range lines {
		l.PREFETCHT0(m)
	}
	l.JMP(operand.LabelRef(done))
	l.Label(far) // what a block of planes takes does not fit into the L1 cache
	for _, m := range lines {
		l.PREFETCHT1(m)
	}
	l.Label(done)
}

// interleaving is what both directions have.
type interleaving struct {
	*lanesApart
	t, planes, at, table reg.GPVirtual // at: the vectors of one pixel
}

func newInterleaving(a *isa.Asm) *interleaving {
	t := a.Gp("pixelCopy")
	return &interleaving{newLanesApart(a, t), t, a.Field(t, icPlanes), a.Field(t, icAt), a.Field(t, icTable)}
}

// pixel is the place of a pixel's vector.
func (l *interleaving) pixel(i int) operand.Mem {
	off := l.GP64()
	l.MOVLQSX(operand.Mem{Base: l.table, Disp: 4 * i}, off)
	return isa.Offset(l.at, off, 0)
}

// advance moves on by some pixels.
func (l *interleaving) advance(pixels int) { l.Advance(operand.U8(4*pixels), l.planes, l.table) }

// interleaveIn transposes planes to pixels. What does not fit into the L1 cache is asked for ahead, each cache line once.
func interleaveIn(a *isa.Asm) {
	a.Kernel("interleaveIn", "func(pixelCopy *byte)", "copies pixels of as many planes as a vector has lanes to vectors of one pixel, at the offsets that the table has for them.")
	l := newInterleaving(a)
	half := func() {
		for i, v := range l.halfIn() {
			a.Move(v, l.pixel(i))
		}
		l.advance(interleavedHalf)
	}
	interleaveBlocks(a, l.t, l.planes, l.table, func() {
		l.prefetch(l.t, l.planes)
		half()
		half()
	}, half, func() {
		mask, rest, v := a.LaneMask(l.t, icMask), a.Field(l.t, icRest), a.Vecs(a.Lanes)
		for i, m := range l.from(l.planes) {
			a.LoadLanes(m, mask, v[i])
		}
		for i, v := range a.Transpose(v) {
			a.CMPQ(rest, operand.U8(i))
			a.JEQ(operand.LabelRef("done"))
			a.Move(v, l.pixel(i))
		}
	})
}

// halfIn is half a block's pixels. Vectors of sixteen lanes read those of two planes each: whole ones would mostly lie in two cache lines.
func (l *interleaving) halfIn() []reg.VecVirtual {
	at := l.from(l.planes)
	if l.Lanes == interleavedHalf {
		return l.LoadTransposed(func(plane int) operand.Mem { return at[plane] })
	}
	v := l.Vecs(interleavedHalf)
	for i := range v {
		plane := i + i/4*4
		l.LoadHalves(at[plane], at[plane+4], v[i])
	}
	return l.TransposeHalves(v)
}

// interleaveOut is the way back. What is written need not be near.
func interleaveOut(a *isa.Asm) {
	a.Kernel("interleaveOut", "func(pixelCopy *byte)", "copies vectors of one pixel, at the offsets that the table has for them, to pixels of as many planes as a vector has lanes.")
	l := newInterleaving(a)
	square := func(store func(v reg.VecVirtual, m operand.Mem)) {
		v := a.Vecs(a.Lanes)
		for i := range v {
			a.Move(l.pixel(i), v[i])
		}
		v = a.Transpose(v)
		for i, m := range l.from(l.planes) {
			store(v[i], m)
		}
	}
	half := func() {
		l.halfOut(square)
		l.advance(interleavedHalf)
	}
	interleaveBlocks(a, l.t, l.planes, l.table, func() {
		l.prefetch(l.t, l.planes)
		if a.Lanes == interleavedHalf {
			half()
			half()
			return
		}
		square(func(v reg.VecVirtual, m operand.Mem) { a.Move(v, m) })
		l.advance(a.Lanes)
	}, half, func() {
		if a.ISA == isa.AVX2 { // whose masked stores take many cycles
			rest := a.Field(l.t, icRest)
			square(func(v reg.VecVirtual, m operand.Mem) { a.StoreLanes(v, rest, m) })
			return
		}
		mask := a.LaneMask(l.t, icMask)
		square(func(v reg.VecVirtual, m operand.Mem) { a.StoreLanes(v, mask, m) })
	})
}

// halfOut writes half a block's pixels. square is for vectors that have as many lanes.
func (l *interleaving) halfOut(square func(store func(v reg.VecVirtual, m operand.Mem))) {
	if l.Lanes == interleavedHalf {
		square(func(v reg.VecVirtual, m operand.Mem) { l.Move(v, m) })
		return
	}
	at := l.from(l.planes)
	for i, v := range l.TransposeToHalves(l.pixel) {
		plane := i + i/4*4
		l.VMOVUPS(v.AsY(), at[plane])
		l.VEXTRACTF64X4(operand.U8(1), v, at[plane+4])
	}
}

// pixelSums computes the vectors of some pixels, one behind the other: the weights of a few taps are in registers meanwhile, and so
// are the places that the taps see. More taps are several parts, which add to what is there.
func pixelSums(a *isa.Asm) {
	a.Kernel("pixelSums", "func(pixelSums *byte)", "computes vectors of one pixel: a bias, or what is there, and the products of a few weights.")
	t := a.Gp("pixelSums")
	copyFields(a, t, [2]int{isParts, isPartAt}, [2]int{isCount, isLeft})
	a.Label("part")
	part := a.Field(t, isPartAt)
	taps := a.Field(part, ipTaps)
	a.CMPQ(operand.Mem{Base: part, Disp: ipAdd}, operand.U8(0))
	a.JNE(operand.LabelRef("add"))
	for _, way := range []string{"bias", "add"} {
		if way == "add" {
			a.Label(way)
		}
		for n := range interleavedMost + 1 {
			more := fmt.Sprint(way, "MoreThan", n)
			a.CMPQ(taps, operand.U8(n))
			a.JNE(operand.LabelRef(more))
			sumsOf(a, t, part, n, way)
			a.JMP(operand.LabelRef("partDone"))
			a.Label(more)
		}
	}
	a.Label("partDone")
	a.ADDQ(operand.U8(ipSize), operand.Mem{Base: t, Disp: isPartAt})
	a.CountDown(operand.Mem{Base: t, Disp: isLeft}, "part")
	a.Ret()
}

// sumsOf computes the pixels of a part with so many taps, which add to a bias or to what is there.
func sumsOf(a *isa.Asm, t, part reg.GPVirtual, taps int, way string) {
	from := func(base, offset int) reg.GPVirtual {
		p := a.Field(t, base)
		a.ADDQ(operand.Mem{Base: part, Disp: offset}, p)
		return p
	}
	x, w, bias, sum, at := make([]reg.GPVirtual, taps), a.Vecs(taps), a.Vec(), a.Vec(), a.GP64()
	list, weights := from(isList, ipList), a.Field(t, isWeights)
	for i := range x {
		x[i] = a.GP64()
		a.MOVLQSX(operand.Mem{Base: list, Disp: itSize*i + itX}, x[i])
		a.ADDQ(operand.Mem{Base: t, Disp: isX}, x[i])
		a.MOVLQSX(operand.Mem{Base: list, Disp: itSize*i + itWeight}, at)
		a.Move(isa.Offset(weights, at, 0), w[i])
	}
	if way == "bias" {
		a.Move(operand.Mem{Base: a.Field(t, isBias)}, bias)
	}
	pixels, y, left := from(isPixels, ipPixels), from(isY, ipY), a.Field(part, ipPixelCount)
	loop := fmt.Sprint(way, "Pixel", taps)
	a.Label(loop)
	a.MOVLQSX(operand.Mem{Base: pixels}, at)
	if way == "bias" {
		a.Copy(bias, sum)
	} else {
		a.Move(operand.Mem{Base: y}, sum)
	}
	for i := range x {
		a.Fma(isa.Offset(x[i], at, 0), w[i], sum)
	}
	a.Move(sum, operand.Mem{Base: y})
	a.Advance(operand.U8(4), pixels)
	a.Advance(operand.U8(4*a.Lanes), y)
	a.CountDown(left, loop)
}

// pixelPairs computes two outputs of each channel whose filters have many taps, for some pixels at once: each weight is loaded for all of them, and each
// pixel for both outputs.
func pixelPairs(a *isa.Asm) {
	a.Kernel("pixelPairs", "func(pixelPairs *byte)", "computes groups of vectors of one pixel for two outputs of each channel: a bias, and the products of a list of weights.")
	t := a.Gp("pixelPairs")
	a.Label("group")
	count := a.Lanes / 2 // as many sums as there is room for
	for first := 0; first < interleavedGroup; first += count {
		somePairs(a, t, first, count)
	}
	a.ADDQ(operand.U32(4*a.Lanes*interleavedGroup), operand.Mem{Base: t, Disp: iqY})
	a.ADDQ(operand.U8(4*interleavedGroup), operand.Mem{Base: t, Disp: iqPixels})
	a.CountDown(operand.Mem{Base: t, Disp: iqGroups}, "group")
	a.Ret()
}

// somePairs computes count pixels of a group.
func somePairs(a *isa.Asm, t reg.GPVirtual, first, count int) {
	acc, x := [2][]reg.VecVirtual{a.Vecs(count), a.Vecs(count)}, make([]reg.GPVirtual, count)
	pixels, bias := a.Field(t, iqPixels), a.Field(t, iqBias)
	for i := range x {
		x[i] = a.GP64()
		a.MOVLQSX(operand.Mem{Base: pixels, Disp: 4 * (first + i)}, x[i])
		a.ADDQ(operand.Mem{Base: t, Disp: iqX}, x[i])
	}
	for k := range acc {
		if k > 0 {
			a.ADDQ(operand.Mem{Base: t, Disp: iqBiasNext}, bias)
		}
		a.Move(operand.Mem{Base: bias}, acc[k][0])
		for _, v := range acc[k][1:] {
			a.Copy(acc[k][0], v)
		}
	}
	left, list, weights, at, weight, w := a.Field(t, iqTaps), a.Field(t, iqList), a.Field(t, iqWeights), a.GP64(), a.GP64(), a.Vecs(2)
	loop := fmt.Sprint("tap", first)
	a.Label(loop)
	a.MOVLQSX(operand.Mem{Base: list, Disp: itX}, at)
	a.MOVLQSX(operand.Mem{Base: list, Disp: itWeight}, weight)
	a.Move(isa.Offset(weights, weight, 0), w[0])
	a.ADDQ(operand.Mem{Base: t, Disp: iqWeightNext}, weight)
	a.Move(isa.Offset(weights, weight, 0), w[1])
	for i := range x {
		productsOf(a, isa.Offset(x[i], at, 0), w, func(k int) reg.VecVirtual { return acc[k][i] })
	}
	a.Advance(operand.U8(itSize), list)
	a.CountDown(left, loop)
	y := a.Field(t, iqY)
	for k := range acc {
		if k > 0 {
			a.ADDQ(operand.Mem{Base: t, Disp: iqYNext}, y)
		}
		for i, v := range acc[k] {
			a.Move(v, operand.Mem{Base: y, Disp: 4 * a.Lanes * (first + i)})
		}
	}
}

// productsOf adds the products of what lies at m with each factor to the sums, for which it is loaded once.
func productsOf(a *isa.Asm, m operand.Mem, factors []reg.VecVirtual, sum func(k int) reg.VecVirtual) {
	if len(factors) == 1 {
		a.Fma(m, factors[0], sum(0))
		return
	}
	v := a.Vec()
	a.Move(m, v)
	for k, f := range factors {
		a.Fma(v, f, sum(k))
	}
}

// interleavedDots emits the weight gradients of up to so many weights at once, of one output of each channel and of two.
func interleavedDots(a *isa.Asm) {
	for taps := 1; taps <= interleavedMost; taps++ {
		pixelDots(a, fmt.Sprintf("pixelDots%d", taps), fmt.Sprintf("adds the products of dy and x over pixels, for %d weights.", taps), taps, 1)
	}
	for taps := 1; taps <= interleavedPairs; taps++ {
		pixelDots(a, fmt.Sprintf("pixelDotsPair%d", taps), fmt.Sprintf("adds the products of dy and x over pixels, for %d weights of two outputs of each channel.", taps), taps, 2)
	}
}

// pixelDots adds dy·x for some weights.
func pixelDots(a *isa.Asm, name, doc string, taps, outputs int) {
	a.Kernel(name, "func(pixelDots *byte)", doc)
	t := a.Gp("pixelDots")
	acc, x := make([][]reg.VecVirtual, outputs), make([]reg.GPVirtual, taps)
	for k := range acc {
		acc[k] = a.Vecs(taps)
	}
	each := func(move func(m, v operand.Op)) {
		for k := range acc {
			sums, pitch := a.Field(t, idSums), a.Field(t, idPitch)
			if k > 0 {
				a.ADDQ(operand.Mem{Base: t, Disp: idSumsNext}, sums)
			}
			for i, v := range acc[k] {
				if i > 0 {
					a.ADDQ(pitch, sums)
				}
				move(operand.Mem{Base: sums}, v)
			}
		}
	}
	each(func(m, v operand.Op) { a.Move(m, v) })
	for i := range x {
		x[i] = a.Field(t, idX+8*i)
	}
	left, table, at, g, dy := a.Field(t, idPixels), a.Field(t, idTable), a.GP64(), a.Vecs(outputs), []reg.GPVirtual{a.Field(t, idDY)}
	for k := 1; k < outputs; k++ {
		dy = append(dy, a.Field(t, idDYNext))
		a.ADDQ(dy[k-1], dy[k])
	}
	a.Label("pixel")
	a.MOVLQSX(operand.Mem{Base: table}, at)
	for k := range g {
		a.Move(operand.Mem{Base: dy[k]}, g[k])
	}
	for i := range x {
		productsOf(a, isa.Offset(x[i], at, 0), g, func(k int) reg.VecVirtual { return acc[k][i] })
	}
	a.Advance(operand.U8(4), table)
	a.Advance(operand.U8(4*a.Lanes), dy...)
	a.CountDown(left, "pixel")
	each(func(m, v operand.Op) { a.Move(v, m) })
	a.Ret()
}

package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// Offsets of the fields of poolStrip.
const (
	psRows, psX, psWidth, psDY, psY, psIdx, psOut, psDX = 0, 8, 16, 24, 32, 40, 48, 56
	psFrom, psN, psLeft, psRight                        = 64, 72, 80, 88
	psMean, psShift, psSlope, psScale, psSum, psDot     = 96, 100, 104, 108, 112, 116
	psAhead, psOutAhead, psStep, psPlace                = 120, 128, 136, 168
	psPlanes, psFactors                                 = 296, 304
)

// normPoolStrips emits batch norm, ReLU and 2×2 max pooling, and the two passes of normPool, for
// registers of 8 lanes: a vector of pooled values and the 16 columns of two rows below it, which
// are two vectors each. Halves are widened as they are loaded, and rounded as they are stored.
func normPoolStrips(a *isa.Asm) {
	if a.Lanes != isa.AVX2.Lanes {
		return
	}
	images := []stripImage{{a: a, size: 4}}
	for _, f := range pointwise.FormatsOf(a) {
		images = append(images, stripImage{a, f, 2, true})
	}
	for _, im := range images {
		for _, whole := range []bool{true, false} {
			im.forward(im.name("Pool", whole), whole)
			im.passes(whole)
		}
	}
	stripImage{a: a, size: 4, unmasked: true}.passes(false)
}

// passes emits those of the gradient.
func (im stripImage) passes(whole bool) {
	im.pass(im.name("Sums", whole), "adds up dy and dy·(x−mean).", whole, stripSums)
	im.pass(im.name("Grad", whole), "writes dx = (dy − meanDy − (x−mean)·slope)·scale, and adds it up.", whole, stripGrad)
}

// stripImage is the type of the images: float32, or a half type.
type stripImage struct {
	a    *isa.Asm
	half pointwise.Format
	size int // of an element in bytes
	// unmasked says that lanes beyond a part of a strip hold what follows it in memory: there are no masked loads of halves, and those of
	// float32 take some processors ten cycles.
	unmasked bool
}

// isHalf reports whether vectors are widened and rounded.
func (im stripImage) isHalf() bool { return im.size == 2 }

func (im stripImage) name(pass string, whole bool) string {
	if !whole {
		pass += "Part"
	}
	if im.isHalf() {
		return im.half.Name + "Strip" + pass
	}
	if im.unmasked {
		pass += "Unmasked"
	}
	return "strip" + pass
}

// load loads 8 elements, of a part of a strip those of a mask.
func (im stripImage) load(m operand.Mem, mask func() reg.VecVirtual, whole bool, v reg.VecVirtual) {
	switch {
	case im.isHalf():
		im.half.Load(m, v)
	case whole || im.unmasked:
		im.a.Move(m, v)
	default:
		im.a.VMASKMOVPS(m, mask(), v)
	}
}

// storing returns how a vector of outputs is stored, and one of their places.
func (im stripImage) storing(t reg.GPVirtual, whole bool) (values, places func(v reg.VecVirtual, m operand.Mem)) {
	a := im.a
	if whole {
		places = func(v reg.VecVirtual, m operand.Mem) { a.Move(v, m) }
	} else {
		lanes := a.Stored(laneMask(a, t, psN))
		places = func(v reg.VecVirtual, m operand.Mem) { a.StoreLanes(v, lanes, m) }
	}
	if !im.isHalf() {
		return places, places
	}
	pack := im.half.Prepare()
	if whole {
		return func(v reg.VecVirtual, m operand.Mem) {
			pack(v)
			pointwise.StoreHalf(a, v, m)
		}, places
	}
	lanes := a.CountLanes(laneMask(a, t, psN))
	return func(v reg.VecVirtual, m operand.Mem) {
		pack(v)
		a.StoreHalves(v, lanes, m)
	}, places
}

// storingPair returns how the two vectors of a row are stored.
func (im stripImage) storingPair(t reg.GPVirtual, whole bool) func(v []reg.VecVirtual, m operand.Mem) {
	a := im.a
	if !im.isHalf() {
		return func(v []reg.VecVirtual, m operand.Mem) {
			for i := range v {
				if to := m.Offset(32 * i); whole {
					a.Move(v[i], to)
				} else {
					a.StoreLanes(v[i], a.Stored(laneMask(a, t, psLeft+8*i)), to)
				}
			}
		}
	}
	if im.half.Pair != nil && whole {
		pack := im.half.Pair()
		return func(v []reg.VecVirtual, m operand.Mem) {
			pack(v[0], v[1])
			a.VMOVDQU(v[0], m)
		}
	}
	pack := im.half.Prepare()
	var pairs reg.Register // as many 32-bit lanes as pooled values
	if !whole {
		pairs = a.Stored(laneMask(a, t, psN))
	}
	return func(v []reg.VecVirtual, m operand.Mem) {
		for i := range v {
			if pack(v[i]); whole {
				pointwise.StoreHalf(a, v[i], m.Offset(16*i))
			}
		}
		if !whole {
			a.VPERM2F128(operand.U8(0x20), v[1], v[0], v[0])
			a.StoreLanes(v[0], pairs, m)
		}
	}
}

// laneMask loads one of the masks.
func laneMask(a *isa.Asm, t reg.GPVirtual, field int) reg.VecVirtual {
	p, m := a.Field(t, field), a.Vec()
	a.Move(operand.Mem{Base: p}, m)
	return m
}

// outer swaps the inner quarters, 0 2 1 3: interleaving, and taking every other element of two vectors, work within halves.
const outer = 0b11011000

// forward emits the loops over planes that lie side by side, and over their pairs of rows, of batch norm, ReLU and pooling.
func (im stripImage) forward(name string, whole bool) {
	a := im.a
	a.Kernel(name, "func(poolStrip *byte)", "normalises planes that lie side by side, each with its own factors, pools pairs of rows, and writes what is positive of the maxima, and their places.")
	t := a.Gp("poolStrip")
	f, next, zero := planeFactors(a, t, psFactors)
	planes, x, width, y, idx, out := a.Field(t, psPlanes), a.Field(t, psX), a.Field(t, psWidth), a.Field(t, psY), a.Field(t, psIdx), a.Field(t, psOut)
	store, storePlaces := im.storing(t, whole)
	ahead := a.Field(t, psAhead)
	a.Label("plane")
	base, rows := a.Splat32(t, psFrom), a.Field(t, psRows)
	next()
	a.Label("row")
	var best, at reg.VecVirtual
	for row := range 2 {
		a.PREFETCHT0(operand.Mem{Base: x, Index: ahead, Scale: 1})
		v := a.Vecs(2)
		for i := range v {
			im.load(operand.Mem{Base: x, Disp: 8 * im.size * i}, func() reg.VecVirtual { return laneMask(a, t, psLeft+8*i) }, whole, v[i])
			applyAffine(a, f, v[i])
		}
		even, odd := a.Vec(), a.Vec()
		a.VSHUFPS(operand.U8(0b10001000), v[1], v[0], even)
		a.VSHUFPS(operand.U8(0b11011101), v[1], v[0], odd)
		for i, v := range []reg.VecVirtual{even, odd} {
			place := a.Vec()
			a.Move(operand.Mem{Base: t, Disp: psPlace + 32*(2*row+i)}, place)
			if best == nil {
				best, at = v, place
			} else {
				a.KeepMax(v, place, best, at)
			}
		}
		a.ADDQ(width, x)
	}
	a.Max(best, zero, best) // of zero and NaN, the second operand
	a.AddInt(base, at, at)
	a.AddInt(operand.Mem{Base: t, Disp: psStep}, base, base)
	a.VPERMPD(operand.U8(outer), best, best)
	a.VPERMPD(operand.U8(outer), at, at)
	store(best, operand.Mem{Base: y})
	storePlaces(at, operand.Mem{Base: idx})
	im.nextOutputs(out, idx, y)
	a.CountDown(rows, "row")
	a.CountDown(planes, "plane")
	a.Ret()
}

// nextOutputs moves pointers to the next row of images, and of places, out bytes of images further.
func (im stripImage) nextOutputs(out, idx reg.GPVirtual, images ...reg.GPVirtual) {
	im.a.Advance(out, images...)
	im.a.LEAQ(operand.Mem{Base: idx, Index: out, Scale: uint8(4 / im.size)}, idx)
}

// strip is what a pass does with dy where it passes the ReLU, and with dy spread over a
// vector of x, the left or the right one; it then writes x to dx if store says so.
type strip struct {
	t         reg.GPVirtual
	whole     bool
	perRow    func(g reg.VecVirtual)
	perVector func(g, x reg.VecVirtual, right int)
	store     bool
	finish    func()
}

func stripSums(a *isa.Asm, s *strip, masked bool) {
	mean, sums, dots := broadcast(a, s.t, psMean), a.Vec(), a.Vecs(2)
	for _, v := range append(dots, sums) {
		a.Zero(v)
	}
	s.perRow = func(g reg.VecVirtual) { a.Add(g, sums, sums) }
	s.perVector = func(g, x reg.VecVirtual, right int) {
		a.Sub(mean, x, x)
		if masked { // what follows the strip may not be a number
			a.VANDPS(laneMask(a, s.t, psLeft+8*right), x, x)
		}
		a.Fma(g, x, dots[right])
	}
	s.finish = func() {
		a.Add(dots[1], dots[0], dots[0])
		a.VMOVSS(a.Total(sums), operand.Mem{Base: s.t, Disp: psSum})
		a.VMOVSS(a.Total(dots[0]), operand.Mem{Base: s.t, Disp: psDot})
	}
}

func stripGrad(a *isa.Asm, s *strip, _ bool) {
	gradient, sums := gradientOf(a, s.t, psMean, psShift, psSlope, psScale)
	s.store = true
	s.perRow = func(reg.VecVirtual) {}
	s.perVector = func(g, x reg.VecVirtual, right int) {
		gradient(g, x)
		if !s.whole {
			a.VANDPS(laneMask(a, s.t, psLeft+8*right), x, x)
		}
		a.Add(x, sums, sums)
	}
	s.finish = func() { a.VMOVSS(a.Total(sums), operand.Mem{Base: s.t, Disp: psSum}) }
}

// pass emits the loop over pairs of rows, which prefetches what lies ahead: the
// channel's plane of the next image. Lanes beyond the strip are 0.
func (im stripImage) pass(name, doc string, whole bool, prepare func(a *isa.Asm, s *strip, masked bool)) {
	a := im.a
	a.Kernel(name, "func(poolStrip *byte)", doc)
	s := &strip{t: a.Gp("poolStrip"), whole: whole}
	t := s.t
	prepare(a, s, im.unmasked && !whole)
	rows, x, width, dx := a.Field(t, psRows), a.Field(t, psX), a.Field(t, psWidth), a.Field(t, psDX)
	dy, y, idx, out := a.Field(t, psDY), a.Field(t, psY), a.Field(t, psIdx), a.Field(t, psOut)
	var store func(v []reg.VecVirtual, m operand.Mem)
	if s.store {
		store = im.storingPair(t, whole)
	}
	base := a.Splat32(t, psFrom)
	ahead, outAhead := a.Field(t, psAhead), a.Field(t, psOutAhead)
	a.Label("row")
	for _, p := range []reg.GPVirtual{dy, y} {
		a.PREFETCHT0(operand.Mem{Base: p, Index: outAhead, Scale: 1})
	}
	a.PREFETCHT0(operand.Mem{Base: idx, Index: outAhead, Scale: uint8(4 / im.size)})
	g, at := im.gradient(t, dy, y, idx, base, whole)
	s.perRow(g)
	a.AddInt(operand.Mem{Base: t, Disp: psStep}, base, base)
	a.VPERMPD(operand.U8(outer), g, g)
	a.VPERMPD(operand.U8(outer), at, at)
	for row := range 2 {
		a.PREFETCHT0(operand.Mem{Base: x, Index: ahead, Scale: 1})
		even, odd := a.Vec(), a.Vec()
		for i, v := range []reg.VecVirtual{even, odd} {
			a.VPCMPEQD(operand.Mem{Base: t, Disp: psPlace + 32*(2*row+i)}, at, v)
			a.VANDPS(g, v, v)
		}
		left, right, v := a.Vec(), a.Vec(), a.Vecs(2)
		a.VUNPCKLPS(odd, even, left)
		a.VUNPCKHPS(odd, even, right)
		for i, spread := range []reg.VecVirtual{left, right} {
			im.load(operand.Mem{Base: x, Disp: 8 * im.size * i}, func() reg.VecVirtual { return laneMask(a, t, psLeft+8*i) }, whole, v[i])
			s.perVector(spread, v[i], i)
		}
		if s.store {
			store(v, operand.Mem{Base: dx})
		}
		a.Advance(width, x, dx)
	}
	im.nextOutputs(out, idx, dy, y)
	a.CountDown(rows, "row")
	s.finish()
	a.Ret()
}

// gradient loads dy where y is positive, or NaN, and the places of maxima from the
// first of the two rows on.
func (im stripImage) gradient(t, dy, y, idx reg.GPVirtual, base reg.VecVirtual, whole bool) (g, at reg.VecVirtual) {
	a, zero, top := im.a, im.a.Vec(), im.a.Vec()
	mask := func() reg.VecVirtual { return laneMask(a, t, psN) }
	g, at = a.Vec(), a.Vec()
	a.Zero(zero)
	im.load(operand.Mem{Base: dy}, mask, whole, g)
	im.load(operand.Mem{Base: y}, mask, whole, top)
	stripImage{a: a, size: 4, unmasked: im.unmasked}.load(operand.Mem{Base: idx}, mask, whole, at)
	a.VCMPPS(operand.U8(isa.NotLessOrEqual), zero, top, top)
	a.VANDPS(top, g, g)
	if im.unmasked && !whole {
		a.VANDPS(mask(), g, g)
	}
	a.VPSUBD(base, at, at)
	return g, at
}

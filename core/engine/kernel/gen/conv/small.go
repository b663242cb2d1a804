package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of smallPlanes and of a smallTap.
const (
	smX, smY, smXImage, smYImage  = 0, 8, 16, 24
	smPlanes, smXPlane, smYPlane  = 32, 40, 48
	smTaps, smTable               = 56, 64
	smWeights, smWeightsPlane     = 72, 80
	smBias, smBiasPlane, smSums   = 88, 96, 104
	smXRow, smOddTaps, smRowMasks = 120, 128, 136
	smMaskX, smMaskY              = 112, 114
	stOrder, stMask, stAt, stSize = 0, 64, 68, 128
	smallImages                   = 8 // of a call, at most
)

// small emits depthwise convolution of planes that one vector holds: what a tap sees of a plane is a permutation of it.
func small(a *isa.Asm) {
	for images := smallImages; images > 0; images /= 2 {
		smallForward(a, images)
		smallDots(a, images)
		smallSpread(a, images)
		if images < smallImages { // of more, planes of two vectors have no registers
			smallStridedForward(a, images)
			smallStridedDots(a, images)
		}
	}
}

// smallKernel is what these kernels share.
type smallKernel struct {
	*isa.Asm
	t, x, y, tap, left reg.GPVirtual
	maskY              reg.Register
	images             int
}

func newSmall(a *isa.Asm, images int, name, doc string) *smallKernel {
	a.Kernel(name, "func(smallPlanes *byte)", doc)
	k := &smallKernel{Asm: a, images: images, t: a.Gp("smallPlanes"), tap: a.GP64(), left: a.GP64(), maskY: a.K()}
	k.x, k.y = a.Field(k.t, smX), a.Field(k.t, smY)
	a.KMOVW(operand.Mem{Base: k.t, Disp: smMaskY}, k.maskY)
	return k
}

// load loads a plane of each image, and prefetches what lies behind it.
func (k *smallKernel) load(from reg.GPVirtual, step int, mask reg.Register) (v []reg.VecVirtual) {
	at, by := k.GP64(), k.Field(k.t, step)
	k.MOVQ(from, at)
	v = k.Vecs(k.images)
	for i := range v {
		k.PREFETCHT0(operand.Mem{Base: at, Disp: smallAhead})
		k.VMOVUPS_Z(operand.Mem{Base: at}, mask, v[i])
		if i < k.images-1 {
			k.ADDQ(by, at)
		}
	}
	return v
}

// smallAhead is how far ahead of what they read these kernels prefetch.
const smallAhead = 512

// seen is the body of a loop over taps: see gives what a tap sees of the vectors of a plane.
type seen func(see func(x []reg.VecVirtual) reg.VecVirtual)

// sums is a loop over planes' part that adds what taps see. It gets the body for planes, of which the vectors of every image are given.
type sums func(add func(planes [][]reg.VecVirtual) seen)

// eachTap emits the loop over as many taps as a field says, of which there may be none, from the one that tap points to.
func (k *smallKernel) eachTap(label string, count int, body seen) {
	k.MOVQ(operand.Mem{Base: k.t, Disp: count}, k.left)
	k.TESTQ(k.left, k.left)
	k.JZ(operand.LabelRef(label + "Done"))
	k.Label(label)
	order, mask := k.Vec(), k.K()
	k.VMOVDQU32(operand.Mem{Base: k.tap, Disp: stOrder}, order)
	k.KMOVW(operand.Mem{Base: k.tap, Disp: stMask}, mask)
	body(func(x []reg.VecVirtual) reg.VecVirtual {
		v := k.Vec()
		if len(x) == 1 {
			k.VPERMPS_Z(x[0], order, mask, v)
			return v
		}
		k.Copy(order, v)
		k.VPERMI2PS_Z(x[1], x[0], mask, v)
		return v
	})
	k.SUBQ(operand.I32(-stSize), k.tap)
	k.CountDown(k.left, label)
	k.Label(label + "Done")
}

// firstTap makes eachTap begin with the first tap.
func (k *smallKernel) firstTap() { k.MOVQ(operand.Mem{Base: k.t, Disp: smTable}, k.tap) }

// next moves on to the next planes.
func (k *smallKernel) next() {
	k.ADDQ(operand.Mem{Base: k.t, Disp: smXPlane}, k.x)
	k.ADDQ(operand.Mem{Base: k.t, Disp: smYPlane}, k.y)
	k.CountDown(operand.Mem{Base: k.t, Disp: smPlanes}, "plane")
	k.Ret()
}

func smallForward(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallForward", images), fmt.Sprintf("convolves planes of %d images that a vector holds each.", images))
	k.forward(k.overVectors)
}

func smallDots(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallDots", images), fmt.Sprintf("adds the products of dy and x for each tap, [tap][lane], over planes of %d images that a vector holds each.", images))
	k.dots(k.overVectors)
}

// smallStridedForward and smallStridedDots are the same for planes of x of up to eight rows of eight pixels, of which a tap sees every other row.
func smallStridedForward(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallStridedForward", images), fmt.Sprintf("convolves planes of %d images to some that a vector holds each.", images))
	k.forward(k.overRows)
}

func smallStridedDots(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallStridedDots", images), fmt.Sprintf("adds the products of dy and x for each tap, [tap][lane], over planes of %d images of which a vector holds those of dy.", images))
	k.dots(k.overRows)
}

// forward computes y = bias + Σ w·x.
func (k *smallKernel) forward(over sums) {
	a, weights, bias := k.Asm, k.Field(k.t, smWeights), k.Field(k.t, smBias)
	a.Label("plane")
	acc := a.Vecs(k.images)
	a.Spread(operand.Mem{Base: bias}, acc[0])
	for _, v := range acc[1:] {
		a.Copy(acc[0], v)
	}
	over(func(planes [][]reg.VecVirtual) seen {
		return func(see func(x []reg.VecVirtual) reg.VecVirtual) {
			w, at := a.Vec(), a.GP64()
			a.MOVLQSX(operand.Mem{Base: k.tap, Disp: stAt}, at)
			a.Spread(isa.Offset(weights, at, 0), w)
			for i, x := range planes {
				a.Fma(w, see(x), acc[i])
			}
		}
	})
	at, by := a.GP64(), a.Field(k.t, smYImage)
	a.MOVQ(k.y, at)
	for i, v := range acc {
		a.VMOVUPS(v, k.maskY, operand.Mem{Base: at})
		if i < k.images-1 {
			a.ADDQ(by, at)
		}
	}
	a.ADDQ(operand.Mem{Base: k.t, Disp: smWeightsPlane}, weights)
	a.ADDQ(operand.Mem{Base: k.t, Disp: smBiasPlane}, bias)
	k.next()
}

// dots adds dy·x for every tap to a vector of sums.
func (k *smallKernel) dots(over sums) {
	a, sums := k.Asm, k.Field(k.t, smSums)
	a.Label("plane")
	dy := k.load(k.y, smYImage, k.maskY)
	over(func(planes [][]reg.VecVirtual) seen {
		return func(see func(x []reg.VecVirtual) reg.VecVirtual) {
			acc := []reg.VecVirtual{a.Vec(), a.Vec()}[:min(2, k.images)] // one would wait for itself
			a.Move(operand.Mem{Base: sums}, acc[0])
			for i, x := range planes {
				if i == 1 {
					a.Mul(see(x), dy[i], acc[1])
				} else {
					a.Fma(see(x), dy[i], acc[i%2])
				}
			}
			if k.images > 1 {
				a.Add(acc[1], acc[0], acc[0])
			}
			a.Move(acc[0], operand.Mem{Base: sums})
			a.ADDQ(operand.U8(4*a.Lanes), sums)
		}
	})
	k.next()
}

// overVectors adds what taps see of planes that a vector holds.
func (k *smallKernel) overVectors(add func(planes [][]reg.VecVirtual) seen) {
	maskX := k.K()
	k.KMOVW(operand.Mem{Base: k.t, Disp: smMaskX}, maskX)
	var planes [][]reg.VecVirtual
	for _, v := range k.load(k.x, smXImage, maskX) {
		planes = append(planes, []reg.VecVirtual{v})
	}
	k.firstTap()
	k.eachTap("tap", smTaps, add(planes))
}

// overRows adds what taps see of the even rows of planes, and then of the odd ones: four rows are two vectors.
func (k *smallKernel) overRows(add func(planes [][]reg.VecVirtual) seen) {
	k.firstTap()
	for parity, label := range []string{"evenRows", "oddRows"} {
		at, by, row, row6 := k.GP64(), k.Field(k.t, smXImage), k.Field(k.t, smXRow), k.GP64()
		if k.MOVQ(k.x, at); parity > 0 {
			k.ADDQ(row, at)
		}
		k.LEAQ(operand.Mem{Base: row, Index: row, Scale: 2}, row6)
		k.ADDQ(row6, row6)
		var masks [4]reg.Register
		for i := range masks {
			masks[i] = k.K()
			k.KMOVW(operand.Mem{Base: k.t, Disp: smRowMasks + 2*(2*i+parity)}, masks[i])
		}
		planes := make([][]reg.VecVirtual, k.images)
		for i := range planes {
			v := k.Vecs(2)
			k.PREFETCHT0(operand.Mem{Base: at, Disp: smallAhead + 128*parity})
			k.VMOVUPS_Z(operand.Mem{Base: at}, masks[0], v[0].AsY())
			k.VBROADCASTF32X8(operand.Mem{Base: at, Index: row, Scale: 2}, masks[1], v[0])
			k.VMOVUPS_Z(operand.Mem{Base: at, Index: row, Scale: 4}, masks[2], v[1].AsY())
			k.VBROADCASTF32X8(operand.Mem{Base: at, Index: row6, Scale: 1}, masks[3], v[1])
			if planes[i] = v; i < k.images-1 {
				k.ADDQ(by, at)
			}
		}
		k.eachTap(label, []int{smTaps, smOddTaps}[parity], add(planes))
	}
}

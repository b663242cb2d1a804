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
	smMaskX, smMaskY              = 112, 114
	stOrder, stMask, stAt, stSize = 0, 64, 68, 128
	smallImages                   = 8 // of a call, at most
)

// small emits depthwise convolution of planes that one vector holds: what a tap sees of a plane is a permutation of it.
func small(a *isa.Asm) {
	for images := smallImages; images > 0; images /= 2 {
		smallForward(a, images)
		smallDots(a, images)
	}
}

// smallKernel is what these kernels share.
type smallKernel struct {
	*isa.Asm
	t, x, y, tap, left reg.GPVirtual
	maskX, maskY       reg.Register
	images             int
}

func newSmall(a *isa.Asm, images int, name, doc string) *smallKernel {
	a.Kernel(name, "func(smallPlanes *byte)", doc)
	k := &smallKernel{Asm: a, images: images, t: a.Gp("smallPlanes"), tap: a.GP64(), left: a.GP64(), maskX: a.K(), maskY: a.K()}
	k.x, k.y = a.Field(k.t, smX), a.Field(k.t, smY)
	a.KMOVW(operand.Mem{Base: k.t, Disp: smMaskX}, k.maskX)
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

// overTaps emits the loop over taps; body gets a way to permute what a tap sees of a plane.
func (k *smallKernel) overTaps(body func(see func(x reg.VecVirtual) reg.VecVirtual)) {
	k.MOVQ(operand.Mem{Base: k.t, Disp: smTable}, k.tap)
	k.MOVQ(operand.Mem{Base: k.t, Disp: smTaps}, k.left)
	k.Label("tap")
	order, mask := k.Vec(), k.K()
	k.VMOVDQU32(operand.Mem{Base: k.tap, Disp: stOrder}, order)
	k.KMOVW(operand.Mem{Base: k.tap, Disp: stMask}, mask)
	body(func(x reg.VecVirtual) reg.VecVirtual {
		v := k.Vec()
		k.VPERMPS_Z(x, order, mask, v)
		return v
	})
	k.SUBQ(operand.I32(-stSize), k.tap)
	k.CountDown(k.left, "tap")
}

// next moves on to the next planes.
func (k *smallKernel) next() {
	k.ADDQ(operand.Mem{Base: k.t, Disp: smXPlane}, k.x)
	k.ADDQ(operand.Mem{Base: k.t, Disp: smYPlane}, k.y)
	k.CountDown(operand.Mem{Base: k.t, Disp: smPlanes}, "plane")
	k.Ret()
}

// smallForward computes y = bias + Σ w·x.
func smallForward(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallForward", images), fmt.Sprintf("convolves planes of %d images that a vector holds each.", images))
	weights, bias := a.Field(k.t, smWeights), a.Field(k.t, smBias)
	a.Label("plane")
	x, acc := k.load(k.x, smXImage, k.maskX), a.Vecs(images)
	a.Spread(operand.Mem{Base: bias}, acc[0])
	for _, v := range acc[1:] {
		a.Copy(acc[0], v)
	}
	k.overTaps(func(see func(x reg.VecVirtual) reg.VecVirtual) {
		w, at := a.Vec(), a.GP64()
		a.MOVLQSX(operand.Mem{Base: k.tap, Disp: stAt}, at)
		a.Spread(isa.Offset(weights, at, 0), w)
		for i := range x {
			a.Fma(w, see(x[i]), acc[i])
		}
	})
	at, by := a.GP64(), a.Field(k.t, smYImage)
	a.MOVQ(k.y, at)
	for i, v := range acc {
		a.VMOVUPS(v, k.maskY, operand.Mem{Base: at})
		if i < images-1 {
			a.ADDQ(by, at)
		}
	}
	a.ADDQ(operand.Mem{Base: k.t, Disp: smWeightsPlane}, weights)
	a.ADDQ(operand.Mem{Base: k.t, Disp: smBiasPlane}, bias)
	k.next()
}

// smallDots adds dy·x for every tap to a vector of sums.
func smallDots(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallDots", images), fmt.Sprintf("adds the products of dy and x for each tap, [tap][lane], over planes of %d images that a vector holds each.", images))
	sums := a.Field(k.t, smSums)
	a.Label("plane")
	x, dy := k.load(k.x, smXImage, k.maskX), k.load(k.y, smYImage, k.maskY)
	k.overTaps(func(see func(x reg.VecVirtual) reg.VecVirtual) {
		acc := []reg.VecVirtual{a.Vec(), a.Vec()}[:min(2, images)] // one would wait for itself
		a.Move(operand.Mem{Base: sums}, acc[0])
		for i := range x {
			if i == 1 {
				a.Mul(see(x[i]), dy[i], acc[1])
			} else {
				a.Fma(see(x[i]), dy[i], acc[i%2])
			}
		}
		if images > 1 {
			a.Add(acc[1], acc[0], acc[0])
		}
		a.Move(acc[0], operand.Mem{Base: sums})
		a.ADDQ(operand.U8(4*a.Lanes), sums)
	})
	k.next()
}

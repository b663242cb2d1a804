package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of a spreadTap, of those of smallPlanes that only this kernel reads, and of a spreadPart.
const (
	snOrder, snWeights, snMask, snSize = 0, 64, 128, 192
	smVectors, smParts                 = 152, 160
	sgTaps, sgLanes, sgSize            = 0, 8, 16
)

// smallSpread emits input gradients of planes of some vectors whose dy is one: pixels of a vector see pixels of dy, each through a weight of its own, and both are
// permutations. x is the gradient, which is written.
func smallSpread(a *isa.Asm, images int) {
	k := newSmall(a, images, fmt.Sprint("smallSpread", images), fmt.Sprintf("computes the gradients of planes of %d images from dy that a vector holds each.", images))
	weights, masks := k.Field(k.t, smWeights), []reg.Register{k.K(), k.K()}
	for i, mask := range masks {
		k.KMOVW(operand.Mem{Base: k.t, Disp: smRowMasks + 2*i}, mask)
	}
	k.Label("plane")
	dy, w := k.load(k.y, smYImage, k.maskY), k.Vecs(len(masks))
	for i, v := range w {
		k.VMOVUPS_Z(operand.Mem{Base: weights, Disp: 4 * k.Lanes * i}, masks[i], v)
	}
	to, vectors, part := k.GP64(), k.Field(k.t, smVectors), k.GP64()
	k.MOVQ(k.x, to)
	k.LEAQ(operand.Mem{Base: k.t, Disp: smParts}, part)
	k.firstTap()
	k.Label("vector")
	acc := k.Vecs(images)
	for _, v := range acc {
		k.Zero(v)
	}
	k.MOVQ(operand.Mem{Base: part, Disp: sgTaps}, k.left)
	k.Label("tap")
	order, view, mask := k.Vec(), k.Vec(), k.K()
	k.VMOVDQU32(operand.Mem{Base: k.tap, Disp: snOrder}, order)
	k.VMOVDQU32(operand.Mem{Base: k.tap, Disp: snWeights}, view)
	k.KMOVW(operand.Mem{Base: k.tap, Disp: snMask}, mask)
	k.VPERMI2PS_Z(w[1], w[0], mask, view)
	for i, v := range acc {
		seen := k.Vec()
		k.VPERMPS_Z(dy[i], order, mask, seen)
		k.Fma(seen, view, v)
	}
	k.SUBQ(operand.I32(-snSize), k.tap)
	k.CountDown(k.left, "tap")
	k.spreadTo(to, part, acc)
	k.ADDQ(operand.U8(4*k.Lanes), to)
	k.ADDQ(operand.U8(sgSize), part)
	k.CountDown(vectors, "vector")
	k.ADDQ(operand.Mem{Base: k.t, Disp: smWeightsPlane}, weights)
	k.next()
}

// spreadTo writes a vector of each image.
func (k *smallKernel) spreadTo(to, part reg.GPVirtual, acc []reg.VecVirtual) {
	mask, at, by := k.K(), k.GP64(), k.Field(k.t, smXImage)
	k.KMOVW(operand.Mem{Base: part, Disp: sgLanes}, mask)
	k.MOVQ(to, at)
	for i, v := range acc {
		k.PREFETCHT0(operand.Mem{Base: at, Disp: smallAhead})
		k.VMOVUPS(v, mask, operand.Mem{Base: at})
		if i < len(acc)-1 {
			k.ADDQ(by, at)
		}
	}
}

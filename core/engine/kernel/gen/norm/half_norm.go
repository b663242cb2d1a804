package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// bothHalves emits the passes of batch norm over planes of both half types, which compute
// what float32's passes do of the widened values, and round what they write once.
func bothHalves(a *isa.Asm) {
	for _, f := range pointwise.FormatsOf(a) {
		h := halfType{a, f}
		h.momentsAround()
		h.apply(false)
		h.apply(true)
		h.sums(false, false)
		h.sums(true, false)
		h.sums(true, true)
		h.grad(false)
		h.grad(true)
	}
}

// halfType emits the passes for one half type.
type halfType struct {
	*isa.Asm
	format pointwise.Format
}

// load widens a vector at the byte offset off of a pointer.
func (h halfType) load(p, off reg.GPVirtual, disp int, v reg.VecVirtual) {
	h.format.Load(isa.Offset(p, off, disp), v)
}

// momentsAround is that of moments.go without a tail. It prefetches what lies ahead.
func (h halfType) momentsAround() {
	h.Kernel(h.format.Name+"MomentsAround", "func(planes int, x *uint16, n int, center float32, bytes, ahead int) (diff, square float32)",
		"is Σ(x−center) and Σ(x−center)² of planes of n elements, a multiple of 16, that lie bytes apart.")
	planes, x, n, bytes, ahead, p, left := h.Gp("planes"), h.Gp("x"), h.Gp("n"), h.Gp("bytes"), h.Gp("ahead"), h.GP64(), h.GP64()
	center, parts := h.Splat("center"), 16/h.Lanes
	v, diff, square := h.Vecs(parts), h.Vecs(parts), h.Vecs(parts)
	for i := range parts {
		h.Zero(diff[i])
		h.Zero(square[i])
	}
	h.Label("plane")
	h.MOVQ(x, p)
	h.MOVQ(n, left)
	h.Label("block")
	h.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1})
	for i := range parts {
		h.format.Load(operand.Mem{Base: p, Disp: 2 * h.Lanes * i}, v[i])
		h.Sub(center, v[i], v[i])
		h.Add(v[i], diff[i], diff[i])
		h.Fma(v[i], v[i], square[i])
	}
	h.ADDQ(operand.U8(32), p)
	h.SUBQ(operand.U8(16), left)
	h.JG(operand.LabelRef("block"))
	h.ADDQ(bytes, x)
	h.CountDown(planes, "plane")
	h.returnTotal(diff, "diff")
	h.returnTotal(square, "square")
	h.Ret()
}

// returnTotal adds up what one or two vectors hold.
func (h halfType) returnTotal(v []reg.VecVirtual, result string) {
	for _, part := range v[1:] {
		h.Add(part, v[0], v[0])
	}
	h.Store(h.Total(v[0]).AsX(), h.Return(result))
}

// apply relies on Max giving its first operand here when either is NaN.
func (h halfType) apply(residual bool) {
	name, params, doc := "Apply", "x *uint16", "(x−mean)·scale + shift"
	if residual {
		name, params, doc = "AddApply", "x, r *uint16", "(x−mean)·scale + shift + r"
	}
	h.Kernel(h.format.Name+name, "func("+params+", mean, scale, shift, floor float32, y *uint16, n int)",
		"computes y = max("+doc+", floor), NaN staying NaN, rounded once. n is a multiple of 16.")
	x, y, f, floor := h.Gp("x"), h.Gp("y"), affine{h.Splat("mean"), h.Splat("scale"), h.Splat("shift")}, h.Splat("floor")
	v, w := h.Vec(), h.Vec()
	var r reg.GPVirtual
	if residual {
		r = h.Gp("r")
	}
	h.format.RoundBlocks(h.Asm, y, v, func(off reg.GPVirtual, d int) {
		h.load(x, off, d, v)
		applyAffine(h.Asm, f, v)
		if residual {
			h.load(r, off, d, w)
			h.Add(w, v, v)
		}
		h.Max(v, floor, v)
	})
}

// sums are of dy as it is, of what passes the ReLU, or of that while it is stored.
func (h halfType) sums(relu, store bool) {
	name, params, doc := "Sums", "dy, x *uint16", "Σdy and Σdy·(x−mean)"
	if store {
		name, params, doc = "ReLUSumsTo", "y, dy, x, d *uint16", "Σd and Σd·(x−mean), where d is dy where y > 0, and stores d"
	} else if relu {
		name, params, doc = "ReLUSums", "y, dy, x *uint16", "Σd and Σd·(x−mean), where d is dy where y > 0"
	}
	h.Kernel(h.format.Name+name, "func("+params+", mean float32, n int) (total, dot float32)", "is "+doc+". n is a multiple of 16.")
	dy, x, mean, zero := h.Gp("dy"), h.Gp("x"), h.Splat("mean"), h.Vec()
	parts := 16 / h.Lanes
	sums, dots, g, v := h.Vecs(parts), h.Vecs(parts), h.Vec(), h.Vec()
	var y, to reg.GPVirtual
	var pack func(reg.VecVirtual)
	if relu {
		y = h.Gp("y")
	}
	if store {
		to, pack = h.Gp("d"), h.format.Prepare()
	}
	for _, z := range append(append([]reg.VecVirtual{zero}, sums...), dots...) {
		h.Zero(z)
	}
	h.HalfBlocks(h.Gp("n"), func(off reg.GPVirtual, d int) {
		part := d / (2 * h.Lanes)
		h.load(dy, off, d, g)
		if relu {
			h.load(y, off, d, v)
			h.KeepAbove(v, zero, g)
		}
		h.load(x, off, d, v)
		h.Sub(mean, v, v)
		h.Add(g, sums[part], sums[part])
		h.Fma(g, v, dots[part])
		if store {
			pack(g)
			pointwise.StoreHalf(h.Asm, g, isa.Offset(to, off, d))
		}
	})
	h.returnTotal(sums, "total")
	h.returnTotal(dots, "dot")
	h.Ret()
}

// grad is the gradient of the norm's input.
func (h halfType) grad(relu bool) {
	name, params, doc := "Grad", "x, dy *uint16", "(dy − meanDy − (x−mean)·slope)·scale"
	if relu {
		name, params, doc = "ReLUGrad", "x, y, dy *uint16", "(d − meanDy − (x−mean)·slope)·scale, where d is dy where y > 0"
	}
	h.Kernel(h.format.Name+name, "func("+params+", mean, meanDy, slope, scale float32, dx *uint16, n int)",
		"computes dx = "+doc+", rounded once. n is a multiple of 16.")
	f := newNormGradient(h.Asm)
	x, dy, dx := h.Gp("x"), h.Gp("dy"), h.Gp("dx")
	zero, v, g := h.Vec(), h.Vec(), h.Vec()
	var y reg.GPVirtual
	if relu {
		y = h.Gp("y")
	}
	h.Zero(zero)
	h.format.RoundBlocks(h.Asm, dx, g, func(off reg.GPVirtual, d int) {
		h.load(dy, off, d, g)
		if relu {
			h.load(y, off, d, v)
			h.KeepAbove(v, zero, g)
		}
		h.load(x, off, d, v)
		f.slopes(v)
		f.output(v, g)
	})
}

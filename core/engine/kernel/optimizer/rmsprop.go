package optimizer

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// RMSprop is the numbers of a step of PyTorch's RMSprop (torch/optim/rmsprop.py).
type RMSprop struct {
	LR, Alpha, Eps, Momentum, WeightDecay float64
	Maximize                              bool
}

// RMSpropUpdate divides gradients by the root of square, their running mean square, or where mean, their running mean, is not nil, of
// their variance. Epsilon is added to the root. The means start at zero and are not corrected for it. buf is the momentum
// buffer, nil when momentum is 0. As in SGDUpdate, a decay of 0 is multiplied like any other.
func RMSpropUpdate[T kernel.Float](p, g, square, buf, mean []T, r RMSprop) {
	g, square = g[:len(p)], square[:len(p)]
	if r.Maximize {
		r.Maximize = false
		var negative [cached]T
		for at := 0; at < len(p); at += cached {
			g := negate(&negative, g[at:])
			RMSpropUpdate(p[at:][:len(g)], g, square[at:], tail(buf, at), tail(mean, at), r)
		}
		return
	}
	near := math.Abs(1-r.Alpha) < 0.5 || mean == nil
	if n := kernel.HeadOf[T](len(p)); n > 0 && near {
		rmsStepOf(p[:n], g, square, buf, mean, &r)
		p, g, square, buf, mean = p[n:], g[n:], square[n:], tail(buf, n), tail(mean, n)
	}
	rate, alpha, rest, eps, momentum, decay := T(r.LR), T(r.Alpha), T(1-r.Alpha), T(r.Eps), T(r.Momentum), T(r.WeightDecay)
	least := leastSquare[T](r.Eps)
	for i, w := range p {
		d := g[i] + T(decay*w)
		square[i] = T(alpha*square[i]) + T(T(rest*d)*d)
		if square[i] < least {
			square[i] = 0
		}
		v := square[i]
		if mean != nil {
			mean[i] = settled(lerp(mean[i], d, 1-r.Alpha))
			v -= T(mean[i] * mean[i])
		}
		d /= sqrt(v) + eps
		if buf != nil {
			buf[i] = settled(T(momentum*buf[i]) + d)
			d = buf[i]
		}
		p[i] = w - T(rate*d)
	}
}

// rmsStep is a call of the vector kernels; its layout is known to gen/pointwise/update.go.
type rmsStep struct {
	p, grad, square, buf, mean *float32
	n                          int

	rate, alpha, rest, eps, momentum, decay float32

	least float32 // of square; less counts as zero
}

func rmsStepOf[T kernel.Float](p, g, square, buf, mean []T, r *RMSprop) {
	s := rmsStep{
		p: kernel.Ptr32(p), grad: kernel.Ptr32(g), square: kernel.Ptr32(square), buf: kernel.Ptr32(buf), mean: kernel.Ptr32(mean), n: len(p),
		rate: float32(r.LR), alpha: float32(r.Alpha), rest: float32(1 - r.Alpha), eps: float32(r.Eps), momentum: float32(r.Momentum), decay: float32(r.WeightDecay),
		least: leastSquare[float32](r.Eps),
	}
	switch {
	case buf == nil && mean == nil:
		vecRmsprop(&s)
	case mean == nil:
		vecRmspropMomentum(&s)
	case buf == nil:
		vecRmspropCentered(&s)
	default:
		vecRmspropCenteredMomentum(&s)
	}
}

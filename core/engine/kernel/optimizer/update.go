package optimizer

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// SGDUpdate takes one step of PyTorch's SGD (torch/optim/sgd.py). buf is the
// momentum buffer, nil when momentum is 0; firstStep starts it as the gradient
// itself, without dampening. The gradient is left as it is. A decay of 0 is
// multiplied like any other, which only an infinite parameter can tell. Momentum
// below 2⁻¹⁰⁰ counts as zero, here and in the other updates; see settled.
func SGDUpdate[T kernel.Float](p, g, buf []T, lr, momentum, dampening, weightDecay T, nesterov, maximize, firstStep bool) {
	g = g[:len(p)]
	if maximize {
		var negative [cached]T
		for at := 0; at < len(p); at += cached {
			g := negate(&negative, g[at:])
			SGDUpdate(p[at:][:len(g)], g, tail(buf, at), lr, momentum, dampening, weightDecay, nesterov, false, firstStep)
		}
		return
	}
	if momentum == 0 && weightDecay == 0 {
		elementwise.Axpy(p, -lr, g)
		return
	}
	if n := kernel.HeadOf[T](len(p)); n > 0 {
		if momentum == 0 {
			vecSGD(kernel.Ptr32(p), kernel.Ptr32(g), float32(lr), float32(weightDecay), n)
		} else {
			sgdMomentum(p[:n], g[:n], buf[:n], lr, momentum, 1-dampening, weightDecay, nesterov, firstStep)
		}
		p, g, buf = p[n:], g[n:], tail(buf, n)
	}
	sgdRef(p, g, buf, lr, momentum, dampening, weightDecay, nesterov, firstStep)
}

// settled is a momentum without the end of its decay: if it is so small that its product with a learning rate could be subnormal,
// it counts as a zero of its sign. Where gradients stay zero, as of the pixels that nearly every image lacks, momentum would soon
// reach the smallest subnormal number, whose nine tenths are rounded to itself, and CPUs of Intel take a hundred times as long for
// it. A weight that is not as small cannot tell. [torch.set_flush_denormal] does this for all arithmetic, and for less.
//
// [torch.set_flush_denormal]: https://docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html
func settled[T kernel.Float](x T) T {
	const rate = 0x1p-26 // smaller ones may still give subnormal products
	if y := math.Abs(float64(x)); y < smallestNormal[T]()/rate {
		return T(math.Copysign(0, float64(x)))
	}
	return x
}

func smallestNormal[T kernel.Float]() float64 {
	if kernel.Is32[T]() {
		return 0x1p-126
	}
	return 0x1p-1022
}

// leastSquare is the least mean square of gradients that counts: like momentum it settles, if epsilon is so large that roots of
// subnormal numbers, even divided by a root of 0.0001, leave no trace in it.
func leastSquare[T kernel.Float](eps float64) T {
	if eps < 1e-9 {
		return 0
	}
	return T(smallestNormal[T]())
}

// cached is how many elements stay in the cache between filling and reading them.
const cached = 4096

// negate gives the first of the gradients with the other sign: to maximize is to minimize the negative.
func negate[T kernel.Float](to *[cached]T, g []T) []T {
	n := copy(to[:], g)
	elementwise.Scale(to[:n], -1)
	return to[:n]
}

// tail is what follows the first n elements, of nil nothing.
func tail[T any](x []T, n int) []T {
	if x == nil {
		return nil
	}
	return x[n:]
}

// sgdMomentum is SGDUpdate for multiples of a vector. A first step adds to -0, which leaves every
// gradient its bits.
func sgdMomentum[T kernel.Float](p, g, buf []T, lr, momentum, share, weightDecay T, nesterov, firstStep bool) {
	if !firstStep {
		momentumStep(p, g, buf, lr, momentum, share, weightDecay, nesterov)
		return
	}
	for len(p) > 0 {
		n := min(cached, len(p))
		elementwise.Fill(buf[:n], T(math.Copysign(0, -1)))
		momentumStep(p[:n], g[:n], buf[:n], lr, momentum, 1, weightDecay, nesterov)
		p, g, buf = p[n:], g[n:], buf[n:]
	}
}

func momentumStep[T kernel.Float](p, g, buf []T, lr, momentum, share, weightDecay T, nesterov bool) {
	w, d, b, n := kernel.Ptr32(p), kernel.Ptr32(g), kernel.Ptr32(buf), len(p)
	if nesterov {
		vecSGDNesterov(w, d, b, float32(lr), float32(momentum), float32(share), float32(weightDecay), n)
	} else {
		vecSGDMomentum(w, d, b, float32(lr), float32(momentum), float32(share), float32(weightDecay), n)
	}
}

func sgdRef[T kernel.Float](p, g, buf []T, lr, momentum, dampening, weightDecay T, nesterov, firstStep bool) {
	g = g[:len(p)]
	for i, w := range p {
		d := g[i] + T(weightDecay*w)
		if momentum != 0 {
			b := d
			if !firstStep {
				b = T(momentum*buf[i]) + T((1-dampening)*d)
			}
			b = settled(b)
			buf[i] = b
			if nesterov {
				d += T(momentum * b)
			} else {
				d = b
			}
		}
		p[i] = w - T(lr*d)
	}
}

// AdamUpdate takes one step of PyTorch's Adam (torch/optim/adam.py), or of AdamW
// (torch/optim/adamw.py) with decoupled weight decay. m and v are the moments,
// vmax the running maximum of v for AMSGrad, else nil; step counts from 1. As in
// SGDUpdate, a decay of 0 is multiplied like any other.
func AdamUpdate[T kernel.Float](p, g, m, v, vmax []T, lr, beta1, beta2, eps, weightDecay float64, step int64, decoupled, maximize bool) {
	if maximize {
		var negative [cached]T
		for at := 0; at < len(p); at += cached {
			g := negate(&negative, g[at:len(p)])
			AdamUpdate(p[at:][:len(g)], g, m[at:], v[at:], tail(vmax, at), lr, beta1, beta2, eps, weightDecay, step, decoupled, false)
		}
		return
	}
	s := newAdamConstants[T](lr, beta1, beta2, eps, weightDecay, step, decoupled)
	near := 1-beta1 < 0.5
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	if n := kernel.HeadOf[T](len(p)); n > 0 && near {
		step := adamStep{p: kernel.Ptr32(p), grad: kernel.Ptr32(g), m: kernel.Ptr32(m), v: kernel.Ptr32(v), vmax: kernel.Ptr32(vmax), n: n, adamConstants: s.float32s()}
		if vmax == nil {
			vecAdam(&step)
		} else {
			vecAmsGrad(&step)
			vmax = vmax[n:]
		}
		p, g, m, v = p[n:], g[n:], m[n:], v[n:]
	}
	for i, w := range p {
		w = T(w * s.shrink)
		d := g[i] + T(s.decay*w)
		if near {
			m[i] += T(s.w1 * (d - m[i]))
		} else { // as Average does
			m[i] = d - T((d-m[i])*s.b1)
		}
		m[i] = settled(m[i])
		v[i] = T(s.b2*v[i]) + T(T(s.w2*d)*d)
		if v[i] < s.least {
			v[i] = 0
		}
		second := v[i]
		if vmax != nil {
			vmax[i] = max(vmax[i], second)
			second = vmax[i]
		}
		p[i] = w - T(s.stepSize*m[i])/(sqrt(second)/s.rootScale+s.eps)
	}
}

// adamConstants are the numbers of one step; gen/pointwise/update.go knows their order.
type adamConstants[T kernel.Float] struct {
	shrink, decay, w1, w2, b2, stepSize, rootScale, eps T

	least T // of v; less counts as zero
	b1    T
}

func newAdamConstants[T kernel.Float](lr, beta1, beta2, eps, weightDecay float64, step int64, decoupled bool) adamConstants[T] {
	s := adamConstants[T]{
		shrink: 1, decay: T(weightDecay), least: leastSquare[T](eps), w1: T(1 - beta1), w2: T(1 - beta2), b2: T(beta2), eps: T(eps), b1: T(1 - (1 - beta1)),
		stepSize:  T(lr / (1 - math.Pow(beta1, float64(step)))),
		rootScale: T(math.Sqrt(1 - math.Pow(beta2, float64(step)))),
	}
	if decoupled {
		s.decay, s.shrink = 0, T(1-lr*weightDecay)
	}
	return s
}

// adamStep is a call of the vector kernel; its layout is known to gen/pointwise/update.go.
type adamStep struct {
	p, grad, m, v, vmax *float32
	n                   int
	adamConstants[float32]
}

func (s *adamConstants[T]) float32s() adamConstants[float32] {
	return adamConstants[float32]{
		float32(s.shrink), float32(s.decay), float32(s.w1), float32(s.w2),
		float32(s.b2), float32(s.stepSize), float32(s.rootScale), float32(s.eps), float32(s.least), float32(s.b1),
	}
}

// Average moves means by a share of their way to p, as torch.lerp does.
func Average[T kernel.Float](means, p []T, share float64) {
	p = p[:len(means)]
	if n := kernel.HeadOf[T](len(p)); n > 0 && math.Abs(share) < 0.5 {
		vecAverage(kernel.Ptr32(means), kernel.Ptr32(p), float32(share), n)
		means, p = means[n:], p[n:]
	}
	for i, v := range p {
		means[i] = lerp(means[i], v, share)
	}
}

// lerp goes from a to b by weight, from the nearer end as torch.lerp does (aten/src/ATen/native/Lerp.h).
func lerp[T kernel.Float](a, b T, weight float64) T {
	if math.Abs(weight) < 0.5 {
		return a + T(T(weight)*(b-a))
	}
	return b - T((b-a)*(1-T(weight)))
}

func sqrt[T kernel.Float](x T) T { return T(math.Sqrt(float64(x))) }

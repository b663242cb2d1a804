package kernel

import "math"

// SGDUpdate takes one step of PyTorch's SGD (torch/optim/sgd.py). buf is the
// momentum buffer, nil when momentum is 0; firstStep starts it as the gradient
// itself, without dampening. The gradient is left as it is.
func SGDUpdate[T Float](p, g, buf []T, lr, momentum, dampening, weightDecay T, nesterov, maximize, firstStep bool) {
	g = g[:len(p)]
	if is32[T]() && momentum != 0 && !nesterov && !maximize && !firstStep {
		if n := head(len(p)); n > 0 {
			vecSGDMomentum(as32(p[:n]), as32(g[:n]), as32(buf[:n]),
				float32(lr), float32(momentum), float32(1-dampening), float32(weightDecay))
			p, g, buf = p[n:], g[n:], buf[n:]
		}
	}
	sgdRef(p, g, buf, lr, momentum, dampening, weightDecay, nesterov, maximize, firstStep)
}

func sgdRef[T Float](p, g, buf []T, lr, momentum, dampening, weightDecay T, nesterov, maximize, firstStep bool) {
	g = g[:len(p)]
	for i, w := range p {
		d := g[i]
		if maximize {
			d = -d
		}
		if weightDecay != 0 {
			d += T(weightDecay * w)
		}
		if momentum != 0 {
			b := d
			if !firstStep {
				b = T(momentum*buf[i]) + T((1-dampening)*d)
			}
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
// vmax the running maximum of v for AMSGrad, else nil; step counts from 1.
func AdamUpdate[T Float](p, g, m, v, vmax []T, lr, beta1, beta2, eps, weightDecay float64, step int, decoupled bool) {
	correction1 := 1 - math.Pow(beta1, float64(step))
	correction2 := math.Sqrt(1 - math.Pow(beta2, float64(step)))
	stepSize, rootScale, e := T(lr/correction1), T(correction2), T(eps)
	w1, w2, b2 := T(1-beta1), T(1-beta2), T(beta2)
	decay, shrink := T(weightDecay), T(1)
	if decoupled {
		decay, shrink = 0, T(1-lr*weightDecay)
	}
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i, w := range p {
		w *= shrink
		d := g[i]
		if decay != 0 {
			d += T(decay * w)
		}
		m[i] += T(w1 * (d - m[i]))
		v[i] = T(b2*v[i]) + T(T(w2*d)*d)
		second := v[i]
		if vmax != nil {
			vmax[i] = max(vmax[i], second)
			second = vmax[i]
		}
		p[i] = w - stepSize*m[i]/(sqrt(second)/rootScale+e)
	}
}

func sqrt[T Float](x T) T { return T(math.Sqrt(float64(x))) }

package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.Attention, func(r *rig) {
		for name, c := range map[string]attentionCase{
			"packed":       {n: 2, queries: 5, keys: 5, a: op.AttentionAttr{Heads: 2, KVHeads: 2, Dim: 4}, packed: true},
			"causal":       {n: 2, queries: 7, keys: 7, a: op.AttentionAttr{Heads: 3, KVHeads: 3, Dim: 8, Causal: true}, packed: true},
			"grouped":      {n: 1, queries: 6, keys: 6, a: op.AttentionAttr{Heads: 4, KVHeads: 2, Dim: 6, Causal: true, RopeTheta: 10000}},
			"linear_rope":  {n: 1, queries: 9, keys: 9, a: op.AttentionAttr{Heads: 1, KVHeads: 1, Dim: 8, RopeTheta: 100, Scaling: op.RopeScaling{Factor: 4, High: 1, Gain: 1}}, turns: []float64{0.25, 0.25, 0.25, 0.25}},
			"llama3_rope":  {n: 1, queries: 9, keys: 9, a: op.AttentionAttr{Heads: 1, KVHeads: 1, Dim: 8, RopeTheta: 100, Scaling: op.RopeScaling{Factor: 4, Low: 1, High: 4, Context: 40, Gain: 1}}, turns: []float64{1, 0.5032921210448703, 0.25, 0.25}},
			"yarn_rope":    {n: 1, queries: 9, keys: 9, a: op.AttentionAttr{Heads: 1, KVHeads: 1, Dim: 8, RopeTheta: 100, Scaling: op.RopeScaling{Factor: 4, Low: -3, High: -1, Pairs: 1, Gain: 1.25}}, turns: []float64{1, 1, 0.625, 0.25}},
			"long_rope":    {n: 1, queries: 9, keys: 9, a: op.AttentionAttr{Heads: 1, KVHeads: 1, Dim: 8, RopeTheta: 100, Scaling: op.RopeScaling{Factor: 1, High: 1, Gain: 1.5, Divisors: []float64{1, 2, 5, 8}}}, turns: []float64{1, 0.5, 0.2, 0.125}},
			"packed_group": {n: 2, queries: 9, keys: 9, a: op.AttentionAttr{Heads: 4, KVHeads: 1, Dim: 2, RopeTheta: 100}, packed: true},
			"cross":        {n: 2, queries: 3, keys: 11, a: op.AttentionAttr{Heads: 2, KVHeads: 1, Dim: 5}},
			"tiles":        {n: 1, queries: 131, keys: 131, a: op.AttentionAttr{Heads: 1, KVHeads: 1, Dim: 3, Causal: true}},
			"long":         {n: 1, queries: 70, keys: 260, a: op.AttentionAttr{Heads: 1, KVHeads: 1, Dim: 16}},
			"dropout":      {n: 2, queries: 9, keys: 9, a: op.AttentionAttr{Heads: 2, KVHeads: 2, Dim: 4, Causal: true, P: 0.3, Layer: 3}, packed: true},
		} {
			r.each(name, func(r *rig) { c.run(r) })
		}
	})
}

// attentionCase is an attention of n samples with q queries and k keys.
type attentionCase struct {
	n, queries, keys int
	a                op.AttentionAttr
	packed           bool
	turns            []float64 // what scaled rotary positions multiply each pair's frequency by; nil: 1
}

// at is where element j of head h of tensor i, queries, keys or values, lies in which input.
func (c *attentionCase) at(i, image, t, h, j int) (input, element int) {
	heads := [3]int{c.a.Heads, c.a.KVHeads, c.a.KVHeads}
	if c.packed {
		all, before := heads[0]+heads[1]+heads[2], [3]int{0, heads[0], heads[0] + heads[1]}[i]
		return 0, ((image*c.queries+t)*all+before+h)*c.a.Dim + j
	}
	positions := [3]int{c.queries, c.keys, c.keys}[i]
	return i, ((image*positions+t)*heads[i]+h)*c.a.Dim + j
}

func (c *attentionCase) run(r *rig) {
	width := []int{c.a.Heads * c.a.Dim, c.a.KVHeads * c.a.Dim, c.a.KVHeads * c.a.Dim}
	in := []*arg{r.normal(c.n, c.queries, width[0]), nil, nil}
	if c.packed {
		in = []*arg{r.normal(c.n, c.queries, width[0]+width[1]+width[2])}
	} else {
		in[1], in[2] = r.normal(c.n, c.keys, width[1]), r.normal(c.n, c.keys, width[2])
	}
	dy, out, lse := r.normal(c.n, c.queries, width[0]), r.output(c.n, c.queries, width[0]), r.outputAs(r.base, c.n, c.a.Heads, c.queries)
	y, wantLSE := newWant(len(dy.v)), newWant(c.n*c.a.Heads*c.queries)
	c.each(in, func(h *attentionHead) { h.forward(&y, &wantLSE) })
	r.attend(op.Attention, c.a, in, []*arg{out, lse})
	r.check("y", out, y)
	r.check("logsumexp", lse, wantLSE)

	var grads []*arg
	var wants []want
	for _, x := range in {
		grads, wants = append(grads, r.output(x.Spec.Shape...)), append(wants, newWant(len(x.v)))
	}
	stored := r.now(out)
	c.each(in, func(h *attentionHead) { h.backward(stored, dy.v, wants) })
	r.attend(op.AttentionGrad, c.a, append(append([]*arg{}, in...), out, lse, dy), grads)
	for i := range grads {
		r.check(fmt.Sprint("gradient ", i), grads[i], wants[i])
	}
}

// attend runs a step with the call that the masks of attentionHead belong to.
func (r *rig) attend(step graph.Op, a op.AttentionAttr, in, out []*arg) {
	r.t.Helper()
	r.step(step, a, in, out)
	if res := r.run(plan.Args{Seed: 7, Step: 9, Rank: 2}); res.Err != nil {
		r.t.Fatal(res.Err)
	}
}

// attentionHead is one head of one sample in float64, by definition.
type attentionHead struct {
	*attentionCase
	image, h int
	q, k, v  [][]float64 // rotated, if they are
	p, noise [][]float64 // the softmax, and how many roundings its elements may be off
	lse      []float64
	keep     [][]float64 // what dropout multiplies p by
	stored   float64     // roundings of the type in which a device may store rotated vectors; 0 for none
}

func (c *attentionCase) each(in []*arg, use func(h *attentionHead)) {
	for image := range c.n {
		for h := range c.a.Heads {
			kv := h / (c.a.Heads / c.a.KVHeads)
			head := &attentionHead{attentionCase: c, image: image, h: h}
			if d := in[0].Spec.DType; c.a.RopeTheta != 0 && d.Half() {
				head.stored = unit(d) / unit(tensor.F32)
			}
			rows := func(i, n, h int) (x [][]float64) {
				for t := range n {
					row := make([]float64, c.a.Dim)
					for j := range row {
						input, at := c.at(i, image, t, h, j)
						row[j] = in[input].v[at]
					}
					if i < 2 {
						row = c.turned(row, t, 1)
					}
					x = append(x, row)
				}
				return x
			}
			head.q, head.k, head.v = rows(0, c.queries, h), rows(1, c.keys, kv), rows(2, c.keys, kv)
			head.attend()
			use(head)
		}
	}
}

// turned is a row at position t.
func (c *attentionCase) turned(x []float64, t int, sign float64) []float64 {
	y, half := append([]float64{}, x...), len(x)/2
	if c.a.RopeTheta == 0 {
		return y
	}
	for j := range half {
		f := 1 / math.Pow(c.a.RopeTheta, float64(2*j)/float64(len(x)))
		if c.turns != nil {
			f *= c.turns[j]
		}
		sin, cos := math.Sincos(float64(float32(t) * float32(f)))
		if gain := c.a.Scaling.Gain; gain != 0 {
			sin, cos = gain*sin, gain*cos
		}
		y[j], y[j+half] = x[j]*cos-sign*x[j+half]*sin, x[j+half]*cos+sign*x[j]*sin
	}
	return y
}

func dot(a, b []float64) (sum, mag float64) {
	for i := range a {
		sum += a[i] * b[i]
		mag += math.Abs(a[i] * b[i])
	}
	return sum, mag
}

func (h *attentionHead) attend() {
	scale, rowLen := 1/math.Sqrt(float64(h.a.Dim)), (h.keys+3)/4*4
	mask := make([]uint8, h.n*h.a.Heads*h.queries*rowLen)
	random.DropoutMask(7, uint64(9)<<32|uint64(2)<<16|h.a.Layer, h.a.P, mask)
	for t, q := range h.q {
		p, noise, keep, sum, worst := make([]float64, h.keys), make([]float64, h.keys), make([]float64, h.keys), 0.0, 0.0
		for j, k := range h.k {
			if h.a.Causal && j > t {
				continue
			}
			s, mag := dot(q, k)
			p[j], noise[j] = math.Exp(scale*s), 1+scale*mag*(1+h.stored)
			sum, worst = sum+p[j], max(worst, noise[j])
			keep[j] = float64(mask[((h.image*h.a.Heads+h.h)*h.queries+t)*rowLen+j]) / (1 - h.a.P)
		}
		for j := range p {
			p[j] /= sum
			noise[j] += worst + math.Abs(math.Log(sum))
		}
		h.p, h.noise, h.keep, h.lse = append(h.p, p), append(h.noise, noise), append(h.keep, keep), append(h.lse, math.Log(sum))
	}
}

func (h *attentionHead) forward(y, lse *want) {
	y.terms, lse.terms = float64(h.keys+h.a.Dim), float64(h.keys+h.a.Dim)
	for t, p := range h.p {
		row := (h.image*h.a.Heads+h.h)*h.queries + t
		lse.v[row] = h.lse[t]
		for j, v := range h.v {
			lse.mag[row] = max(lse.mag[row], h.noise[t][j])
			for d, x := range v {
				i := ((h.image*h.queries+t)*h.a.Heads+h.h)*h.a.Dim + d
				y.v[i] += p[j] * h.keep[t][j] * x
				y.mag[i] += p[j] * h.keep[t][j] * math.Abs(x) * h.noise[t][j]
			}
		}
	}
}

// backward adds the head's gradients, of the output as it was stored.
func (h *attentionHead) backward(out, dy []float64, wants []want) {
	scale, kv := 1/math.Sqrt(float64(h.a.Dim)), h.h/(h.a.Heads/h.a.KVHeads)
	add := func(i, t, head int, v, mag []float64) {
		if i < 2 {
			v = h.turned(v, t, -1)
			half := len(mag) / 2
			for j := range half {
				if h.a.RopeTheta != 0 {
					mag[j] += mag[j+half]
					mag[j+half] = mag[j]
				}
			}
		}
		for j := range v {
			input, at := h.at(i, h.image, t, head, j)
			w := &wants[input]
			w.terms = float64(h.queries+h.keys+h.a.Dim) * float64(h.a.Heads/h.a.KVHeads)
			w.v[at] += v[j]
			w.mag[at] += mag[j] + h.stored*math.Abs(v[j])
		}
	}
	gradient := func() (v, mag [][]float64) {
		for range max(h.queries, h.keys) {
			v, mag = append(v, make([]float64, h.a.Dim)), append(mag, make([]float64, h.a.Dim))
		}
		return v, mag
	}
	dq, magQ := gradient()
	dk, magK := gradient()
	dv, magV := gradient()
	for t := range h.queries {
		row := ((h.image*h.queries+t)*h.a.Heads + h.h) * h.a.Dim
		o, g := out[row:][:h.a.Dim], dy[row:][:h.a.Dim]
		mean, magMean := dot(o, g)
		for j := range h.keys {
			p, keep, noise := h.p[t][j], h.keep[t][j], h.noise[t][j]
			dp, magP := dot(g, h.v[j])
			ds, magS := p*(dp*keep-mean)*scale, p*(magP*keep+magMean)*scale*noise
			for d := range h.a.Dim {
				dv[j][d] += p * keep * g[d]
				magV[j][d] += p * keep * math.Abs(g[d]) * noise
				dq[t][d] += ds * h.k[j][d]
				magQ[t][d] += magS * math.Abs(h.k[j][d])
				dk[j][d] += ds * h.q[t][d]
				magK[j][d] += magS * math.Abs(h.q[t][d])
			}
		}
	}
	for t := range h.queries {
		add(0, t, h.h, dq[t], magQ[t])
	}
	for t := range h.keys {
		add(1, t, kv, dk[t], magK[t])
		add(2, t, kv, dv[t], magV[t])
	}
}

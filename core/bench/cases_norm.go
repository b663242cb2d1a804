package bench

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/attention"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
)

// normPool is batch norm's statistics and its output with ReLU and pooling.
func normPool(p pool.Shape) Kernel {
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	x, y, idx, scratch := random(in), zeros(out), make([]int32, out), zeros(norm.BatchNormReLUPoolScratch(&p))
	mean, variance, gamma, beta := zeros(p.C), zeros(p.C), ones(p.C), zeros(p.C)
	return Kernel{
		Name: "batch norm + relu + pool", Shape: windowShape(&p), FLOPs: 9 * int64(in), Bytes: 4 * int64(2*in+2*out), Written: 8 * int64(out),
		Run: func() {
			norm.BatchNormStats(p.N, p.C, p.H*p.W, x, mean, variance)
			norm.BatchNormReLUPool(&p, x, mean, gamma, gamma, beta, y, idx, scratch)
		},
	}
}

func normPoolGrad(p pool.Shape) Kernel {
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	x, y, dy, idx, scratch := random(in), zeros(out), random(out), make([]int32, out), zeros(norm.BatchNormReLUPoolScratch(&p))
	mean, one, beta := zeros(p.C), ones(p.C), zeros(p.C)
	dx, dgamma, dbeta, sums := zeros(in), zeros(p.C), zeros(p.C), zeros(p.C)
	norm.BatchNormReLUPool(&p, x, mean, one, one, beta, y, idx, scratch)
	return Kernel{
		Name: "batch norm + relu + pool grad", Shape: windowShape(&p), FLOPs: 12 * int64(in), Bytes: 4 * int64(2*in+3*out), Written: 4 * int64(in),
		Run: func() {
			norm.BatchNormReLUPoolGrad(&p, x, y, dy, false, idx, mean, one, one, beta, dx, dgamma, dbeta, sums, false)
		},
	}
}

func batchNorm(n, c, hw int) Kernel {
	x, y, mean, variance, one := random(n*c*hw), zeros(n*c*hw), zeros(c), zeros(c), ones(c)
	return Kernel{
		Name: "batch norm", Shape: fmt.Sprintf("%dx%dx%d", n, c, hw), FLOPs: 7 * int64(len(x)), Bytes: 12 * int64(len(x)), Written: 4 * int64(len(x)),
		Run: func() {
			norm.BatchNormStats(n, c, hw, x, mean, variance)
			norm.BatchNormApply(n, c, hw, x, mean, one, one, mean, y)
		},
	}
}

func batchNormGrad(n, c, hw int) Kernel {
	x, dy, dx, mean, one := random(n*c*hw), random(n*c*hw), zeros(n*c*hw), zeros(c), ones(c)
	dgamma, dbeta := zeros(c), zeros(c)
	return Kernel{
		Name: "batch norm grad", Shape: fmt.Sprintf("%dx%dx%d", n, c, hw), FLOPs: 9 * int64(len(x)), Bytes: 20 * int64(len(x)), Written: 4 * int64(len(x)),
		Run: func() { norm.BatchNormGrad(n, c, hw, x, dy, mean, one, one, dx, dgamma, dbeta, false) },
	}
}

// rowNorm is a norm of each of n rows of cols elements, or its gradient, which reads and writes so many times as many elements.
func rowNorm(name string, rows, cols, flops, tensors int, run func(x, y, mean, invstd, gamma, beta []float32)) Kernel {
	x, y, mean, invstd, gamma, beta := random(rows*cols), zeros(rows*cols), zeros(rows), ones(rows), ones(cols), zeros(cols)
	return Kernel{
		Name: name, Shape: fmt.Sprintf("%dx%d", rows, cols), FLOPs: int64(flops * len(x)), Bytes: int64(4 * tensors * len(x)), Written: 4 * int64(len(x)),
		Run: func() { run(x, y, mean, invstd, gamma, beta) },
	}
}

func layerNorm(rows, cols int) Kernel {
	return rowNorm("layer norm", rows, cols, 7, 2, func(x, y, mean, invstd, gamma, beta []float32) {
		layernorm.LayerNorm(rows, cols, x, gamma, beta, 1e-5, y, mean, invstd)
	})
}

func layerNormGrad(rows, cols int) Kernel {
	dy, dgamma := random(rows*cols), zeros(cols)
	return rowNorm("layer norm grad", rows, cols, 12, 3, func(x, dx, mean, invstd, gamma, dbeta []float32) {
		layernorm.LayerNormGrad(rows, cols, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	})
}

func rmsNorm(rows, cols int) Kernel {
	return rowNorm("rms norm", rows, cols, 4, 2, func(x, y, _, invrms, gamma, _ []float32) {
		layernorm.RMSNorm(rows, cols, x, gamma, 1e-5, y, invrms)
	})
}

func rmsNormGrad(rows, cols int) Kernel {
	dy := random(rows * cols)
	return rowNorm("rms norm grad", rows, cols, 9, 3, func(x, dx, _, invrms, gamma, dgamma []float32) {
		layernorm.RMSNormGrad(rows, cols, x, dy, invrms, gamma, dx, dgamma, false)
	})
}

func groupNormShape(s *norm.GroupShape) string {
	return fmt.Sprintf("%dx%dx%d, %d groups", s.N, s.C, s.HW, s.Groups)
}

func groupNorm(s norm.GroupShape) Kernel {
	gamma, beta := ones(s.C), zeros(s.C)
	k := rowNorm("group norm", s.N*s.Groups, s.C*s.HW/s.Groups, 7, 2, func(x, y, mean, invstd, _, _ []float32) {
		norm.GroupNorm(&s, x, gamma, beta, 1e-5, y, mean, invstd)
	})
	k.Shape = groupNormShape(&s)
	return k
}

func groupNormGrad(s norm.GroupShape) Kernel {
	dy, gamma, dgamma, dbeta := random(s.N*s.C*s.HW), ones(s.C), zeros(s.C), zeros(s.C)
	k := rowNorm("group norm grad", s.N*s.Groups, s.C*s.HW/s.Groups, 12, 3, func(x, dx, mean, invstd, _, _ []float32) {
		norm.GroupNormGradOf(0, s.Groups, &s, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	})
	k.Shape = groupNormShape(&s)
	return k
}

// attentionHeads is a causal attention whose queries, keys and values lie side by side, as one linear
// layer gives them: run gets the rows of each head of each sample.
func attentionHeads(name string, products int64, grad bool, positions, dim, heads, samples int, run func(h attention.Head, x, dx [3]attention.Rows[float32], out, dy attention.Rows[float32])) Kernel {
	width := heads * dim
	x, dx := random(samples*positions*3*width), zeros(samples*positions*3*width)
	out, dy := zeros(samples*positions*width), random(samples*positions*width)
	h := attention.Head{Queries: positions, Keys: positions, Dim: dim, Causal: true}
	written := len(out)
	if grad {
		written = len(dx)
	}
	return Kernel{
		Name: name, Shape: fmt.Sprintf("%dx%d, %d heads of %d", samples, positions, heads, dim),
		FLOPs: products * 2 * int64(dim) * int64(heads*samples) * int64(positions*(positions+1)/2), Bytes: 4 * products / 2 * int64(len(x)+len(out)),
		Written: 4 * int64(written),
		Run: func() {
			for i := range samples * heads {
				first, head := i/heads*positions, i%heads*dim
				one := attention.Rows[float32]{Data: out[first*width+head:], Stride: width}
				var parts [2][3]attention.Rows[float32]
				for p := range 3 {
					at := (3*first+p)*width + head
					parts[0][p], parts[1][p] = attention.Rows[float32]{Data: x[at:], Stride: 3 * width}, attention.Rows[float32]{Data: dx[at:], Stride: 3 * width}
				}
				run(h, parts[0], parts[1], one, attention.Rows[float32]{Data: dy[first*width+head:], Stride: width})
			}
		},
	}
}

func attentionCase(positions, dim, heads, samples int) Kernel {
	lse, scratch := zeros(positions), zeros(attention.ForwardScratch(attention.Head{Queries: positions, Keys: positions, Dim: dim}))
	return attentionHeads("attention", 2, false, positions, dim, heads, samples, func(h attention.Head, x, _ [3]attention.Rows[float32], out, _ attention.Rows[float32]) {
		attention.Forward(h, nil, x[0], x[1], x[2], out, lse, scratch)
	})
}

func attentionGradCase(positions, dim, heads, samples int) Kernel {
	lse, scratch := zeros(positions), zeros(attention.BackwardScratch(attention.Head{Queries: positions, Keys: positions, Dim: dim}))
	return attentionHeads("attention grad", 5, true, positions, dim, heads, samples, func(h attention.Head, x, dx [3]attention.Rows[float32], out, dy attention.Rows[float32]) {
		attention.Backward(h, nil, x[0], x[1], x[2], out, dy, lse, dx[0], dx[1], dx[2], scratch)
	})
}

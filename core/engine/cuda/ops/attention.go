package ops

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.Attention, bindAttention)
	implement(op.AttentionGrad, bindAttentionGrad)
}

// attentionHeads is Heads in attention.cu.
type attentionHeads struct {
	heads, kvHeads, dim, queries, keys, qStride, kStride, vStride, causal, rowLen int32
	scale, theta                                                                  float64
	layer, drop                                                                   uint64
	kept                                                                          float64
}

// rope is Rope in attention.cu.
type rope struct {
	frequencies [widestHead / 2]float32
	gain        float64
}

func ropeOf(a op.AttentionAttr) (r rope) {
	f, gain := a.Frequencies()
	copy(r.frequencies[:], f)
	r.gain = gain
	return r
}

// attention is where a step's queries, keys and values lie, or their gradients: in
// one tensor or in three.
type attention struct {
	attentionHeads
	rope    rope
	images  int
	q, k, v driver.DevicePtr
	call    driver.DevicePtr // 0 where nothing is dropped
}

// widestHead is 512 elements, which attention.cu keeps per block.
const widestHead = 512

// attention describes a step that has n inputs.
func (b *binder) attention(n int) (a attention) {
	attr, x := b.s.Attr.(op.AttentionAttr), b.s.In[0].Spec
	if attr.Dim > widestHead {
		b.err = fmt.Errorf("heads of %d elements: GPUs take %d", attr.Dim, widestHead)
	}
	a.images, a.rope = x.Shape[0], ropeOf(attr)
	a.attentionHeads = attentionHeads{
		heads: int32(attr.Heads), kvHeads: int32(attr.KVHeads), dim: int32(attr.Dim), queries: int32(x.Shape[1]), keys: int32(b.s.In[n/2].Spec.Shape[1]),
		causal: flag(attr.Causal), scale: 1 / math.Sqrt(float64(attr.Dim)), theta: attr.RopeTheta, layer: attr.Layer,
	}
	a.rowLen = (a.keys + 3) / 4 * 4
	if b.s.Train && attr.P > 0 {
		a.drop, a.call = uint64(attr.P*(1<<32)), b.m.Call
		if attr.P < 1 {
			a.kept = 1 / (1 - attr.P)
		}
	}
	a.q, a.k, a.v = a.places(n, x.DType, b.in)
	width := a.heads * a.dim
	a.qStride, a.kStride, a.vStride = width, a.kvHeads*a.dim, a.kvHeads*a.dim
	if n == 1 {
		a.qStride = width + 2*a.kStride
		a.kStride, a.vStride = a.qStride, a.qStride
	}
	return a
}

// places are the tensors of queries, keys and values, or where they begin in one.
func (a *attention) places(n int, d tensor.DType, at func(int) driver.DevicePtr) (q, k, v driver.DevicePtr) {
	if n == 3 {
		return at(0), at(1), at(2)
	}
	size := driver.DevicePtr(int(a.dim) * d.Size())
	x := at(0)
	return x, x + driver.DevicePtr(a.heads)*size, x + driver.DevicePtr(a.heads+a.kvHeads)*size
}

// turn enqueues the rotation of rows of so many heads.
func (b *binder) turn(a *attention, from driver.DevicePtr, fromStride int32, to driver.DevicePtr, toStride, positions, heads int32, back bool) {
	d := b.s.In[0].Spec.DType
	b.elementwise(d, "rope_turn", a.images*int(positions*heads*a.dim/2), from, fromStride, to, toStride, positions, heads, a.dim, a.rope, flag(back))
}

// rotated replaces queries and keys by rotated copies, if there are positions.
func (b *binder) rotated(a *attention) {
	if a.theta == 0 {
		return
	}
	size, width, kvWidth := b.s.In[0].Spec.DType.Size(), a.heads*a.dim, a.kvHeads*a.dim
	q := b.scratch(a.images * int(a.queries*width) * size)
	k := b.scratch(a.images * int(a.keys*kvWidth) * size)
	b.turn(a, a.q, a.qStride, q, width, a.queries, a.heads, false)
	b.turn(a, a.k, a.kStride, k, kvWidth, a.keys, a.kvHeads, false)
	a.q, a.k, a.qStride, a.kStride = q, k, width, kvWidth
}

func bindAttention(b *binder) {
	a := b.attention(len(b.s.In))
	b.rotated(&a)
	b.launch(b.s.In[0].Spec.DType, "attention", int(a.queries), a.images*int(a.heads), a.q, a.k, a.v, b.out(0), b.out(1), a.attentionHeads, a.call)
}

func bindAttentionGrad(b *binder) {
	n := len(b.s.In) - 3
	a, d := b.attention(n), b.s.In[0].Spec.DType
	grads := a // strides are those of the inputs
	grads.q, grads.k, grads.v = a.places(n, d, b.out)
	y, lse, dy := b.in(n), b.in(n+1), b.in(n+2)
	b.rotated(&a)
	dots := b.scratch(b.s.In[n+1].Spec.Bytes())
	b.launch(d, "attention_grad_queries", int(a.queries), a.images*int(a.heads), a.q, a.k, a.v, y, dy, lse, grads.q, grads.qStride, dots, a.attentionHeads, a.call)
	b.launch(d, "attention_grad_keys", int(a.keys), a.images*int(a.kvHeads), a.q, a.k, a.v, dy, lse, dots, grads.k, grads.kStride, grads.v, grads.vStride, a.attentionHeads, a.call)
	if a.theta != 0 {
		b.turn(&a, grads.q, grads.qStride, grads.q, grads.qStride, a.queries, a.heads, true)
		b.turn(&a, grads.k, grads.kStride, grads.k, grads.kStride, a.keys, a.kvHeads, true)
	}
}

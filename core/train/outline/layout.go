package outline

import (
	"slices"

	"github.com/trainctl/trainctl/core/train/ddp"
)

// Layout is the layout of the arena that the rank shares with its
// backend: gradients are computed in their buckets and model state is broadcast
// where it lies. It is equal on all ranks.
type Layout struct {
	Buckets []ddp.Region
	Wire    []ddp.Region // where buckets are sent from: where they lie, unless compressed
	Params  []ddp.Region // by parameter
	Weights []ddp.Region // by bucket, where weights lie as gradients do in the buckets; nil where ranks do not divide the optimizer's work
	Bufs    []ddp.Region // by buffer
	All     ddp.Region   // all parameters and buffers
	Buffers ddp.Region   // all buffers
	Scratch ddp.Region
	Norms   ddp.Region // what synchronised batch norms exchange; empty without any
	Usage   ddp.Region // what find_unused_parameters exchanges; empty without
	Size    int
}

// newLayout places buckets, parameters and buffers in the shared arena. Buckets, and weights that lie
// as they do, get at least the given room.
func newLayout(cfg ddp.Config, o *Outline, room int) Layout {
	var m Layout
	m.All.Offset = max(m.placeBuckets(cfg, o), ddp.Align(room))
	entries, specs := o.Graph.StateDict(), o.Plan.StateSpecs()
	m.Params, m.Bufs = make([]ddp.Region, len(o.Graph.Params())), make([]ddp.Region, len(o.Graph.Buffers()))
	end := m.All.Offset
	if o.shards > 1 {
		end += max(m.placeWeights(o), ddp.Align(room))
	}
	place := func(buffers bool) {
		for i, e := range entries {
			to := m.Params
			if e.Buffer {
				to = m.Bufs
			}
			if e.Buffer != buffers || to[e.Index].Size > 0 {
				continue
			}
			to[e.Index] = ddp.Region{Offset: end, Size: specs[i].Bytes()}
			end = ddp.Align(end + specs[i].Bytes())
		}
	}
	place(false)
	m.Buffers.Offset = end
	place(true)
	m.Buffers.Size = end - m.Buffers.Offset
	m.All.Size = end - m.All.Offset
	m.Size = end
	return m
}

// placeBuckets places the buckets and returns their end.
func (m *Layout) placeBuckets(cfg ddp.Config, o *Outline) (end int) {
	m.Buckets, end = ddp.Layout(o.Buckets, 0)
	m.Wire, end = cfg.LayoutWire(o.Gradients, o.Buckets, m.Buckets, end)
	return end
}

// placeWeights places the trained parameters at the front of All as their gradients lie in the buckets,
// and returns the size.
func (m *Layout) placeWeights(o *Outline) (size int) {
	m.Weights, size = ddp.Layout(o.Buckets, m.All.Offset)
	for i, b := range o.Buckets {
		for k, p := range b.Params {
			m.Params[p] = ddp.Region{Offset: m.Weights[i].Offset + b.At[k], Size: o.Gradients[p].Bytes()}
		}
	}
	return size - m.All.Offset
}

// add reserves memory for what ranks exchange in addition to gradients: scalars, and
// vectors of the given lengths, one at a time.
func (m *Layout) add(world int, lengths []int) {
	m.Scratch = ddp.Region{Offset: m.Size, Size: ddp.ScratchSize(world)}
	m.Size += m.Scratch.Size
	if len(lengths) == 0 {
		return
	}
	m.Norms = ddp.Region{Offset: ddp.Align(m.Size), Size: ddp.ExchangeBytes(slices.Max(lengths), world)}
	m.Size = m.Norms.Offset + m.Norms.Size
}

// Place lays out the outline's buckets in the memory reserved for them.
func (m *Layout) Place(cfg ddp.Config, o *Outline) {
	if m.placeBuckets(cfg, o) > m.All.Offset {
		panic("train: buckets outgrow their room")
	}
	if o.shards > 1 && m.placeWeights(o) > m.All.Offset {
		panic("train: weights outgrow their room")
	}
	o.Layout.Buckets, o.Layout.Wire, o.Layout.Weights = m.Buckets, m.Wire, m.Weights
}

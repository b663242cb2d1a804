package outline

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Layout is the layout of the arena that the rank shares with its
// backend: gradients are computed in their buckets and model state is broadcast
// where it lies. It is equal on all ranks.
type Layout struct {
	Buckets []ddp.Region
	Wire    []ddp.Region // where the buckets travel: where they lie, unless compressed
	Params  []ddp.Region // by parameter
	Bufs    []ddp.Region // by buffer
	All     ddp.Region   // all parameters and buffers
	Buffers ddp.Region   // all buffers
	Scratch ddp.Region
	Norms   ddp.Region // what synchronised batch norms exchange; empty without any
	Usage   ddp.Region // what find_unused_parameters exchanges; empty without
	Size    int
}

// newLayout places buckets, parameters and buffers in the shared arena. Buckets get
// at least the given room.
func newLayout(cfg ddp.Config, grads []ddp.Gradient, buckets []ddp.Bucket, room int, entries []graph.Entry, specs []tensor.Spec) Layout {
	var m Layout
	end := 0
	m.Buckets, end = ddp.Layout(buckets, 0)
	m.Wire, end = cfg.LayoutWire(grads, buckets, m.Buckets, end)
	end = max(end, ddp.Align(room))
	m.All.Offset = end
	place := func(buffers bool) (regions []ddp.Region) {
		for i, e := range entries {
			if e.Buffer != buffers {
				continue
			}
			regions = append(regions, ddp.Region{Offset: end, Size: specs[i].Bytes()})
			end = ddp.Align(end + specs[i].Bytes())
		}
		return regions
	}
	m.Params = place(false)
	m.Buffers.Offset = end
	m.Bufs = place(true)
	m.Buffers.Size = end - m.Buffers.Offset
	m.All.Size = end - m.All.Offset
	m.Size = end
	return m
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
	var end int
	m.Buckets, end = ddp.Layout(o.Buckets, 0)
	if m.Wire, end = cfg.LayoutWire(o.Gradients, o.Buckets, m.Buckets, end); end > m.All.Offset {
		panic("train: buckets outgrow their room")
	}
	o.Layout.Buckets, o.Layout.Wire = m.Buckets, m.Wire
}

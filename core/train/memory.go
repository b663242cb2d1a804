package train

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// layout says what lies where in the arena that the rank shares with its
// backend: gradients are computed in their buckets and model state is broadcast
// where it lies. It is equal on all ranks.
type layout struct {
	buckets []ddp.Region
	wire    []ddp.Region // where the buckets travel: where they lie, unless compressed
	params  []ddp.Region // by parameter
	bufs    []ddp.Region // by buffer
	all     ddp.Region   // all parameters and buffers
	buffers ddp.Region   // all buffers
	scratch ddp.Region
	norms   ddp.Region // what synchronised batch norms exchange; empty without any
	usage   ddp.Region // what find_unused_parameters exchanges; empty without
	size    int
}

// memory is the arena, laid out.
type memory struct {
	layout
	arena *sdk.Arena
}

// newMemory allocates the shared memory of a rank.
func newMemory(l layout) (memory, error) {
	a, err := shm.New("gradients", l.size)
	if err != nil {
		return memory{}, fmt.Errorf("shared memory for gradients and weights (%d bytes): %w", l.size, err)
	}
	return memory{l, &sdk.Arena{ID: 1, Name: "gradients", Arena: a}}, nil
}

// bytes is the memory of a region.
func (m *memory) bytes(r ddp.Region) []byte {
	return m.arena.Bytes()[r.Offset : r.Offset+r.Size : r.Offset+r.Size]
}

// state views the arena as the model's tensors in state-dict order.
func (m *memory) state(entries []graph.Entry, specs []tensor.Spec) []tensor.Tensor {
	ts := make([]tensor.Tensor, len(entries))
	for i, e := range entries {
		r := m.params
		if e.Buffer {
			r = m.bufs
		}
		ts[i] = tensor.Of(specs[i].DType, specs[i].Shape, m.bytes(r[e.Index]))
	}
	return ts
}

// staging is the memory of the gradients, which is free between two steps.
func (m *memory) staging() ddp.Region { return ddp.Region{Size: m.buckets[0].Size} }

package replica

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
)

// Memory is the arena, laid out.
type Memory struct {
	outline.Layout
	Arena *sdk.Arena
}

// NewMemory allocates the shared memory of a rank.
func NewMemory(l outline.Layout) (Memory, error) {
	a, err := shm.New("gradients", l.Size)
	if err != nil {
		return Memory{}, fmt.Errorf("shared memory for gradients and weights (%d bytes): %w", l.Size, err)
	}
	return Memory{l, &sdk.Arena{ID: 1, Name: "gradients", Arena: a}}, nil
}

// Bytes is the memory of a region.
func (m *Memory) Bytes(r ddp.Region) []byte {
	return m.Arena.Bytes()[r.Offset : r.Offset+r.Size : r.Offset+r.Size]
}

// State views the arena as the model's tensors in state-dict order.
func (m *Memory) State(entries []graph.Entry, specs []tensor.Spec) []tensor.Tensor {
	ts := make([]tensor.Tensor, len(entries))
	for i, e := range entries {
		r := m.Params
		if e.Buffer {
			r = m.Bufs
		}
		ts[i] = tensor.Of(specs[i].DType, specs[i].Shape, m.Bytes(r[e.Index]))
	}
	return ts
}

// between is the memory of all buckets, which is free between two steps.
func (m *Memory) between() ddp.Region { return ddp.Region{Size: m.All.Offset} }

// staging is the memory of the gradients, which is free between two steps.
func (m *Memory) staging() ddp.Region { return ddp.Region{Size: m.Buckets[0].Size} }

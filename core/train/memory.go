package train

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// memory says what lies where in the arena that the rank shares with its
// backend: gradients are born in their buckets and model state is broadcast
// where it lies. The layout is equal on all ranks.
type memory struct {
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

// state views the arena as the model's tensors in state-dict order.
func (m memory) state(arena []byte, entries []graph.Entry, specs []tensor.Spec) []tensor.Tensor {
	ts := make([]tensor.Tensor, len(entries))
	for i, e := range entries {
		r := m.params
		if e.Buffer {
			r = m.bufs
		}
		at := r[e.Index]
		ts[i] = tensor.Of(specs[i].DType, specs[i].Shape, arena[at.Offset:at.Offset+at.Size:at.Offset+at.Size])
	}
	return ts
}

// arenaFor allocates the shared memory of a rank.
func arenaFor(size int) (*sdk.Arena, error) {
	a, err := shm.New("gradients", size)
	if err != nil {
		return nil, fmt.Errorf("shared memory for gradients and weights (%d bytes): %w", size, err)
	}
	return &sdk.Arena{ID: 1, Name: "gradients", Arena: a}, nil
}

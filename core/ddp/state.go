package ddp

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/trainctl/trainctl/core/tensor"
)

// BroadcastTensors overwrites tensors outside the arena with rank root's, in
// order, through a staging region. All ranks must pass tensors of equal sizes.
func (g *Group) BroadcastTensors(ts []tensor.Tensor, staging Region, root int) error {
	if g.World == 1 {
		return nil
	}
	for _, t := range ts {
		for data := t.Data; len(data) > 0; {
			n := min(len(data), staging.Size)
			part := Region{staging.Offset, n}
			if g.Rank == root {
				copy(g.Bytes(part), data[:n])
			}
			if err := g.Broadcast(part, root); err != nil {
				return err
			}
			if g.Rank != root {
				copy(data[:n], g.Bytes(part))
			}
			data = data[n:]
		}
	}
	return nil
}

// Hash is the sha256 over the tensors' bytes in order, as hexadecimal.
func Hash(ts []tensor.Tensor) string {
	h := sha256.New()
	for _, t := range ts {
		h.Write(t.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

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

// Send copies src of one rank to dst of another, through a staging region. All ranks take part with
// tensors of equal sizes; the others only make the same calls, because a group's calls are one
// sequence on all ranks.
func (g *Group) Send(src, dst []tensor.Tensor, from, to int, staging Region) error {
	for i := range src {
		if err := g.SendBytes(src[i].Data, dst[i].Data, len(src[i].Data), from, to, staging); err != nil {
			return err
		}
	}
	return nil
}

// SendBytes is Send of n bytes. src matters only on rank from, and dst only on rank to.
func (g *Group) SendBytes(src, dst []byte, n, from, to int, staging Region) error {
	if from == to {
		if g.Rank == to {
			copy(dst[:n], src)
		}
		return nil
	}
	for at := 0; at < n; at += staging.Size {
		part := Region{staging.Offset, min(n-at, staging.Size)}
		if g.Rank == from {
			copy(g.Bytes(part), src[at:])
		}
		if err := g.Broadcast(part, from); err != nil {
			return err
		}
		if g.Rank == to {
			copy(dst[at:], g.Bytes(part))
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

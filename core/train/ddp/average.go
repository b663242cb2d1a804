package ddp

import (
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Average replaces tensors outside the arena by their means over all ranks, through a staging region.
// All ranks must pass floating-point tensors of equal types and sizes, in the same order. Tensors are
// divided before the sum, as gradients are, and small ones share a message. After an error some
// tensors may be means and others not.
func (g *Group) Average(ts []tensor.Tensor, staging Region) error {
	if g.World == 1 {
		return nil
	}
	p := packer{group: g, staging: staging}
	for _, t := range ts {
		if err := p.add(t); err != nil {
			return err
		}
	}
	return p.flush()
}

// packer averages tensors in messages as long as its region.
type packer struct {
	group   *Group
	staging Region
	dtype   tensor.DType
	parts   [][]byte // packed into the region
	used    int
}

func (p *packer) add(t tensor.Tensor) error {
	if t.DType != p.dtype {
		if err := p.flush(); err != nil {
			return err
		}
		p.dtype = t.DType
	}
	size := p.dtype.Size()
	for data := t.Data; len(data) > 0; {
		n := min(len(data), (p.staging.Size-p.used)/size*size)
		if n == 0 {
			if err := p.flush(); err != nil {
				return err
			}
			continue
		}
		copy(p.group.Bytes(p.staging)[p.used:], data[:n])
		p.parts, p.used = append(p.parts, data[:n]), p.used+n
		data = data[n:]
	}
	return nil
}

// flush averages what the region holds, and copies it back.
func (p *packer) flush() error {
	if p.used == 0 {
		return nil
	}
	r := Region{p.staging.Offset, p.used}
	mem := p.group.Bytes(r)
	reduce.ScaleBytes(p.dtype, mem, 1/float64(p.group.World))
	if err := p.group.AllReduce(r, sdk.Sum, p.dtype); err != nil {
		return err
	}
	for _, part := range p.parts {
		copy(part, mem)
		mem = mem[len(part):]
	}
	p.parts, p.used = p.parts[:0], 0
	return nil
}

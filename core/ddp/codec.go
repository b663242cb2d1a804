package ddp

import (
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/tensor"
)

// codec says how a bucket travels: in which type, where in the arena, and with
// which factors before and after the sum that make it an average.
//
// The order of a compressed bucket is cast, divide, all-reduce, cast back, as
// in PyTorch's default_hooks.py; the factors are apex's gradient_predivide_factor.
type codec struct {
	group     *Group
	half      tensor.DType // type to travel in; Invalid: the bucket's own
	pre, post float64
}

func newCodec(g *Group, cfg Config) codec {
	c := codec{group: g, half: cfg.half(), pre: 1 / float64(g.World), post: 1}
	if f := cfg.PredivideFactor; f != 0 {
		c.pre, c.post = 1/f, f/float64(g.World)
	}
	return c
}

// wireType is the type in which a bucket of type d travels.
func (c codec) wireType(d tensor.DType) tensor.DType {
	if c.half.Valid() {
		return c.half
	}
	return d
}

// pack makes a bucket ready to be summed. Without compression it travels where
// it lies, and home and wire are the same region.
func (c codec) pack(d tensor.DType, home, wire Region) {
	mem := c.group.Bytes(wire)
	if wire != home {
		kernel.Convert(c.half, mem, d, c.group.Bytes(home))
	}
	if c.pre != 1 {
		kernel.ScaleBytes(c.wireType(d), mem, c.pre)
	}
}

// unpack turns the sum into the average, where the bucket lies.
func (c codec) unpack(d tensor.DType, home, wire Region) {
	mem := c.group.Bytes(home)
	if wire != home {
		kernel.Convert(d, mem, c.half, c.group.Bytes(wire))
	}
	if c.post != 1 {
		kernel.ScaleBytes(d, mem, c.post)
	}
}

// half is the type that compress names, Invalid for "none".
func (c Config) half() tensor.DType {
	switch c.Compress {
	case "fp16":
		return tensor.F16
	case "bf16":
		return tensor.BF16
	}
	return tensor.Invalid
}

// LayoutWire places what travels, from offset on, and returns the buckets'
// regions there and the end. A bucket that travels in its own type travels
// from where it lies.
func (c Config) LayoutWire(buckets []Bucket, home []Region, offset int) (wire []Region, end int) {
	half := c.half()
	for i, b := range buckets {
		if !half.Valid() || half == b.DType {
			wire = append(wire, home[i])
			continue
		}
		offset = Align(offset)
		wire = append(wire, Region{offset, b.Elems() * half.Size()})
		offset += wire[i].Size
	}
	return wire, Align(offset)
}

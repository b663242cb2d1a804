package ddp

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// codec defines how a bucket is sent: its type, its place in the arena, and the
// factors before and after the sum that make it an average.
//
// The order of a compressed bucket is cast, divide, all-reduce, cast back, as
// in PyTorch's default_hooks.py; the factors are apex's gradient_predivide_factor.
type codec struct {
	group     *Group
	half      tensor.DType // type in which buckets are sent; Invalid: the bucket's own
	factor    float64      // gradient_predivide_factor
	pre, post float64
	early     bool    // see Reducer.DivideLoss
	loss      float64 // factor of the loss's gradient; 1: none
}

func newCodec(g *Group, cfg Config) codec {
	c := codec{group: g, half: cfg.half(), factor: cfg.PredivideFactor}
	c.divide(g.World)
	return c
}

// divide makes sums averages over n ranks.
func (c *codec) divide(n int) {
	c.pre, c.post, c.loss = 1/float64(n), 1, 1
	if c.factor != 0 {
		c.pre, c.post = 1/c.factor, c.factor/float64(n)
	}
	if !c.early || n == 1 { // one rank's buckets are neither sent nor divided
		return
	}
	if fraction, _ := math.Frexp(c.pre); fraction == 0.5 { // a power of two
		c.pre, c.loss = 1, c.pre
	}
}

// wireType is the type in which a bucket of type d is sent.
func (c codec) wireType(d tensor.DType) tensor.DType {
	if c.half.Valid() {
		return c.half
	}
	return d
}

// pack prepares a bucket for the sum. Without compression it is sent in place, and
// bucket and wire are the same region.
func (c codec) pack(d tensor.DType, bucket, wire Region) {
	mem := c.group.Bytes(wire)
	if wire != bucket {
		convert.Convert(c.half, mem, d, c.group.Bytes(bucket))
	}
	if c.pre != 1 {
		reduce.ScaleBytes(c.wireType(d), mem, c.pre)
	}
}

// unpack turns the sum into the average, in the bucket.
func (c codec) unpack(d tensor.DType, bucket, wire Region) {
	mem := c.group.Bytes(bucket)
	if wire != bucket {
		convert.Convert(d, mem, c.half, c.group.Bytes(wire))
	}
	if c.post != 1 {
		reduce.ScaleBytes(d, mem, c.post)
	}
}

// half is the type selected by compress, Invalid for "none".
func (c Config) half() tensor.DType {
	switch c.Compress {
	case "fp16":
		return tensor.F16
	case "bf16":
		return tensor.BF16
	}
	return tensor.Invalid
}

// LayoutWire lays out the memory from which buckets are sent, from offset on, and
// returns the buckets' regions and the end. A bucket that is sent in its own type is
// sent in place.
func (c Config) LayoutWire(grads []Gradient, buckets []Bucket, regions []Region, offset int) (wire []Region, end int) {
	for i, b := range buckets {
		n := c.wireBytes(grads, b)
		if n == 0 {
			wire = append(wire, regions[i])
			continue
		}
		offset = Align(offset)
		wire = append(wire, Region{offset, n})
		offset += n
	}
	return wire, Align(offset)
}

// BytesPerStep is what a rank contributes to the all-reduces of one step's gradients, in bytes of
// the type in which they are sent; with PowerSGD, after its start step. The gaps that align
// gradients, 15 bytes at most for each, are not counted.
func (c Config) BytesPerStep(grads []Gradient, buckets []Bucket) (n int) {
	for _, b := range buckets {
		switch half := c.half(); {
		case c.lowRank(grads, b) != nil:
			n += c.wireBytes(grads, b)
		case half.Valid():
			n += b.Bytes / b.DType.Size() * half.Size()
		default:
			n += b.Bytes
		}
	}
	return n
}

// lowRank is how a bucket is sent as factors, nil if it is not.
func (c Config) lowRank(grads []Gradient, b Bucket) *lowRank {
	if c.Compress != "powersgd" {
		return nil
	}
	return newLowRank(grads, b, c.PowerSGDRank)
}

// wireBytes is the memory of a bucket that is sent in another form, 0 if it is sent as is.
func (c Config) wireBytes(grads []Gradient, b Bucket) int {
	if l := c.lowRank(grads, b); l != nil {
		return 4 * (l.first + l.second)
	}
	if half := c.half(); half.Valid() && half != b.DType {
		return b.elems() * half.Size()
	}
	return 0
}

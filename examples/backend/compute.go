package main

import (
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// compute runs the operation on rank 0: afterwards bufs[r] is the result of rank r.
// Anything unknown is an error: if it were ignored, every rank would train on its own
// gradients.
func compute(c *sdk.Collective, bufs [][]byte) error {
	size := c.Count * c.DType.Size()
	whole := bufs[0]
	switch c.Op {
	case sdk.OpAllReduce, sdk.OpReduceScatter:
		if err := reduce(c, whole, bufs); err != nil {
			return err
		}
	case sdk.OpBroadcast:
		copy(whole, bufs[c.Root])
	case sdk.OpAllGather:
		for r := range bufs {
			copy(whole[r*size:][:size], bufs[r][r*size:])
		}
	case sdk.OpBarrier:
	default:
		return fmt.Errorf("star: %v: unknown operation", c)
	}
	for r := range bufs {
		copy(bufs[r], whole)
	}
	return nil
}

func reduce(c *sdk.Collective, dst []byte, bufs [][]byte) error {
	switch {
	case !c.Reduce.Valid():
		return fmt.Errorf("star: %v: unknown reduction", c)
	case c.Reduce == sdk.Avg && !c.DType.Float():
		return fmt.Errorf("star: %v: integers cannot be averaged", c)
	}
	switch c.DType {
	case tensor.F32:
		reduceAs[float32](c.Reduce, dst, bufs)
	case tensor.F64:
		reduceAs[float64](c.Reduce, dst, bufs)
	case tensor.U8:
		reduceAs[uint8](c.Reduce, dst, bufs)
	case tensor.I32:
		reduceAs[int32](c.Reduce, dst, bufs)
	case tensor.I64:
		reduceAs[int64](c.Reduce, dst, bufs)
	default:
		return fmt.Errorf("star: %v: this type cannot be reduced", c)
	}
	return nil
}

// reduceAs combines in rank order, so that results are the same in every run.
// dst is the first of bufs.
func reduceAs[T float32 | float64 | uint8 | int32 | int64](op sdk.ReduceOp, dst []byte, bufs [][]byte) {
	out := tensor.View[T](dst)
	for _, buf := range bufs[1:] {
		for i, v := range tensor.View[T](buf) {
			switch op {
			case sdk.Sum, sdk.Avg:
				out[i] += v
			case sdk.Min:
				out[i] = min(out[i], v)
			case sdk.Max:
				out[i] = max(out[i], v)
			case sdk.Prod:
				out[i] *= v
			}
		}
	}
	if op == sdk.Avg {
		for i := range out {
			out[i] /= T(len(bufs))
		}
	}
}

package tcp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// reducible reports whether the reduction exists for the element type.
func reducible(op sdk.ReduceOp, d tensor.DType) bool {
	return op.Valid() && d.Valid() && d != tensor.Bool && (op != sdk.Avg || d.Float())
}

// reduceN combines srcs in order into dst, which may be one of them. All have
// the same length and are aligned to the element. Half types are combined in
// float32 and rounded once, integers wrap.
func reduceN(op sdk.ReduceOp, d tensor.DType, dst []byte, srcs [][]byte) {
	switch d {
	case tensor.F32:
		reduceBlocks[float32](op, dst, srcs)
	case tensor.F64:
		reduceBlocks[float64](op, dst, srcs)
	case tensor.F16:
		reduceHalf(op, dst, srcs, tensor.F32FromF16, tensor.F16FromF32)
	case tensor.BF16:
		reduceHalf(op, dst, srcs, tensor.F32FromBF16, tensor.BF16FromF32)
	case tensor.I8:
		reduceBlocks[int8](op, dst, srcs)
	case tensor.U8:
		reduceBlocks[uint8](op, dst, srcs)
	case tensor.I16:
		reduceBlocks[int16](op, dst, srcs)
	case tensor.I32:
		reduceBlocks[int32](op, dst, srcs)
	case tensor.I64:
		reduceBlocks[int64](op, dst, srcs)
	}
}

type number interface {
	float32 | float64 | int8 | uint8 | int16 | int32 | int64
}

// block is how many elements are combined before they are written, so that dst
// may be any of the sources. The block stays in the first-level cache.
const block = 1024

func reduceBlocks[T number](op sdk.ReduceOp, dst []byte, srcs [][]byte) {
	out := tensor.View[T](dst)
	if len(srcs) == 2 && op == sdk.Sum {
		addPair(out, tensor.View[T](srcs[0]), tensor.View[T](srcs[1]))
		return
	}
	var buf [block]T
	for o := 0; o < len(out); o += block {
		acc := buf[:min(block, len(out)-o)]
		copy(acc, tensor.View[T](srcs[0])[o:])
		for _, s := range srcs[1:] {
			combine(op, acc, tensor.View[T](s)[o:])
		}
		if op == sdk.Avg {
			divide(acc, T(len(srcs)))
		}
		copy(out[o:], acc)
	}
}

// addPair is the commonest case in one pass.
func addPair[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func reduceHalf(op sdk.ReduceOp, dst []byte, srcs [][]byte, widen func(uint16) float32, narrow func(float32) uint16) {
	out := tensor.View[uint16](dst)
	var accBuf, srcBuf [block]float32
	for o := 0; o < len(out); o += block {
		acc := accBuf[:min(block, len(out)-o)]
		src := srcBuf[:len(acc)]
		for i, v := range tensor.View[uint16](srcs[0])[o:][:len(acc)] {
			acc[i] = widen(v)
		}
		for _, s := range srcs[1:] {
			for i, v := range tensor.View[uint16](s)[o:][:len(acc)] {
				src[i] = widen(v)
			}
			combine(op, acc, src)
		}
		if op == sdk.Avg {
			divide(acc, float32(len(srcs)))
		}
		for i, v := range acc {
			out[o+i] = narrow(v)
		}
	}
}

// combine computes dst = dst op src. NaN wins in min and max, as Go's do.
func combine[T number](op sdk.ReduceOp, dst, src []T) {
	src = src[:len(dst)]
	switch op {
	case sdk.Sum, sdk.Avg:
		for i, v := range src {
			dst[i] += v
		}
	case sdk.Min:
		for i, v := range src {
			dst[i] = min(dst[i], v)
		}
	case sdk.Max:
		for i, v := range src {
			dst[i] = max(dst[i], v)
		}
	case sdk.Prod:
		for i, v := range src {
			dst[i] *= v
		}
	}
}

func divide[T number](x []T, by T) {
	for i := range x {
		x[i] /= by
	}
}

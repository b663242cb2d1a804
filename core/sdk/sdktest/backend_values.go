package sdktest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// values fills n elements with numbers that depend only on rank, index
// and salt: floats in (-1, 1) with all their bits in use, so that a sum in
// another order differs; integers over their whole range.
func values(d tensor.DType, n, rank, salt int) []byte {
	buf := tensor.Bytes(make([]uint64, (n*d.Size()+7)/8))[:n*d.Size()]
	key := uint64(rank)<<48 ^ uint64(salt)<<32
	switch d {
	case tensor.F32:
		fill(tensor.View[float32](buf), key, func(bits uint64) float32 { return float32(fraction(bits)) })
	case tensor.F64:
		fill(tensor.View[float64](buf), key, fraction)
	case tensor.F16:
		fill(tensor.View[uint16](buf), key, func(bits uint64) uint16 { return tensor.F16FromF32(float32(fraction(bits))) })
	case tensor.BF16:
		fill(tensor.View[uint16](buf), key, func(bits uint64) uint16 { return tensor.BF16FromF32(float32(fraction(bits))) })
	case tensor.I8, tensor.U8:
		fill(buf, key, func(bits uint64) byte { return byte(bits) })
	case tensor.I16:
		fill(tensor.View[int16](buf), key, func(bits uint64) int16 { return int16(bits) })
	case tensor.I32:
		fill(tensor.View[int32](buf), key, func(bits uint64) int32 { return int32(bits) })
	case tensor.I64:
		fill(tensor.View[int64](buf), key, func(bits uint64) int64 { return int64(bits) })
	}
	return buf
}

func fill[T any](x []T, key uint64, of func(bits uint64) T) {
	for i := range x {
		x[i] = of(mix(key ^ uint64(i)))
	}
}

// fraction lies in (-1, 1).
func fraction(bits uint64) float64 { return float64(int64(bits)) / (1 << 63) }

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// differ describes the first element in which got is not want, "" if none.
// All NaNs are equal. slack is in units of epsilon times
// the number of ranks; 0 requires equal bits.
func differ(d tensor.DType, got, want []byte, slack float64) string {
	if bytes.Equal(got, want) {
		return ""
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes instead of %d", len(got), len(want))
	}
	size := d.Size()
	for i := range len(got) / size {
		if bytes.Equal(got[i*size:][:size], want[i*size:][:size]) {
			continue
		}
		g, w := tensor.Number(d, got, i), tensor.Number(d, want, i)
		if math.IsNaN(g) && math.IsNaN(w) || math.Abs(g-w) <= slack*d.Epsilon()*max(1, math.Abs(w)) {
			continue
		}
		return fmt.Sprintf("element %d of %d is %v (%x), want %v (%x)", i, len(got)/size,
			g, got[i*size:][:size], w, want[i*size:][:size])
	}
	return ""
}

// eachRank makes one input per rank.
func eachRank(world int, f func(rank int) []byte) [][]byte {
	in := make([][]byte, world)
	for r := range in {
		in[r] = f(r)
	}
	return in
}

// reductions that exist for the type.
func reductions(d tensor.DType) []sdk.ReduceOp {
	if d.Float() {
		return []sdk.ReduceOp{sdk.Sum, sdk.Avg, sdk.Min, sdk.Max, sdk.Prod}
	}
	return []sdk.ReduceOp{sdk.Sum, sdk.Min, sdk.Max, sdk.Prod}
}

package membackend

import (
	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Reduce is [contracttest.Reduce], for authors of backends: what the reductions
// mean, element by element. dst may be one of the sources.
func Reduce(op sdk.ReduceOp, d tensor.DType, dst []byte, srcs [][]byte) {
	contracttest.Reduce(op, d, dst, srcs)
}

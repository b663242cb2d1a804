package ops

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	ImplementOwn(op.PluginLayer, Owning{}, OwnKernels[float32]{pluginForward[float32], pluginBackward[float32]}, OwnKernels[float64]{pluginForward[float64], pluginBackward[float64]})
}

// typeOf is the type of a call's tensors.
func typeOf[T kernel.Float]() tensor.DType {
	if _, wide := any(*new(T)).(float64); wide {
		return tensor.F64
	}
	return tensor.F32
}

func pluginForward[T kernel.Float](c *OwnCall[T]) {
	c.Err = c.Attr.Remote.Compute(false, typeOf[T](), c.Batch, tensors(c.Params, c.X), tensors(nil, c.Y))
}

func pluginBackward[T kernel.Float](c *OwnCall[T]) {
	saved := c.X
	if c.Attr.SaveOutput {
		saved = c.Y
	}
	c.Err = c.Attr.Remote.Compute(true, typeOf[T](), c.Batch, tensors(c.Params, saved, c.DY), tensors(c.DParams, c.DX))
}

// tensors is the memory of the first ones, and of the rest behind them.
func tensors[T kernel.Float](rest [][]T, first ...[]T) (all [][]byte) {
	for _, list := range [][][]T{first, rest} {
		for _, v := range list {
			all = append(all, tensor.Bytes(v))
		}
	}
	return all
}

package nn

import (
	"strconv"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// The stems of a ResNet.
const (
	StemImageNet = "imagenet" // 7×7 with stride 2, then a 3×3 max-pool with stride 2
	StemCIFAR    = "cifar"    // 3×3 with stride 1, for images of 32×32
)

// resnet is a deep residual network (He et al., 2015) of four stages of blocks,
// each stage with twice the channels and half the resolution of the one before.
// Its tensors have the names and the order of torchvision/models/resnet.py.
func resnet(block func(name string, channels, stride int, first bool) []LayerConfig, stages ...int) func(Config, tensor.Shape, int) []LayerConfig {
	return func(c Config, _ tensor.Shape, classes int) []LayerConfig {
		layers, channels := stem(c.Stem), 64
		for i, blocks := range stages {
			stage := LayerConfig{Type: "sequential", Name: numbered("layer", i+1)}
			for j := range blocks {
				stride := 1
				if i > 0 && j == 0 {
					stride = 2
				}
				stage.Layers = append(stage.Layers, block(strconv.Itoa(j), channels, stride, j == 0)...)
			}
			layers, channels = append(layers, stage), 2*channels
		}
		return append(layers,
			LayerConfig{Type: "adaptive_avgpool2d", Name: "avgpool", Args: op.Args{"output_size": op.Pair{1, 1}}},
			LayerConfig{Type: "flatten", Name: "flatten"},
			LayerConfig{Type: "linear", Name: "fc", Args: op.Args{"out_features": classes}})
	}
}

func stem(kind string) []LayerConfig {
	if kind == StemCIFAR {
		return convNormReLU(1, 64, 3, 1)
	}
	return append(convNormReLU(1, 64, 7, 2), LayerConfig{Type: "maxpool2d", Name: "maxpool",
		Args: op.Args{"kernel_size": op.Pair{3, 3}, "stride": op.Pair{2, 2}, "padding": op.Pair{1, 1}}})
}

// basicBlock is two 3×3 convolutions, for ResNet-18 and -34. Only the first
// stage's first block keeps the shape, and so needs no projection.
func basicBlock(name string, channels, stride int, first bool) []LayerConfig {
	main := append(convNormReLU(1, channels, 3, stride), convNorm(2, channels, 3, 1)...)
	return residual(name, main, first && stride > 1, channels, stride)
}

// bottleneck narrows by 1×1, convolves by 3×3 and widens by 1×1 to four times
// the channels, for ResNet-50. The stride sits in the 3×3, as in torchvision
// (not in the first 1×1, as in the paper).
func bottleneck(name string, channels, stride int, first bool) []LayerConfig {
	main := append(convNormReLU(1, channels, 1, 1), convNormReLU(2, channels, 3, stride)...)
	main = append(main, convNorm(3, 4*channels, 1, 1)...)
	return residual(name, main, first, 4*channels, stride)
}

// residual adds the input to what main makes of it, projected where the shape
// changes, and applies a ReLU.
func residual(name string, main []LayerConfig, project bool, channels, stride int) []LayerConfig {
	block := LayerConfig{Type: "residual", Name: name, Layers: main}
	if project {
		down := []LayerConfig{conv("0", channels, 1, stride), {Type: "batchnorm2d", Name: "1"}}
		block.Shortcut = []LayerConfig{{Type: "sequential", Name: "downsample", Layers: down}}
	}
	return []LayerConfig{block, {Type: "relu", Name: name + ".relu"}}
}

func convNormReLU(i, channels, kernel, stride int) []LayerConfig {
	return append(convNorm(i, channels, kernel, stride), LayerConfig{Type: "relu", Name: numbered("relu", i)})
}

func convNorm(i, channels, kernel, stride int) []LayerConfig {
	return []LayerConfig{conv(numbered("conv", i), channels, kernel, stride), {Type: "batchnorm2d", Name: numbered("bn", i)}}
}

// conv keeps the resolution, apart from its stride, and has no bias: a batch
// norm follows.
func conv(name string, channels, kernel, stride int) LayerConfig {
	pad, bias := kernel/2, false
	return LayerConfig{Type: "conv2d", Name: name, Args: op.Args{"out_channels": channels, "kernel_size": op.Pair{kernel, kernel}, "stride": op.Pair{stride, stride}, "padding": op.Pair{pad, pad}, "bias": bias}}
}

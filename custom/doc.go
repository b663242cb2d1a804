// Package custom adds layers, losses and optimizers of a program's own to trainctl. They are used by name in
// the configuration, as the built-in ones are, and checked, planned, saved and resumed like them.
//
//	var swish = custom.Layer{
//		Name: "swish", Doc: "x·sigmoid(beta·x)",
//		Keys:    []custom.Key{{Name: "beta", Default: 1.0, Positive: true, Doc: "sharpness"}},
//		Float32: custom.Kernels[float32]{Forward: forward[float32], Backward: backward[float32]},
//		Float64: custom.Kernels[float64]{Forward: forward[float64], Backward: backward[float64]},
//	}
//
//	func main() {
//		if err := custom.Register(swish); err != nil {
//			log.Fatal(err)
//		}
//		trainctl.Run(ctx, trainctl.File("train.toml"))
//	}
//
// Functions are plain Go over slices. They are compiled once for float32 and once for float64, usually from one generic
// function. Half types are computed in float32: tensors are widened before a call and rounded after it. Other devices than
// the CPU refuse what is registered here, by its name.
//
// Package trainctltest checks definitions: CheckLayer, CheckLoss and CheckOptimizer compare gradients with slopes, float32
// with float64, and more.
//
// It imports core/engine, core/base and core/tensor. Start with register.go. The compatibility promise of package trainctl holds for it.
package custom

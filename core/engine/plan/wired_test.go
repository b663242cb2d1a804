package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// wired are the networks of testdata/wired.py.
var wired = map[string]layers{
	"unet": slices.Concat(
		double("enc1", 4), layers{pooled("half")}, double("enc2", 8), layers{pooled("quarter")}, double("mid", 8),
		layers{named("up2", with(layer("upsample"), op.Args{"scale_factor": 2, "mode": "bilinear"})), reads(named("cat2", layer("concat")), "up2", "enc2_relu")}, double("dec2", 4),
		layers{named("up1", with(layer("upsample"), op.Args{"scale_factor": 2})), reads(named("cat1", layer("concat")), "up1", "enc1_relu")}, double("dec1", 4),
		layers{
			with(layer("adaptive_avgpool2d"), op.Args{"output_size": pair(1, 1)}), layer("flatten"), named("gate", linear(4)), layer("sigmoid"), named("column", with(layer("reshape"), op.Args{"shape": []int{4, 1, 1}})),
			reads(layer("multiply"), "dec1_relu", "column"), named("out", conv(1, 1)), layer("flatten"), named("fc", linear(10)),
		}),
	"unet_transposed": slices.Concat(
		double("enc1", 4), layers{pooled("half")}, normed("enc2", 8), layers{pooled("quarter")}, normed("mid", 8),
		layers{named("up2", transposed(8, op.Args{"kernel_size": pair(2, 2), "stride": pair(2, 2)})), reads(named("cat2", layer("concat")), "up2", "enc2_relu")}, normed("dec2", 4),
		layers{named("up1", transposed(4, op.Args{"kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1), "output_padding": pair(1, 1), "groups": 2, "bias": false})), reads(named("cat1", layer("concat")), "up1", "enc1_relu")}, double("dec1", 4),
		layers{
			named("out", with(layer("conv2d"), op.Args{"out_channels": 1, "kernel_size": pair(2, 4), "padding": op.Same, "dilation": pair(1, 3)})), with(layer("reshape"), op.Args{"shape": []int{4, 196}}),
			named("signal", with(layer("conv1d"), op.Args{"out_channels": 3, "kernel_size": pair(4, 4), "padding": op.Same})), named("wave", with(layer("conv1d"), op.Args{"out_channels": 4, "kernel_size": pair(5, 5), "stride": pair(3, 3), "padding": pair(2, 2)})),
			layer("flatten"), named("fc", linear(10)),
		}),
	"dilated": {
		named("enc", with(layer("conv2d"), op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "stride": pair(4, 4), "padding": pair(1, 1)})),
		named("up", transposed(6, op.Args{"kernel_size": pair(3, 3), "stride": pair(1, 2), "padding": pair(1, 2), "output_padding": pair(2, 4), "groups": 2, "dilation": pair(3, 5)})),
		layer("relu"), named("out", conv(2, 3)), layer("flatten"), named("fc", linear(10)),
	},
	"transformer": {
		with(layer("reshape"), op.Args{"shape": []int{28, -1}}), named("embed", linear(16)), named("positions", with(layer("position_embedding"), op.Args{"num_positions": 30})),
		named("ln_1", with(layer("layernorm"), op.Args{"normalized_shape": []int{16}})), named("c_attn", linear(48)),
		with(layer("attention"), op.Args{"heads": 4, "causal": true}), named("c_proj", linear(16)), reads(named("x", layer("add")), "c_proj", "positions"),
		named("norm", rms(16)), named("q", plain(16)), reads(named("k", plain(8)), "norm"), reads(named("v", plain(8)), "norm"),
		reads(with(layer("attention"), op.Args{"heads": 4, "kv_heads": 2, "causal": true, "rope_theta": 10000.0}), "q", "k", "v"), named("o", plain(16)), reads(named("y", layer("add")), "o", "x"),
		named("post", rms(16)), named("gate", linear(24)), named("act", layer("silu")), reads(named("up", linear(24)), "post"), reads(layer("multiply"), "act", "up"), named("down", linear(16)),
		reads(layer("add"), "down", "y"), layer("flatten"), named("fc", linear(10)),
	},
}

// double is a 3×3 convolution and its ReLU.
func double(name string, out int) layers {
	c := with(layer("conv2d"), op.Args{"out_channels": out, "kernel_size": pair(3, 3), "padding": pair(1, 1)})
	return layers{named(name, c), named(name+"_relu", layer("relu"))}
}

// normed is a convolution, its group norm and their ReLU.
func normed(name string, out int) layers {
	l := double(name, out)
	return slices.Insert(l, 1, named(name+"_norm", with(layer("groupnorm"), op.Args{"num_groups": 2})))
}

func transposed(out int, args op.Args) nn.LayerConfig {
	args["out_channels"] = out
	return with(layer("conv_transpose2d"), args)
}

func pooled(name string) nn.LayerConfig {
	return named(name, with(layer("maxpool2d"), op.Args{"kernel_size": pair(2, 2)}))
}

func rms(n int) nn.LayerConfig {
	return with(layer("rmsnorm"), op.Args{"normalized_shape": []int{n}, "eps": 1e-6})
}

func plain(out int) nn.LayerConfig {
	return with(layer("linear"), op.Args{"out_features": out, "bias": false})
}

// A U-Net and transformer blocks, wired by name, follow PyTorch's loss curves.
func TestWiredNetworksFollowPyTorch(t *testing.T) {
	type curve struct {
		Model  string
		Names  []string
		Losses []float64
	}
	const batch = 4
	for _, want := range testjson.Read[[]curve](t, "testdata/wired.json") {
		for d, tol := range map[tensor.DType]float64{tensor.F64: 1e-12, tensor.F32: 1e-5} {
			for _, fuse := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%v/fuse=%v", want.Model, d, fuse), func(t *testing.T) {
					g := build(t, nn.Config{Layers: wired[want.Model]}, digits, class)
					r := newRig(t, g, plan.Options{Batch: batch, Train: true, DType: d, Fuse: fuse}, 7)
					var names []string
					for i, e := range g.StateDict() {
						names = append(names, e.Name)
						for j := 0; e.Name == "positions.weight" && j < 480; j++ {
							r.st.Tensors[i].Set(j, float64(j%7-3)/8)
						}
					}
					if !slices.Equal(names, want.Names) {
						t.Fatalf("state dict %v, PyTorch %v", names, want.Names)
					}
					v := r.velocities()
					for step, loss := range want.Losses {
						x, y := goldenBatch(step, batch)
						if res := r.prog.Run(plan.Args{Input: x, Target: y}); !near(res.Loss, loss, tol) {
							t.Errorf("step %d: loss %.15g, PyTorch %.15g", step, res.Loss, loss)
						}
						r.sgd(v, 0.01, 0.9)
					}
				})
			}
		}
	}
}

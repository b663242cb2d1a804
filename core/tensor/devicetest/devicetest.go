// Package devicetest holds a plan.Device to what its operations mean. Every
// operation runs alone, over shapes that do not fit any vector or tile, in every
// element type the device has, against references in float64 that are written
// as the formulas read; then whole models train beside a reference device.
//
//	func TestDevice(t *testing.T) {
//		devicetest.Run(t, devicetest.Options{Device: func() plan.Device { return cpu.New() }})
//	}
//
// How far a result may be off is not a number that somebody liked. A reference
// returns, beside each value, the sum of the magnitudes of the terms that it was
// made of and their number n. With roundings of relative size u that do not know
// of each other, a sum of n terms is off by about √n·u times that magnitude
// (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 2.8);
// the suite grants (4 + 2√n)·u, and half a unit in the last place of the type
// that the result is stored in.
package devicetest

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Options say what is tested.
type Options struct {
	// Device makes the device under test. It is called once per test.
	Device func() plan.Device

	// Reference trains the same models, in float64.
	Reference func() plan.Device

	// DTypes are the types of activations to test; nil means f32, f64, f16 and bf16.
	DTypes []tensor.DType

	// TF32 says that products of float32 numbers are made of their upper 11 bits.
	TF32 bool

	// BiasApart says that a convolution's result is stored before its bias is
	// added, which rounds half types once more (torch.nn.Conv2d over cuDNN does so).
	BiasApart bool
}

// family is a group of operations that are tested together.
type family struct {
	name string
	run  func(r *rig)
}

var families = []family{
	{"conv2d", convolutions}, {"linear", linears}, {"embedding", embeddings},
	{"batchnorm2d", batchNorms}, {"sync_batchnorm2d", syncBatchNorms}, {"batchnorm2d+relu", normReLUs}, {"batchnorm2d+relu+maxpool2d", normPools}, {"layernorm", layerNorms},
	{"pooling", poolings}, {"pointwise", pointwise}, {"dropout", dropouts}, {"cast", casts}, {"loss", losses},
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	if o.DTypes == nil {
		o.DTypes = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			for _, d := range o.DTypes {
				t.Run(d.String(), func(t *testing.T) { f.run(newRig(t, o, d)) })
			}
		})
	}
	if o.Reference != nil {
		t.Run("models", func(t *testing.T) { models(t, o) })
	}
}

// each runs one case as a subtest with a rig of its own.
func (r *rig) each(name string, f func(r *rig)) {
	r.t.Run(name, func(t *testing.T) { f(newRig(t, r.opt, r.d)) })
}

func shapeName(dims ...int) string {
	s := ""
	for i, d := range dims {
		if i > 0 {
			s += "x"
		}
		s += fmt.Sprint(d)
	}
	return s
}

package devicetest

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
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

	ran map[graph.Op]bool // steps that did
}

// cases are the operations with how each is tested, in one element type.
var cases = map[graph.Op]func(r *rig){}

// register enters the case of an operation; each file calls it from init. It has
// to run all steps of the operation.
func register(o graph.Op, run func(r *rig)) { cases[o] = run }

// Operations lists the operations that the suite tests, sorted.
func Operations() []graph.Op { return slices.Sorted(maps.Keys(cases)) }

// Run runs the suite.
func Run(t *testing.T, o Options) {
	if o.DTypes == nil {
		o.DTypes = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	}
	o.ran = map[graph.Op]bool{}
	for _, name := range Operations() {
		t.Run(string(name), func(t *testing.T) {
			for _, d := range o.DTypes {
				t.Run(d.String(), func(t *testing.T) { cases[name](newRig(t, o, d)) })
			}
		})
	}
	o.complete(t)
	if o.Reference != nil {
		t.Run("models", func(t *testing.T) { models(t, o) })
	}
}

// complete fails the test if a step of an operation did not run at all, unless
// subtests were chosen, or types in which losses do not run.
func (o *Options) complete(t *testing.T) {
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") || !slices.Contains(o.DTypes, tensor.F32) {
		return
	}
	for _, d := range op.All() {
		if d.CPUOnly { // package custom and the suite of layer plugins compare these
			continue
		}
		for _, s := range d.Steps {
			if !o.ran[s.Op] {
				t.Errorf("the suite does not run the step %q: extend the case of %s in core/engine/devicetest", s.Op, d.Name)
			}
		}
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

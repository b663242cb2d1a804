package optim

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
)

// threads is a device of three threads, whose shares are done from last to first.
type threads struct{ shared int }

func (d *threads) Share(n, unit int, part func(lo, hi int) func()) func() {
	d.shared++
	var parts []func()
	for lo, each := 0, (n/unit+2)/3*unit; lo < n; lo += each {
		parts = append(parts, part(lo, min(n, lo+each)))
	}
	return func() {
		for _, p := range slices.Backward(parts) {
			p()
		}
	}
}

// largeParams are parameters of every kind that threads share, and a small one.
func largeParams() (ps []Param) {
	const n = 2*shareElems + 5
	value := func(name string, d, grad tensor.DType, elems int) Param {
		p := Param{Name: name, Value: tensor.New(d, elems), Grad: tensor.New(grad, elems)}
		for i := range elems {
			p.Value.Set(i, float64(i%101)/64-0.7)
			p.Grad.Set(i, float64(i%89)/128-0.3)
		}
		return p
	}
	ps = append(ps, value("f32", tensor.F32, tensor.F32, n), value("f64", tensor.F64, tensor.F64, n), value("narrow", tensor.BF16, tensor.BF16, n),
		value("f16", tensor.F16, tensor.F16, n), value("small", tensor.F32, tensor.F32, 7))
	ps[3].Master = tensor.New(tensor.F32, n)
	copyAs(ps[3].Master, ps[3].Value)
	return ps
}

// Weights and state have the same bits whether one thread updates a parameter or several do.
func TestSharedUpdatesHaveTheSameBits(t *testing.T) {
	sets := maps.Clone(optionSets())
	sets["rmsprop"], sets["lars"] = DefaultFor("rmsprop"), DefaultFor("lars")
	for name, c := range sets {
		t.Run(name, func(t *testing.T) {
			c.EMADecay = 0.9
			alone, together, dev := largeParams(), largeParams(), &threads{}
			a, b := mustNew(t, c, alone), mustNew(t, c, together)
			b.Share(dev)
			if want := len(together) - 1; name != "lars" && dev.shared != want {
				t.Errorf("%d parameters are shared, want %d", dev.shared, want)
			}
			for step := range 3 {
				for _, o := range []*Optimizer{a, b} {
					o.ScaleGrads(0.5)
					if c.Momentum > 0 {
						o.SetMomentum(0.9 - 0.1*float64(step))
					}
					o.Step(0.1)
				}
			}
			after := b.State()
			for i, s := range a.State() {
				if !bytes.Equal(s.Tensor.Data, after[i].Tensor.Data) {
					t.Errorf("%s differs", s.Name)
				}
			}
			for i := range alone {
				if !bytes.Equal(alone[i].Value.Data, together[i].Value.Data) {
					t.Errorf("%s differs", alone[i].Name)
				}
			}
		})
	}
}

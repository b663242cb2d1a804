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

// LARS, which needs whole parameters, is shared by parameters.
func TestSharedParametersHaveTheSameBits(t *testing.T) {
	alone, together := largeParams(), largeParams()
	wide := []int{0, 1, 4} // none of a half type
	var a, b []Param
	for _, i := range wide {
		a, b = append(a, alone[i]), append(b, together[i])
	}
	one, several, dev := mustNew(t, DefaultFor("lars"), a), mustNew(t, DefaultFor("lars"), b), &threads{}
	several.Share(dev)
	if dev.shared != 1 || !several.together() {
		t.Fatalf("%d things are shared", dev.shared)
	}
	for range 3 {
		one.Step(0.1)
		several.Step(0.1)
	}
	for i := range a {
		if !bytes.Equal(a[i].Value.Data, b[i].Value.Data) {
			t.Errorf("%s differs", a[i].Name)
		}
	}
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
			if want := len(together); name != "lars" && dev.shared != want { // all together, and each large one
				t.Errorf("%d things are shared, want %d", dev.shared, want)
			}
			var norms []float64
			for step := range 3 {
				for _, o := range []*Optimizer{a, b} {
					o.ScaleGrads(0.5)
					norms = append(norms, o.ClipNorm(1))
					if c.Momentum > 0 {
						o.SetMomentum(0.9 - 0.1*float64(step))
					}
					o.Step(0.1)
				}
			}
			for i := 0; i < len(norms); i += 2 {
				if norms[i] != norms[i+1] || norms[0] <= 1 {
					t.Errorf("step %d: norms %v and %v", i/2, norms[i], norms[i+1])
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

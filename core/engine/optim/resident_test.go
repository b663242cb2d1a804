package optim

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// A device follows the host's arithmetic for every rule, in every type that
// values and gradients have, for parameters of more than one part, and for such
// as are left out of some steps. Means of copying and norms agree, too.
func TestDeviceFollowsHost(t *testing.T) {
	dev := openDevice(t)
	rules := []Config{
		{Name: "sgd", LR: 0.1},
		{Name: "sgd", LR: 0.1, Momentum: 0.9, Dampening: 0.5, WeightDecay: 0.01, Maximize: true},
		{Name: "sgd", LR: 0.1, Momentum: 0.9, Nesterov: true},
		{Name: "adam", LR: 0.01, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, WeightDecay: 0.1, Maximize: true},
		{Name: "adam", LR: 0.01, Betas: [2]float64{0.3, 0.5}, Eps: 1e-3, AMSGrad: true},
		{Name: "adamw", LR: 0.01, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, WeightDecay: 0.1},
		{Name: "sgd", LR: 0.1, Momentum: 0.9, WeightDecay: 0.1, Decay: DecayMatrices},
		{Name: "adamw", LR: 0.1, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, WeightDecay: 0.1, Decay: DecayMatrices},
		{Name: "sgd", LR: 0.1, Momentum: 0.9, WeightDecay: 0.1, Groups: grouped},
		{Name: "adamw", LR: 0.01, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, WeightDecay: 0.1, Groups: grouped},
		{Name: "lars", LR: 0.1, Momentum: 0.9, Nesterov: true, WeightDecay: 0.1, Eps: 1e-3, TrustCoefficient: 0.02, Groups: grouped},
		{Name: "lars", LR: 0.1, TrustCoefficient: 0.5, Maximize: true},
		{Name: "rmsprop", LR: 0.01, Alpha: 0.9, Eps: 1e-3, WeightDecay: 0.1, Maximize: true},
		{Name: "rmsprop", LR: 0.01, Alpha: 0.99, Eps: 1e-3, Momentum: 0.9, Centered: true, Groups: grouped},
		{Name: "rmsprop", LR: 0.01, Alpha: 0.3, Eps: 1e-3, Centered: true},
		{Name: "sgd", LR: 0.1, EMADecay: 0.9},
		{Name: "sgd", LR: 0.1, Momentum: 0.9, EMADecay: 0.25},
	}
	for _, c := range rules {
		for _, k := range []struct {
			value, grad tensor.DType
			master      bool
			within      float64
		}{
			{tensor.F32, tensor.F32, false, 1e-5}, {tensor.F64, tensor.F64, false, 1e-12}, {tensor.F16, tensor.F16, true, 1e-3},
			{tensor.BF16, tensor.F32, true, 1e-2}, {tensor.BF16, tensor.BF16, false, 2e-2}, {tensor.F32, tensor.F16, false, 1e-5},
		} {
			t.Run(fmt.Sprintf("%s, %v with gradients of %v, master %v", c, k.value, k.grad, k.master), func(t *testing.T) {
				host, away := newTwin(t, c, k.value, k.grad, k.master), newTwin(t, c, k.value, k.grad, k.master)
				away.move(t, dev)
				for step := range 4 {
					r := rand.New(rand.NewPCG(1, uint64(step)))
					host.draw(r)
					for i := range host.params {
						copy(away.params[i].Grad.Data, host.params[i].Grad.Data)
						check(t, dev.Upload(away.params[i].Grad.Data))
					}
					for _, o := range []*Optimizer{host.o, away.o} {
						o.Use(1, step != 1)
						o.ScaleGrads(0.5)
						if step == 2 && (c.Momentum > 0 || c.Betas[0] > 0) {
							o.SetMomentum(0.7)
						}
					}
					alike(t, "norm", away.o.ClipNorm(3), host.o.ClipNorm(3), 1e-3)
					if !away.o.GradsFinite() {
						t.Error("not finite")
					}
					host.o.Step(c.LR)
					away.o.Step(c.LR)
				}
				check(t, away.o.Fetch())
				away.hasValues(t, dev, host, k.within)
				if c.EMADecay > 0 {
					exchanges(t, dev, away, host, k.within)
				}
				check(t, away.o.Err())
				for i, s := range away.o.State() {
					same(t, s.Name, s.Tensor, host.o.State()[i].Tensor, k.within)
				}
				check(t, away.o.Return())
			})
		}
	}
}

// hasValues compares the weights on a device with those of another twin.
func (w *twin) hasValues(t *testing.T, dev *cuda.Device, want *twin, within float64) {
	t.Helper()
	for i, p := range w.params {
		check(t, dev.Download(p.Value.Data))
		same(t, p.Name, p.Value, want.params[i].Value, within)
	}
}

// exchanges weights and averages on both sides, and back, which changes nothing.
func exchanges(t *testing.T, dev *cuda.Device, away, host *twin, within float64) {
	t.Helper()
	var before [][]byte
	for _, p := range away.params {
		before = append(before, bytes.Clone(p.Value.Data))
	}
	for range 2 { // a second time as the first
		for _, w := range []*twin{away, host} {
			w.o.UseAverage()
		}
		away.hasValues(t, dev, host, within)
		if bytes.Equal(away.params[0].Value.Data, before[0]) {
			t.Error("the weights are not the averages")
		}
		for _, w := range []*twin{away, host} {
			w.o.UseAverage()
		}
		for i, p := range away.params {
			check(t, dev.Download(p.Value.Data))
			if !bytes.Equal(p.Value.Data, before[i]) {
				t.Errorf("%s differs after the exchange", p.Name)
			}
		}
	}
}

// An infinity or a NaN in any gradient is found, also in the last element of a part.
func TestDeviceFindsWhatIsNotFinite(t *testing.T) {
	dev := openDevice(t)
	w := newTwin(t, Config{Name: "sgd", LR: 1}, tensor.F32, tensor.F32, false)
	w.move(t, dev)
	for _, at := range []int{0, 1023, 1024, len(w.params[0].Grad.F32()) - 1} {
		for _, v := range []float32{float32(math.Inf(-1)), float32(math.NaN())} {
			g := w.params[0].Grad.F32()
			g[at] = v
			check(t, dev.Upload(w.params[0].Grad.Data))
			if w.o.GradsFinite() {
				t.Errorf("%v at %d was not found", v, at)
			}
			g[at] = 0
		}
	}
	check(t, dev.Upload(w.params[0].Grad.Data))
	if !w.o.GradsFinite() {
		t.Error("zeros are finite")
	}
	check(t, w.o.Return())
}

func openDevice(t *testing.T) *cuda.Device {
	t.Helper()
	cudatest.Libraries(t, 1)
	dev, err := cuda.Open(0, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, dev.Close()) })
	return dev
}

// twin is one of two equal optimizers.
type twin struct {
	o      *Optimizer
	params []Param
}

// grouped has settings for each parameter of a twin.
var grouped = func() []Group {
	scale, decay := 0.25, 0.3
	return []Group{{Match: []string{"p0"}, LRScale: &scale}, {Match: []string{"p*"}, WeightDecay: &decay}}
}()

func newTwin(t *testing.T, c Config, value, grad tensor.DType, master bool) *twin {
	t.Helper()
	w := &twin{}
	r := rand.New(rand.NewPCG(7, 7))
	for i, shape := range []tensor.Shape{{200, 100}, {37}} {
		p := Param{Name: fmt.Sprint("p", i), Value: tensor.New(value, shape...), Grad: tensor.New(grad, shape...), Optional: i == 1}
		fill(r, p.Value)
		if master {
			p.Master = tensor.New(tensor.F32, shape...)
			convert.Convert(tensor.F32, p.Master.Data, value, p.Value.Data)
		}
		w.params = append(w.params, p)
	}
	var err error
	w.o, err = New(c, w.params)
	check(t, err)
	return w
}

// move takes the twin to a device.
func (w *twin) move(t *testing.T, dev *cuda.Device) {
	t.Helper()
	w.mirror(t, dev)
	check(t, w.o.Move(dev))
}

// mirror gives a device the parameters and their gradients.
func (w *twin) mirror(t *testing.T, dev *cuda.Device) {
	t.Helper()
	for _, p := range w.params {
		for _, mem := range [][]byte{p.Value.Data, p.Grad.Data} {
			release, _, err := dev.Mirror(mem)
			check(t, err)
			t.Cleanup(func() { check(t, release()) })
		}
	}
}

func (w *twin) draw(r *rand.Rand) {
	for _, p := range w.params {
		fill(r, p.Grad)
	}
}

func fill(r *rand.Rand, x tensor.Tensor) {
	v := make([]float64, x.Shape.Elems())
	for i := range v {
		v[i] = r.NormFloat64()
	}
	convert.Convert(x.DType, x.Data, tensor.F64, tensor.Bytes(v))
}

func same(t *testing.T, name string, got, want tensor.Tensor, within float64) {
	t.Helper()
	if !got.DType.Float() {
		if string(got.Data) != string(want.Data) {
			t.Errorf("%s differs", name)
		}
		return
	}
	a, b := wide(got), wide(want)
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= within*(1+math.Abs(b[i]))) {
			t.Fatalf("%s[%d] is %v, on the host %v", name, i, a[i], b[i])
		}
	}
}

func wide(x tensor.Tensor) []float64 {
	v := make([]float64, x.Shape.Elems())
	convert.Convert(tensor.F64, tensor.Bytes(v), x.DType, x.Data)
	return v
}

func alike(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*(1+math.Abs(want))) {
		t.Errorf("%s is %v, on the host %v", what, got, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

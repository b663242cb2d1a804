package replica

import (
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// torch.optim.SGD([p], lr = 0.7, momentum = 0.9, nesterov = True) with the gradients 1 and 2 moves p
// from 0 to −1.33 and to −4.557.
func TestOuterOptimizerIsPyTorchs(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		w := tensor.New(d, 1)
		o := Outer{names: []string{"p"}}
		cfg := ddp.Default()
		cfg.Outer = ddp.OuterNesterov
		o.prepare(cfg, []tensor.Tensor{w})
		o.anchor([]tensor.Tensor{w})
		for step, want := range []float64{-1.33, -4.557} {
			w.Set(0, w.At(0)-float64(step+1)) // the mean after the round
			o.step([]tensor.Tensor{w})
			if got := w.At(0); got < want-1e-6 || got > want+1e-6 {
				t.Errorf("%v: step %d gives %v, want %v", d, step, got, want)
			}
		}
	}
}

// The outer optimizer's momentum is kept with the optimizer's state, and taken out of it again.
func TestOuterStateOfACheckpoint(t *testing.T) {
	m := tensor.Of(tensor.F32, tensor.Shape{2}, tensor.Bytes([]float32{1, 2}))
	from := Outer{names: []string{"p"}, momentum: []tensor.Tensor{m}}
	state := append([]tensor.Named{{Name: "exp_avg.p", Tensor: m}}, from.State()...)
	to := Outer{names: []string{"p"}, momentum: []tensor.Tensor{tensor.New(tensor.F32, 2)}}
	rest, notes := to.Restore(state)
	if len(rest) != 1 || rest[0].Name != "exp_avg.p" || len(notes) > 0 || to.momentum[0].F32()[1] != 2 {
		t.Errorf("%v, %q, %v", rest, notes, to.momentum)
	}
	if rest, notes = (&Outer{}).Restore(state); len(rest) != 1 || len(notes) != 1 || !strings.Contains(notes[0], "is dropped") {
		t.Errorf("without an outer optimizer: %v, %q", rest, notes)
	}
	if rest, notes = to.Restore(rest); len(rest) != 1 || len(notes) != 1 || !strings.Contains(notes[0], "without momentum") {
		t.Errorf("of a checkpoint without: %v, %q", rest, notes)
	}
}

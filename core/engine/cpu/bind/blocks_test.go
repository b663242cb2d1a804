package bind_test

import (
	"bytes"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// blockCase is a step with its operands: half where Half is given as the type.
type blockCase struct {
	op      graph.Op
	attr    any
	in, out []blockOperand
}

type blockOperand struct {
	d     tensor.DType // BF16 stands for the half type under test
	shape tensor.Shape
}

const some = tensor.BF16

func halfOf(shape ...int) blockOperand    { return blockOperand{some, shape} }
func singleOf(shape ...int) blockOperand  { return blockOperand{tensor.F32, shape} }
func integerOf(shape ...int) blockOperand { return blockOperand{tensor.I32, shape} }

// blockCases have tensors of several blocks, of which the last is smaller.
func blockCases() []blockCase {
	const n, c, side = 10, 41, 24
	x, vector := halfOf(n, c, side, side), singleOf(c)
	pooled, places := halfOf(n, c, side/2, side/2), integerOf(n, c, side/2, side/2)
	norm := op.BatchNormAttr{Eps: 1e-5, Momentum: 0.1}
	window := op.PoolAttr{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}
	both := op.NormPoolAttr{Norm: norm, Pool: window}
	counter := blockOperand{tensor.I64, tensor.Shape{1}}
	state := []blockOperand{x, vector, vector, vector, vector, counter}
	same := op.Conv2DAttr{Stride: [2]int{1, 1}, Padding: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	return []blockCase{
		{activation.ReLU, nil, []blockOperand{x}, []blockOperand{x}},
		{activation.ReLUGrad, nil, []blockOperand{x, x}, []blockOperand{x}},
		{op.Add, nil, []blockOperand{x, x}, []blockOperand{x}},
		{activation.ReLU6, nil, []blockOperand{x}, []blockOperand{x}},
		{op.MaxPool, window, []blockOperand{x}, []blockOperand{pooled, places}},
		{op.AvgPool, window, []blockOperand{x}, []blockOperand{pooled}},
		{op.BatchNorm, norm, state, []blockOperand{x, vector, vector}},
		{op.NormReLU, norm, append(state[:6:6], x), []blockOperand{x, vector, vector}},
		{op.NormPool, both, state, []blockOperand{pooled, places, vector, vector}},
		{op.BatchNormGrad, norm, []blockOperand{x, x, vector, vector, vector}, []blockOperand{x, vector, vector}},
		{op.NormReLUGrad, norm, []blockOperand{x, x, x, vector, vector, vector}, []blockOperand{x, vector, vector, x}},
		{op.NormPoolGrad, both, []blockOperand{x, pooled, pooled, places, vector, vector, vector}, []blockOperand{x, vector, vector, singleOf(1, c, 1, 1)}},
		{op.Conv2D, same, []blockOperand{x, halfOf(7, c, 3, 3), halfOf(7)}, []blockOperand{halfOf(n, 7, side, side)}},
		{op.Conv2DGradInput, same, []blockOperand{halfOf(n, 7, side, side), halfOf(7, c, 3, 3)}, []blockOperand{x}},
		{op.Conv2DGradBias, same, []blockOperand{x}, []blockOperand{vector}},
		{op.Linear, nil, []blockOperand{halfOf(50, 61, 40), halfOf(16, 40), halfOf(16)}, []blockOperand{halfOf(50, 61, 16)}},
		{op.LinearGradInput, nil, []blockOperand{halfOf(50, 61, 16), halfOf(16, 40)}, []blockOperand{halfOf(50, 61, 40)}},
	}
}

// operands lays the case's tensors out in an arena, inputs first, with random values.
func (k *blockCase) operands(d tensor.DType, a *bind.Arena) *plan.Step {
	s := &plan.Step{Op: k.op, Attr: k.attr, Train: true, Layer: "layer"}
	place := func(o blockOperand, seed int) plan.Operand {
		t := o.d
		if t == some {
			t = d
		}
		offset := tensor.RoundUp(len(a.Data), bind.CacheLine)
		spec := tensor.Spec{DType: t, Shape: o.shape}
		a.Data = append(a.Data, make([]byte, offset+spec.Bytes()-len(a.Data))...)
		if t.Float() {
			copy(a.Data[offset:], randomTensor(t, uint64(seed), o.shape...).Data)
		}
		return plan.Operand{Spec: spec, Place: plan.PlaceArena, Offset: offset}
	}
	for i, o := range k.in {
		s.In = append(s.In, place(o, i))
	}
	for i, o := range k.out {
		s.Out = append(s.Out, place(o, len(k.in)+i))
	}
	return s
}

// A step that is cut into blocks gives the bits that it gives with float32 copies of its
// whole tensors, at every level, on one thread and on several.
func TestBlocksGiveTheBitsOfWholeTensors(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			for _, k := range blockCases() {
				for _, threads := range []int{1, 3} {
					if testing.Short() && threads == 1 {
						continue
					}
					k.compare(t, d, threads)
				}
			}
		}
	})
}

func (k *blockCase) compare(t *testing.T, d tensor.DType, threads int) {
	t.Helper()
	var cut, whole bind.Arena
	s := k.operands(d, &cut)
	k.operands(d, &whole)
	b := bind.BlocksOf(s, threads)
	if b == nil || !b.Several() {
		t.Fatalf("%v, %v: not cut: %+v", k.op, d, b)
	}
	runCut, err := b.Bind(&bind.Memory{Arena: &cut, Work: tensor.Aligned(b.Workspace()), Workers: bind.NewWorkerPool(threads)})
	if err != nil {
		t.Fatal(err)
	}
	runWhole, err := bind.Whole(&bind.Memory{Arena: &whole, Work: tensor.Aligned(wholeWorkspace(s))}, s)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		runCut(&plan.Call{})
		runWhole(&plan.Call{})
	}
	bind.EachOperand(s, func(at int, o *plan.Operand) {
		if got, want := cut.Data[o.Offset:][:o.Spec.Bytes()], whole.Data[o.Offset:][:o.Spec.Bytes()]; !bytes.Equal(got, want) {
			t.Errorf("%v, %v, %d threads: operand %d differs from that of whole tensors", k.op, d, threads, at)
		}
	})
}

// wholeWorkspace is that of a step with float32 copies of all operands of a half type.
func wholeWorkspace(s *plan.Step) int {
	n := tensor.RoundUp(bind.ScratchElems(s, 1)*4, bind.CacheLine)
	bind.EachOperand(s, func(_ int, o *plan.Operand) { n += bind.CopyBytes(s, o) })
	return n
}

// Weight gradients sum over blocks: in float32, like whole tensors, and rounded once
// where they are of a half type; added to a gradient in the second micro-step.
func TestBlocksSumWeightGradients(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		x, dy, dw := randomTensor(d, 1, 50, 61, 40), randomTensor(d, 2, 50, 61, 16), tensor.New(tensor.F32, 16, 40)
		s := &plan.Step{Op: op.LinearGradWeight,
			In:  []plan.Operand{operand(x, plan.PlaceInput, 0, 0), operand(dy, plan.PlaceTarget, 0, 0)},
			Out: []plan.Operand{operand(dw, plan.PlaceGrad, 0, 0)}}
		b := bind.BlocksOf(s, 1)
		if b == nil || !b.Several() {
			t.Fatalf("not cut: %+v", b)
		}
		m := &bind.Memory{State: plan.State{Grads: []tensor.Tensor{dw}}, Arena: &bind.Arena{}, Work: tensor.Aligned(b.Workspace())}
		run, err := b.Bind(m)
		if err != nil {
			t.Fatal(err)
		}
		wx, wdy, want := wide(x), wide(dy), make([]float64, 16*40)
		for r := range 50 * 61 {
			for o := range 16 {
				for i := range 40 {
					want[o*40+i] += float64(wdy[r*16+o]) * float64(wx[r*40+i])
				}
			}
		}
		for pass := range 2 {
			run(&plan.Call{Input: x.Data, Target: dy.Data, Accumulate: pass > 0})
			for i, got := range tensor.View[float32](dw.Data) {
				if w := want[i] * float64(pass+1); float64(got) < w-0.01 || float64(got) > w+0.01 {
					t.Fatalf("%v, pass %d: dw[%d] is %v, want %v", d, pass, i, got, w)
				}
			}
		}
	}
}

package ops

import (
	"math"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// table is where the ranks of a test meet: each puts a vector down and takes
// all of them.
type table struct{ put, take []chan []float64 }

func newTable(ranks int) *table {
	t := &table{}
	for range ranks {
		t.put = append(t.put, make(chan []float64))
		t.take = append(t.take, make(chan []float64, 1))
	}
	return t
}

// serve lets n exchanges happen.
func (t *table) serve(n int) {
	for range n {
		var all []float64
		for _, p := range t.put {
			all = append(all, <-p...)
		}
		for _, c := range t.take {
			c <- all
		}
	}
}

type seat struct {
	t    *table
	rank int
}

func (s seat) Gather(mine []float64) ([]float64, error) {
	s.t.put[s.rank] <- mine
	return <-s.t.take[s.rank], nil
}

func (s seat) Sum(v []float64) error {
	all, err := s.Gather(v)
	n := len(v)
	v = v[:copy(v, make([]float64, n))]
	for i := range all {
		v[i%n] += all[i]
	}
	return err
}

// normRank is one channel of a synchronised batch norm on one rank.
type normRank struct {
	x, dy, w, b, mean, variance, batches, gw, gb, y, mu, invstd, dx tensor.Tensor
}

func vector(v ...float64) tensor.Tensor {
	t := tensor.New(tensor.F64, len(v), 1, 1, 1)
	copy(t.F64(), v)
	return t
}

func scalarOf(v float64) tensor.Tensor {
	t := tensor.New(tensor.F64, 1)
	t.F64()[0] = v
	return t
}

// run does forward and backward of the layer on its own.
func (r *normRank) run(exchange plan.Exchange) error {
	r.w, r.b, r.mean, r.variance = scalarOf(2), scalarOf(0.5), scalarOf(0), scalarOf(1)
	r.batches, r.gw, r.gb = tensor.New(tensor.I64), scalarOf(math.NaN()), scalarOf(math.NaN())
	n := r.x.Shape[0]
	const y, mu, invstd, dx = 0, 64, 128, 192 // of the arena
	sample := func(p plan.Place, offset int) plan.Operand {
		return operand(vector(make([]float64, n)...), p, 0, offset)
	}
	fwd := &plan.Step{Op: op.SyncBatchNorm, Attr: op.BatchNormAttr{Eps: 1e-5, Momentum: 0.1}, Train: true,
		In: []plan.Operand{sample(plan.PlaceInput, 0), operand(r.w, plan.PlaceState, 0, 0), operand(r.b, plan.PlaceState, 1, 0),
			operand(r.mean, plan.PlaceState, 2, 0), operand(r.variance, plan.PlaceState, 3, 0), operand(r.batches, plan.PlaceState, 4, 0)},
		Out: []plan.Operand{sample(plan.PlaceArena, y), operand(r.w, plan.PlaceArena, 0, mu), operand(r.w, plan.PlaceArena, 0, invstd)}}
	bwd := &plan.Step{Op: op.SyncBatchNormGrad, Attr: fwd.Attr, Train: true,
		In:  []plan.Operand{fwd.In[0], sample(plan.PlaceTarget, 0), fwd.Out[1], fwd.Out[2], fwd.In[1]},
		Out: []plan.Operand{sample(plan.PlaceArena, dx), operand(r.gw, plan.PlaceGrad, 0, 0), operand(r.gb, plan.PlaceGrad, 1, 0)}}
	m := &bind.Memory{Arena: &bind.Arena{Data: tensor.Aligned(256)}, State: plan.State{
		Tensors: []tensor.Tensor{r.w, r.b, r.mean, r.variance, r.batches}, Grads: []tensor.Tensor{r.gw, r.gb}}}
	call := &plan.Call{Input: r.x.Data, Target: r.dy.Data, Exchange: exchange}
	for _, s := range []*plan.Step{fwd, bwd} {
		job, err := bind.Step(m, s, tensor.F64)
		if err != nil {
			return err
		}
		job(call)
	}
	at := func(offset, n int) tensor.Tensor {
		return tensor.Of(tensor.F64, tensor.Shape{n}, m.Arena.Data[offset:][:8*n])
	}
	r.y, r.mu, r.invstd, r.dx = at(y, n), at(mu, 1), at(invstd, 1), at(dx, n)
	return call.Err
}

// What torch.nn.SyncBatchNorm computes over two ranks with three rows and one.
func TestSyncBatchNormGolden(t *testing.T) {
	ranks := []*normRank{{x: vector(1, 2, 3), dy: vector(1, 0, -1)}, {x: vector(10), dy: vector(2)}}
	tab := newTable(2)
	var g errgroup.Group
	for i, r := range ranks {
		g.Go(func() error { return r.run(seat{tab, i}) })
	}
	tab.serve(2)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	want := []map[string][]float64{
		{"y": {-1.197056, -0.631370, -0.065685}, "dx": {0.622253, -0.056569, -0.735391}, "gw": {-0.565685}, "gb": {0}},
		{"y": {3.894111}, "dx": {0.169706}, "gw": {3.394111}, "gb": {2}},
	}
	for i, r := range ranks {
		w := want[i]
		w["mean"], w["var"], w["mu"], w["invstd"] = []float64{0.4}, []float64{2.5666667}, []float64{4}, []float64{0.2828425993376019}
		for name, got := range map[string]tensor.Tensor{"y": r.y, "dx": r.dx, "gw": r.gw, "gb": r.gb, "mean": r.mean, "var": r.variance, "mu": r.mu, "invstd": r.invstd} {
			for j, v := range got.F64() {
				if math.Abs(v-w[name][j]) > 6e-7 {
					t.Errorf("rank %d: %s is %v, want %v", i, name, got.F64(), w[name])
				}
			}
		}
		if r.batches.I64()[0] != 1 {
			t.Errorf("rank %d: %d batches", i, r.batches.I64()[0])
		}
	}
}

func operand(t tensor.Tensor, p plan.Place, index, offset int) plan.Operand {
	return plan.Operand{Spec: t.Spec(), Place: p, Index: index, Offset: offset}
}

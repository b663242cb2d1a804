package plan_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// normModel has batch norms behind layers that do and do not need their input gradient.
func normModel() nn.Config {
	return nn.Config{Layers: layers{
		layer("batchnorm2d"),
		{Type: "conv2d", Args: op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "stride": pair(3, 3), "bias": false}}, layer("batchnorm2d"), layer("relu"),
		{Type: "conv2d", Args: op.Args{"out_channels": 5, "kernel_size": pair(3, 3), "stride": pair(2, 2)}}, {Type: "batchnorm2d", Args: op.Args{"affine": false}}, layer("relu"),
		layer("flatten"), linear(10),
	}}
}

// meeting gives every rank what all ranks passed.
type meeting struct {
	bring []chan []float64
	take  []chan []float64
}

func newMeeting(ranks int) *meeting {
	m := &meeting{}
	for range ranks {
		m.bring = append(m.bring, make(chan []float64))
		m.take = append(m.take, make(chan []float64, 1))
	}
	return m
}

// hold serves meetings until the ranks' channels are closed.
func (m *meeting) hold() {
	for {
		var all []float64
		for _, c := range m.bring {
			v, ok := <-c
			if !ok {
				return
			}
			all = append(all, v...)
		}
		for _, c := range m.take {
			c <- all
		}
	}
}

type attendant struct {
	m       *meeting
	rank    int
	lengths []int
}

func (a *attendant) Gather(mine []float64) ([]float64, error) {
	a.lengths = append(a.lengths, len(mine))
	a.m.bring[a.rank] <- mine
	return <-a.m.take[a.rank], nil
}

func (a *attendant) Sum(v []float64) error {
	all, err := a.Gather(v)
	n := len(v)
	for i := range v {
		v[i] = 0
		for at := i; at < len(all); at += n {
			v[i] += all[at]
		}
	}
	return err
}

// With synchronised batch norms, ranks of B rows compute what one rank of all
// rows does: gradients in the mean, and running statistics.
func TestSyncBatchNormEqualsOneRank(t *testing.T) {
	const world, batch = 3, 4
	for _, c := range []struct {
		d   tensor.DType
		tol float64
	}{{tensor.F64, 1e-9}, {tensor.F32, 2e-3}} {
		t.Run(c.d.String(), func(t *testing.T) {
			x, y := goldenBatch(0, world*batch)
			one := newRig(t, build(t, normModel(), digits, class), plan.Options{Batch: world * batch, Train: true, DType: c.d, Fuse: true}, 1)
			if res := one.prog.Run(plan.Args{Input: x, Target: y}); res.Err != nil {
				t.Fatal(res.Err)
			}
			ranks := runRanks(t, world, plan.Options{Batch: batch, Train: true, DType: c.d, Fuse: true, SyncBatchNorm: true}, x, y)
			for i, p := range one.g.Params() {
				_, want := one.param(i)
				for j := range p.Shape.Elems() {
					var mean float64
					for _, r := range ranks {
						_, g := r.param(i)
						mean += g.At(j) / world
					}
					if w := want.At(j); math.Abs(mean-w) > c.tol*(1+math.Abs(w)) {
						t.Fatalf("gradient of %s, element %d: %v, want %v", p.Name, j, mean, w)
					}
				}
			}
			for i, e := range one.g.StateDict() {
				for j := range e.Spec.Shape.Elems() {
					for _, r := range ranks {
						if got, want := r.st.Tensors[i].At(j), one.st.Tensors[i].At(j); math.Abs(got-want) > c.tol*(1+math.Abs(want)) {
							t.Fatalf("%s, element %d: %v, want %v", e.Name, j, got, want)
						}
					}
				}
			}
		})
	}
}

// runRanks runs one step on every rank over its rows of the batch.
func runRanks(t *testing.T, world int, opt plan.Options, x, y []byte) []*rig {
	t.Helper()
	m := newMeeting(world)
	ranks := make([]*rig, world)
	var g errgroup.Group
	for r := range ranks {
		ranks[r] = newRig(t, build(t, normModel(), digits, class), opt, 1)
		a := &attendant{m: m, rank: r}
		g.Go(func() error {
			defer close(m.bring[r])
			nx, ny := len(x)/world, len(y)/world
			res := ranks[r].prog.Run(plan.Args{Input: x[r*nx:][:nx], Target: y[r*ny:][:ny], Exchange: a})
			if want := ranks[r].p.Exchanges(); !slices.Equal(a.lengths, want) {
				return fmt.Errorf("rank %d exchanged %v, the plan says %v", r, a.lengths, want)
			}
			return res.Err
		})
	}
	m.hold()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return ranks
}

// The first layer's input has no gradient, so nothing is exchanged for it.
func TestExchanges(t *testing.T) {
	g := build(t, normModel(), digits, class)
	for _, c := range []struct {
		opt  plan.Options
		want []int
	}{
		{plan.Options{Batch: 2, Train: true, SyncBatchNorm: true}, []int{3, 9, 11, 11, 9}},
		{plan.Options{Batch: 2, Train: true}, nil},
		{plan.Options{Batch: 2, SyncBatchNorm: true}, nil},
	} {
		p, err := plan.Compile(g, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Exchanges(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.opt, got, c.want)
		}
	}
}

var errExchange = errors.New("rank 1 is gone")

// gone fails on the n-th exchange and counts on.
type gone struct{ n, calls int }

func (g *gone) Gather(mine []float64) ([]float64, error) { return mine, g.Sum(mine) }

func (g *gone) Sum([]float64) error {
	g.calls++
	if g.calls == g.n {
		return errExchange
	}
	return nil
}

// A failed exchange ends the run at once, and the program can run again.
func TestFailedExchangeEndsTheRun(t *testing.T) {
	x, y := goldenBatch(0, 4)
	r := newRig(t, build(t, normModel(), digits, class), plan.Options{Batch: 4, Train: true, SyncBatchNorm: true}, 1)
	for n := 1; n <= 5; n++ {
		e := &gone{n: n}
		last := -1
		res := r.prog.Run(plan.Args{Input: x, Target: y, Exchange: e, OnGrad: func(p int) { last = p }})
		if !errors.Is(res.Err, errExchange) || e.calls != n {
			t.Errorf("exchange %d: error %v after %d exchanges", n, res.Err, e.calls)
		}
		if n < 4 && last >= 0 {
			t.Errorf("exchange %d failed in forward, and the gradient of parameter %d was complete", n, last)
		}
	}
	if res := r.prog.Run(plan.Args{Input: x, Target: y}); res.Err != nil {
		t.Error(res.Err)
	}
}

// Backward begins once, behind the loss and before every gradient.
func TestOnLoss(t *testing.T) {
	x, y := goldenBatch(0, 4)
	r := newRig(t, build(t, normModel(), digits, class), plan.Options{Batch: 4, Train: true, Fuse: true}, 1)
	calls := 0
	r.prog.Run(plan.Args{Input: x, Target: y, OnLoss: func() { calls++ }, OnGrad: func(p int) {
		if calls != 1 {
			t.Errorf("the gradient of parameter %d comes after %d calls of OnLoss", p, calls)
		}
	}})
	if calls != 1 {
		t.Errorf("OnLoss was called %d times", calls)
	}
}

// A rank without rows does not count, and the order of ranks is the order of the merge.
func TestMergeMoments(t *testing.T) {
	for name, all := range map[string][]float64{
		"two": {2, 2.0 / 3, 3, 10, 0, 1}, "empty between": {2, 2.0 / 3, 3, math.NaN(), math.NaN(), 0, 10, 0, 1}, "empty first": {7, 7, 0, 2, 2.0 / 3, 3, 10, 0, 1},
	} {
		plan.MergeMoments(all, 1, func(_ int, mean, variance, n float64) {
			if n != 4 || mean != 4 || math.Abs(variance-12.5) > 1e-14 {
				t.Errorf("%s: %v elements with mean %v and variance %v, want 4, 4 and 12.5", name, n, mean, variance)
			}
		})
	}
}

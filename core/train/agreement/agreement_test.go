package agreement

import (
	"context"
	"errors"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// peer is a backend of two ranks whose other rank has what this one has, times by,
// and in a gather the next number.
type peer struct {
	by     float64
	broken error
}

func (p *peer) do(c *sdk.Collective) error {
	v := tensor.View[float64](c.Buf)
	for i := range v {
		switch {
		case c.Op == sdk.OpAllGather:
			v[i] = v[0] + float64(i)
		case c.Reduce == sdk.Max:
			v[i] = max(v[i], v[i]*p.by)
		default:
			v[i] += v[i] * p.by
		}
	}
	return p.broken
}

func newTestAgreement(t *testing.T, p *peer) Agreement {
	t.Helper()
	g := ddp.NewGroup(0, 2, &ddptest.Backend{Do: p.do}, ddptest.NewArena(t, ddp.ScratchBytes), ddp.Region{Size: ddp.ScratchBytes})
	return New(g, recovery.New(nil, &recovery.ProcessGroup{Backend: struct{ host.Collectives }{}}, 0))
}

// The totals of a step are sums over ranks, and what one rank needs, all ranks do.
func TestTotalsOfAStep(t *testing.T) {
	a := newTestAgreement(t, &peer{by: 2})
	if err := a.Start(passes.Measures{Loss: 1, Weight: 1, Correct: 2, Counted: 3, Rows: 4}, Requests{Stop: true, Ended: true, News: true}); err != nil {
		t.Fatal(err)
	}
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	if want := (Totals{SumLoss: 3, SumCorrect: 6, SumCounted: 9, SumRows: 12, sumStop: 3, sumEnded: 3, sumNews: 3}); a.Totals != want {
		t.Errorf("totals are %v, want %v", a.Totals, want)
	}
	if !a.Stop() || !a.Ended() || !a.News() || a.SaveAsked() || a.Loss(3) != 1 {
		t.Errorf("stop %v, ended %v, save %v, loss %v", a.Stop(), a.Ended(), a.SaveAsked(), a.Loss(3))
	}
	own := func() (Totals, error) { return Totals{SumLoss: 5, SumRows: 2}, nil }
	if evaluation, err := a.Sum(t.Context(), own); err != nil || evaluation != (Totals{SumLoss: 15, SumRows: 6}) {
		t.Errorf("an evaluation adds up to %v, %v", evaluation, err)
	}
}

func TestNumbersOfAllRanks(t *testing.T) {
	p := &peer{}
	a := newTestAgreement(t, p)
	if all, err := a.Gather(t.Context(), 5); err != nil || all[0] != 5 || all[1] != 6 {
		t.Errorf("got %v, %v", all, err)
	}
	p.broken = errors.New("gone")
	if _, err := a.Gather(context.Background(), 1); !errors.Is(err, p.broken) {
		t.Errorf("got %v", err)
	}
}

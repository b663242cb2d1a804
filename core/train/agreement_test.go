package train

import (
	"context"
	"errors"
	"testing"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// peer is a backend of two ranks whose other rank has what this one has, times by,
// and in a gather the next number.
type peer struct {
	by     float64
	broken error
}

func (p *peer) Submit(c *sdk.Collective) (uint64, error) {
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
	return c.Seq, p.broken
}

func (*peer) Wait(uint64) error { return nil }

func newTestAgreement(t *testing.T, p *peer) agreement {
	t.Helper()
	a, err := shm.New("test", ddp.ScratchBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	g := ddp.NewGroup(0, 2, p, &sdk.Arena{ID: 1, Arena: a}, ddp.Region{Size: ddp.ScratchBytes})
	return newAgreement(g, recovery.New(nil, &recovery.ProcessGroup{Backend: struct{ host.Collectives }{}}, 0))
}

// The totals of a step are sums over ranks, and what any rank asks for is asked of all.
func TestTotalsOfAStep(t *testing.T) {
	a := newTestAgreement(t, &peer{by: 2})
	if err := a.start(measures{loss: 1, correct: 2, counted: 3, rows: 4}, requests{stop: true, ended: true}); err != nil {
		t.Fatal(err)
	}
	if err := a.finish(); err != nil {
		t.Fatal(err)
	}
	if want := (sums{sumLoss: 3, sumCorrect: 6, sumCounted: 9, sumRows: 12, sumStop: 3, sumEnded: 3}); a.totals != want {
		t.Errorf("totals are %v, want %v", a.totals, want)
	}
	if !a.stop() || !a.ended() || a.saveAsked() || a.loss(3) != 1 {
		t.Errorf("stop %v, ended %v, save %v, loss %v", a.stop(), a.ended(), a.saveAsked(), a.loss(3))
	}
	evaluation := sums{sumLoss: 5, sumRows: 2}
	if err := a.sum(t.Context(), &evaluation); err != nil || evaluation != (sums{sumLoss: 15, sumRows: 6}) {
		t.Errorf("an evaluation adds up to %v, %v", evaluation, err)
	}
}

func TestNumbersOfAllRanks(t *testing.T) {
	p := &peer{}
	a := newTestAgreement(t, p)
	if all, err := a.gather(t.Context(), 5); err != nil || all[0] != 5 || all[1] != 6 {
		t.Errorf("got %v, %v", all, err)
	}
	p.broken = errors.New("gone")
	if _, err := a.gather(context.Background(), 1); !errors.Is(err, p.broken) {
		t.Errorf("got %v", err)
	}
}

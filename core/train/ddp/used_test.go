package ddp

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// twice is a backend whose other rank has used what this one has.
type twice struct{ calls int }

func (b *twice) Submit(c *sdk.Collective) (uint64, error) {
	b.calls++
	counts := tensor.View[int32](c.Buf)
	for i := range counts {
		counts[i] *= 2
	}
	return c.Seq, nil
}

func (*twice) Wait(uint64) error { return nil }

// Ranks add up who used what; without the region every parameter counts as used
// and nothing is sent.
func TestUsedParametersAreCountedOverRanks(t *testing.T) {
	comm := &twice{}
	at := Region{Size: UsageBytes(3)}
	g := NewGroup(0, 2, comm, newArena(t, at.Size+ScratchBytes), Region{Offset: at.Size, Size: ScratchBytes})
	u := newUsedParams(g, at, 3)
	for range 2 {
		u.reset()
		u.mark(1)
		if err := u.send(g); err != nil {
			t.Fatal(err)
		}
		if err := u.wait(g); err != nil {
			t.Fatal(err)
		}
		if u.on(0) || !u.on(1) || u.on(2) || u.counts[1] != 2 {
			t.Fatalf("counted %v", u.counts)
		}
	}
	var none usedParams
	none.reset()
	none.mark(5)
	if err := none.send(g); err != nil || !none.on(5) || comm.calls != 2 {
		t.Errorf("without a region: %v, %d calls", err, comm.calls)
	}
}

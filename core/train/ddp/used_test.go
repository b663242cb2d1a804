package ddp

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
)

// Ranks add up who used what; without the region every parameter counts as used
// and nothing is sent.
func TestUsedParametersAreCountedOverRanks(t *testing.T) {
	calls := 0
	comm := &ddptest.Backend{Do: func(c *sdk.Collective) error { // the other rank has used the same
		calls++
		counts := tensor.View[int32](c.Buf)
		for i := range counts {
			counts[i] *= 2
		}
		return nil
	}}
	at := Region{Size: UsageBytes(3)}
	g := NewGroup(0, 2, comm, ddptest.NewArena(t, at.Size+ScratchBytes), Region{Offset: at.Size, Size: ScratchBytes})
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
	if err := none.send(g); err != nil || !none.on(5) || calls != 2 {
		t.Errorf("without a region: %v, %d calls", err, calls)
	}
}

package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// testFaults checks that a group that cannot go on says why, on every rank and
// in bounded time.
func (b *backendSuite) testFaults(t *testing.T) {
	b.need(t, sdk.OpAllReduce)
	t.Run("mismatch", b.testMismatch)
	t.Run("missing rank", b.testStall)
	t.Run("closed rank", b.testDeparture)
	t.Run("close", b.testClose)
}

// shortTimeout is for collectives that are meant to run into it.
const shortTimeout = time.Second

// sizes of the faulty calls: small ones and large ones may take other paths.
var faultCounts = []int{16, 100_000}

func (b *backendSuite) faultCounts() []int {
	if slices.Max(b.Counts) < faultCounts[1] {
		return faultCounts[:1]
	}
	return faultCounts
}

// testMismatch has rank 1 call something else than rank 0. Both must refuse by
// name, and no memory may change.
func (b *backendSuite) testMismatch(t *testing.T) {
	if len(b.worlds(2)) == 0 {
		t.Skip("no world of two ranks")
	}
	changes := map[string]func(*sdk.Collective){
		"count":  func(c *sdk.Collective) { c.Count -= 8 },
		"dtype":  func(c *sdk.Collective) { c.DType, c.Count = tensor.F64, c.Count/2 },
		"reduce": func(c *sdk.Collective) { c.Reduce = sdk.Max },
		"bucket": func(c *sdk.Collective) { c.Bucket = 4 },
		"op":     func(c *sdk.Collective) { c.Op, c.Root = sdk.OpBroadcast, 0 },
	}
	for _, n := range b.faultCounts() {
		for name, change := range changes {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				t.Parallel()
				good := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: n, Bucket: 3}
				bad := good
				change(&bad)
				if !b.can(bad.Op) || !slices.Contains(b.info.DTypes, bad.DType) {
					t.Skipf("Info does not list %v of %v", bad.Op, bad.DType)
				}
				b.mismatch(t, good, bad)
			})
		}
	}
}

func (b *backendSuite) mismatch(t *testing.T, good, bad sdk.Collective) {
	g := b.start(t, 2, true, patience)
	calls := [2]*sdk.Collective{
		g.place(good, 0, 1, values(good.DType, good.Count, 0, 8)),
		g.place(bad, 1, 1, values(bad.DType, bad.Count, 1, 8)),
	}
	before := [2][]byte{bytes.Clone(calls[0].Buf), bytes.Clone(calls[1].Buf)}
	errs := g.errors("mismatch", func(ctx context.Context, rank int) error { return g.call(ctx, rank, calls[rank]) })
	for rank, err := range errs {
		var m *sdk.MismatchError
		if !errors.As(err, &m) {
			t.Errorf("rank %d: %v is no *sdk.MismatchError", rank, err)
			continue
		}
		if m.Rank == m.Peer || m.Rank|m.Peer != 1 {
			t.Errorf("rank %d: the error names ranks %d and %d", rank, m.Rank, m.Peer)
		}
		for _, c := range calls {
			if !strings.Contains(err.Error(), c.String()) {
				t.Errorf("rank %d: %q does not contain %q", rank, err, c)
			}
		}
		if !bytes.Equal(calls[rank].Buf, before[rank]) {
			t.Errorf("rank %d: data moved before the mismatch was found", rank)
		}
	}
}

// eachFault runs f in parallel for the two smallest world sizes and for counts that may
// take different paths.
func (b *backendSuite) eachFault(t *testing.T, f func(t *testing.T, world int, c sdk.Collective)) {
	worlds := b.worlds(2)
	for _, w := range worlds[:min(2, len(worlds))] {
		for _, n := range b.faultCounts() {
			t.Run(fmt.Sprintf("%d ranks, %d elements", w, n), func(t *testing.T) {
				t.Parallel()
				f(t, w, sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: n, Bucket: 5})
			})
		}
	}
}

// testStall keeps the last rank away from a collective.
func (b *backendSuite) testStall(t *testing.T) {
	b.eachFault(t, func(t *testing.T, w int, c sdk.Collective) {
		g := b.start(t, w, true, shortTimeout)
		away := w - 1
		errs := g.errors("stall", func(ctx context.Context, rank int) error {
			if rank == away {
				return nil
			}
			return g.call(ctx, rank, g.place(c, rank, 1, values(c.DType, c.Count, rank, 9)))
		})
		for rank, err := range errs[:away] {
			var s *sdk.StallError
			if !errors.As(err, &s) {
				t.Errorf("rank %d: %v is no *sdk.StallError", rank, err)
			} else if !slices.Equal(s.Missing, []int{away}) || s.Seq != 1 || s.Bucket != 5 {
				t.Errorf("rank %d: %v; want rank %d missing in #1, bucket 5", rank, err, away)
			}
		}
		b.unusable(t, g, 0)
	})
}

// unusable checks that a failed group stays failed.
func (b *backendSuite) unusable(t *testing.T, g *group, rank int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4}
	if err := g.call(ctx, rank, g.place(c, rank, 2, make([]byte, 16))); err == nil {
		t.Errorf("rank %d: a collective after an error succeeded", rank)
	}
}

// testDeparture closes a rank while the others wait for it. They must notice
// without waiting for their deadline.
func (b *backendSuite) testDeparture(t *testing.T) {
	b.eachFault(t, func(t *testing.T, w int, c sdk.Collective) {
		g := b.start(t, w, true, 10*patience)
		leaver := w / 2
		errs := g.errors("departure", func(ctx context.Context, rank int) error {
			if rank == leaver {
				return g.backends[rank].Close()
			}
			return g.call(ctx, rank, g.place(c, rank, 1, values(c.DType, c.Count, rank, 10)))
		})
		for rank, err := range errs {
			b.checkDeparture(t, rank, leaver, err)
		}
	})
}

func (b *backendSuite) checkDeparture(t *testing.T, rank, leaver int, err error) {
	t.Helper()
	var gone *sdk.PeerError
	switch {
	case rank == leaver:
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	case err == nil:
		t.Errorf("rank %d finished a collective that rank %d never called", rank, leaver)
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*sdk.StallError)):
		t.Errorf("rank %d noticed rank %d's end only by its deadline: %v", rank, leaver, err)
	case errors.As(err, &gone) && gone.Peer != leaver:
		t.Errorf("rank %d blames rank %d for rank %d's end: %v", rank, gone.Peer, leaver, err)
	}
}

// testClose closes in every state, twice.
func (b *backendSuite) testClose(t *testing.T) {
	w := b.worlds(1)[0]
	g := b.start(t, w, true, patience)
	for rank := range g.backends {
		for range 2 {
			if err := g.backends[rank].Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4}
		if err := g.call(t.Context(), rank, g.place(c, rank, 1, make([]byte, 16))); err == nil && w > 1 {
			t.Error("a collective after Close succeeded")
		}
	}
	opened := b.New(t)
	if err := opened.Close(); err != nil {
		t.Errorf("Close before Open: %v", err)
	}
}

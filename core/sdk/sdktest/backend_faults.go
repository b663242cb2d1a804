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

// testFaults checks that a group that fails returns the reason on every rank, in
// bounded time.
func (b *backendSuite) testFaults(t *testing.T) {
	b.need(t, sdk.OpAllReduce)
	t.Run("unlisted type", b.testUnlisted)
	t.Run("mismatch", b.testMismatch)
	t.Run("missing rank", b.testStall)
	t.Run("late rank", b.testLate)
	t.Run("closed rank", b.testDeparture)
	t.Run("death", b.testDeath)
	t.Run("abort", b.testAbort)
	t.Run("close", b.testClose)
}

// shortTimeout is for collectives that are meant to time out.
const shortTimeout = time.Second

// sizes of the faulty calls: small ones and large ones may take other paths.
var faultCounts = []int{16, 100_000}

func (b *backendSuite) faultCounts() []int {
	if slices.Max(b.Counts) < faultCounts[1] {
		return faultCounts[:1]
	}
	return faultCounts
}

// testMismatch has the last rank call something else than the others. All must return a
// *sdk.MismatchError, and no memory may change.
func (b *backendSuite) testMismatch(t *testing.T) {
	sum := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Bucket: 3}
	cast := sdk.Collective{Op: sdk.OpBroadcast, DType: tensor.F32, Bucket: -1}
	scatter := sdk.Collective{Op: sdk.OpReduceScatter, DType: tensor.F32, Bucket: 3}
	for _, n := range b.faultCounts() {
		for _, m := range []struct {
			name   string
			good   sdk.Collective
			change func(*sdk.Collective)
		}{
			{"count", sum, func(c *sdk.Collective) { c.Count -= 8 }},
			{"dtype", sum, func(c *sdk.Collective) { c.DType, c.Count = tensor.F64, c.Count/2 }},
			{"reduce", sum, func(c *sdk.Collective) { c.Reduce = sdk.Max }},
			{"bucket", sum, func(c *sdk.Collective) { c.Bucket = 4 }},
			{"op", sum, func(c *sdk.Collective) { c.Op, c.Root = sdk.OpBroadcast, 0 }},
			{"seq", sum, func(c *sdk.Collective) { c.Seq = 2 }},
			{"root", cast, func(c *sdk.Collective) { c.Root = 1 }},
			{"count of a part", scatter, func(c *sdk.Collective) { c.Count-- }},
			{"a barrier", sum, func(c *sdk.Collective) { *c = sdk.Collective{Seq: 1, Op: sdk.OpBarrier, Bucket: 3} }},
		} {
			for _, w := range b.faultWorlds() {
				t.Run(fmt.Sprintf("%s of %d, %d ranks", m.name, n, w), func(t *testing.T) {
					t.Parallel()
					good := m.good
					good.Seq, good.Count = 1, n
					if good.Op == sdk.OpReduceScatter {
						good.Count = n / w
					}
					bad := good
					m.change(&bad)
					b.need(t, good.Op, bad.Op)
					b.needType(t, bad.DType)
					b.mismatch(t, w, good, bad)
				})
			}
		}
	}
}

// testUnlisted asks for a sum of a type that Info does not list. Every rank must
// get an error: if the call completed without doing anything, every rank would train on its own
// gradients.
func (b *backendSuite) testUnlisted(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16, tensor.I16, tensor.Bool} {
		if slices.Contains(b.info.DTypes, d) || len(b.worlds(2)) == 0 {
			continue
		}
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			g := b.start(t, b.worlds(2)[0], true, b.CallTimeout)
			errs := g.errors("sum of a type that Info.DTypes does not list", func(ctx context.Context, rank int) error {
				c := sdk.Collective{Seq: 1, Op: sdk.OpAllReduce, DType: d, Count: 16, Bucket: -1}
				return g.call(ctx, rank, g.place(c, rank, 1, make([]byte, c.Size(2))))
			})
			for rank, err := range errs {
				if err == nil {
					t.Errorf("rank %d: a sum of %v was completed, though Info.DTypes does not list it; end the switches over types with an error", rank, d)
				}
			}
		})
	}
}

// faultWorlds are the two smallest worlds of several ranks; in short runs the larger of them.
func (b *backendSuite) faultWorlds() []int {
	worlds := b.worlds(2)
	worlds = worlds[:min(2, len(worlds))]
	if testing.Short() && len(worlds) > 0 {
		return worlds[len(worlds)-1:]
	}
	return worlds
}

func (b *backendSuite) mismatch(t *testing.T, w int, good, bad sdk.Collective) {
	g := b.start(t, w, true, b.CallTimeout)
	odd := w - 1
	calls, before := make([]*sdk.Collective, w), make([][]byte, w)
	for rank := range calls {
		c := good
		if rank == odd {
			c = bad
		}
		calls[rank] = g.place(c, rank, c.Seq, values(tensor.F32, c.Size(w)/4, rank, 8))
		before[rank] = bytes.Clone(calls[rank].Buf)
	}
	errs := g.errors("mismatch", func(ctx context.Context, rank int) error { return g.call(ctx, rank, calls[rank]) })
	for rank, err := range errs {
		var m *sdk.MismatchError
		if !errors.As(err, &m) {
			t.Errorf("rank %d: %v is not a *sdk.MismatchError", rank, err)
			continue
		}
		if m.Rank == m.Peer || m.Rank != odd && m.Peer != odd {
			t.Errorf("rank %d: the error names ranks %d and %d, but rank %d made the different call", rank, m.Rank, m.Peer, odd)
		}
		for _, c := range []*sdk.Collective{calls[0], calls[odd]} {
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
	for _, w := range b.faultWorlds() {
		for _, n := range b.faultCounts() {
			t.Run(fmt.Sprintf("%d ranks, %d elements", w, n), func(t *testing.T) {
				t.Parallel()
				f(t, w, sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: n, Bucket: 5})
			})
		}
	}
}

// testStall has the last rank not call a collective.
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
				t.Errorf("rank %d: %v is not a *sdk.StallError", rank, err)
			} else if !slices.Equal(s.Missing, []int{away}) || s.Seq != 1 || s.Bucket != 5 {
				t.Errorf("rank %d: %v; want rank %d missing in #1, bucket 5", rank, err, away)
			}
		}
		b.unusable(t, g, 0)
	})
}

// unusable checks that a failed group stays failed, and returns the error without
// waiting for ranks that may never call again.
func (b *backendSuite) unusable(t *testing.T, g *group, rank int) {
	t.Helper()
	c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4}
	ctx, cancel := context.WithTimeout(t.Context(), b.CallTimeout/2)
	defer cancel()
	err := g.backends[rank].Do(ctx, g.place(c, rank, 2, make([]byte, 16)))
	switch {
	case err == nil:
		t.Errorf("rank %d: a collective after an error succeeded", rank)
	case ctx.Err() != nil:
		t.Errorf("rank %d: a collective after an error waited for its deadline; Do returns the first error to all calls after it: %v", rank, err)
	}
}

// testDeparture closes a rank while the others wait for it. They must notice
// without waiting for their deadline.
func (b *backendSuite) testDeparture(t *testing.T) {
	b.eachFault(t, func(t *testing.T, w int, c sdk.Collective) {
		g := b.start(t, w, true, 10*b.CallTimeout)
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
		t.Errorf("rank %d detected the end of rank %d only at its deadline: %v", rank, leaver, err)
	case errors.As(err, &gone) && gone.Peer != leaver:
		t.Errorf("rank %d names rank %d, but rank %d was closed: %v", rank, gone.Peer, leaver, err)
	}
}

// testLate has a rank call late, but in time: the collective must succeed.
func (b *backendSuite) testLate(t *testing.T) {
	b.eachFault(t, func(t *testing.T, w int, c sdk.Collective) {
		g := b.start(t, w, true, b.CallTimeout)
		late := time.After(300 * time.Millisecond) // longer than any backend spins before it sleeps
		g.all("late rank", func(ctx context.Context, rank int) error {
			call := g.place(c, rank, 1, values(c.DType, c.Count, rank, 11))
			if rank == w-1 {
				<-late
			}
			return g.call(ctx, rank, call)
		})
	})
}

// testDeath closes a rank that is inside a collective. The others may complete it or
// fail; the next collective must fail before its deadline.
func (b *backendSuite) testDeath(t *testing.T) {
	b.eachFault(t, func(t *testing.T, w int, c sdk.Collective) {
		g := b.start(t, w, true, 10*b.CallTimeout)
		victim := w / 2
		entered := make(chan struct{}, w)
		errs := g.errors("death", func(ctx context.Context, rank int) error {
			call := g.place(c, rank, 1, values(c.DType, c.Count, rank, 12))
			entered <- struct{}{}
			if rank == victim {
				return b.dieInside(ctx, g, call, entered)
			}
			err := g.call(ctx, rank, call)
			for seq := uint64(2); err == nil; seq++ {
				err = g.call(ctx, rank, g.place(c, rank, seq, values(c.DType, c.Count, rank, 12)))
			}
			return err
		})
		for rank, err := range errs {
			if rank != victim {
				b.checkDeparture(t, rank, victim, err)
			}
		}
	})
}

// dieInside calls a collective and closes the backend when all ranks are about
// to call it.
func (b *backendSuite) dieInside(ctx context.Context, g *group, call *sdk.Collective, entered <-chan struct{}) error {
	victim, closed := g.world/2, make(chan error)
	go func() {
		for range g.world {
			<-entered
		}
		closed <- g.backends[victim].Close()
	}()
	_ = g.call(ctx, victim, call) // as far as it gets
	return <-closed
}

// testAbort cancels the call of one rank while it waits for another. It must
// return immediately, and so must the calls of the other ranks.
func (b *backendSuite) testAbort(t *testing.T) {
	if b.remote && !b.process {
		t.Skip("a backend that the host runs in this process gets no context for a single call")
	}
	b.eachFault(t, func(t *testing.T, w int, c sdk.Collective) {
		g := b.start(t, w, true, 10*b.CallTimeout)
		away := w - 1
		errs := g.errors("abort", func(ctx context.Context, rank int) error {
			if rank == away {
				return nil
			}
			call := g.place(c, rank, 1, values(c.DType, c.Count, rank, 13))
			if rank == 0 {
				return b.callAndAbort(ctx, g, call)
			}
			return g.call(ctx, rank, call)
		})
		for rank, err := range errs[:away] {
			if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*sdk.StallError)) {
				t.Errorf("rank %d after the call of rank 0 was canceled: %v", rank, err)
			}
		}
		b.unusable(t, g, 0)
	})
}

// callAndAbort calls a collective on rank 0 and ends the call soon: by its context, or, in
// a plugin process, by closing it, as a rank does. The SDK then ends Do's context; a
// plugin that ignores it has to be killed.
func (b *backendSuite) callAndAbort(ctx context.Context, g *group, call *sdk.Collective) error {
	const soon = 50 * time.Millisecond
	if !b.remote {
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		time.AfterFunc(soon, cancel)
		return g.call(short, 0, call)
	}
	closed := make(chan error, 1)
	time.AfterFunc(soon, func() { closed <- g.backends[0].Close() })
	err := g.call(ctx, 0, call)
	if failed := <-closed; failed != nil {
		g.t.Errorf("rank 0 was closed in the middle of a collective; end Do when its context ends: %v", failed)
	}
	return err
}

// testClose closes in every state, twice.
func (b *backendSuite) testClose(t *testing.T) {
	w := b.worlds(1)[0]
	g := b.start(t, w, true, b.CallTimeout)
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

package agreement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

// wire is a library of two ranks within a process.
type wire struct {
	rank     int
	to, from chan []byte
}

func (w *wire) Run(_ context.Context, f func() error) error { return f() }

func (w *wire) Exchange(mine []byte, g clib.Guard) (all []byte, err error) {
	w.to <- slices.Clone(mine)
	err = clib.Poll(g, func() (bool, error) {
		select {
		case its := <-w.from:
			if all = slices.Concat(mine, its); w.rank == 1 {
				all = slices.Concat(its, mine)
			}
			return true, nil
		default:
			return false, nil
		}
	})
	return all, err
}

// exchanging are two joined members that exchange their calls by wires.
func exchanging(t *testing.T) *pair {
	t.Helper()
	p := openPair(t, hostnet.Ports{})
	p.join(t)
	a, b := make(chan []byte, 1), make(chan []byte, 1)
	p.members[0].Library, p.members[1].Library = &wire{0, a, b}, &wire{1, b, a}
	return p
}

func done(context.Context, Stalled) error { return nil }

func TestExchangedCallsAreCompared(t *testing.T) {
	t.Parallel()
	p := exchanging(t)
	for seq := range uint64(3) {
		err := p.each(func(m *Member) error {
			return m.Run(t.Context(), &sdk.Collective{Seq: seq + 1, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 7, Bucket: -1}, done)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := p.each(func(m *Member) error {
		return m.Run(t.Context(), &sdk.Collective{Seq: 4, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 7 + m.group.Rank, Bucket: -1},
			func(context.Context, Stalled) error { return errors.New("it ran") })
	})
	for _, want := range []string{"#4 all_reduce f32[7] sum", "#4 all_reduce f32[8] sum"} {
		if m := (*sdk.MismatchError)(nil); !errors.As(err, &m) || m.Mine != want && m.Its != want {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// A rank that waits long is announced to the coordinator, which names the one that is
// missing. What was announced in an earlier round does not count.
func TestAnExchangeNamesTheMissingRank(t *testing.T) {
	t.Parallel()
	p := exchanging(t)
	late := time.After(2 * announceAfter)
	call := func(seq uint64) *sdk.Collective { return &sdk.Collective{Seq: seq, Op: sdk.OpBarrier, Bucket: -1} }
	err := p.each(func(m *Member) error {
		if m.group.Rank == 0 {
			<-late // rank 1 has announced its call by then
		}
		return m.Run(t.Context(), call(1), done)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = p.members[0].Run(ctx, call(2), done)
	if stall := (*sdk.StallError)(nil); !errors.As(err, &stall) || fmt.Sprint(stall.Missing) != "[1]" || stall.Seq != 2 {
		t.Errorf("got %v", err)
	}
	if p.members[1].Leave(t.Context()) {
		t.Error("rank 1 may end the library, although rank 0 has failed")
	}
}

// A rank that is late itself, for example because its GPU is, learns so too, and does not
// take itself for one that waits.
func TestALateRankNamesItself(t *testing.T) {
	t.Parallel()
	p := exchanging(t)
	p.members[0].Report(fmt.Errorf("the GPU of rank 0 is late: %w", &sdk.StallError{Seq: 1, Op: sdk.OpBarrier, Bucket: -1, Missing: []int{0}}))
	for rank := range p.members {
		<-p.members[rank].client.done
		err := p.members[rank].client.failure(2, func(missing []int) error { return &sdk.StallError{Seq: 2, Missing: missing} })
		stall := (*sdk.StallError)(nil)
		if !errors.As(err, &stall) || fmt.Sprint(stall.Missing) != "[0]" || strings.Contains(err.Error(), "the GPU of rank 0 is late") != (rank == 0) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Ranks leave together; one that calls a rank that leaves learns so.
func TestRanksLeaveTogether(t *testing.T) {
	t.Parallel()
	p := exchanging(t)
	if err := p.each(func(m *Member) error {
		if !m.Leave(t.Context()) {
			return errors.New("not all ranks have left")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	p = exchanging(t)
	err := p.each(func(m *Member) error {
		if m.group.Rank == 1 {
			m.Leave(t.Context())
			return nil
		}
		return m.Run(t.Context(), &sdk.Collective{Seq: 1, Op: sdk.OpBarrier, Bucket: -1}, done)
	})
	if gone := (*sdk.PeerError)(nil); !errors.As(err, &gone) || gone.Peer != 1 {
		t.Errorf("got %v", err)
	}
}

// A call that was announced because it took long does not keep ranks from leaving once it has ended,
// also if the coordinator learns of its end after another rank has left.
func TestRanksLeaveAfterALongExchange(t *testing.T) {
	t.Parallel()
	p := exchanging(t)
	late := time.After(2 * announceAfter)
	err := p.each(func(m *Member) error {
		if m.group.Rank == 0 {
			<-late // rank 1 has announced its call by then
		}
		if err := m.Run(t.Context(), &sdk.Collective{Seq: 1, Op: sdk.OpBarrier, Bucket: -1}, done); err != nil {
			return err
		}
		if !m.Leave(t.Context()) {
			return errors.New("not all ranks have left")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A "go" for a call that the library has exchanged in the meantime neither lets a rank leave before the
// others nor starts its next call.
func TestLatePermissionIsForItsCall(t *testing.T) {
	t.Parallel()
	p := exchanging(t)
	err := p.each(func(m *Member) error {
		return m.Run(t.Context(), &sdk.Collective{Seq: 1, Op: sdk.OpBarrier, Bucket: -1}, done)
	})
	if err != nil {
		t.Fatal(err)
	}
	late := message{Kind: "go", Call: &call{Seq: 1, Op: sdk.OpBarrier, Bucket: -1, Round: 1}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	arrives := func(m *Member) {
		select {
		case m.client.agreed <- late:
		default: // one has come by itself
		}
	}
	arrives(p.members[1])
	if p.members[1].Leave(ended) {
		t.Error("rank 1 may leave, although rank 0 does not leave")
	}
	p = exchanging(t)
	arrives(p.members[0])
	if err := p.members[0].client.agree(ended, p.members[0].life, &sdk.Collective{Seq: 2, Op: sdk.OpSend, Root: 1, Bucket: -1}, 2, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("rank 0 may send, although rank 1 does not receive: %v", err)
	}
}

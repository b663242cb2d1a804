package agreement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/clib"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// Member is one rank's part in the agreement. In a world of one rank it has nothing to
// agree on. Methods are called as those of a backend are, but Report, Left and Blame may
// be called at any time after Join.
type Member struct {
	// Remote reports whether an error of the library may be the fault of another rank. Nil
	// means never.
	Remote func(error) bool

	// Library, if set after Join, exchanges the calls of collectives of the whole group,
	// faster than the coordinator, which then gets only calls that take long.
	Library Library

	life        *instance.State
	group       sdk.Group
	coordinator *coordinator // of rank 0 in a world of several
	client      *client
	round       uint64 // exchanges that have begun
}

// New returns the part of a rank whose backend has the given life.
func New(life *instance.State, g sdk.Group) *Member { return &Member{life: life, group: g} }

// Listen opens the coordinator and returns its port; 0 if this is not rank 0, or the only
// rank.
func (m *Member) Listen(ctx context.Context, ports hostnet.Ports, log *slog.Logger) (port int, err error) {
	switch {
	case m.coordinator != nil:
		return 0, errors.New("Listen twice")
	case m.group.Rank != 0 || m.group.WorldSize == 1:
		return 0, nil
	}
	m.coordinator, err = openCoordinator(ctx, m.life.Name, m.group, ports, log)
	if err != nil {
		return 0, err
	}
	return m.coordinator.port(), nil
}

// Join connects to the coordinator, whose port rank 0 has published, and returns when
// every rank has.
func (m *Member) Join(ctx context.Context, port int) (err error) {
	if m.group.WorldSize == 1 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life.Context, func() { cancel(instance.ErrClosed) })()
	address := coordinatorAddress(m.group.MasterAddr, port)
	if m.client, err = dial(ctx, m.life.Name, m.group, address); err != nil {
		return fmt.Errorf("backend %s: no connection with rank 0 at %s: %w", m.life.Name, address, err)
	}
	return m.agree(ctx, &sdk.Collective{Op: sdk.OpBarrier}, m.unreached)
}

func (m *Member) unreached(missing []int) error {
	names := make([]string, len(missing))
	for i, r := range missing {
		names[i] = fmt.Sprint(r)
	}
	return fmt.Errorf("backend %s: no connection with rank %s: %w", m.life.Name, strings.Join(names, ", "), context.DeadlineExceeded)
}

// Stalled returns the error of a call that waits for ranks; for none if all have called
// and the collective does not end.
type Stalled func(missing []int) error

// Run runs a collective: the ranks agree on it, then f runs it, by Library if that is set.
// The context that f gets has a deadline if the group has one. After an error the group is unusable, and the other
// ranks get the reason.
func (m *Member) Run(ctx context.Context, c *sdk.Collective, f func(context.Context, Stalled) error) error {
	if _, ok := ctx.Deadline(); !ok && m.group.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.group.Timeout)
		defer cancel()
	}
	start := time.Now()
	stalled := func(missing []int) error {
		return &sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket, Missing: missing, Waited: time.Since(start)}
	}
	err := m.run(ctx, c, stalled, f)
	if err != nil {
		m.life.Failed = err
		m.Report(err)
	}
	return err
}

// run lets the ranks agree and then runs f.
func (m *Member) run(ctx context.Context, c *sdk.Collective, stalled Stalled, f func(context.Context, Stalled) error) error {
	var err error
	if m.Library != nil && m.client != nil && !pairwise(c.Op) {
		err = m.Library.Run(ctx, func() error {
			if err := m.exchange(ctx, c, stalled); err != nil {
				return err
			}
			return f(ctx, stalled)
		})
	} else if err = m.agree(ctx, c, stalled); err != nil {
		return err
	} else if m.Library != nil {
		err = m.Library.Run(ctx, func() error { return f(ctx, stalled) })
	} else {
		err = f(ctx, stalled)
	}
	switch {
	case errors.Is(err, errLate):
		return m.client.findMissing(m.life.Context, c.Seq, stalled)
	case errors.Is(err, clib.ErrStuck) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", stalled(nil), err)
	}
	return m.Blame(err, c.Seq, stalled)
}

func (m *Member) agree(ctx context.Context, c *sdk.Collective, stalled Stalled) error {
	if m.client == nil {
		return nil
	}
	round := uint64(0)
	if m.Library != nil {
		round = m.round + 1
	}
	return m.client.agree(ctx, m.life, c, round, stalled)
}

// Guard returns the guard of waits for an agreed collective.
func (m *Member) Guard(ctx context.Context, seq uint64, stalled Stalled) clib.Guard {
	return func() error {
		switch {
		case m.life.Closed():
			return instance.ErrClosed
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return stalled(nil)
		case ctx.Err() != nil:
			return fmt.Errorf("backend %s: #%d: %w", m.life.Name, seq, context.Cause(ctx))
		}
		return m.Left(seq, stalled)
	}
}

// Left returns why the group failed, but not in the first moments: a rank that has finished
// a collective may leave before the others finish it.
func (m *Member) Left(seq uint64, stalled Stalled) error {
	if m.client == nil {
		return nil
	}
	return m.client.left(seq, stalled)
}

// reportWait is how long a rank that does not know the cause of a failure waits for a
// report of another.
const reportWait = 200 * time.Millisecond

// Blame waits briefly for the coordinator to name the rank that caused an error that the
// library reports as a peer's, or a stall without missing ranks.
func (m *Member) Blame(err error, seq uint64, stalled Stalled) error {
	wait := time.Duration(0)
	switch stall := (*sdk.StallError)(nil); {
	case err == nil:
	case m.Remote != nil && m.Remote(err):
		wait = leaveGrace
	case errors.As(err, &stall) && len(stall.Missing) == 0:
		wait = reportWait
	}
	if m.client == nil || wait == 0 {
		return err
	}
	moment := time.NewTimer(wait)
	defer moment.Stop()
	select {
	case <-m.client.done:
		return fmt.Errorf("%w (%w)", m.client.failure(seq, stalled), err)
	case <-moment.C:
		return err
	}
}

// Report reports the failure of this rank to the others.
func (m *Member) Report(cause error) {
	if m.client != nil {
		m.client.reportFailure(cause)
	}
}

// Leave announces that this rank will make no more calls, and reports whether all ranks
// have announced it: then none of them has failed. It waits until ctx ends, or a rank
// fails, closes or calls a collective.
func (m *Member) Leave(ctx context.Context) bool {
	if m.client == nil {
		return m.group.WorldSize == 1
	}
	return m.client.leave(ctx)
}

// Close ends the connections.
func (m *Member) Close() {
	if m == nil {
		return
	}
	if m.client != nil {
		m.client.close()
	}
	if m.coordinator != nil {
		m.coordinator.close()
	}
}

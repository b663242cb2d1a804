package tcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
)

// op is the state of the running call.
type op struct {
	ctx      context.Context
	c        *sdk.Collective
	call     call
	start    time.Time
	deadline time.Time     // zero: none
	quit     chan struct{} // closed to stop the sender
	agreed   []bool        // by rank: its call was read and matches
	calls    []call        // by rank: what those that agreed call
}

// Do runs one collective to its end.
func (b *Backend) Do(ctx context.Context, c *sdk.Collective) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing.Load():
		return errClosed
	case b.failed != nil:
		return fmt.Errorf("backend tcp: the group failed before: %w", b.failed)
	case b.sender == nil && b.group.WorldSize != 1:
		return errors.New("backend tcp: Do before Connect")
	}
	b.begin(ctx, c)
	err := b.run(c)
	if err != nil && b.group.WorldSize > 1 {
		b.failed = err
		b.abort(err)
	}
	return err
}

func (b *Backend) begin(ctx context.Context, c *sdk.Collective) {
	o := &b.op
	o.ctx, o.c, o.start = ctx, c, time.Now()
	o.call = callOf(c, b.local != nil && b.local.maps(c))
	o.deadline = time.Time{}
	if d, ok := ctx.Deadline(); ok {
		o.deadline = d
	} else if b.group.Timeout > 0 {
		o.deadline = o.start.Add(b.group.Timeout)
	}
	if o.agreed == nil {
		o.agreed, o.calls = make([]bool, b.group.WorldSize), make([]call, b.group.WorldSize)
	}
	clear(o.agreed)
}

// run picks the way: alone, between two ranks, in shared memory, along
// the hosts, over sockets.
func (b *Backend) run(c *sdk.Collective) error {
	if err := b.check(c); err != nil {
		return err
	}
	switch {
	case b.group.WorldSize == 1:
		return nil
	case c.Op == sdk.OpSend || c.Op == sdk.OpRecv:
		return b.transfer(c)
	case b.inMemory():
		return b.runLocal(c)
	case b.chains(c):
		return b.runHosts(c)
	}
	return b.runMesh(c)
}

// inMemory reports whether all ranks share memory.
func (b *Backend) inMemory() bool { return b.local != nil && b.topology.perHost == 0 }

// overdue ends a wait for rank when the time is up.
func (b *Backend) overdue(rank int) error {
	select {
	case <-b.op.quit:
		return errQuit
	default:
	}
	if b.closing.Load() {
		return errClosed
	}
	if err := b.op.ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("backend tcp: %v: %w", b.op.call, err)
	} else if err != nil || !b.op.deadline.IsZero() && !time.Now().Before(b.op.deadline) {
		return b.stall(rank)
	}
	return nil
}

var errQuit = errors.New("the other half of the exchange failed")

func (b *Backend) stall(missing ...int) error {
	return &sdk.StallError{Seq: b.op.c.Seq, Op: b.op.c.Op, Bucket: b.op.c.Bucket,
		Missing: missing, Waited: time.Since(b.op.start)}
}

func (b *Backend) peerError(rank int, cause string) error {
	return &sdk.PeerError{Peer: rank, Seq: b.op.c.Seq, Cause: cause}
}

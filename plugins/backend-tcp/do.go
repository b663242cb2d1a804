package tcp

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
)

// op is the state of the running call.
type op struct {
	ctx      context.Context
	c        *sdk.Collective
	call     call
	start    time.Time
	deadline time.Time // zero: none
	met      bool      // the calls were compared already: none is sent
	attached bool      // the payload is sent with the calls
	eager    bool      // payload may follow the call immediately
	agreed   []bool    // by rank: its call was read and matches
	waiting  int       // ranks whose call is still to come
	calls    []call    // by rank: the calls of those that agreed
	out, in  []int     // by rank: frames to send and receive
}

// Do runs one collective.
func (b *Backend) Do(ctx context.Context, c *sdk.Collective) error {
	if err := b.life.BeginCollective(b.connected); err != nil {
		return err
	}
	defer b.life.End()
	b.begin(ctx, c)
	err := b.run(c)
	if err != nil && b.group.WorldSize > 1 {
		b.abort(err)
		err = b.refineStall(err)
		b.life.Failed = err
	}
	return err
}

func (b *Backend) connected() bool { return b.links != nil || b.group.WorldSize == 1 }

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
	if n := b.group.WorldSize; o.agreed == nil {
		o.agreed, o.calls, o.out, o.in = make([]bool, n), make([]call, n), make([]int, n), make([]int, n)
	}
	clear(o.agreed)
	o.met, o.attached = false, false
	// With a third rank, a frame that a failure cuts short would make it impossible
	// to send the reason.
	o.eager = b.group.WorldSize == 2 || c.Pairwise()
}

// run picks the path: one rank, two ranks, shared memory, from host to host, or
// sockets.
func (b *Backend) run(c *sdk.Collective) error {
	if err := b.life.CheckCollective(b.group, c); err != nil {
		return err
	}
	switch {
	case b.group.WorldSize == 1:
		return nil
	case c.Pairwise():
		return b.runSockets(c)
	case b.inMemory():
		return b.runLocal(c)
	case b.chains(c):
		return b.runHosts(c)
	}
	return b.runSockets(c)
}

// inMemory reports whether all ranks share memory.
func (b *Backend) inMemory() bool { return b.local != nil && b.topology.perHost == 0 }

// involves reports whether a rank takes part in the call.
func (o *op) involves(rank int) bool { return o.everyone() || rank == o.c.Root }

// everyone reports whether all ranks take part in the call.
func (o *op) everyone() bool { return !o.c.Pairwise() }

// accepts reports whether rank me can continue if peer made the call its.
func (o *op) accepts(its call, me, peer int) bool {
	if o.c.Pairwise() {
		return o.call.answers(its, me, peer)
	}
	return o.call.matches(its)
}

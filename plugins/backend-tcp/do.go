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
	met      bool      // the calls were compared in another way: none is sent
	attached bool      // the payload travels with the calls
	eager    bool      // payload may follow the call at once
	agreed   []bool    // by rank: its call was read and matches
	waiting  int       // ranks whose call is still to come
	calls    []call    // by rank: what those that agreed call
	out, in  []int     // by rank: frames that go and come
}

// Do runs one collective to its end.
func (b *Backend) Do(ctx context.Context, c *sdk.Collective) error {
	if err := b.life.BeginCollective(b.connected); err != nil {
		return err
	}
	defer b.life.End()
	b.begin(ctx, c)
	err := b.run(c)
	if err != nil && b.group.WorldSize > 1 {
		b.abort(err)
		err = b.passBlame(err)
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
	// With a third rank a frame cut short by somebody's failure would keep its
	// reason from being heard.
	o.eager = b.group.WorldSize == 2 || c.Pairwise()
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

// accepts reports whether rank me can go on when peer calls its.
func (o *op) accepts(its call, me, peer int) bool {
	if o.c.Pairwise() {
		return o.call.answers(its, me, peer)
	}
	return o.call.matches(its)
}

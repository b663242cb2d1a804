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
	parcel   *parcel   // what is sent then, if it is of all ranks of this host
	eager    bool      // payload may follow the call immediately
	agreed   []bool    // by rank: its call was read and matches
	waiting  int       // ranks whose call is still to come
	calls    []call    // by rank: the calls of those that agreed
	out, in  []int     // by peer: frames to send and receive
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
		err = b.fail(err)
	}
	return err
}

// fail tells the other ranks why this one stops. Ranks of other hosts learn it at once, those of
// this host after it is known for whom the others wait: they have no other source.
func (b *Backend) fail(err error) error {
	asked := b.askLeader(err)
	if !asked {
		b.abort(err, false)
	}
	if err = b.refineStall(err); asked {
		b.abort(err, false)
	}
	b.abort(err, true)
	b.life.Failed = err
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
	o.met, o.attached, o.parcel = false, false, nil
	// With a third rank, a frame that a failure cuts short would make it impossible
	// to send the reason.
	o.eager = b.group.WorldSize == 2 || c.Pairwise()
}

// run picks the path: one rank, two ranks, shared memory, several hosts of several ranks, or
// sockets.
func (b *Backend) run(c *sdk.Collective) error {
	if err := b.life.CheckCollective(b.group, c); err != nil {
		return err
	}
	switch {
	case b.group.WorldSize == 1:
		return nil
	case c.Pairwise():
		return b.runPair(c)
	case b.inMemory():
		return b.runLocal(c)
	case b.topology.hosts() < b.group.WorldSize:
		return b.runHosts(c)
	}
	return b.runSockets(c)
}

// inMemory reports whether all ranks share memory.
func (b *Backend) inMemory() bool { return b.topology.hosts() == 1 }

// leads reports whether this rank exchanges data with other hosts for all ranks of its own.
func (b *Backend) leads() bool { return b.topology.leads(b.group.Rank) }

// useLinks gives links the numbers by which the next algorithm knows them.
func (b *Backend) useLinks(at func(l *link) int) {
	for _, l := range b.links {
		l.at = at(l)
	}
}

// useLeaders is for algorithms between the leaders of hosts: a peer is a host.
func (b *Backend) useLeaders() {
	t := &b.topology
	b.useLinks(func(l *link) int {
		if l.way != bothWays || t.near(l.rank) || !t.leads(l.rank) {
			return -1
		}
		return t.host[l.rank]
	})
}

// everyone reports whether all ranks take part in the call.
func (o *op) everyone() bool { return !o.c.Pairwise() }

// accepts reports whether rank me can continue if peer made the call its.
func (o *op) accepts(its call, me, peer int) bool {
	if o.c.Pairwise() {
		return o.call.answers(its, me, peer)
	}
	return o.call.matches(its)
}

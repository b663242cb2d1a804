package mpi

import (
	"context"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/agreement"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

// Do runs one collective: the ranks agree on it, then MPI moves the data in place.
func (b *Backend) Do(ctx context.Context, c *sdk.Collective) error {
	if err := b.life.BeginCollective(func() bool { return b.comm != 0 }); err != nil {
		return err
	}
	defer b.life.End()
	if err := b.check(c); err != nil {
		return err
	}
	return b.member.Run(ctx, c, func(ctx context.Context, stalled agreement.Stalled) error {
		if len(c.Buf) == 0 || b.group.WorldSize == 1 {
			return nil // a barrier needs only the agreement
		}
		return b.move(c, b.member.Guard(ctx, c.Seq, stalled))
	})
}

// Run implements [agreement.Library].
func (b *Backend) Run(ctx context.Context, f func() error) error {
	return b.thread.Run(f, ctx, b.life.Context)
}

// Exchange implements [agreement.Library].
func (b *Backend) Exchange(mine []byte, g clib.Guard) ([]byte, error) {
	all, err := b.frames.bytes(b.group.WorldSize * len(mine))
	if err != nil {
		return nil, err
	}
	copy(all[b.group.Rank*len(mine):], mine)
	p, n, unit := new(pending), int32(len(mine)), b.lib.unit(tensor.U8)
	return all, b.wait(p, b.lib.Iallgather(b.lib.inPlace, n, unit, address(all), n, unit, b.comm, &p.request), g)
}

// check refuses a call that is invalid by itself.
func (b *Backend) check(c *sdk.Collective) error {
	if err := b.life.CheckCollective(b.group, c); err != nil {
		return err
	}
	const most = 1<<31 - 1 // counts and places are C ints
	if n := c.Size(b.group.WorldSize) / max(c.DType.Size(), 1); c.Op != sdk.OpBarrier && n > most {
		return b.life.Refuse(c, "%d elements are more than MPI counts, %d", n, most)
	}
	return nil
}

package nccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

var types = map[tensor.DType]driver.NCCLDataType{
	tensor.F32: driver.NCCLFloat32, tensor.F64: driver.NCCLFloat64, tensor.F16: driver.NCCLFloat16, tensor.BF16: driver.NCCLBFloat16,
	tensor.I8: driver.NCCLInt8, tensor.U8: driver.NCCLUint8, tensor.I32: driver.NCCLInt32, tensor.I64: driver.NCCLInt64,
}

var reductions = [...]driver.NCCLRedOp{
	sdk.Sum: driver.NCCLSum, sdk.Avg: driver.NCCLAvg, sdk.Min: driver.NCCLMin, sdk.Max: driver.NCCLMax, sdk.Prod: driver.NCCLProd,
}

// Do runs one collective to its end: the ranks agree on it, each copies its
// part to its device, NCCL does its work there, and the result is copied back.
func (b *Backend) Do(ctx context.Context, c *sdk.Collective) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing.Load():
		return errClosed
	case b.failed != nil:
		return fmt.Errorf("backend nccl: the group failed before: %w", b.failed)
	case !b.connected:
		return errNotConnected
	}
	if err := b.check(c); err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok && b.group.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.group.Timeout)
		defer cancel()
	}
	if err := b.run(ctx, c); err != nil {
		b.failed = err
		if b.line != nil {
			b.line.abandon(err)
		}
		return err
	}
	return nil
}

// check refuses a call that makes no sense, whatever the others do.
func (b *Backend) check(c *sdk.Collective) error {
	bad := func(what string) error { return fmt.Errorf("backend nccl: %v: %s", c, what) }
	if c.Op == sdk.OpBarrier {
		return nil
	}
	_, known := types[c.DType]
	switch rooted := c.Op == sdk.OpBroadcast || pairwise(c.Op); {
	case !c.Op.Valid():
		return bad("unknown operation")
	case !known || reduces(c.Op) && (!c.Reduce.Valid() || c.Reduce == sdk.Avg && !c.DType.Float()):
		return bad("cannot be done with this element type")
	case c.Count < 0 || len(c.Buf) != c.Size(b.group.WorldSize):
		return bad(fmt.Sprintf("the buffer has %d bytes", len(c.Buf)))
	case rooted && (c.Root < 0 || c.Root >= b.group.WorldSize) || pairwise(c.Op) && c.Root == b.group.Rank:
		return bad(fmt.Sprintf("rank %d cannot be the other side in a world of %d", c.Root, b.group.WorldSize))
	}
	return nil
}

func (b *Backend) run(ctx context.Context, c *sdk.Collective) error {
	start := time.Now()
	stalled := func(missing []int) error {
		return &sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket, Missing: missing, Waited: time.Since(start)}
	}
	if b.line != nil {
		if err := b.line.agree(ctx, b.life, c, stalled); err != nil {
			return err
		}
	}
	if len(c.Buf) == 0 {
		return nil // a barrier is the agreement
	}
	err := b.thread.run(func() error {
		err := b.compute(c, b.guard(ctx, c.Seq, stalled))
		if err != nil {
			b.abort()
		}
		return err
	}, ctx, b.life)
	if errors.Is(err, errStuck) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", stalled(nil), err)
	}
	return b.blame(err, c.Seq, stalled)
}

// abort ends the communicator, on the thread. What goes wrong with that does
// not matter to the caller, who has a better error.
func (b *Backend) abort() {
	if err := b.comm.abort(); err != nil {
		b.log().Warn("aborting the communicator", "cause", err)
	}
}

// farewell is how long a collective may go on that somebody has left: whoever
// finished it may leave before the others have.
const farewell = time.Second

// guard ends a wait on the thread.
func (b *Backend) guard(ctx context.Context, seq uint64, stalled func([]int) error) guard {
	var over <-chan struct{}
	if b.line != nil {
		over = b.line.over
	}
	var left time.Time
	return func() error {
		switch {
		case b.closing.Load():
			return errClosed
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return stalled(nil)
		case ctx.Err() != nil:
			return fmt.Errorf("backend nccl: #%d: %w", seq, context.Cause(ctx))
		}
		select {
		case <-over:
			if left.IsZero() {
				left = time.Now()
			}
			if time.Since(left) > farewell {
				return b.line.failure(seq, stalled)
			}
		default:
		}
		return nil
	}
}

// blame waits a moment for the hub to say which rank is behind an error that
// NCCL reports as a peer's.
func (b *Backend) blame(err error, seq uint64, stalled func([]int) error) error {
	if b.line == nil || !errors.Is(err, driver.NCCLRemoteError) {
		return err
	}
	moment := time.NewTimer(farewell)
	defer moment.Stop()
	select {
	case <-b.line.over:
		return fmt.Errorf("%w (%w)", b.line.failure(seq, stalled), err)
	case <-moment.C:
		return err
	}
}

// compute runs an agreed collective on the device.
func (b *Backend) compute(c *sdk.Collective, g guard) error {
	d := b.device
	if err := d.room(len(c.Buf)); err != nil {
		return err
	}
	give, take := b.parts(c)
	if err := d.in(c.Buf, give); err != nil {
		return err
	}
	if err := b.comm.settle(b.launch(c), g); err != nil {
		return err
	}
	if err := d.cuda.EventRecord(d.event, d.stream); err != nil {
		return err
	}
	if err := b.comm.finish(d, g); err != nil {
		return err
	}
	return d.out(c.Buf, take)
}

// parts are what this rank gives to a collective and what it takes from it.
func (b *Backend) parts(c *sdk.Collective) (give, take span) {
	all, size := span{0, len(c.Buf)}, c.Count*c.DType.Size()
	own := span{b.group.Rank * size, (b.group.Rank + 1) * size}
	switch c.Op {
	case sdk.OpAllGather:
		return own, all
	case sdk.OpReduceScatter:
		return all, own
	case sdk.OpSend:
		return all, span{}
	case sdk.OpRecv:
		return span{}, all
	case sdk.OpBroadcast:
		if c.Root == b.group.Rank {
			return all, span{}
		}
		return span{}, all
	}
	return all, all
}

// launch starts a collective in place in the staging memory.
func (b *Backend) launch(c *sdk.Collective) error {
	n, m, s, at := b.comm.nccl, b.comm.handle, b.device.stream, b.device.stage
	count, t, r, root := uintptr(c.Count), types[c.DType], reductions[c.Reduce], int32(c.Root)
	own := at + driver.DevicePtr(b.group.Rank*c.Count*c.DType.Size())
	switch c.Op {
	case sdk.OpAllReduce:
		return n.AllReduce(at, at, count, t, r, m, s)
	case sdk.OpBroadcast:
		return n.Broadcast(at, at, count, t, root, m, s)
	case sdk.OpAllGather:
		return n.AllGather(own, at, count, t, m, s)
	case sdk.OpReduceScatter:
		return n.ReduceScatter(at, own, count, t, r, m, s)
	case sdk.OpSend:
		return n.Send(at, count, t, root, m, s)
	case sdk.OpRecv:
		return n.Recv(at, count, t, root, m, s)
	}
	panic(fmt.Sprintf("nccl: launch of %v", c))
}

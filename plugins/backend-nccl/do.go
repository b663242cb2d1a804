package nccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/agreement"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

var types = map[tensor.DType]driver.NCCLDataType{
	tensor.F32: driver.NCCLFloat32, tensor.F64: driver.NCCLFloat64, tensor.F16: driver.NCCLFloat16, tensor.BF16: driver.NCCLBFloat16,
	tensor.I8: driver.NCCLInt8, tensor.U8: driver.NCCLUint8, tensor.I32: driver.NCCLInt32, tensor.I64: driver.NCCLInt64,
}

var reductions = [...]driver.NCCLRedOp{
	sdk.Sum: driver.NCCLSum, sdk.Avg: driver.NCCLAvg, sdk.Min: driver.NCCLMin, sdk.Max: driver.NCCLMax, sdk.Prod: driver.NCCLProd,
}

// Do runs one collective: the ranks agree on it, then NCCL runs it on the device, in the
// rank's memory or in staging memory. It returns when the result is in memory, or, for a
// call with Done, when the event is recorded after it.
func (b *Backend) Do(ctx context.Context, c *sdk.Collective) error {
	if err := b.life.BeginCollective(func() bool { return b.connected }); err != nil {
		return err
	}
	defer b.life.End()
	if err := b.check(c); err != nil {
		return err
	}
	return b.run(ctx, c)
}

// check refuses a call that is invalid by itself.
func (b *Backend) check(c *sdk.Collective) error {
	bad := func(what string) error { return fmt.Errorf("backend nccl: %v: %s", c, what) }
	if c.Channel < 0 || c.Channel >= len(b.channels) {
		return bad(fmt.Sprintf("channel %d of %d", c.Channel, len(b.channels)))
	}
	if c.Op == sdk.OpBarrier {
		if c.Ready != 0 || c.Done != 0 {
			return bad("a barrier with events")
		}
		return nil
	}
	if wrong := c.Wrong(b.group.Rank, b.group.WorldSize); wrong != "" {
		return bad(wrong)
	}
	if _, known := types[c.DType]; !known {
		return bad("does not support this element type")
	}
	return b.checkMemory(c, bad)
}

func (b *Backend) checkMemory(c *sdk.Collective, bad func(string) error) error {
	size := c.Size(b.group.WorldSize)
	if !onDevice(c) {
		if len(c.Buf) != size || c.Ready != 0 || c.Done != 0 {
			return bad(fmt.Sprintf("the buffer has %d bytes, and events %d and %d", len(c.Buf), c.Ready, c.Done))
		}
		return nil
	}
	k := b.device.arenas[c.Arena.ID]
	switch {
	case k == nil:
		return bad("its arena is not attached")
	case c.Offset < 0 || c.Offset > k.size || size > k.size-c.Offset:
		return bad(fmt.Sprintf("%d bytes at %d do not lie in an arena of %d", size, c.Offset, k.size))
	case c.Ready < 0 || c.Ready > len(k.ready) || c.Done < 0 || c.Done > len(k.done):
		return bad(fmt.Sprintf("events %d and %d of an arena with %d", c.Ready, c.Done, len(k.done)))
	}
	return nil
}

// onDevice reports whether a call's memory is in an arena on the GPU.
func onDevice(c *sdk.Collective) bool { return c.Arena != nil && c.Arena.Device != nil }

func (b *Backend) run(ctx context.Context, c *sdk.Collective) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.health, func() { cancel(context.Cause(b.health)) })()
	return b.member.Run(ctx, c, func(ctx context.Context, stalled agreement.Stalled) error {
		if c.Size(b.group.WorldSize) == 0 && c.Done == 0 && !b.watcher.any() {
			return nil // a barrier needs only the agreement
		}
		return b.thread.Run(func() error {
			err := b.compute(ctx, c, b.member.Guard(ctx, c.Seq, stalled))
			if err != nil {
				b.abort()
			}
			return err
		}, ctx, b.life.Context)
	})
}

// remote reports whether NCCL blames another rank for an error.
func remote(err error) bool { return errors.Is(err, driver.NCCLRemoteError) }

// abort aborts the communicators, on the thread. An error is only logged, because the
// caller has a better one.
func (b *Backend) abort() {
	if err := b.channels.abort(); err != nil {
		b.log().Warn("aborting the communicator", "cause", err)
	}
}

// compute runs an agreed collective on the device.
func (b *Backend) compute(ctx context.Context, c *sdk.Collective, g clib.Guard) error {
	if _, err := b.look(); err != nil {
		return err
	}
	switch {
	case c.Size(b.group.WorldSize) == 0 && c.Done == 0:
		return b.settled(g)
	case onDevice(c):
		return b.inPlace(ctx, c, g)
	}
	return b.staged(c, g)
}

// staged runs a collective in staging memory.
func (b *Backend) staged(c *sdk.Collective, g clib.Guard) error {
	d, ch := b.device, b.channels[c.Channel]
	if len(c.Buf) > d.size {
		if err := b.settled(g); err != nil { // freeing memory may wait for the device, and cannot be interrupted
			return err
		}
	}
	if err := d.room(len(c.Buf)); err != nil {
		return err
	}
	give, take := b.parts(c)
	if err := d.in(c.Buf, give, ch.stream); err != nil {
		return err
	}
	if err := ch.comm.settle(b.launch(c, d.stage), g); err != nil {
		return err
	}
	if err := b.finish(ch, g); err != nil {
		return err
	}
	return d.out(c.Buf, take)
}

// inPlace runs a collective in the rank's memory on the device, after the kernels that
// write it.
func (b *Backend) inPlace(ctx context.Context, c *sdk.Collective, g clib.Guard) error {
	k, ch := b.device.arenas[c.Arena.ID], b.channels[c.Channel]
	i := issued{stall: sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket}, comm: &ch.comm, start: time.Now()}
	i.deadline, _ = ctx.Deadline()
	if c.Ready > 0 {
		i.ready = k.ready[c.Ready-1]
		if err := b.device.cuda.StreamWaitEvent(ch.stream, i.ready, 0); err != nil {
			return err
		}
	}
	if c.Count > 0 {
		if err := ch.comm.settle(b.launch(c, k.at+driver.DevicePtr(c.Offset)), g); err != nil {
			return err
		}
	}
	if c.Done == 0 {
		return b.unwritten(b.finish(ch, g), &i)
	}
	i.event = k.done[c.Done-1]
	if err := b.device.cuda.EventRecord(i.event, ch.stream); err != nil {
		return err
	}
	b.keep(i)
	return nil
}

// finish waits until the device has done all work of a channel, and everything that was
// issued before. If the communicator breaks in the meantime it returns an error: the
// event would never happen.
func (b *Backend) finish(ch *channel, g clib.Guard) error {
	if err := b.device.cuda.EventRecord(ch.event, ch.stream); err != nil {
		return err
	}
	return clib.Poll(g, func() (bool, error) {
		if more, err := b.look(); more || err != nil {
			return false, err
		}
		err := b.device.cuda.EventQuery(ch.event)
		if !errors.Is(err, driver.NotReady) {
			return err == nil, err
		}
		_, err = ch.comm.state()
		return false, err
	})
}

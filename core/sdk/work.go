package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// work runs the operations of the ring, one after the other, until the session
// ends, which for most plugins is when the process does.
func (s *server) work(ring *shm.Worker) {
	var sub shm.Submission
	var done shm.Completion
	for {
		ok, err := ring.Next(&sub)
		switch {
		case err != nil:
			s.log.Error("the host broke the protocol", "error", err)
			s.end()
			return
		case s.isOver():
			return
		case !ok:
			ring.Wait(shm.Slice)
		default:
			done = shm.Completion{}
			if err := s.operate(&sub, &done); err != nil {
				done.Status = shm.Failed
				s.keepFailure(sub.Ticket, err)
			}
			ring.Post(&done)
		}
	}
}

// beat updates the heartbeat and checks whether the host has aborted. Once the instance is open, it gives back the pages of
// the program that starting took.
func (s *server) beat(ring *shm.Worker) {
	settled := false
	for range time.Tick(heartbeat) {
		if s.isOver() {
			return
		}
		ring.Beat()
		if ring.Aborted() {
			s.abort()
		}
		if !settled && s.opened.Load() != nil {
			settled = true
			pages.GiveBackProgram()
		}
	}
}

func (s *server) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (s *server) keepFailure(ticket uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[ticket] = errorToProto(err)
	delete(s.failures, ticket-2*shm.Slots)
}

func (s *server) operate(sub *shm.Submission, done *shm.Completion) error {
	open, err := s.mustBeOpen()
	if err != nil {
		return err
	}
	switch {
	case sub.Op == pb.OpFill && s.dataset != nil:
		b, err := s.batch(open, sub)
		if err != nil {
			return err
		}
		return s.fill(s.ctx, open, b)
	case sub.Op == pb.OpUpdate && s.precision != nil:
		state, err := s.update(s.ctx, sub.Payload[0] != 0)
		if err != nil {
			return err
		}
		r := pb.ScaleResult{Scale: state.Scale, Skip: state.Skip, Skipped: state.Skipped}
		r.Put(done.Result[:])
		return nil
	case s.layer != nil && (sub.Op == pb.OpForward || sub.Op == pb.OpBackward):
		return s.computeShared(open, sub)
	case s.backend != nil:
		c, err := s.collective(open, sub)
		if err != nil {
			return err
		}
		if sub.Payload[0] == 0 {
			return s.do(s.ctx, open, c)
		}
		return s.timed(open, c, done)
	}
	return protocolError("%s got the operation %d", s.info.Kind.Phrase(), sub.Op)
}

// mustBeOpen rejects work before Open or Policy.
func (s *server) mustBeOpen() (*opened, error) {
	if open := s.opened.Load(); open != nil {
		return open, nil
	}
	return nil, protocolError("the %s is not open", s.info.Kind)
}

// within runs one method of the instance with the deadline of an operation.
func (s *server) within(ctx context.Context, open *opened, f func(context.Context) error) error {
	return s.call(func() error {
		if s.spare == nil {
			s.spare = &opContext{}
		}
		op := s.spare
		op.begin(ctx, open.timeout)
		defer func() {
			if !op.end() {
				s.spare = nil
			}
		}()
		return f(op)
	})
}

// do runs a collective. After a failure the group is unusable.
func (s *server) do(ctx context.Context, open *opened, c *Collective) error {
	return s.within(ctx, open, func(ctx context.Context) error {
		if s.broken == nil {
			s.broken = guard(func() error { return s.backend.Do(ctx, c) })
		}
		return s.broken
	})
}

// timed runs a collective and returns its span.
func (s *server) timed(open *opened, c *Collective, done *shm.Completion) error {
	span := pb.Span{Begin: time.Now().UnixNano()}
	err := s.do(s.ctx, open, c)
	span.End = time.Now().UnixNano()
	span.Put(done.Result[:])
	return err
}

func (s *server) fill(ctx context.Context, open *opened, b *Batch) error {
	return s.within(ctx, open, func(ctx context.Context) error { return s.dataset.Fill(ctx, b) })
}

func (s *server) update(ctx context.Context, foundInf bool) (state ScaleState, err error) {
	err = s.call(func() error {
		state, err = s.precision.Update(ctx, foundInf)
		return err
	})
	return state, err
}

// collective checks a submission and finds its memory. The result is valid
// until the next call.
func (s *server) collective(open *opened, sub *shm.Submission) (*Collective, error) {
	c := &s.running
	*c = Collective{
		Seq: sub.Seq, Op: Op(sub.Op), Reduce: ReduceOp(sub.Reduce), DType: tensor.DType(sub.DType),
		Count: int(sub.Count), Root: int(sub.Root), Bucket: int(sub.Bucket),
	}
	var a pb.CollectiveArgs
	a.Get(sub.Payload[:])
	c.Channel, c.Ready, c.Done = int(a.Channel), int(a.Ready), int(a.Done)
	if err := c.check(open, sub.Count); err != nil {
		return nil, err
	}
	if c.Op == OpBarrier {
		return c, nil
	}
	size := c.Size(open.world)
	if uint64(size) != sub.Size {
		return nil, protocolError("%v has %d bytes, not %d", c, size, sub.Size)
	}
	arena, mem, err := s.memory(sub.Arena, sub.Offset, sub.Size)
	if err != nil {
		return nil, err
	}
	if sub.Offset%uint64(c.DType.Size()) != 0 {
		return nil, protocolError("%v lies at offset %d", c, sub.Offset)
	}
	c.Arena, c.Offset, c.Buf = arena, int(sub.Offset), mem
	return c, arena.ordered(c)
}

// ordered checks the numbers of a call's events.
func (a *Arena) ordered(c *Collective) error {
	events := 0
	if a.Device != nil {
		events = a.Device.Done.Len()
	}
	if c.Ready > events || c.Done > events {
		return protocolError("%v names the events %d and %d of %d", c, c.Ready, c.Done, events)
	}
	return nil
}

// check rejects a call that is not valid in a group of this size.
func (c *Collective) check(open *opened, count uint64) error {
	world := open.world
	switch {
	case !c.Op.Valid():
		return protocolError("collective #%d has the unknown operation %d", c.Seq, c.Op)
	case c.Channel < 0 || c.Channel >= max(open.channels, 1):
		return protocolError("collective #%d on channel %d of %d", c.Seq, c.Channel, max(open.channels, 1))
	case c.Op.Definition().Kind == contract.NoData:
		return nil
	case !c.DType.Valid(), !c.Reduce.Valid(), count > 1<<40/uint64(max(world, 1)):
		return protocolError("collective %v is not valid", c)
	case c.Op.Definition().RootWord != "" && (c.Root < 0 || c.Root >= world):
		return protocolError("collective %v in a group of %d", c, world)
	}
	return nil
}

// memory returns bytes of an attached arena. All arguments come from the peer and
// are checked.
func (s *server) memory(id uint32, offset, size uint64) (*Arena, []byte, error) {
	s.mu.Lock()
	arena := s.arenas[id]
	s.mu.Unlock()
	if arena == nil {
		return nil, nil, protocolError("arena %d is not attached", id)
	}
	if arena.Device != nil {
		return arena, nil, inMemory(arena.Device, offset, size)
	}
	total := uint64(arena.Size())
	if offset > total || size > total-offset {
		return nil, nil, protocolError("%d bytes at offset %d are outside arena %q of %d bytes", size, offset, arena.Name, total)
	}
	return arena, arena.Bytes()[offset : offset+size : offset+size], nil
}

// batch checks a submission and finds its memory. The result is valid until the
// next call.
func (s *server) batch(open *opened, sub *shm.Submission) (*Batch, error) {
	var a pb.FillArgs
	a.Get(sub.Payload[:])
	n := sub.Count
	switch {
	case n > 1<<31, a.Split > uint32(Test), sub.Offset%8 != 0, sub.Size != 8*n:
		return nil, protocolError("a batch of %d samples of split %d, whose indices have %d bytes at %d", n, a.Split, sub.Size, sub.Offset)
	case a.InputSize != n*uint64(open.spec.Input.Bytes()), a.TargetSize != n*uint64(open.spec.Target.Bytes()):
		return nil, protocolError("a batch of %d samples with %d and %d bytes", n, a.InputSize, a.TargetSize)
	}
	_, indices, err := s.memory(sub.Arena, sub.Offset, 8*n)
	if err != nil {
		return nil, err
	}
	_, input, err := s.memory(sub.Arena, a.Input, a.InputSize)
	if err != nil {
		return nil, err
	}
	_, target, err := s.memory(sub.Arena, a.Target, a.TargetSize)
	if err != nil {
		return nil, err
	}
	b := &s.filling
	*b = Batch{
		Split: Split(a.Split), Epoch: int(a.Epoch), Seed: a.Seed, NoAugment: a.NoAugment,
		Indices: tensor.View[int64](indices), Input: input, Target: target,
	}
	return b, b.check(&open.spec)
}

// check rejects indices outside the split, so that data sets need not.
func (b *Batch) check(spec *DatasetSpec) error {
	n := spec.TrainSamples
	if b.Split == Test {
		n = spec.TestSamples
	}
	for _, i := range b.Indices {
		if i < 0 || i >= int64(n) {
			return protocolError("sample %d of %d", i, n)
		}
	}
	return nil
}

func protocolError(format string, args ...any) error {
	return &Error{Code: CodeProtocol, Text: "protocol: " + fmt.Sprintf(format, args...)}
}

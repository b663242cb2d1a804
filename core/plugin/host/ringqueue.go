package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// ringQueue is the shared-memory data plane. One waiter at a time sleeps on the
// ring and collects completions for all; the others sleep on cond.
type ringQueue struct {
	p    *plugin
	ring *shm.Submitter

	mu        sync.Mutex
	cond      sync.Cond
	sub       shm.Submission
	comp      shm.Completion
	listening bool // a goroutine sleeps on the ring, without mu
	closed    bool
	done      uint64 // tickets completed
	progress  time.Time
	timeout   time.Duration
	slots     [shm.Slots]outcome
	broken    breakage
}

// outcome is the result of the operation with a ticket, if known.
type outcome struct {
	ticket uint64
	code   uint8
	seq    uint64
	err    error
	scale  pb.ScaleResult
	span   pb.Span
}

func newRingQueue(p *plugin) *ringQueue {
	l := &ringQueue{p: p, ring: p.ring}
	l.cond.L = &l.mu
	p.onDeath(l.ring.Wake)
	return l
}

func (l *ringQueue) limit(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeout = d
}

func (l *ringQueue) submit(op *operation) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := time.Now()
	for {
		if err := l.usable(op.code, op.call.Seq, start); err != nil {
			return 0, err
		}
		op.encode(&l.sub)
		err := l.ring.Submit(&l.sub)
		if err == nil {
			break
		}
		if !errors.Is(err, shm.ErrFull) {
			return 0, err
		}
		l.listen()
	}
	t := l.sub.Ticket
	l.slots[t%shm.Slots] = outcome{ticket: t, code: op.code, seq: op.call.Seq}
	return t, nil
}

func (op *operation) encode(s *shm.Submission) {
	s.Op = op.code
	switch op.code {
	case pb.OpFill:
		s.Arena, s.Offset, s.Count = op.arena, op.indices, uint64(len(op.batch.Indices))
		s.Size = 8 * s.Count
		a := pb.FillArgs{
			Split: uint32(op.batch.Split), NoAugment: op.batch.NoAugment, Epoch: int64(op.batch.Epoch), Seed: op.batch.Seed,
			Input: op.input, InputSize: uint64(len(op.batch.Input)), Target: op.target, TargetSize: uint64(len(op.batch.Target)),
		}
		a.Put(s.Payload[:])
	case pb.OpForward, pb.OpBackward:
		s.Seq, s.DType, s.Count = op.call.Seq, uint8(op.call.DType), uint64(op.call.Count)
		s.Arena, s.Offset, s.Size, s.Bucket = op.arena, 0, uint64(op.size), -1
	case pb.OpUpdate:
		s.Payload[0] = 0
		if op.foundInf {
			s.Payload[0] = 1
		}
	default:
		c := &op.call
		s.Seq, s.Reduce, s.DType = c.Seq, uint8(c.Reduce), uint8(c.DType)
		s.Count, s.Root, s.Bucket = uint64(c.Count), int32(c.Root), int32(c.Bucket)
		s.Arena, s.Offset, s.Size = 0, uint64(c.Offset), uint64(op.size)
		if c.Arena != nil {
			s.Arena = c.Arena.ID
		}
		a := pb.CollectiveArgs{Timed: op.timed, Channel: uint8(c.Channel), Ready: uint16(c.Ready), Done: uint16(c.Done)}
		a.Put(s.Payload[:])
	}
}

func (l *ringQueue) wait(ticket uint64, scale *sdk.ScaleState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := time.Now()
	for l.done < ticket {
		o := &l.slots[ticket%shm.Slots]
		if err := l.usable(o.code, o.seq, start); err != nil && l.done < ticket {
			return err
		}
		l.listen()
	}
	o := &l.slots[ticket%shm.Slots]
	if o.ticket != ticket { // long ago
		return l.broken.of(ticket)
	}
	if scale != nil && o.err == nil {
		*scale = sdk.ScaleState{Scale: o.scale.Scale, Skip: o.scale.Skip, Skipped: o.scale.Skipped}
	}
	return o.err
}

func (l *ringQueue) span(ticket uint64) (pb.Span, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.slots[ticket%shm.Slots]
	return o.span, o.ticket == ticket && l.done >= ticket && o.span.Begin != 0
}

// usable returns an error when waiting any longer is pointless; mu is held.
func (l *ringQueue) usable(code uint8, seq uint64, start time.Time) error {
	if l.closed {
		return l.p.error(l.p.record.Name(code, seq), ErrClosed)
	}
	if l.timeout > 0 && time.Since(later(start, l.progress)) > l.timeout {
		l.p.proc.abort(fmt.Errorf("%w: %s takes longer than %v", ErrHung, l.p.record.Name(code, seq), l.timeout))
	}
	if err := l.p.proc.failure(); err != nil {
		l.take() // operations completed before are valid
		return l.p.error(l.p.record.Name(code, seq), err)
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// listen waits until something may have changed; mu is held on entry and on
// return.
func (l *ringQueue) listen() {
	if l.take() {
		return
	}
	if l.listening {
		l.cond.Wait()
		return
	}
	l.listening = true
	l.mu.Unlock()
	l.ring.Wait(shm.Slice)
	l.mu.Lock()
	l.listening = false
	if !l.closed {
		l.take()
	}
	l.cond.Broadcast()
}

// take collects the available completions; mu is held.
func (l *ringQueue) take() bool {
	any := false
	for {
		ok, err := l.ring.Complete(&l.comp)
		if err != nil {
			l.p.proc.abort(err)
			return any
		}
		if !ok {
			break
		}
		any = true
		l.record()
	}
	if any {
		l.progress = time.Now()
		l.cond.Broadcast()
	}
	return any
}

func (l *ringQueue) record() {
	t := l.comp.Ticket
	l.done = t
	o := &l.slots[t%shm.Slots]
	if l.comp.Status == shm.OK {
		switch o.code {
		case pb.OpUpdate:
			o.scale.Get(l.comp.Result[:])
		case pb.OpFill:
		default:
			o.span.Get(l.comp.Result[:])
		}
		return
	}
	o.err = l.p.error(l.p.record.Name(o.code, o.seq), l.reason(t))
	l.broken.note(t, o.err)
}

// reason asks the plugin why an operation failed.
func (l *ringQueue) reason(ticket uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), margin)
	defer cancel()
	r, err := l.p.rpc.Failure(ctx, &pb.FailureRequest{Ticket: ticket})
	if err != nil {
		return err
	}
	return errorFromProto(r)
}

func (l *ringQueue) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.listening {
		l.ring.Wake()
		l.cond.Wait()
	}
	l.cond.Broadcast()
}

var _ queue = (*ringQueue)(nil)

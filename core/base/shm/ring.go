package shm

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrFull is returned by Submit while [Slots] operations are in flight.
var ErrFull = errors.New("shm: all submission slots are in use")

// Submitter is the end of a ring that submits work. Submit and Complete may each be
// called from one goroutine at a time.
type Submitter struct {
	mem       []byte
	out       channel
	in        channel
	submitted atomic.Uint64 // our own counts: the shared ones can be overwritten by the peer
	completed atomic.Uint64
	bell      waiter
}

// Worker is the end of a ring that does the work, one goroutine at a time;
// Beat, Aborted and Idle may be called from any other.
type Worker struct {
	mem       []byte
	in        channel
	out       channel
	taken     uint64
	completed atomic.Uint64
	bell      waiter
}

// NewSubmitter formats a control arena and returns the submitting end. The memory must
// be zero and stay valid as long as the ring is used.
func NewSubmitter(mem []byte, bell Bell) (*Submitter, error) {
	if err := checkMemory(mem, ControlSize); err != nil {
		return nil, err
	}
	h := header()
	copy(mem[offMagic:], h[:])
	return &Submitter{mem: mem, out: channelAt(mem, offSubmitted), in: channelAt(mem, offCompleted), bell: newWaiter(bell)}, nil
}

// NewWorker returns the working end of a ring that a Submitter formatted.
func NewWorker(mem []byte, bell Bell) (*Worker, error) {
	if err := checkMemory(mem, ringSize); err != nil {
		return nil, err
	}
	h := header()
	if !bytes.Equal(mem[offMagic:offMagic+len(h)], h[:]) {
		return nil, fmt.Errorf("shm: no ring of this version in the control arena: header %x", mem[:len(h)])
	}
	return &Worker{mem: mem, in: channelAt(mem, offSubmitted), out: channelAt(mem, offCompleted), bell: newWaiter(bell)}, nil
}

// Submit writes the next slot, sets s.Ticket and rings. It returns ErrFull without
// waiting when no slot is free.
func (r *Submitter) Submit(s *Submission) error {
	n := r.submitted.Load()
	if n-r.completed.Load() >= Slots {
		return ErrFull
	}
	s.Ticket = n + 1
	s.encode(slot(r.mem, offSubs, subSize, n))
	flightAt(r.mem, n).enqueue(s)
	r.submitted.Store(n + 1)
	r.out.publish(n + 1)
	return nil
}

// Complete takes the next completion, if there is one. Completions come in
// the order of submission; an error means that the peer broke the protocol.
func (r *Submitter) Complete(c *Completion) (bool, error) {
	n := r.completed.Load()
	tail := r.in.tail.Load()
	if tail == n {
		return false, nil
	}
	if tail < n || tail > r.submitted.Load() {
		return false, fmt.Errorf("shm: the peer claims %d completions of %d submissions, %d taken", tail, r.submitted.Load(), n)
	}
	c.decode(slot(r.mem, offComps, compSize, n))
	if c.Ticket != n+1 {
		return false, fmt.Errorf("shm: completion %d has ticket %d", n+1, c.Ticket)
	}
	r.completed.Store(n + 1)
	return true, nil
}

// Wait returns when there is something to Complete, after Wake, or when the
// timeout has passed. It may return for no reason.
func (r *Submitter) Wait(timeout time.Duration) {
	r.in.wait(&r.bell, r.completed.Load(), timeout)
}

// Wake makes a Wait in this process return.
func (r *Submitter) Wake() { r.in.wake() }

// Abort tells the worker to abort the current operation and all later ones.
func (r *Submitter) Abort() {
	word32(r.mem, offAbort).Store(1)
	r.out.wake()
}

// Heartbeat is the worker's counter; it changes as long as the worker lives.
func (r *Submitter) Heartbeat() uint64 { return word64(r.mem, offHeartbeat).Load() }

// Next takes the next submission, if there is one. An error means that the
// peer broke the protocol.
func (r *Worker) Next(s *Submission) (bool, error) {
	tail := r.in.tail.Load()
	if tail == r.taken {
		return false, nil
	}
	if tail < r.taken || tail-r.completed.Load() > Slots {
		return false, fmt.Errorf("shm: the peer claims %d submissions, %d taken, %d completed", tail, r.taken, r.completed.Load())
	}
	s.decode(slot(r.mem, offSubs, subSize, r.taken))
	if s.Ticket != r.taken+1 {
		return false, fmt.Errorf("shm: submission %d has ticket %d", r.taken+1, s.Ticket)
	}
	flightAt(r.mem, r.taken).start()
	r.taken++
	return true, nil
}

// Post completes the oldest operation taken and not yet completed; it sets
// c.Ticket.
func (r *Worker) Post(c *Completion) {
	n := r.completed.Load()
	if n >= r.taken {
		panic("shm: a completion without a submission")
	}
	c.Ticket = n + 1
	c.encode(slot(r.mem, offComps, compSize, n))
	flightAt(r.mem, n).end(c.Status)
	r.completed.Store(n + 1)
	r.out.publish(n + 1)
}

// Idle reports whether everything submitted so far is completed.
func (r *Worker) Idle() bool { return r.in.tail.Load() == r.completed.Load() }

// Wait returns when there is something to take, after Abort, or when
// the timeout has passed. It may return for no reason.
func (r *Worker) Wait(timeout time.Duration) { r.in.wait(&r.bell, r.taken, timeout) }

// Beat increments the heartbeat.
func (r *Worker) Beat() { word64(r.mem, offHeartbeat).Add(1) }

// Aborted reports whether the submitter gave up.
func (r *Worker) Aborted() bool { return word32(r.mem, offAbort).Load() != 0 }

// slot is the memory of the n-th message; n counts from 0 and wraps around.
func slot(mem []byte, base, size int, n uint64) []byte {
	off := base + int(n%Slots)*size
	return mem[off : off+size : off+size]
}

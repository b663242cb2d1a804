package shm

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// The flight record lies behind the ring in the control arena: what became of
// the last operations. It stays readable when the worker is dead. A worker
// that knows nothing of it leaves the times of start and end at zero.
const (
	// Flights is how many operations are remembered.
	Flights = 1024

	flightWords = 8
	flightSize  = 8 * flightWords
)

// The words of an entry.
const (
	flightTicket = iota
	flightSeq
	flightBytes
	flightKind // op, dtype, reduction: a byte each; bucket: the upper half
	flightEnqueued
	flightStarted
	flightEnded
	flightStatus
)

// Flight is one remembered operation.
type Flight struct {
	Ticket, Seq       uint64
	Bytes             uint64
	Bucket            int32
	Op, DType, Reduce uint8
	Status            Status    // valid once it has ended
	Enqueued          time.Time // by the host's clock, as the others
	Started           time.Time // zero: not yet
	Ended             time.Time // zero: not yet
}

type flight []atomic.Uint64

// flightAt is the entry of the n-th operation, nil without a record.
func flightAt(mem []byte, n uint64) flight {
	off := ringSize + int(n%Flights)*flightSize
	if off+flightSize > len(mem) {
		return nil
	}
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[off])), flightWords)
}

func (f flight) enqueue(s *Submission) {
	f[flightStarted].Store(0)
	f[flightEnded].Store(0)
	f[flightSeq].Store(s.Seq)
	f[flightBytes].Store(s.Size)
	f[flightKind].Store(uint64(s.Op) | uint64(s.DType)<<8 | uint64(s.Reduce)<<16 | uint64(uint32(s.Bucket))<<32)
	stamp(&f[flightEnqueued])
	f[flightTicket].Store(s.Ticket)
}

func (f flight) start() {
	if f != nil {
		stamp(&f[flightStarted])
	}
}

func (f flight) end(s Status) {
	if f != nil {
		f[flightStatus].Store(uint64(s))
		stamp(&f[flightEnded])
	}
}

func (f flight) read() Flight {
	kind := f[flightKind].Load()
	return Flight{
		Ticket: f[flightTicket].Load(), Seq: f[flightSeq].Load(), Bytes: f[flightBytes].Load(),
		Op: uint8(kind), DType: uint8(kind >> 8), Reduce: uint8(kind >> 16), Bucket: int32(kind >> 32),
		Status:   Status(f[flightStatus].Load()),
		Enqueued: moment(&f[flightEnqueued]), Started: moment(&f[flightStarted]), Ended: moment(&f[flightEnded]),
	}
}

func stamp(w *atomic.Uint64) { w.Store(uint64(time.Now().UnixNano())) }

func moment(w *atomic.Uint64) time.Time {
	ns := w.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

// Flights are the last operations, at most n, the oldest first. Any goroutine
// may ask; an entry that changes meanwhile may mix two operations.
func (r *Submitter) Flights(n int) []Flight {
	total := r.submitted.Load()
	n = int(min(uint64(max(n, 0)), total, Flights))
	out := make([]Flight, 0, n)
	for i := total - uint64(n); i < total; i++ {
		out = append(out, flightAt(r.mem, i).read())
	}
	return out
}

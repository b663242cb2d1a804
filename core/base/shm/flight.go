package shm

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// The flight record follows the ring in the control arena. It has the state of the
// last operations and stays readable when the worker is dead. A worker that does not
// support it leaves the start and end times at zero.
const (
	// Flights is how many operations are recorded.
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

// Flight is one recorded operation.
type Flight struct {
	Ticket, Seq       uint64
	Bytes             uint64
	Bucket            int32
	Op, DType, Reduce uint8
	Generation        uint8     // of the worker, in a file; the host of a ring has one
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
		Op: uint8(kind), DType: uint8(kind >> 8), Reduce: uint8(kind >> 16), Generation: uint8(kind >> 24), Bucket: int32(kind >> 32),
		Status:   Status(f[flightStatus].Load()),
		Enqueued: moment(&f[flightEnqueued]), Started: moment(&f[flightStarted]), Ended: moment(&f[flightEnded]),
	}
}

// write is the inverse of read.
func (f flight) write(r *Flight) {
	f[flightTicket].Store(r.Ticket)
	f[flightSeq].Store(r.Seq)
	f[flightBytes].Store(r.Bytes)
	f[flightKind].Store(uint64(r.Op) | uint64(r.DType)<<8 | uint64(r.Reduce)<<16 | uint64(r.Generation)<<24 | uint64(uint32(r.Bucket))<<32)
	f[flightStatus].Store(uint64(r.Status))
	f[flightEnqueued].Store(nanoseconds(r.Enqueued))
	f[flightStarted].Store(nanoseconds(r.Started))
	f[flightEnded].Store(nanoseconds(r.Ended))
}

func nanoseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func stamp(w *atomic.Uint64) { w.Store(uint64(time.Now().UnixNano())) }

func moment(w *atomic.Uint64) time.Time {
	ns := w.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

// Flight is the operation with a ticket, if it is among the last 1,024.
func (r *Submitter) Flight(ticket uint64) (f Flight, ok bool) {
	total := r.submitted.Load()
	if ticket == 0 || ticket > total || total-ticket >= Flights {
		return f, false
	}
	f = flightAt(r.mem, ticket-1).read()
	return f, f.Ticket == ticket
}

// Flights returns the last operations, at most n, the oldest first. It is safe for
// concurrent use; an entry that changes during the read may mix two operations.
func (r *Submitter) Flights(n int) []Flight {
	total := r.submitted.Load()
	n = int(min(uint64(max(n, 0)), total, Flights))
	out := make([]Flight, 0, n)
	for i := total - uint64(n); i < total; i++ {
		out = append(out, flightAt(r.mem, i).read())
	}
	return out
}

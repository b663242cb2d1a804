package shm

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// The control arena, byte by byte; docs/protocol.md has the same as a table.
// Every word that one side waits on or writes often has a cache line of its
// own, because a line written by two processes costs more than the message.
const (
	// ControlSize is the size of the arena that holds a ring and its flight record.
	ControlSize = ringSize + Flights*flightSize
	ringSize    = 0x4000
	// Slots is how many operations can be in flight.
	Slots = 64

	magic = "TCRING01"

	offMagic     = 0x000
	offAbort     = 0x040 // u32, submitter writes: not 0 = give up
	offHeartbeat = 0x080 // u64, worker counts up every 100 ms
	offSubmitted = 0x0c0 // channel: submitter writes, worker reads
	offCompleted = 0x180 // channel: worker writes, submitter reads
	offSubs      = 0x400
	offComps     = 0x2400

	subSize  = 128
	compSize = 64

	// Within a channel.
	chanTail  = 0x00 // u64: slots written since the start
	chanBell  = 0x40 // u32: futex word, changes with every ring
	chanSleep = 0x80 // u32, reader writes: not 0 = ring needs a wake-up
)

// header is the constant part: magic, slots, slot sizes, slot offsets.
func header() [32]byte {
	var h [32]byte
	copy(h[:], magic)
	le := binary.LittleEndian
	le.PutUint32(h[8:], Slots)
	le.PutUint32(h[12:], subSize)
	le.PutUint32(h[16:], compSize)
	le.PutUint32(h[20:], offSubs)
	le.PutUint32(h[24:], offComps)
	return h
}

func checkMemory(mem []byte, least int) error {
	if len(mem) < least {
		return fmt.Errorf("shm: a ring needs %d bytes, got %d", least, len(mem))
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%64 != 0 {
		return fmt.Errorf("shm: a ring needs memory aligned to 64 bytes")
	}
	return nil
}

func word32(mem []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&mem[off : off+4][0]))
}

func word64(mem []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[off : off+8][0]))
}

// Submission is one operation: a slot in the order submitter to worker.
// Its two ends define which fields an operation uses.
type Submission struct {
	Ticket  uint64 // 1, 2, 3, … set by Submit
	Seq     uint64
	Offset  uint64 // within the arena
	Count   uint64
	Size    uint64 // bytes from Offset
	Arena   uint32
	Root    int32
	Bucket  int32
	Op      uint8
	DType   uint8
	Reduce  uint8
	Payload [PayloadSize]byte
}

// PayloadSize is the room for inline arguments in a Submission, ResultSize
// that for results in a Completion.
const (
	PayloadSize = subSize - 56
	ResultSize  = compSize - 16
)

func (s *Submission) encode(b []byte) {
	_ = b[subSize-1]
	le := binary.LittleEndian
	le.PutUint64(b[0:], s.Ticket)
	le.PutUint64(b[8:], s.Seq)
	le.PutUint64(b[16:], s.Offset)
	le.PutUint64(b[24:], s.Count)
	le.PutUint64(b[32:], s.Size)
	le.PutUint32(b[40:], s.Arena)
	le.PutUint32(b[44:], uint32(s.Root))
	le.PutUint32(b[48:], uint32(s.Bucket))
	b[52], b[53], b[54], b[55] = s.Op, s.DType, s.Reduce, 0
	copy(b[56:], s.Payload[:])
}

func (s *Submission) decode(b []byte) {
	_ = b[subSize-1]
	le := binary.LittleEndian
	s.Ticket = le.Uint64(b[0:])
	s.Seq = le.Uint64(b[8:])
	s.Offset = le.Uint64(b[16:])
	s.Count = le.Uint64(b[24:])
	s.Size = le.Uint64(b[32:])
	s.Arena = le.Uint32(b[40:])
	s.Root = int32(le.Uint32(b[44:]))
	s.Bucket = int32(le.Uint32(b[48:]))
	s.Op, s.DType, s.Reduce = b[52], b[53], b[54]
	copy(s.Payload[:], b[56:])
}

// Status is the outcome of an operation.
type Status uint32

// The outcomes. The reason for a failure is requested over the control connection.
const (
	OK Status = iota
	Failed
)

// Completion ends the operation with the same ticket.
type Completion struct {
	Ticket uint64
	Status Status
	Result [ResultSize]byte
}

func (c *Completion) encode(b []byte) {
	_ = b[compSize-1]
	binary.LittleEndian.PutUint64(b[0:], c.Ticket)
	binary.LittleEndian.PutUint32(b[8:], uint32(c.Status))
	binary.LittleEndian.PutUint32(b[12:], 0)
	copy(b[16:], c.Result[:])
}

func (c *Completion) decode(b []byte) {
	_ = b[compSize-1]
	c.Ticket = binary.LittleEndian.Uint64(b[0:])
	c.Status = Status(binary.LittleEndian.Uint32(b[8:]))
	copy(c.Result[:], b[16:])
}

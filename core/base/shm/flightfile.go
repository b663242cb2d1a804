package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A flight file is a flight record that outlives every process of a job, even
// if all are killed at once: the pages of a mapped file are the kernel's to
// write. Little-endian words: magic, entry size and count (u32), total number of
// operations, length of what follows at flightAbout; entries from flightHead on.
const (
	flightMagic = "TCFLGT01"
	flightAbout = 64
	flightHead  = 4096
	flightFile  = flightHead + Flights*flightSize

	offFlightTotal = 16
	offFlightAbout = 24
)

// FlightFile is one process's flight record in a file. It belongs to one
// goroutine at a time. Should the file become unusable, because somebody cut
// it short or its disk failed, the record ends and the process goes on.
type FlightFile struct {
	mem   []byte
	total uint64
	lost  bool
}

// CreateFlightFile makes the file anew. What it is about, at most 4,032 bytes,
// is the reader's business.
func CreateFlightFile(path string, about []byte) (*FlightFile, error) {
	if len(about) > flightHead-flightAbout {
		return nil, fmt.Errorf("flight record: %d bytes of description", len(about))
	}
	// Another inode, so that nobody who still maps an old one is hurt.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	image := make([]byte, flightFile)
	copy(image, flightMagic)
	binary.LittleEndian.PutUint32(image[8:], flightSize)
	binary.LittleEndian.PutUint32(image[12:], Flights)
	binary.LittleEndian.PutUint64(image[offFlightAbout:], uint64(len(about)))
	copy(image[flightAbout:], about)
	// Written rather than truncated to size: a full disk is an error now, and
	// not a fault later.
	if _, err := f.Write(image); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, flightFile, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &FlightFile{mem: mem}, nil
}

// Add notes another operation and returns its number in the file.
func (f *FlightFile) Add(r *Flight) uint64 {
	n := f.total
	f.total++
	f.write(n, r, true)
	return n
}

// Update notes what has become of the n-th operation. One that the record no
// longer holds is left alone.
func (f *FlightFile) Update(n uint64, r *Flight) {
	if f.total-n <= Flights {
		f.write(n, r, false)
	}
}

func (f *FlightFile) write(n uint64, r *Flight, counts bool) {
	if f.lost {
		return
	}
	defer f.survive(debug.SetPanicOnFault(true))
	entryAt(f.mem, n).write(r)
	if counts {
		word64(f.mem, offFlightTotal).Store(f.total)
	}
}

// survive ends the record instead of the process when the file is gone from
// under its mapping.
func (f *FlightFile) survive(before bool) {
	debug.SetPanicOnFault(before)
	if fault := recover(); fault != nil {
		if _, ok := fault.(interface{ Addr() uintptr }); !ok {
			panic(fault)
		}
		f.lost = true
	}
}

// Close ends the record; the file stays.
func (f *FlightFile) Close() error {
	if f.mem == nil {
		return nil
	}
	mem := f.mem
	f.mem, f.lost = nil, true
	return unix.Munmap(mem)
}

func entryAt(mem []byte, n uint64) flight {
	off := flightHead + int(n%Flights)*flightSize
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[off])), flightWords)
}

// ReadFlightFile reads a record, also one that is being written, and what it is
// about. The operations come oldest first; total counts those that it has
// forgotten as well. Nothing in the file is trusted.
func ReadFlightFile(path string) (about []byte, flights []Flight, total uint64, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, 0, err
	}
	bad := fmt.Errorf("%s is not a flight record of this version", path)
	if len(raw) != flightFile || string(raw[:8]) != flightMagic ||
		binary.LittleEndian.Uint32(raw[8:]) != flightSize || binary.LittleEndian.Uint32(raw[12:]) != Flights {
		return nil, nil, 0, bad
	}
	length := binary.LittleEndian.Uint64(raw[offFlightAbout:])
	if length > flightHead-flightAbout {
		return nil, nil, 0, bad
	}
	mem := aligned(raw)
	total = binary.LittleEndian.Uint64(raw[offFlightTotal:])
	for n := total - min(total, Flights); n < total; n++ {
		flights = append(flights, entryAt(mem, n).read())
	}
	return raw[flightAbout:][:length:length], flights, total, nil
}

// aligned copies bytes to where words may be read.
func aligned(b []byte) []byte {
	words := make([]uint64, (len(b)+7)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b))
	copy(mem, b)
	return mem
}

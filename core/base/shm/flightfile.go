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

// A flight file is a flight record that outlives every process of a job, even if all
// are killed at once, since the kernel writes the pages of a mapped file back.
// Little-endian words: magic, entry size and count (u32), total number of
// operations, length of what follows at flightAbout; entries from flightHead on.
const (
	flightMagic = "TCFLGT01"
	flightAbout = 64
	flightHead  = 4096
	flightFile  = flightHead + Flights*flightSize

	offFlightTotal = 16
	offFlightAbout = 24
)

// FlightFile is one process's flight record in a file. It is not safe for concurrent
// use. If the file becomes unusable, because it was truncated or its disk failed, the
// record ends and the process continues.
type FlightFile struct {
	mem   []byte
	total uint64
	lost  bool
}

// CreateFlightFile creates the file, replacing an old one. about, at most 4,032 bytes,
// is stored for the reader. The file appears whole: a process that is killed meanwhile leaves
// none of that name, but path.part.
func CreateFlightFile(path string, about []byte) (*FlightFile, error) {
	if len(about) > flightHead-flightAbout {
		return nil, fmt.Errorf("flight record: %d bytes of description", len(about))
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	mem, err := mapImage(f, about)
	if err != nil {
		return nil, errors.Join(err, os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil { // a new inode: processes that still map the old one are not affected
		return nil, errors.Join(err, unix.Munmap(mem), os.Remove(part))
	}
	return &FlightFile{mem: mem}, nil
}

// mapImage writes an empty record and maps it.
func mapImage(f *os.File, about []byte) ([]byte, error) {
	image := make([]byte, flightFile)
	copy(image, flightMagic)
	binary.LittleEndian.PutUint32(image[8:], flightSize)
	binary.LittleEndian.PutUint32(image[12:], Flights)
	binary.LittleEndian.PutUint64(image[offFlightAbout:], uint64(len(about)))
	copy(image[flightAbout:], about)
	// Written rather than truncated to size, so that a full disk is an error now and
	// not a SIGBUS later.
	if _, err := f.Write(image); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, flightFile, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return mem, nil
}

// Add records another operation and returns its number in the file.
func (f *FlightFile) Add(r *Flight) uint64 {
	n := f.total
	f.total++
	f.write(n, r, true)
	return n
}

// Update records the new state of the n-th operation, unless the record no longer
// holds it.
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

// survive ends the record instead of the process when the mapped file was truncated.
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

// ReadFlightFile reads a record, also while it is being written, and its about text.
// The operations are sorted oldest first; total includes those already overwritten.
// It does not trust the contents of the file.
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

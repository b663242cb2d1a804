package fakegpu

import (
	"fmt"
	"sync"

	"github.com/trainctl/trainctl/core/cuda/driver"
)

// Machine is a host with GPUs that any number of ranks of this process share.
type Machine struct {
	mu       sync.Mutex
	devices  int
	top      driver.DevicePtr // the next allocation's address
	handle   uintptr          // the last handle of any kind
	memory   map[driver.DevicePtr][]byte
	pinned   map[uintptr]bool
	retained int // primary contexts
	streams  map[driver.Stream]*stream
	events   map[driver.Event]*bool // whether it has happened
	cliques  map[driver.NCCLUniqueID]*clique
	comms    map[driver.Comm]*comm

	absent map[int]bool              // ranks whose collectives never arrive
	alone  map[int]bool              // ranks that never finish joining
	broken map[int]driver.NCCLResult // ranks whose communicator reports an error
}

// New is a machine with that many GPUs.
func New(devices int) *Machine {
	return &Machine{
		devices: devices, top: 0x7f00_0000_0000,
		memory: map[driver.DevicePtr][]byte{}, pinned: map[uintptr]bool{},
		streams: map[driver.Stream]*stream{}, events: map[driver.Event]*bool{},
		cliques: map[driver.NCCLUniqueID]*clique{}, comms: map[driver.Comm]*comm{},
		absent: map[int]bool{}, alone: map[int]bool{}, broken: map[int]driver.NCCLResult{},
	}
}

// Absent makes the collectives that a rank launches from now on never arrive:
// the others wait for ever.
func (m *Machine) Absent(rank int) { m.locked(func() { m.absent[rank] = true }) }

// Alone makes a rank never finish joining a communicator.
func (m *Machine) Alone(rank int) { m.locked(func() { m.alone[rank] = true }) }

// Break makes a rank's communicators report an asynchronous error.
func (m *Machine) Break(rank int, code driver.NCCLResult) {
	m.locked(func() { m.broken[rank] = code })
}

// Left describes what was taken from the machine and not given back, "" when
// all was.
func (m *Machine) Left() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.memory)+len(m.pinned)+m.retained+len(m.streams)+len(m.events)+len(m.comms) == 0 {
		return ""
	}
	return fmt.Sprintf("%d allocations, %d registrations, %d contexts, %d streams, %d events, %d communicators",
		len(m.memory), len(m.pinned), m.retained, len(m.streams), len(m.events), len(m.comms))
}

func (m *Machine) locked(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// fails runs f alone on the machine and makes its code a driver's error.
func (m *Machine) fails(call string, f func() driver.CUResult) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if code := f(); code != 0 {
		return &driver.CallError{Call: call, Status: code}
	}
	return nil
}

func (m *Machine) newHandle() uintptr { m.handle++; return m.handle }

// at is the memory behind n bytes from an address, nil if they are not all in
// one allocation.
func (m *Machine) at(address driver.DevicePtr, n uintptr) []byte {
	for base, b := range m.memory {
		if address >= base && uint64(address-base)+uint64(n) <= uint64(len(b)) {
			return b[address-base:][:n:n]
		}
	}
	return nil
}

// stream is work in order. A piece of work says whether it is done now.
type stream struct {
	queue []func() bool
	busy  *comm // whose launch on this stream is still in progress
}

// advance lets every stream go as far as it can: what one finishes may be what
// another waits for.
func (m *Machine) advance() {
	for moved := true; moved; {
		moved = false
		for _, s := range m.streams {
			for len(s.queue) > 0 && s.queue[0]() {
				s.queue, moved = s.queue[1:], true
			}
		}
	}
}

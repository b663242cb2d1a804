package fakegpu

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// Machine is a host with GPUs that any number of ranks share.
type Machine struct {
	mu       sync.Mutex
	devices  int
	oneGPU   bool             // the devices are slices of one
	top      driver.DevicePtr // the next allocation's address
	handle   uintptr          // the last handle of any kind
	here     *Process         // this process
	memory   map[driver.DevicePtr]*mapping
	physical map[driver.MemHandle]*physical
	shared   map[uint64]*physical // by the inode of their descriptors
	pinned   map[uintptr]int      // host memory, and whose
	contexts map[int]int          // retained, by process
	streams  map[driver.Stream]*stream
	events   map[driver.Event]*event
	cliques  map[driver.NCCLUniqueID]*clique
	comms    map[driver.Comm]*comm

	absent   map[int]bool              // ranks whose collectives never arrive
	alone    map[int]bool              // ranks that never finish joining
	broken   map[int]driver.NCCLResult // ranks whose communicator reports an error
	lacks    map[driver.DeviceAttribute]bool
	mistakes []string
}

// New is a machine with that many GPUs.
func New(devices int) *Machine {
	m := &Machine{
		devices: devices, top: 0x7f00_0000_0000,
		memory: map[driver.DevicePtr]*mapping{}, physical: map[driver.MemHandle]*physical{}, shared: map[uint64]*physical{},
		pinned: map[uintptr]int{}, contexts: map[int]int{},
		streams: map[driver.Stream]*stream{}, events: map[driver.Event]*event{},
		cliques: map[driver.NCCLUniqueID]*clique{}, comms: map[driver.Comm]*comm{},
		absent: map[int]bool{}, alone: map[int]bool{}, broken: map[int]driver.NCCLResult{}, lacks: map[driver.DeviceAttribute]bool{},
	}
	m.here = m.Process()
	return m
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

// Lack takes an ability from the devices. They have all at first.
func (m *Machine) Lack(what driver.DeviceAttribute) { m.locked(func() { m.lacks[what] = true }) }

// OneGPU makes all devices slices of a single GPU: UUIDs differ, the place on
// the bus does not.
func (m *Machine) OneGPU() { m.locked(func() { m.oneGPU = true }) }

// Left describes what was taken from the machine and not given back, and what
// was done that must not be, "" when there is nothing.
func (m *Machine) Left() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	contexts := 0
	for _, n := range m.contexts {
		contexts += n
	}
	for _, k := range []struct {
		n    int
		what string
	}{{len(m.memory), "mappings"}, {len(m.physical), "handles of memory"}, {len(m.pinned), "registrations"}, {contexts, "contexts"},
		{len(m.streams), "streams"}, {len(m.events), "events"}, {len(m.comms), "communicators"}} {
		if k.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	return strings.Join(slices.Concat(out, m.mistakes), ", ")
}

// mistake is remembered: a real driver's behaviour would be undefined.
func (m *Machine) mistake(format string, args ...any) {
	m.mistakes = append(m.mistakes, fmt.Sprintf(format, args...))
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

package fakegpu

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
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

	t            testing.TB // of a computing machine: mistakes end it
	kernels      map[tensor.DType]*emulated
	functions    []function // by handle
	ran          map[string]int
	failing      string // the kernel whose launch fails
	uncapturable string
	graphs       map[uintptr]*graph
	replays      int
	clock        float32 // milliseconds that libraries' functions have taken
	full         bool
	allocated    int // how often memory was
	refuse       int // calls that take something until one is refused; 0: none is
	takes        int // such calls
}

// New is a machine with that many GPUs.
func New(devices int) *Machine {
	m := &Machine{
		devices: devices, top: 1 << 50, // beyond what a process has
		memory: map[driver.DevicePtr]*mapping{}, physical: map[driver.MemHandle]*physical{}, shared: map[uint64]*physical{},
		pinned: map[uintptr]int{}, contexts: map[int]int{},
		streams: map[driver.Stream]*stream{}, events: map[driver.Event]*event{},
		cliques: map[driver.NCCLUniqueID]*clique{}, comms: map[driver.Comm]*comm{},
		absent: map[int]bool{}, alone: map[int]bool{}, broken: map[int]driver.NCCLResult{}, lacks: map[driver.DeviceAttribute]bool{},
		ran: map[string]int{}, graphs: map[uintptr]*graph{},
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
		{len(m.streams), "streams"}, {len(m.events), "events"}, {len(m.comms), "communicators"}, {len(m.graphs), "graphs"}} {
		if k.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	return strings.Join(slices.Concat(out, m.mistakes), ", ")
}

// mistake is remembered, or ends the test: a real driver's behaviour would be undefined.
func (m *Machine) mistake(format string, args ...any) {
	if m.t != nil {
		m.t.Fatalf("fakegpu: "+format, args...)
	}
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
	if m.refused(call) {
		return &driver.CallError{Call: call, Status: driver.NotPermitted}
	}
	if code := f(); code != 0 {
		return &driver.CallError{Call: call, Status: code}
	}
	return nil
}

// taking are the calls that take something which has to be given back, and those that finish what others took.
var taking = []string{
	"cuMemAlloc", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemExportToShareableHandle", "cuEventCreate", "cuIpcOpenEventHandle", "cuIpcOpenMemHandle",
}

// Refuse lets the nth call from now on that takes something fail; 0 none.
func (m *Machine) Refuse(nth int) { m.locked(func() { m.refuse, m.takes = nth, 0 }) }

// Taken is how many calls took something since Refuse.
func (m *Machine) Taken() (n int) {
	m.locked(func() { n = m.takes })
	return n
}

func (m *Machine) refused(call string) bool {
	if !slices.Contains(taking, call) {
		return false
	}
	m.takes++
	return m.takes == m.refuse
}

// settle lets streams run what they can: who frees memory waits for it.
func (m *Machine) settle() {
	for range 2 * slowness {
		m.advance()
	}
}

func (m *Machine) newHandle() uintptr { m.handle++; return m.handle }

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// books is a driver that only keeps books: what was taken and not given back.
type books struct {
	t     *testing.T
	has   map[driver.DeviceAttribute]bool
	taken map[string]int
	calls int
	fail  int // the number of the call that fails, 0 for none
	busy  bool
	waits []driver.Event // that a stream was told to wait for
	last  driver.Event   // recorded
	next  driver.Event
}

func newBooks(t *testing.T, has ...driver.DeviceAttribute) *books {
	b := &books{t: t, has: map[driver.DeviceAttribute]bool{}, taken: map[string]int{}}
	for _, a := range has {
		b.has[a] = true
	}
	return b
}

var errRefused = &driver.CallError{Call: "fake", Status: driver.NotPermitted}

// take counts one more of something, or fails.
func (b *books) take(what string) error {
	if b.calls++; b.calls == b.fail {
		return errRefused
	}
	b.taken[what]++
	return nil
}

func (b *books) give(what string) error { b.taken[what]--; return nil }

func (b *books) check(when string) {
	b.t.Helper()
	for what, n := range b.taken {
		if n != 0 {
			b.t.Errorf("%s: %d %s left", when, n, what)
		}
	}
}

const (
	bookAddress = 0x7000_0000
	bookUnit    = 2 << 20
)

func (b *books) driver() *driver.CUDA {
	return &driver.CUDA{
		DeviceGetUUID:      func(u *driver.UUID, _ driver.Device) error { u.Bytes[15] = 9; return nil },
		DeviceGetAttribute: func(v *int32, a driver.DeviceAttribute, _ driver.Device) error { *v = bit(b.has[a]); return nil },
		MemGetAllocationGranularity: func(n *uintptr, p *driver.AllocationProp, _ int32) error {
			if p.HandleTypes != driver.HandlePosixFD || p.Location != (driver.MemLocation{Type: driver.LocationDevice, ID: 3}) {
				b.t.Errorf("asked for %+v", p)
			}
			*n = bookUnit
			return nil
		},
		MemCreate: func(h *driver.MemHandle, n uintptr, p *driver.AllocationProp, _ uint64) error {
			if n%bookUnit != 0 || (p.GPUDirectRDMA == 1) != b.has[driver.AttrRDMAWithVirtualMemory] {
				b.t.Errorf("create %d bytes of %+v", n, p)
			}
			*h = 5
			return b.take("handles")
		},
		MemRelease: func(driver.MemHandle) error { return b.give("handles") },
		MemAddressReserve: func(p *driver.DevicePtr, _, _ uintptr, _ driver.DevicePtr, _ uint64) error {
			*p = bookAddress
			return b.take("addresses")
		},
		MemAddressFree: func(driver.DevicePtr, uintptr) error { return b.give("addresses") },
		MemMap:         func(driver.DevicePtr, uintptr, uintptr, driver.MemHandle, uint64) error { return b.take("mappings") },
		MemUnmap:       func(driver.DevicePtr, uintptr) error { return b.give("mappings") },
		MemSetAccess:   func(driver.DevicePtr, uintptr, *driver.AccessDesc, uintptr) error { return b.once() },
		MemExportToShareableHandle: func(fd *int32, _ driver.MemHandle, _ int32, _ uint64) error {
			if err := b.once(); err != nil {
				return err
			}
			f, err := unix.Open(os.DevNull, unix.O_RDONLY, 0) // inherited, unless the arena sees to it
			*fd = int32(f)
			return err
		},
		MemAlloc:        func(p *driver.DevicePtr, _ uintptr) error { *p = bookAddress; return b.take("allocations") },
		MemFree:         func(driver.DevicePtr) error { return b.give("allocations") },
		IPCGetMemHandle: func(h *driver.IPCMemHandle, _ driver.DevicePtr) error { h.Bytes[0] = 1; return nil },
		EventCreate: func(e *driver.Event, flags uint32) error {
			if flags != driver.EventDisableTiming|driver.EventInterprocess {
				b.t.Errorf("flags %d of an event", flags)
			}
			b.next++
			*e = b.next
			return b.take("events")
		},
		EventDestroy:      func(driver.Event) error { return b.give("events") },
		IPCGetEventHandle: func(h *driver.IPCEventHandle, e driver.Event) error { h.Bytes[0] = byte(e); return nil },
		IPCOpenEventHandle: func(e *driver.Event, h driver.IPCEventHandle) error {
			*e = 1000 + driver.Event(h.Bytes[0])
			return b.take("events")
		},
		EventRecord:     func(e driver.Event, _ driver.Stream) error { b.last = e; return nil },
		StreamWaitEvent: func(_ driver.Stream, e driver.Event, _ uint32) error { b.waits = append(b.waits, e); return nil },
		StreamQuery: func(driver.Stream) error {
			if b.busy {
				return driver.NotReady
			}
			return nil
		},
	}
}

// once is a call that takes nothing.
func (b *books) once() error {
	err := b.take("")
	if err == nil {
		_ = b.give("")
	}
	return err
}

func bit(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

var everything = []driver.DeviceAttribute{driver.AttrVirtualMemory, driver.AttrPosixFDHandles, driver.AttrRDMAWithVirtualMemory, driver.AttrIPCEvents}

func TestArenaTravelsAsADescriptor(t *testing.T) {
	b := newBooks(t, everything...)
	a, err := AllocArena(b.driver(), 3, bookUnit+1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Export(false)
	if err != nil {
		t.Fatal(err)
	}
	if m.Kind != contract.HandlePosixFD || m.Size != 2*bookUnit || m.UUID != "GPU-00000000-0000-0000-0000-000000000009" || m.Ready.Len() != eventCount {
		t.Errorf("exported %+v", m)
	}
	if flags, err := unix.FcntlInt(m.File.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("children would inherit the descriptor: %#x, %v", flags, err)
	}
	near, err := a.Export(true)
	if err != nil || near.Kind != contract.HandleAddress || near.Address != uint64(a.Address()) || near.File != nil || near.Ready.Len() != eventCount {
		t.Errorf("in this process: %+v, %v", near, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	b.check("after Close")
	if _, err := m.File.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the descriptor is open after Close: %v", err)
	}
}

func TestArenaTravelsAsAnIPCHandle(t *testing.T) {
	b := newBooks(t)
	a, err := AllocArena(b.driver(), 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Export(false)
	if err != nil || m.Kind != contract.HandleIPC || len(m.Handle) != contract.HandleSize || m.Size != 100 || m.Ready.Len() != 0 {
		t.Errorf("exported %+v, %v", m, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	b.check("after Close")
}

// Whatever call fails, nothing stays behind; a refusal of shareable memory
// leads to the other kind.
func TestArenaGivesBackWhatItGotBeforeAFailure(t *testing.T) {
	for fail := 1; ; fail++ {
		b := newBooks(t, everything...)
		b.fail = fail
		a, err := AllocArena(b.driver(), 3, 100)
		if err == nil {
			if want := map[bool]contract.HandleKind{true: contract.HandleIPC, false: contract.HandlePosixFD}[fail <= 5]; a.kind != want {
				t.Errorf("call %d fails: %s", fail, a.kind)
			}
			err = a.Close()
		} else if !errors.Is(err, driver.NotPermitted) || fail <= 5 {
			t.Errorf("call %d fails: %v", fail, err)
		} else {
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
		b.check(fmt.Sprintf("call %d fails", fail))
		if b.calls < fail {
			return
		}
	}
}

func TestEventsAreRecordedBeforeTheyAreNamed(t *testing.T) {
	b := newBooks(t, everything...)
	a, err := AllocArena(b.driver(), 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Export(false)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Written(t.Context(), 1); n != 0 || err != nil || b.last != 0 {
		t.Errorf("before the backend has events: %d, %v", n, err)
	}
	for restart := range 2 {
		m.Done = contract.Events{Handles: slices.Clone(m.Ready.Handles)}
		if err := a.Attached(m); err != nil {
			t.Fatal(err)
		}
		for i := range eventCount + 3 {
			n, err := a.Written(t.Context(), 1)
			if err != nil || n < 1 || n > eventCount || b.last != driver.Event(n) {
				t.Fatalf("call %d after %d restarts: event %d, recorded %d, %v", i, restart, n, b.last, err)
			}
			if err := a.Follow(1, n); err != nil || b.waits[len(b.waits)-1] != 1000+driver.Event(n) {
				t.Fatalf("followed %v, %v", b.waits, err)
			}
		}
	}
	if err := a.Follow(1, 0); err != nil || len(b.waits) != 2*(eventCount+3) {
		t.Errorf("no event was waited for: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	b.check("after Close")
}

// Without events the rank waits on the CPU, and not for ever.
func TestAStreamIsWaitedForWithADeadline(t *testing.T) {
	b := newBooks(t)
	a, err := AllocArena(b.driver(), 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b.busy = true
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if n, err := a.Written(ctx, 1); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	b.busy = false
	if n, err := a.Written(ctx, 1); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

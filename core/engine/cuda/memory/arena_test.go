package memory

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
)

const unit = 2 << 20 // of shareable memory

// rank is the side of a rank: a machine with its driver and a stream. The last
// call checks that all was given back.
func rank(t *testing.T, lacks ...driver.DeviceAttribute) (*fakegpu.Machine, *driver.CUDA, driver.Stream) {
	t.Helper()
	m := fakegpu.New(4)
	for _, a := range lacks {
		m.Lack(a)
	}
	cu := m.CUDA()
	var s driver.Stream
	ok(t, cu.StreamCreate(&s, driver.StreamNonBlocking))
	t.Cleanup(func() {
		ok(t, cu.StreamDestroy(s))
		if left := m.Left(); left != "" {
			t.Errorf("after Close: %s", left)
		}
	})
	return m, cu, s
}

func TestArenaTravelsAsADescriptor(t *testing.T) {
	_, cu, _ := rank(t)
	a := must(AllocArena(cu, 3, unit+1))
	m := must(a.Export(false))
	if m.Kind != contract.HandlePosixFD || m.Size != 2*unit || m.UUID != fakegpu.UUID(3).String() || m.Ready.Len() != eventCount {
		t.Errorf("exported %+v", m)
	}
	if flags, err := unix.FcntlInt(m.File.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("children would inherit the descriptor: %#x, %v", flags, err)
	}
	near, err := a.Export(true)
	if err != nil || near.Kind != contract.HandleAddress || near.Address != uint64(a.Address()) || near.File != nil || near.Ready.Len() != eventCount {
		t.Errorf("in this process: %+v, %v", near, err)
	}
	ok(t, a.Close())
	if _, err := m.File.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the descriptor is open after Close: %v", err)
	}
}

// withoutDescriptors are what a device lacks whose memory travels as IPC handles, without events.
var withoutDescriptors = []driver.DeviceAttribute{driver.AttrVirtualMemory, driver.AttrPosixFDHandles, driver.AttrRDMAWithVirtualMemory, driver.AttrIPCEvents}

func TestArenaTravelsAsAnIPCHandle(t *testing.T) {
	_, cu, _ := rank(t, withoutDescriptors...)
	a := must(AllocArena(cu, 3, 100))
	m, err := a.Export(false)
	if err != nil || m.Kind != contract.HandleIPC || len(m.Handle) != contract.HandleSize || m.Size != 100 || m.Ready.Len() != 0 {
		t.Errorf("exported %+v, %v", m, err)
	}
	ok(t, a.Close())
}

// NCCL registers memory of which it was said so, where the device can.
func TestArenaAsksForWhatTheDeviceHas(t *testing.T) {
	for rdma, lacks := range map[uint8][]driver.DeviceAttribute{1: nil, 0: {driver.AttrRDMAWithVirtualMemory}} {
		_, cu, _ := rank(t, lacks...)
		create := cu.MemCreate
		cu.MemCreate = func(h *driver.MemHandle, n uintptr, p *driver.AllocationProp, flags uint64) error {
			if p.GPUDirectRDMA != rdma || p.HandleTypes != driver.HandlePosixFD || p.Location != (driver.MemLocation{Type: driver.LocationDevice, ID: 3}) {
				t.Errorf("create %d bytes of %+v", n, p)
			}
			return create(h, n, p, flags)
		}
		ok(t, must(AllocArena(cu, 3, 100)).Close())
	}
}

// Whatever call fails, nothing stays behind; a refusal of shareable memory
// leads to the other kind.
func TestArenaGivesBackWhatItGotBeforeAFailure(t *testing.T) {
	const shareable = 5 // calls for memory that a descriptor names
	for fail := 1; ; fail++ {
		m, cu, _ := rank(t)
		m.Refuse(fail)
		a, err := AllocArena(cu, 3, 100)
		if err == nil {
			if want := map[bool]contract.HandleKind{true: contract.HandleIPC, false: contract.HandlePosixFD}[fail <= shareable]; a.kind != want {
				t.Errorf("call %d fails: %s", fail, a.kind)
			}
			ok(t, a.Close())
		} else if !errors.Is(err, driver.NotPermitted) || fail <= shareable {
			t.Errorf("call %d fails: %v", fail, err)
		}
		if m.Taken() < fail {
			return
		}
	}
}

// The machine remembers a wait for an event that was never recorded: the
// backend's, for the one that the rank names.
func TestEventsAreRecordedBeforeTheyAreNamed(t *testing.T) {
	m, cu, s := rank(t)
	a := must(AllocArena(cu, 3, 100))
	shown := must(a.Export(false))
	if n, err := a.Written(t.Context(), s); n != 0 || err != nil {
		t.Errorf("before the backend has events: %d, %v", n, err)
	}
	for restart := range 2 {
		b := newBackend(t, m, shown)
		shown.Done = b.done
		ok(t, a.Attached(shown))
		for i := range eventCount + 3 {
			n, err := a.Written(t.Context(), s)
			if err != nil || n < 1 || n > eventCount {
				t.Fatalf("call %d after %d restarts: event %d, %v", i, restart, n, err)
			}
			ok(t, b.cu.StreamWaitEvent(b.stream, b.ready[n-1], 0))
			ok(t, b.cu.EventRecord(b.own[n-1], b.stream))
			ok(t, a.Follow(s, n))
		}
		ok(t, a.Follow(s, 0))
		b.Die()
	}
	ok(t, a.Close())
}

// A rank's stream goes on when the backend's has come so far, and not before.
func TestFollowWaitsForTheBackend(t *testing.T) {
	m, cu, s := rank(t)
	a := must(AllocArena(cu, 3, 100))
	shown := must(a.Export(false))
	b := newBackend(t, m, shown)
	shown.Done = b.done
	ok(t, a.Attached(shown))
	n := must(a.Written(t.Context(), s))
	ok(t, b.cu.StreamWaitEvent(b.stream, b.ready[n-1], 0))
	release := m.Block(b.stream)
	ok(t, b.cu.EventRecord(b.own[n-1], b.stream))
	ok(t, a.Follow(s, n))
	if err := cu.StreamQuery(s); !errors.Is(err, driver.NotReady) {
		t.Errorf("the stream goes on before the backend's work is done: %v", err)
	}
	release()
	ok(t, cu.StreamQuery(s))
	ok(t, a.Close())
	b.Die()
}

// backend is another process that maps nothing and keeps to the events.
type backend struct {
	*fakegpu.Process
	cu         *driver.CUDA
	stream     driver.Stream
	ready, own []driver.Event
	done       contract.Events
}

func newBackend(t *testing.T, m *fakegpu.Machine, shown *contract.DeviceMemory) *backend {
	t.Helper()
	b := &backend{Process: m.Process()}
	b.cu = b.CUDA()
	ok(t, b.cu.StreamCreate(&b.stream, driver.StreamNonBlocking))
	for _, raw := range shown.Ready.Handles {
		var e, own driver.Event
		var h driver.IPCEventHandle
		copy(h.Bytes[:], raw)
		ok(t, b.cu.IPCOpenEventHandle(&e, h))
		ok(t, b.cu.EventCreate(&own, driver.EventDisableTiming|driver.EventInterprocess))
		ok(t, b.cu.IPCGetEventHandle(&h, own))
		b.ready, b.own, b.done.Handles = append(b.ready, e), append(b.own, own), append(b.done.Handles, h.Bytes[:])
	}
	return b
}

// Without events the rank waits on the CPU, with a time limit.
func TestAStreamIsWaitedForWithADeadline(t *testing.T) {
	m, cu, s := rank(t, withoutDescriptors...)
	a := must(AllocArena(cu, 3, 100))
	release := m.Block(s)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if n, err := a.Written(ctx, s); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	release()
	if n, err := a.Written(ctx, s); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	ok(t, a.Close())
}

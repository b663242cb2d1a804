package contract

import (
	"fmt"
	"os"
)

// HandleKind is the way a backend accesses device memory that the rank owns.
type HandleKind string

// The kinds of handles, best first.
const (
	// HandleAddress is an address, for a backend that runs in the rank's process.
	HandleAddress HandleKind = "address"
	// HandlePosixFD is a file descriptor from cuMemExportToShareableHandle. An open
	// descriptor keeps the memory allocated, in any process.
	HandlePosixFD HandleKind = "posix_fd"
	// HandleIPC is a CUipcMemHandle, the fallback. Both processes must share a PID
	// namespace, and only the rank keeps the memory allocated.
	HandleIPC HandleKind = "ipc"
)

// HandleSize is the length of a CUipcMemHandle and of a CUipcEventHandle.
const HandleSize = 64

// MaxEvents is the maximum number of events of one arena. A rank that uses its events
// cyclically needs 65, because at most 64 calls are in flight.
const MaxEvents = 256

// DeviceMemory describes an arena on a GPU, which takes the place of shared host memory
// (sdk.Arena). The rank allocates it, and frees it only after the backend has been closed
// or its process has died. Attach passes it to backends whose Info has DeviceArena.
//
// # Order between the streams
//
// When the rank submits a collective, its kernels may still be writing the buffer, because
// the CPU runs ahead of the GPU. CUDA events order the rank's stream and the backend's
// without blocking a CPU. Waiting for an event that has not been recorded returns at once,
// so each event is recorded before the message that announces it:
//
//  1. The rank records its event Ready[n-1] behind the kernels that write the buffer, and
//     submits the call with Collective.Ready = n.
//  2. The backend makes its stream wait for that event and enqueues the collective.
//  3. With Collective.Done = m the backend records its event Done[m-1] behind the
//     collective and completes the call, although the collective may not have run yet. On
//     the completion the rank makes its own stream wait for that event.
//     With Done = 0 the call completes when the result is in memory.
//
// Ready = 0 means that the buffer is already written: the rank has synchronised its
// stream. This is the fallback where events cannot be shared.
//
// A call with Done > 0 can fail after its completion. The next call then returns the
// error, and the result counts only once a later call with Done = 0 has succeeded. The
// call's deadline still applies: when it passes, the backend aborts the collective, so that
// the event happens and the rank's stream continues. A rank also sets a deadline when it
// waits for its stream, because a process that has died records no event.
//
// A Ready event can be reused when the call that used it has completed, a Done event when
// the rank's stream waits for it.
type DeviceMemory struct {
	UUID    string // of the GPU, as "GPU-8f4c5c2a-…"
	Size    int    // bytes
	Kind    HandleKind
	File    *os.File // HandlePosixFD: owned by the rank, open until Attach has returned
	Handle  []byte   // HandleIPC: of a whole allocation, HandleSize bytes
	Address uint64   // HandleAddress
	Ready   Events   // the rank's events; none if it cannot share any
	Done    Events   // the backend's events, set by Attach; none if it could not open Ready, and then every Ready and Done is 0
}

// Events are CUDA events that one side records and the other waits for. They
// are numbered from 1.
type Events struct {
	Handles [][]byte // CUipcEventHandles, HandleSize bytes each
	Local   []uint64 // CUevents of the same process
}

// Len is the number of events.
func (e Events) Len() int { return len(e.Handles) + len(e.Local) }

// Check reports invalid handles. Both sides check what the other sent.
func (e Events) Check() error {
	if e.Len() > MaxEvents {
		return fmt.Errorf("%d events, more than %d", e.Len(), MaxEvents)
	}
	for _, h := range e.Handles {
		if len(h) != HandleSize {
			return fmt.Errorf("the handle of an event has %d bytes, not %d", len(h), HandleSize)
		}
	}
	return nil
}

package contract

import (
	"fmt"
	"os"
)

// HandleKind is how a backend accesses device memory that the rank owns.
type HandleKind string

// The kinds of handles, best first.
const (
	// HandleAddress is an address of the same process, for a backend that runs in the rank's.
	HandleAddress HandleKind = "address"
	// HandlePosixFD is a file descriptor that cuMemExportToShareableHandle has
	// made. It keeps the memory alive, in whatever process it is.
	HandlePosixFD HandleKind = "posix_fd"
	// HandleIPC is a CUipcMemHandle, the fallback: it needs the same PID
	// namespace, and names memory that only the rank keeps alive.
	HandleIPC HandleKind = "ipc"
)

// HandleSize is the length of a CUipcMemHandle and of a CUipcEventHandle.
const HandleSize = 64

// MaxEvents bounds the events of one arena. 65 are enough for a rank that
// takes them in turn: no more than 64 calls are in flight.
const MaxEvents = 256

// DeviceMemory is what an arena on a GPU (sdk.Arena) has instead of shared host memory.
// The rank allocates it and keeps the memory until the backend has been closed or its
// process is dead. Only a backend whose Info has DeviceArena gets one, by Attach.
//
// # Who records what
//
// CPU and GPU are not at the same place: when the rank submits a collective,
// its kernels may still be writing the buffer. Events put the two streams in
// order without a wait of a CPU. An event must be recorded before anybody
// waits for it, so each is announced by what the CPUs say to each other anyway:
//
//  1. The rank records its event Ready[n-1] on its stream, behind the kernels that
//     write the buffer. Then it submits the call with Collective.Ready = n.
//  2. The backend lets its stream wait for that event and puts the collective behind it.
//  3. With Collective.Done = m the backend then records its own event Done[m-1] on its stream and
//     completes the call, which is issued but not done. The rank, which has waited
//     for the completion, lets its stream wait for that event.
//     With Done = 0 the call completes when the result is in memory.
//
// Ready = 0 says that the buffer is written already: the rank has waited for
// its stream. That is the fallback where events cannot be shared.
//
// What was completed early can still fail. The reason then comes with the next
// call, and the result counts only when a later call with Done = 0 has
// succeeded. The call's deadline holds all the same: past it the backend ends
// the collective, so that its event happens and the rank's stream goes on. A
// rank must not wait for its stream without a deadline of its own either, since
// nobody records the events of a process that is dead.
//
// An event may be used again when the call it was last used for has completed,
// a Done event when the rank's stream has been told to wait for it.
type DeviceMemory struct {
	UUID    string // of the GPU, as "GPU-8f4c5c2a-…"
	Size    int    // bytes
	Kind    HandleKind
	File    *os.File // HandlePosixFD: the rank's, open until Attach has returned
	Handle  []byte   // HandleIPC: of a whole allocation, HandleSize bytes
	Address uint64   // HandleAddress
	Ready   Events   // the rank's events; none where it cannot share any
	Done    Events   // the backend's, which Attach sets; none where it could not open Ready, and then every Ready and Done stays 0
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

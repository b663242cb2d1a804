package sdk

import "github.com/trainctl/trainctl/core/contract"

// HandleKind is how a backend accesses device memory that the rank owns.
type HandleKind = contract.HandleKind

// The kinds of handles, best first.
const (
	// HandleAddress is an address of the same process, for a backend that runs in the rank's.
	HandleAddress = contract.HandleAddress
	// HandlePosixFD is a file descriptor that cuMemExportToShareableHandle has
	// made. It keeps the memory alive, in whatever process it is.
	HandlePosixFD = contract.HandlePosixFD
	// HandleIPC is a CUipcMemHandle, the fallback: it needs the same PID
	// namespace, and names memory that only the rank keeps alive.
	HandleIPC = contract.HandleIPC
)

// HandleSize is the length of a CUipcMemHandle and of a CUipcEventHandle.
const HandleSize = contract.HandleSize

// MaxEvents bounds the events of one arena.
const MaxEvents = contract.MaxEvents

// DeviceMemory is the memory of an [Arena] on a GPU. The rank allocates it and keeps
// it until the backend has been closed or its process is dead. Attach passes one
// only to backends whose Info has DeviceArena. [contract.DeviceMemory] documents
// which side records which event, and when.
type DeviceMemory = contract.DeviceMemory

// Events are CUDA events that one side records and the other waits for. They
// are numbered from 1.
type Events = contract.Events

// checkMemory rejects values that no rank sends.
func checkMemory(m *DeviceMemory) error {
	switch {
	case m.Size <= 0:
		return protocolError("device memory of %d bytes", m.Size)
	case m.Kind != HandlePosixFD && m.Kind != HandleIPC:
		return protocolError("device memory by a handle of kind %q", m.Kind)
	case m.Kind == HandleIPC && len(m.Handle) != HandleSize:
		return protocolError("a handle of %d bytes, not %d", len(m.Handle), HandleSize)
	}
	if err := m.Ready.Check(); err != nil {
		return protocolError("%v", err)
	}
	return nil
}

// inMemory rejects a range outside the memory.
func inMemory(m *DeviceMemory, offset, size uint64) error {
	if total := uint64(m.Size); offset > total || size > total-offset {
		return protocolError("%d bytes at offset %d are outside %d bytes of device memory", size, offset, total)
	}
	return nil
}

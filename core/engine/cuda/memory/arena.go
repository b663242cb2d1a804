package memory

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"golang.org/x/sys/unix"
)

// Arena is memory of a GPU that a backend can map: a rank's gradient buckets.
// Its methods belong to one goroutine at a time, on a thread where the context
// that AllocArena was called in is current.
//
// A rank's duties in order: AllocArena; Export and the backend's Attach;
// Attached; then for every collective [Arena.Written], submit, wait, and
// [Arena.Follow] if the call named a Done event. Close comes after the
// backend's. When the backend was replaced, Export, Attach and Attached again.
type Arena struct {
	cu     *driver.CUDA
	uuid   string
	at     driver.DevicePtr
	size   int
	kind   contract.HandleKind
	file   *os.File // of HandlePosixFD, once exported
	events *events
	undo   []func() error
}

// AllocArena allocates at least size bytes on the current context's device and
// clears nothing. They are of the kind that travels as a file descriptor, and
// where the device has none such, an allocation that travels as an IPC handle.
func AllocArena(cu *driver.CUDA, dev driver.Device, size int) (*Arena, error) {
	a := &Arena{cu: cu, size: size}
	var id driver.UUID
	if err := cu.DeviceGetUUID(&id, dev); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	a.uuid = id.String()
	err := a.alloc(dev)
	if err == nil && a.can(dev, driver.AttrIPCEvents) {
		a.events, err = newEvents(cu)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: an arena of %d bytes on %s: %w", size, a.uuid, err), a.Close())
	}
	return a, nil
}

// alloc allocates the best supported kind of memory. Devices may claim what a
// container or a hypervisor then refuses.
func (a *Arena) alloc(dev driver.Device) error {
	var refused error
	if a.can(dev, driver.AttrVirtualMemory) && a.can(dev, driver.AttrPosixFDHandles) {
		if refused = a.allocShareable(dev); refused == nil {
			return nil
		}
		refused = errors.Join(refused, a.release())
	}
	if err := a.allocIPC(); err != nil {
		return errors.Join(refused, err)
	}
	return nil
}

func (a *Arena) can(dev driver.Device, what driver.DeviceAttribute) bool {
	var yes int32
	return a.cu.DeviceGetAttribute(&yes, what, dev) == nil && yes != 0
}

// allocShareable makes physical memory, reserves addresses, and joins them.
func (a *Arena) allocShareable(dev driver.Device) error {
	cu := a.cu
	prop := driver.AllocationProp{
		Type: driver.AllocationPinned, HandleTypes: driver.HandlePosixFD,
		Location: driver.MemLocation{Type: driver.LocationDevice, ID: int32(dev)},
	}
	if a.can(dev, driver.AttrRDMAWithVirtualMemory) {
		prop.GPUDirectRDMA = 1 // NCCL registers no other
	}
	var unit uintptr
	if err := cu.MemGetAllocationGranularity(&unit, &prop, driver.GranularityRecommended); err != nil {
		return err
	}
	if unit == 0 {
		return fmt.Errorf("a granularity of 0")
	}
	n := (uintptr(a.size) + unit - 1) / unit * unit
	var handle driver.MemHandle
	if err := cu.MemCreate(&handle, n, &prop, 0); err != nil {
		return err
	}
	a.later(func() error { return cu.MemRelease(handle) })
	if err := cu.MemAddressReserve(&a.at, n, 0, 0, 0); err != nil {
		return err
	}
	a.later(func() error { return cu.MemAddressFree(a.at, n) })
	if err := cu.MemMap(a.at, n, 0, handle, 0); err != nil {
		return err
	}
	a.later(func() error { return cu.MemUnmap(a.at, n) })
	access := driver.AccessDesc{Location: prop.Location, Flags: driver.AccessReadWrite}
	if err := cu.MemSetAccess(a.at, n, &access, 1); err != nil {
		return err
	}
	if err := a.export(handle); err != nil {
		return err
	}
	a.kind, a.size = contract.HandlePosixFD, int(n)
	return nil
}

// export makes the descriptor. A backend gets it over its socket, and a child
// that is started meanwhile not at all.
func (a *Arena) export(handle driver.MemHandle) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var fd int32
	if err := a.cu.MemExportToShareableHandle(&fd, handle, driver.HandlePosixFD, 0); err != nil {
		return err
	}
	unix.CloseOnExec(int(fd))
	a.file = os.NewFile(uintptr(fd), "arena")
	a.later(a.file.Close)
	return nil
}

// allocIPC creates a separate allocation, because a handle refers to a whole one.
func (a *Arena) allocIPC() error {
	if err := a.cu.MemAlloc(&a.at, uintptr(a.size)); err != nil {
		return err
	}
	a.later(func() error { return a.cu.MemFree(a.at) })
	a.kind = contract.HandleIPC
	return nil
}

func (a *Arena) later(f func() error) { a.undo = append(a.undo, f) }

// Address is the address of the arena in this process, aligned to 256 bytes.
func (a *Arena) Address() driver.DevicePtr { return a.at }

// Export says how a backend gets at the arena: one in this process by its
// address, one in another by a handle. The result goes into an Arena of core/sdk; it
// names the arena's own descriptor and is good until Close. A new process
// needs a new Export.
func (a *Arena) Export(inProcess bool) (*contract.DeviceMemory, error) {
	m := &contract.DeviceMemory{UUID: a.uuid, Size: a.size, Kind: a.kind, File: a.file}
	if inProcess {
		m.Kind, m.File, m.Address = contract.HandleAddress, nil, uint64(a.at)
		m.Ready = a.events.local()
		return m, nil
	}
	if a.kind == contract.HandleIPC {
		var h driver.IPCMemHandle
		if err := a.cu.IPCGetMemHandle(&h, a.at); err != nil {
			return nil, fmt.Errorf("cuda: %w", err)
		}
		m.Handle = h.Bytes[:]
	}
	var err error
	m.Ready, err = a.events.shared()
	return m, err
}

// Close releases the memory and the events. The backend has been closed before, or its
// process is dead, and no work on them is under way.
func (a *Arena) Close() error {
	err := a.events.close()
	a.events = nil
	return errors.Join(err, a.release())
}

// release undoes what was done to get the memory.
func (a *Arena) release() error {
	var errs []error
	for i := len(a.undo) - 1; i >= 0; i-- {
		errs = append(errs, a.undo[i]())
	}
	a.undo = nil
	return errors.Join(errs...)
}

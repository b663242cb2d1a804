package nccl

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// mapped is the rank's device memory, mapped in this process, and its events. All
// methods run on the thread.
type mapped struct {
	cuda  *driver.CUDA
	at    driver.DevicePtr
	size  int
	ready []driver.Event // the rank's
	done  []driver.Event // ours
	undo  []func() error
}

// attach maps an arena and makes as many events as the rank has. If events cannot be
// shared there are none, and the rank waits for its stream instead.
func (d *device) attach(a *sdk.Arena) (unordered, err error) {
	m := a.Device
	if !sameDevice(m.UUID, d.uuid) {
		return nil, fmt.Errorf("arena %q lies on %s, and this rank's backend has %s: both must see the same GPU", a.Name, m.UUID, d.uuid)
	}
	if d.arenas[a.ID] != nil {
		return nil, fmt.Errorf("arena %d is attached already", a.ID)
	}
	k := &mapped{cuda: d.cuda, size: m.Size}
	if err := k.open(m, d.id); err != nil {
		return nil, errors.Join(fmt.Errorf("arena %q of %d bytes on %s by %s: %w", a.Name, m.Size, d.name, m.Kind, err), k.close())
	}
	d.arenas[a.ID] = k
	m.Done, unordered = k.events(m.Ready)
	return unordered, nil
}

func (k *mapped) later(f func() error) { k.undo = append(k.undo, f) }

// open maps the memory.
func (k *mapped) open(m *sdk.DeviceMemory, on driver.Device) error {
	switch m.Kind {
	case sdk.HandleAddress:
		k.at = driver.DevicePtr(m.Address)
		return nil
	case sdk.HandleIPC:
		var h driver.IPCMemHandle
		copy(h.Bytes[:], m.Handle)
		if err := k.cuda.IPCOpenMemHandle(&k.at, h, driver.IPCLazyEnablePeerAccess); err != nil {
			return err
		}
		k.later(func() error { return k.cuda.IPCCloseMemHandle(k.at) })
		return nil
	case sdk.HandlePosixFD:
		return k.load(m, on)
	}
	return fmt.Errorf("a handle of kind %q", m.Kind)
}

// load maps the memory of a descriptor. The mapping keeps the memory alive, so the descriptor and
// the handle can be closed.
func (k *mapped) load(m *sdk.DeviceMemory, on driver.Device) error {
	c, n := k.cuda, uintptr(m.Size)
	var handle driver.MemHandle
	if err := c.MemImportFromShareableHandle(&handle, m.File.Fd(), driver.HandlePosixFD); err != nil {
		return err
	}
	defer c.MemRelease(handle)
	if err := c.MemAddressReserve(&k.at, n, 0, 0, 0); err != nil {
		return err
	}
	k.later(func() error { return c.MemAddressFree(k.at, n) })
	if err := c.MemMap(k.at, n, 0, handle, 0); err != nil {
		return err
	}
	k.later(func() error { return c.MemUnmap(k.at, n) })
	access := driver.AccessDesc{Location: driver.MemLocation{Type: driver.LocationDevice, ID: int32(on)}, Flags: driver.AccessReadWrite}
	return c.MemSetAccess(k.at, n, &access, 1)
}

// events opens the rank's events and makes ours. After an error there are none.
func (k *mapped) events(ready sdk.Events) (done sdk.Events, err error) {
	for _, e := range ready.Local {
		k.ready = append(k.ready, driver.Event(e))
	}
	var undo []func() error
	undo, k.undo = k.undo, nil
	if err = k.openEvents(ready.Handles); err == nil {
		done, err = k.makeEvents(len(ready.Handles) > 0)
	}
	if err != nil {
		err = errors.Join(err, k.close())
		k.ready, k.done, done = nil, nil, sdk.Events{}
	}
	k.undo = append(undo, k.undo...)
	return done, err
}

func (k *mapped) openEvents(handles [][]byte) error {
	for _, raw := range handles {
		var h driver.IPCEventHandle
		var e driver.Event
		copy(h.Bytes[:], raw)
		if err := k.cuda.IPCOpenEventHandle(&e, h); err != nil {
			return err
		}
		k.own(e)
		k.ready = append(k.ready, e)
	}
	return nil
}

func (k *mapped) makeEvents(shared bool) (out sdk.Events, err error) {
	for range k.ready {
		var e driver.Event
		flags := driver.EventDisableTiming
		if shared {
			flags |= driver.EventInterprocess
		}
		if err := k.cuda.EventCreate(&e, flags); err != nil {
			return out, err
		}
		k.own(e)
		k.done = append(k.done, e)
		if !shared {
			out.Local = append(out.Local, uint64(e))
			continue
		}
		var h driver.IPCEventHandle
		if err := k.cuda.IPCGetEventHandle(&h, e); err != nil {
			return out, err
		}
		out.Handles = append(out.Handles, h.Bytes[:])
	}
	return out, nil
}

func (k *mapped) own(e driver.Event) { k.later(func() error { return k.cuda.EventDestroy(e) }) }

// close frees everything, in reverse order. No work on it may be running.
func (k *mapped) close() error {
	var errs []error
	for i := len(k.undo) - 1; i >= 0; i-- {
		errs = append(errs, k.undo[i]())
	}
	k.undo = nil
	return errors.Join(errs...)
}

package fakegpu

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

const success driver.CUResult = 0

// CUDA is the driver, as far as a backend calls it.
func (m *Machine) CUDA() *driver.CUDA {
	c := &driver.CUDA{Lib: driver.Library{Name: "fake CUDA driver", Path: "fake libcuda.so.1", Version: "13.0"}}
	m.fillDevices(c)
	m.fillStreams(c)
	m.fillMemory(c)
	return c
}

func (m *Machine) fillDevices(c *driver.CUDA) {
	c.Init = func(uint32) error {
		return m.fails("cuInit", func() driver.CUResult {
			if m.devices == 0 {
				return driver.NoDevice
			}
			return success
		})
	}
	c.DeviceGetCount = func(n *int32) error { *n = int32(m.devices); return nil }
	c.DeviceGet = func(d *driver.Device, ordinal int32) error {
		return m.fails("cuDeviceGet", func() driver.CUResult {
			if ordinal < 0 || int(ordinal) >= m.devices {
				return driver.InvalidDevice
			}
			*d = driver.Device(ordinal)
			return success
		})
	}
	c.DeviceGetName = func(name *byte, size int32, _ driver.Device) error {
		copy(unsafe.Slice(name, size), "Fake GPU\x00")
		return nil
	}
	c.DeviceGetUUID = func(u *driver.UUID, d driver.Device) error {
		*u = driver.UUID{}
		u.Bytes[15] = byte(d) + 1
		return nil
	}
	c.PrimaryCtxRetain = func(x *driver.Context, d driver.Device) error {
		m.locked(func() { m.retained++ })
		*x = driver.Context(d) + 1
		return nil
	}
	c.PrimaryCtxRelease = func(driver.Device) error { m.locked(func() { m.retained-- }); return nil }
	c.CtxSetCurrent = func(driver.Context) error { return nil }
}

func (m *Machine) fillStreams(c *driver.CUDA) {
	c.StreamCreate = func(s *driver.Stream, _ uint32) error {
		m.locked(func() {
			*s = driver.Stream(m.newHandle())
			m.streams[*s] = &stream{}
		})
		return nil
	}
	c.StreamDestroy = func(s driver.Stream) error { m.locked(func() { delete(m.streams, s) }); return nil }
	c.EventCreate = func(e *driver.Event, _ uint32) error {
		m.locked(func() {
			*e = driver.Event(m.newHandle())
			done := true
			m.events[*e] = &done
		})
		return nil
	}
	c.EventDestroy = func(e driver.Event) error { m.locked(func() { delete(m.events, e) }); return nil }
	c.EventRecord = func(e driver.Event, s driver.Stream) error {
		return m.enqueue("cuEventRecord", s, func() (func() bool, driver.CUResult) {
			done := m.events[e]
			if done == nil {
				return nil, driver.InvalidHandle
			}
			*done = false
			return func() bool { *done = true; return true }, success
		})
	}
	c.EventQuery = func(e driver.Event) error {
		return m.fails("cuEventQuery", func() driver.CUResult {
			m.advance()
			switch done := m.events[e]; {
			case done == nil:
				return driver.InvalidHandle
			case !*done:
				return driver.NotReady
			}
			return success
		})
	}
}

// enqueue puts work on a stream. While NCCL is not done launching on it, that
// is a mistake of the caller.
func (m *Machine) enqueue(call string, s driver.Stream, f func() (func() bool, driver.CUResult)) error {
	return m.fails(call, func() driver.CUResult {
		q := m.streams[s]
		if q == nil {
			return driver.InvalidHandle
		}
		if q.busy != nil {
			return driver.NotPermitted
		}
		work, code := f()
		if code == success {
			q.queue = append(q.queue, work)
			m.advance()
		}
		return code
	})
}

func (m *Machine) fillMemory(c *driver.CUDA) {
	c.MemAlloc = func(p *driver.DevicePtr, n uintptr) error {
		return m.fails("cuMemAlloc", func() driver.CUResult {
			if n == 0 {
				return driver.InvalidValue
			}
			*p = m.top
			m.memory[m.top] = tensor.Aligned(int(n))
			m.top += driver.DevicePtr(n+511) &^ 255 // never side by side
			return success
		})
	}
	c.MemFree = func(p driver.DevicePtr) error {
		return m.fails("cuMemFree", func() driver.CUResult {
			if m.memory[p] == nil {
				return driver.InvalidValue
			}
			delete(m.memory, p)
			return success
		})
	}
	c.MemHostRegister = func(p unsafe.Pointer, _ uintptr, _ uint32) error {
		return m.fails("cuMemHostRegister", func() driver.CUResult {
			if m.pinned[uintptr(p)] {
				return driver.HostMemoryRegistered
			}
			m.pinned[uintptr(p)] = true
			return success
		})
	}
	c.MemHostUnregister = func(p unsafe.Pointer) error { m.locked(func() { delete(m.pinned, uintptr(p)) }); return nil }
	c.MemcpyHtoDAsync = func(to driver.DevicePtr, from unsafe.Pointer, n uintptr, s driver.Stream) error {
		return m.enqueue("cuMemcpyHtoDAsync", s, func() (func() bool, driver.CUResult) {
			b := m.at(to, n)
			if b == nil {
				return nil, driver.InvalidValue
			}
			return func() bool { copy(b, unsafe.Slice((*byte)(from), n)); return true }, success
		})
	}
	c.MemcpyDtoH = func(to unsafe.Pointer, from driver.DevicePtr, n uintptr) error {
		return m.fails("cuMemcpyDtoH", func() driver.CUResult {
			b := m.at(from, n)
			if b == nil {
				return driver.InvalidValue
			}
			copy(unsafe.Slice((*byte)(to), n), b)
			return success
		})
	}
}

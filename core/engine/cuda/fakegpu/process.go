package fakegpu

import (
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

const success driver.CUResult = 0

// Process is a process that uses the machine: it owns what it allocates.
type Process struct {
	m       *Machine
	id      int
	current map[int]driver.Context // by thread
}

// Process makes another one.
func (m *Machine) Process() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Process{m, int(m.newHandle()), map[int]driver.Context{}}
}

// CUDA is the driver of this process.
func (m *Machine) CUDA() *driver.CUDA { return m.here.CUDA() }

// NCCL is the library of this process, at a version such as 22706.
func (m *Machine) NCCL(version int32) *driver.NCCL { return m.here.NCCL(version) }

// CUDA is the driver, as far as ranks and backends call it.
func (p *Process) CUDA() *driver.CUDA {
	c := &driver.CUDA{Lib: driver.Library{Name: "fake CUDA driver", Path: "fake libcuda.so.1", Version: "13.0"}}
	p.fillDevices(c)
	p.fillStreams(c)
	p.fillEvents(c)
	p.fillMemory(c)
	p.fillCopies(c)
	p.fillVirtual(c)
	p.fillIPC(c)
	p.fillHostMemory(c)
	p.fillKernels(c)
	p.fillGraphs(c)
	return c
}

// Die takes from the machine what the process has, as its end would. What it
// had recorded or launched and was not done never is.
func (p *Process) Die() {
	p.m.locked(func() {
		for h, c := range p.m.comms {
			if c.owner == p.id {
				p.m.leave(h)
			}
		}
		drop(p.m.streams, func(s *stream) bool { return s.owner == p.id })
		drop(p.m.events, func(e *event) bool { return e.owner == p.id })
		drop(p.m.memory, func(a *mapping) bool { return a.owner == p.id })
		drop(p.m.physical, func(a *physical) bool { return a.owner == p.id })
		drop(p.m.pinned, func(owner int) bool { return owner == p.id })
		delete(p.m.contexts, p.id)
	})
}

func drop[K comparable, V any](of map[K]V, which func(V) bool) {
	for k, v := range of {
		if which(v) {
			delete(of, k)
		}
	}
}

func (p *Process) fillDevices(c *driver.CUDA) {
	m := p.m
	device := func(call string, d driver.Device, f func()) error {
		return m.fails(call, func() driver.CUResult {
			if d < 0 || int(d) >= m.devices {
				return driver.InvalidDevice
			}
			f()
			return success
		})
	}
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
		return device("cuDeviceGet", driver.Device(ordinal), func() { *d = driver.Device(ordinal) })
	}
	c.DeviceGetName = func(name *byte, size int32, d driver.Device) error {
		return device("cuDeviceGetName", d, func() { copy(unsafe.Slice(name, size), "Fake GPU\x00") })
	}
	c.DeviceGetPCIBusID = func(id *byte, size int32, d driver.Device) error {
		return device("cuDeviceGetPCIBusId", d, func() {
			if m.oneGPU {
				d = 0
			}
			copy(unsafe.Slice(id, size), fmt.Sprintf("0000:%02X:00.0\x00", int(d)+1))
		})
	}
	c.DeviceGetUUID = func(u *driver.UUID, d driver.Device) error {
		return device("cuDeviceGetUuid", d, func() { *u = UUID(int(d)) })
	}
	c.DeviceGetAttribute = func(value *int32, a driver.DeviceAttribute, d driver.Device) error {
		return device("cuDeviceGetAttribute", d, func() {
			if *value = 1; m.lacks[a] {
				*value = 0
			}
		})
	}
	c.PrimaryCtxRetain = func(x *driver.Context, d driver.Device) error {
		return device("cuDevicePrimaryCtxRetain", d, func() { m.contexts[p.id]++; *x = driver.Context(d) + 1 })
	}
	c.PrimaryCtxRelease = func(driver.Device) error { m.locked(func() { m.contexts[p.id]-- }); return nil }
	c.CtxSetCurrent = func(x driver.Context) error {
		m.locked(func() { p.current[thread()] = x })
		return nil
	}
}

// UUID is that of a device.
func UUID(device int) (u driver.UUID) {
	u.Bytes[15] = byte(device) + 1
	return u
}

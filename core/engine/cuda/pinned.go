package cuda

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// pinned is memory of the host that kernels read and write, too. What they
// wrote is there when the stream was waited for: no copy is needed, and none
// that the driver would wait for by itself, as for pageable memory.
type pinned struct {
	host unsafe.Pointer
	at   driver.DevicePtr
}

// allocPinned allocates zeros.
func (d *Device) allocPinned(n int) (p pinned, err error) {
	n = max(n, 1)
	if err = d.cu.MemHostAlloc(&p.host, uintptr(n), driver.HostPortable|driver.HostDeviceMap); err != nil {
		return p, d.told(err, to("pinned memory"))
	}
	clear(unsafe.Slice((*byte)(p.host), n))
	if err = d.cu.MemHostGetDevicePointer(&p.at, p.host, 0); err != nil {
		return p, joinFree(d.told(err, to("pinned memory")), d.freePinned(p))
	}
	return p, nil
}

func (d *Device) freePinned(p pinned) error {
	if p.host == nil || d.gone() != nil {
		return nil
	}
	return d.cu.MemFreeHost(p.host)
}

// ownPinned is pinned memory of one program.
func (m *memory) ownPinned(n int) (pinned, error) {
	p, err := m.dev.allocPinned(n)
	if err == nil {
		m.owned = append(m.owned, func() error { return m.dev.freePinned(p) })
	}
	return p, err
}

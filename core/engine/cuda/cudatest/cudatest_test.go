package cudatest

import (
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// The fake is as late as CUDA may be: a copy of pinned memory happens when
// it is waited for, one of other memory before the call returns.
func TestCopiesAreLate(t *testing.T) {
	cu, err := driver.OpenCUDA(Finder(t))
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var c driver.Context
	must(cu.PrimaryCtxRetain(&c, 0))
	must(cu.CtxSetCurrent(c))
	var s driver.Stream
	must(cu.StreamCreate(&s, driver.StreamNonBlocking))
	var p driver.DevicePtr
	must(cu.MemAlloc(&p, 8))
	room := make([]byte, 3*4096)
	page := room[4096-int(uintptr(unsafe.Pointer(&room[0]))%4096):]
	at := unsafe.Pointer(&page[0])

	page[0] = 1
	must(cu.MemcpyHtoDAsync(p, at, 8, s))
	page[0] = 2
	back := make([]byte, 8)
	must(cu.MemcpyDtoHAsync(unsafe.Pointer(&back[0]), p, 8, s))
	if back[0] != 2 {
		t.Errorf("pageable memory was read early: %d", back[0])
	}
	must(cu.MemHostRegister(at, 4096, driver.HostPortable))
	page[0] = 3
	must(cu.MemcpyHtoDAsync(p, at, 8, s))
	page[0] = 4
	if cu.StreamQuery(s) == nil {
		t.Error("the stream is done before anybody waited")
	}
	must(cu.MemcpyDtoHAsync(unsafe.Pointer(&back[0]), p, 8, s))
	if back[0] != 4 {
		t.Errorf("pinned memory was read early: %d", back[0])
	}
	must(cu.MemHostUnregister(at))
	must(cu.MemFree(p))
}

package memory

import (
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/tensor"
)

// partner is a backend's side of exported memory, in the same process: a stream,
// events, and pinned memory of the same layout.
type partner struct {
	g      *gpu.GPU
	m      *contract.DeviceMemory
	stream driver.Stream
	mem    *shm.Arena
	unpin  func() error
}

func meet(t *testing.T, g *gpu.GPU, m *contract.DeviceMemory) *partner {
	t.Helper()
	defer g.Enter()()
	p := &partner{g: g, m: m, mem: must(shm.New("partner", m.Size))}
	ok(t, g.CU.StreamCreate(&p.stream, driver.StreamNonBlocking))
	p.unpin, _ = g.Pin(p.mem.Bytes())
	for range m.Ready.Len() {
		var e driver.Event
		ok(t, g.CU.EventCreate(&e, driver.EventDisableTiming))
		m.Done.Local = append(m.Done.Local, uint64(e))
	}
	t.Cleanup(func() { defer g.Enter()(); ok(t, p.unpin()); ok(t, p.mem.Close()) })
	return p
}

// opened is the residency of a GPU of the fake libraries.
func opened(t *testing.T) *Residency {
	t.Helper()
	cudatest.Libraries(t, 1)
	cu, rtc := must(driver.OpenCUDA(dl.System())), must(driver.OpenNVRTC(dl.System()))
	c := &kernels.Compiler{RTC: rtc, Arch: "sm_90"}
	return New(must(gpu.New(cu, 0, kernels.Block, func(d tensor.DType) ([]byte, error) { return c.Image(kernels.Source(d, kernels.Block)) })))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// add puts a collective on the stream that leaves the first byte one more, as
// late as can be, between events.
func (p *partner) add(t *testing.T, ready, done int) {
	t.Helper()
	defer p.g.Enter()()
	var now [1]byte
	if ready > 0 {
		ok(t, p.g.CU.StreamWaitEvent(p.stream, driver.Event(p.m.Ready.Local[ready-1]), 0))
	}
	ok(t, p.g.CU.MemcpyDtoHAsync(unsafe.Pointer(&now[0]), driver.DevicePtr(p.m.Address), 1, p.stream))
	p.mem.Bytes()[0] = now[0] + 1
	ok(t, p.g.CU.MemcpyHtoDAsync(driver.DevicePtr(p.m.Address), unsafe.Pointer(&p.mem.Bytes()[0]), 1, p.stream))
	if done > 0 {
		ok(t, p.g.CU.EventRecord(driver.Event(p.m.Done.Local[done-1]), p.stream))
		return
	}
	ok(t, p.g.CU.StreamSynchronize(p.stream))
}

// The two streams wait for each other by events where there are some, and give
// the same without. What one backend has left open is void for the next.
func TestExportedMemoryIsOrdered(t *testing.T) {
	for name, silent := range map[string]string{"by events": "", "by waiting": "1"} {
		t.Run(name, func(t *testing.T) {
			if silent != "" {
				t.Setenv("CUDA_FAKE_NO_EVENTS", silent)
			}
			r, host := opened(t), must(shm.New("exported", 4096))
			for range 2 { // what is closed is given back, and can be exported again
				l, note, err := r.MirrorShared(host.Bytes())
				if err != nil || note != "" {
					t.Fatal(note, err)
				}
				for range 2 {
					m := must(l.Export(true))
					p := meet(t, r.g, m)
					ok(t, l.Attached(m))
					_, done, err := l.Written() // of a call that is never followed
					if ok(t, err); (done > 0) != (silent == "") {
						t.Fatalf("event %d", done)
					}
					ok(t, l.Attached(m))
					ok(t, l.Follow(done))
					for want := range 3 {
						host.Bytes()[0] = 100
						ok(t, r.Upload(host.Bytes()))
						ok(t, r.Clear(host.Bytes())) // enqueued, no more
						ready, done, err := l.Written()
						ok(t, err)
						p.add(t, ready, done)
						ok(t, l.Follow(done))
						if ok(t, r.Download(host.Bytes())); host.Bytes()[0] != 1 {
							t.Errorf("call %d left %d", want, host.Bytes()[0])
						}
					}
				}
				ok(t, l.Close())
			}
			ok(t, host.Close())
			ok(t, r.g.Close(r.Close))
		})
	}
}

// A step may have more buckets than there are events: what finds none free
// completes when its result is in memory.
func TestMoreCallsThanEvents(t *testing.T) {
	r, host := opened(t), must(shm.New("exported", 4096))
	l, _, err := r.MirrorShared(host.Bytes())
	ok(t, err)
	m := must(l.Export(true))
	p := meet(t, r.g, m)
	ok(t, l.Attached(m))
	for range 2 {
		var open []int
		for i := range eventCount + 5 {
			ready, done, err := l.Written()
			if err != nil || ready < 1 || (done > 0) != (i < eventCount) || done > 0 && done != ready {
				t.Fatalf("call %d: events %d and %d, %v", i, ready, done, err)
			}
			p.add(t, ready, done)
			open = append(open, done)
		}
		for _, done := range open {
			ok(t, l.Follow(done))
		}
	}
	ok(t, l.Close())
	ok(t, host.Close())
	ok(t, r.g.Close(r.Close))
}

package cuda

import (
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// partner is a backend's side of lent memory, in the same process: a stream,
// events, and pinned memory of the same layout.
type partner struct {
	d      *Device
	m      *contract.DeviceMemory
	stream driver.Stream
	mem    *shm.Arena
	unpin  func() error
}

func meet(t *testing.T, d *Device, m *contract.DeviceMemory) *partner {
	t.Helper()
	defer d.enter()()
	p := &partner{d: d, m: m, mem: must(shm.New("partner", m.Size))}
	ok(t, d.cu.StreamCreate(&p.stream, driver.StreamNonBlocking))
	p.unpin, _ = d.pin(p.mem.Bytes())
	for range m.Ready.Len() {
		var e driver.Event
		ok(t, d.cu.EventCreate(&e, driver.EventDisableTiming))
		m.Done.Local = append(m.Done.Local, uint64(e))
	}
	t.Cleanup(func() { defer d.enter()(); ok(t, p.unpin()); ok(t, p.mem.Close()) })
	return p
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
	defer p.d.enter()()
	var now [1]byte
	if ready > 0 {
		ok(t, p.d.cu.StreamWaitEvent(p.stream, driver.Event(p.m.Ready.Local[ready-1]), 0))
	}
	ok(t, p.d.cu.MemcpyDtoHAsync(unsafe.Pointer(&now[0]), driver.DevicePtr(p.m.Address), 1, p.stream))
	p.mem.Bytes()[0] = now[0] + 1
	ok(t, p.d.cu.MemcpyHtoDAsync(driver.DevicePtr(p.m.Address), unsafe.Pointer(&p.mem.Bytes()[0]), 1, p.stream))
	if done > 0 {
		ok(t, p.d.cu.EventRecord(driver.Event(p.m.Done.Local[done-1]), p.stream))
		return
	}
	ok(t, p.d.cu.StreamSynchronize(p.stream))
}

// The two streams wait for each other by events where there are some, and give
// the same without. What one backend has left open is void for the next.
func TestLentMemoryIsWrittenInTurns(t *testing.T) {
	for name, silent := range map[string]string{"by events": "", "by waiting": "1"} {
		t.Run(name, func(t *testing.T) {
			if silent != "" {
				t.Setenv("CUDA_FAKE_NO_EVENTS", silent)
			}
			cudatest.Libraries(t, 1)
			d, host := must(Open(0, t.TempDir())), must(shm.New("lent", 4096))
			for range 2 { // what is closed is given back, and can be lent again
				l, note, err := d.Lend(host.Bytes())
				if err != nil || note != "" {
					t.Fatal(note, err)
				}
				for range 2 {
					m := must(l.Export(true))
					p := meet(t, d, m)
					ok(t, l.Attached(m))
					_, done, err := l.Written() // of a call that is never followed
					if ok(t, err); (done > 0) != (silent == "") {
						t.Fatalf("event %d", done)
					}
					ok(t, l.Attached(m))
					ok(t, l.Follow(done))
					for want := range 3 {
						host.Bytes()[0] = 100
						ok(t, d.Upload(host.Bytes()))
						ok(t, d.Clear(host.Bytes())) // enqueued, no more
						ready, done, err := l.Written()
						ok(t, err)
						p.add(t, ready, done)
						ok(t, l.Follow(done))
						if ok(t, d.Download(host.Bytes())); host.Bytes()[0] != 1 {
							t.Errorf("turn %d left %d", want, host.Bytes()[0])
						}
					}
				}
				ok(t, l.Close())
			}
			ok(t, host.Close())
			ok(t, d.Close())
		})
	}
}

// A step may have more buckets than there are events: what finds none free
// completes when its result is in memory.
func TestMoreCallsThanEvents(t *testing.T) {
	cudatest.Libraries(t, 1)
	d, host := must(Open(0, t.TempDir())), must(shm.New("lent", 4096))
	l, _, err := d.Lend(host.Bytes())
	ok(t, err)
	m := must(l.Export(true))
	meet(t, d, m)
	ok(t, l.Attached(m))
	for range 2 {
		var open []int
		for i := range eventCount + 5 {
			ready, done, err := l.Written()
			if err != nil || ready < 1 || (done > 0) != (i < eventCount) || done > 0 && done != ready {
				t.Fatalf("call %d: events %d and %d, %v", i, ready, done, err)
			}
			open = append(open, done)
		}
		for _, done := range open {
			ok(t, l.Follow(done))
		}
	}
	ok(t, l.Close())
	ok(t, host.Close())
	ok(t, d.Close())
}

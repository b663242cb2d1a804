package fakegpu

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// A communicator of one rank goes through every state, and work on its stream
// is refused while a launch is in progress.
func TestALaunchIsInProgressUntilItIsAskedAbout(t *testing.T) {
	m := New(1)
	c, n := m.CUDA(), m.NCCL(22706)
	var id driver.NCCLUniqueID
	var comm driver.Comm
	var stream driver.Stream
	var event driver.Event
	var p driver.DevicePtr
	config := driver.NewNCCLConfig()
	config.Blocking = 0
	if err := errors.Join(c.StreamCreate(&stream, 0), c.EventCreate(&event, 0), c.MemAlloc(&p, 8), n.GetUniqueID(&id)); err != nil {
		t.Fatal(err)
	}
	settle := func(err error) {
		t.Helper()
		if !errors.Is(err, driver.NCCLInProgress) {
			t.Fatalf("got %v", err)
		}
		for code := driver.NCCLInProgress; code == driver.NCCLInProgress; {
			if err := n.CommGetAsyncError(comm, &code); err != nil || code != driver.NCCLInProgress && code != driver.NCCLSuccess {
				t.Fatal(err, code)
			}
		}
	}
	settle(n.CommInitRankConfig(&comm, 1, id, 0, config))
	in, out := [2]float32{1, 2}, [2]float32{}
	if err := c.MemcpyHtoDAsync(p, unsafe.Pointer(&in), 8, stream); err != nil {
		t.Fatal(err)
	}
	launched := n.AllReduce(p, p, 2, driver.NCCLFloat32, driver.NCCLSum, comm, stream)
	if err := c.EventRecord(event, stream); !errors.Is(err, driver.NotPermitted) {
		t.Errorf("an event in the middle of a launch: %v", err)
	}
	settle(launched)
	if err := c.EventRecord(event, stream); err != nil {
		t.Fatal(err)
	}
	for errors.Is(c.EventQuery(event), driver.NotReady) {
	}
	if err := errors.Join(c.EventQuery(event), c.MemcpyDtoH(unsafe.Pointer(&out), p, 8)); err != nil || out != in {
		t.Errorf("got %v, %v", out, err)
	}
	if err := n.AllReduce(p, p, 3, driver.NCCLFloat32, driver.NCCLSum, comm, stream); !errors.Is(err, driver.NCCLInvalidArgument) {
		t.Errorf("beyond the allocation: %v", err)
	}
	if err := errors.Join(n.CommAbort(comm), c.StreamDestroy(stream), c.EventDestroy(event), c.MemFree(p)); err != nil || m.Left() != "" {
		t.Errorf("%v; left: %s", err, m.Left())
	}
}
